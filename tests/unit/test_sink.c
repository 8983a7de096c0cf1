/* Output of batch runs: order, journals, going on after a run that was cut off anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/core/rng.h"
#include "lib/gen/sink.h"

#define N 40

static char dir[] = "/tmp/test_sink.XXXXXX";
static char path[64], partial[80];

static int setup(void **state)
{
    (void)state;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/out", dir);
    snprintf(partial, sizeof partial, "%s/out.partial", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    unlink(partial);
    return rmdir(dir);
}

static char *record(uint64_t line, uint32_t index)
{
    char *s = malloc(400);

    snprintf(s, 400, "{\"id\":\"r%d\",\"index\":%u,\"line\":%d,\"text\":\"%.*s\",\"finish_reason\":\"%s\"}\n", (int)line,
             (unsigned)index, (int)line, (int)(line * 7 % 200),
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
             line % 9 == 4 ? "error" : "stop");
    return s;
}

static int expect(struct sink *s, uint64_t line, uint32_t index, uint64_t *slot, bool *done, struct err *e)
{
    char id[24];
    json_t *j;
    int rc;

    snprintf(id, sizeof id, "r%d", (int)line);
    j = json_string(id);
    rc = sink_expect(s, line, index, j, slot, done, e);
    json_decref(j);
    return rc;
}

static char *slurp(const char *name, size_t *len)
{
    FILE *f = fopen(name, "r");
    char *s = calloc(1, 100000);

    assert_non_null(f);
    *len = fread(s, 1, 99999, f);
    fclose(f);
    return s;
}

/* All records of lines 1..N, two each, put in an order that seed decides; stops after `limit` of them. */
static void put_all(struct sink *s, uint64_t seed, unsigned limit)
{
    uint64_t slot[2 * N];
    bool done[2 * N];
    unsigned order[2 * N];
    struct err e;

    for (unsigned i = 0; i < 2 * N; i++) {
        assert_int_equal(expect(s, 1 + i / 2, i % 2, &slot[i], &done[i], &e), 0);
        order[i] = i;
    }
    for (unsigned i = 2 * N; seed && i-- > 1;) {
        unsigned k = (unsigned)(rng_uniform(seed, 0, i) * (i + 1)), t = order[i];

        order[i] = order[k];
        order[k] = t;
    }
    for (unsigned i = 0; i < 2 * N && limit; i++)
        if (!done[order[i]]) {
            assert_int_equal(sink_put(s, slot[order[i]], record(1 + order[i] / 2, order[i] % 2), &e), 0);
            limit--;
        }
}

static void check_complete(const char *name)
{
    size_t len, at = 0;
    char *text = slurp(name, &len);

    for (unsigned i = 0; i < 2 * N; i++) {
        char *r = record(1 + i / 2, i % 2);

        assert_true(!strncmp(text + at, r, strlen(r)));
        at += strlen(r);
        free(r);
    }
    assert_int_equal(at, len);
    free(text);
}

static struct sink *open_sink(bool resume, bool unordered)
{
    const struct sink_opts o = { path, resume, unordered };
    struct sink *s;
    struct err e;

    if (sink_open(&s, &o, &e))
        fail_msg("%s", e.msg);
    return s;
}

static void test_file_is_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct sink *s = open_sink(false, false);

        put_all(s, seed, 1000);
        assert_int_equal(access(path, F_OK), -1); /* nothing under the name before the end */
        assert_string_equal(sink_journal(s), partial);
        assert_int_equal(sink_finish(s, true, NULL), 0);
        assert_null(sink_journal(s));
        sink_close(s);
        check_complete(path);
        assert_int_equal(access(partial, F_OK), -1);
        unlink(path);
    }
}

/* Cut off after any number of bytes, then resumed: the same file in the end. */
static void test_resume_anywhere(void **state)
{
    size_t full;
    char *text;

    (void)state;
    struct sink *s = open_sink(false, true);
    put_all(s, 5, 1000);
    text = slurp(partial, &full);
    sink_finish(s, true, NULL);
    sink_close(s);
    for (unsigned i = 0; i < 200; i++) {
        size_t cut = (size_t)(rng_uniform(9, 0, i) * (double)(full + 1));
        FILE *f = fopen(i % 2 ? path : partial, "w");
        struct sink_stats st;

        unlink(i % 2 ? partial : path);
        fwrite(text, 1, cut, f);
        fclose(f);
        s = open_sink(true, false);
        sink_stats(s, &st);
        assert_true((st.torn_bytes == 0) == (cut == 0 || text[cut - 1] == '\n'));
        put_all(s, i, i % 3 ? 1000 : 17);
        if (i % 3 == 0) { /* cut off again, tidily */
            assert_int_equal(sink_finish(s, false, NULL), 0);
            sink_close(s);
            s = open_sink(true, false);
            put_all(s, i + 1, 1000);
        }
        assert_int_equal(sink_finish(s, true, NULL), 0);
        sink_stats(s, &st);
        assert_int_equal(st.kept + st.written, 2 * N);
        assert_int_equal(st.foreign, 0);
        sink_close(s);
        check_complete(path);
    }
    free(text);
}

static void test_stream_order(void **state)
{
    struct sink_opts o = { NULL, false, false };
    int out = dup(STDOUT_FILENO), fd;
    struct sink *s;
    FILE *f = fopen(path, "w");

    (void)state;
    fflush(stdout);
    fd = fileno(f);
    for (int unordered = 0; unordered < 2; unordered++) {
        o.unordered = unordered;
        assert_int_equal(ftruncate(fd, 0) | (int)lseek(fd, 0, SEEK_SET), 0);
        dup2(fd, STDOUT_FILENO);
        assert_int_equal(sink_open(&s, &o, NULL), 0);
        put_all(s, 3, 1000);
        assert_int_equal(sink_open_slots(s), 0);
        assert_int_equal(sink_finish(s, true, NULL), 0);
        sink_close(s);
        dup2(out, STDOUT_FILENO);
        if (!unordered)
            check_complete(path);
    }
    fclose(f);
    close(out);
}

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    fputs(text, f);
    fclose(f);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = { "hello\n", "{}\n", "[1]\n", "{\"id\":1,\"index\":-1,\"line\":1,\"finish_reason\":\"stop\"}\n",
                                       "{\"id\":1,\"index\":0,\"line\":0,\"finish_reason\":\"stop\"}\n", "\n" };
    const struct sink_opts resume = { path, true, false }, fresh = { path, false, false };
    struct sink *s, *second;
    struct err e;
    uint64_t slot;
    bool done;
    char *r = record(1, 0), twice[900];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text(path, bad[i]);
        assert_int_equal(sink_open(&s, &resume, &e), ERR_FORMAT);
        assert_non_null(strstr(e.msg, "line 1"));
    }
    snprintf(twice, sizeof twice, "%s%s", r, r);
    write_text(path, twice);
    assert_int_equal(sink_open(&s, &resume, &e), ERR_FORMAT);

    write_text(path, r); /* of another input */
    s = open_sink(true, false);
    json_t *other = json_string("someone else");
    assert_int_equal(sink_expect(s, 1, 0, other, &slot, &done, &e), ERR_INVAL);
    json_decref(other);
    assert_int_equal(sink_open(&second, &resume, &e), ERR_IO); /* locked */
    sink_finish(s, false, NULL);
    sink_close(s);

    write_text(partial, r);
    assert_int_equal(sink_open(&s, &fresh, &e), ERR_INVAL); /* would lose finished records */
    assert_non_null(strstr(e.msg, "--resume"));
    assert_int_equal(sink_open(&s, &resume, &e), ERR_INVAL); /* which of the two? */
    unlink(partial);

    write_text(path, twice);
    truncate(path, (off_t)strlen(r));
    s = open_sink(true, false); /* a record of a line that the input does not have stays */
    assert_int_equal(expect(s, 2, 0, &slot, &done, &e), 0);
    assert_int_equal(sink_put(s, slot, record(2, 0), &e), 0);
    struct sink_stats st;
    sink_stats(s, &st);
    assert_int_equal(st.foreign, 1);
    assert_int_equal(sink_finish(s, true, &e), 0);
    sink_close(s);
    s = open_sink(true, false);
    sink_stats(s, &st);
    assert_int_equal(st.kept, 2);
    sink_close(s);
    free(r);
}

static void test_empty_journal_goes_away(void **state)
{
    struct sink *s = open_sink(false, false);

    (void)state;
    assert_int_equal(access(partial, F_OK), 0);
    assert_int_equal(sink_finish(s, false, NULL), 0);
    sink_close(s);
    assert_int_equal(access(partial, F_OK), -1);
    s = open_sink(false, false);
    put_all(s, 1, 3);
    assert_int_equal(sink_finish(s, false, NULL), 0);
    assert_string_equal(sink_journal(s), partial);
    sink_close(s);
    assert_int_equal(access(partial, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file_is_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resume_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_journal_goes_away, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
