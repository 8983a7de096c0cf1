/* Stop strings however the text is cut, UTF-8 repair, and input lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/core/rng.h"
#include "lib/gen/input.h"
#include "lib/gen/text.h"

static uint32_t pick(uint64_t seed, uint64_t i, uint32_t n)
{
    return (uint32_t)(rng_uniform(seed, 1, i) * n);
}

/* Where the text ends: before the stop string that is complete first, of those the one that begins first. */
static size_t naive_end(const char *text, size_t len, const struct gen_stop *stops, uint32_t n)
{
    for (size_t end = 1; end <= len; end++) {
        size_t begin = SIZE_MAX;

        for (uint32_t i = 0; i < n; i++)
            if (stops[i].len <= end && !memcmp(text + end - stops[i].len, stops[i].text, stops[i].len) &&
                end - stops[i].len < begin)
                begin = end - stops[i].len;
        if (begin != SIZE_MAX)
            return begin;
    }
    return len;
}

static void test_stops(void **state)
{
    char words[3][8];
    struct gen_stop stops[3];

    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct gen_text t = { 0 };
        char text[24];
        size_t len = 1 + pick(seed, 0, 20), end, shown = 0, at = 0;
        uint32_t n = pick(seed, 1, 4), draw = 10;

        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + pick(seed, draw++, 2));
        for (uint32_t i = 0; i < n; i++) {
            stops[i].text = words[i];
            stops[i].len = 1 + pick(seed, draw++, 5);
            for (size_t k = 0; k < stops[i].len; k++)
                words[i][k] = (char)('a' + pick(seed, draw++, 2));
        }
        end = naive_end(text, len, stops, n);
        t.cap = sizeof text;
        t.text = malloc(t.cap);
        while (at < len && !t.stopped) {
            size_t k = 1 + pick(seed, draw++, 4);

            k = k < len - at ? k : len - at;
            memcpy(t.text + t.len, text + at, k);
            t.len += k;
            at += k;
            gen_text_scan(&t, stops, n);
            assert_true(t.safe >= shown && t.safe <= end); /* nothing of a stop string, nothing taken back */
            shown = t.safe;
        }
        gen_text_end(&t);
        assert_int_equal(t.len, end);
        assert_int_equal(t.safe, end);
        assert_memory_equal(t.text, text, end);
        gen_text_clear(&t);
    }
}

static void test_utf8(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "", "" },
        { "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z" },
        { "\xff", "\xef\xbf\xbd" },
        { "a\xc3", "a\xef\xbf\xbd" },
        { "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" },                         /* overlong */
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },         /* surrogate */
        { "\xf4\x90\x80\x80x", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx" },
        { "\xf0\x8f\xbf\xbf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n;
        char *s = gen_utf8_clean(cases[i].in, strlen(cases[i].in), &n);

        assert_string_equal(s, cases[i].out);
        assert_int_equal(n, strlen(cases[i].out));
        free(s);
    }
}

static void write_file(const char *path, const char *text, size_t len)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void test_lines(void **state)
{
    static const char text[] = "\xef\xbb\xbf" "one\r\n\ntwo\0x\nlast";
    static const struct {
        const char *text;
        size_t len;
    } want[] = { { "one", 3 }, { "", 0 }, { "two\0x", 5 }, { "last", 4 } };
    char path[] = "/tmp/test_gen_text.XXXXXX";
    int fd = mkstemp(path);
    struct input *in;
    struct err e;
    const char *line;
    uint64_t number;
    size_t len;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, text, sizeof text - 1);
    assert_int_equal(input_open(&in, path, &e), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(input_next(in, i % 2, &line, &len, &number, &e), INPUT_LINE);
        assert_int_equal(number, i + 1);
        assert_int_equal(len, want[i].len);
        assert_memory_equal(line, want[i].text, len + 1);
    }
    assert_int_equal(input_next(in, true, &line, &len, &number, &e), INPUT_END);
    assert_true(input_fraction(in) == 1);
    input_close(in);

    write_file(path, "", 0);
    assert_int_equal(input_open(&in, path, &e), 0);
    assert_int_equal(input_next(in, true, &line, &len, &number, &e), INPUT_END);
    input_close(in);
    unlink(path);
    assert_int_equal(input_open(&in, path, &e), ERR_IO);
    assert_int_equal(input_open(&in, "/tmp", &e), ERR_IO);
    assert_non_null(strstr(e.msg, "directory"));
}

/* Lines of every length around the sizes of the buffer, and one that is too long. */
static void test_long_lines(void **state)
{
    char path[] = "/tmp/test_gen_text.XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    struct input *in;
    struct err e;
    const char *line;
    uint64_t number;
    size_t len, n = 1;
    char *chunk = malloc(1 << 20);

    (void)state;
    memset(chunk, 'x', 1 << 20);
    for (n = 1; n <= 300000; n = n * 3 / 2 + 1) {
        fwrite(chunk, 1, n, f);
        fputc('\n', f);
    }
    for (int i = 0; i < 65; i++)
        fwrite(chunk, 1, 1 << 20, f);
    fprintf(f, "\nend");
    assert_int_equal(fclose(f), 0);
    free(chunk);
    assert_int_equal(input_open(&in, path, &e), 0);
    for (n = 1; n <= 300000; n = n * 3 / 2 + 1) {
        assert_int_equal(input_next(in, false, &line, &len, &number, &e), INPUT_LINE);
        assert_int_equal(len, n);
        assert_int_equal(strlen(line), n);
    }
    assert_int_equal(input_next(in, true, &line, &len, &number, &e), INPUT_LONG);
    assert_int_equal(input_next(in, true, &line, &len, &number, &e), INPUT_LINE);
    assert_string_equal(line, "end");
    input_close(in);
    unlink(path);
}

static void test_pipe(void **state)
{
    int fds[2], old = dup(STDIN_FILENO);
    struct input *in;
    struct err e;
    const char *line;
    uint64_t number;
    size_t len;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(input_open(&in, "-", &e), 0);
    assert_int_equal(input_next(in, false, &line, &len, &number, &e), INPUT_AGAIN);
    assert_int_equal(write(fds[1], "a b\nc", 5), 5);
    assert_int_equal(input_next(in, false, &line, &len, &number, &e), INPUT_LINE);
    assert_string_equal(line, "a b");
    assert_int_equal(input_next(in, false, &line, &len, &number, &e), INPUT_AGAIN);
    assert_true(input_fraction(in) < 0);
    close(fds[1]);
    assert_int_equal(input_next(in, false, &line, &len, &number, &e), INPUT_LINE);
    assert_string_equal(line, "c");
    assert_int_equal(input_next(in, false, &line, &len, &number, &e), INPUT_END);
    input_close(in);
    dup2(old, STDIN_FILENO);
    close(fds[0]);
    close(old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops),      cmocka_unit_test(test_utf8), cmocka_unit_test(test_lines),
        cmocka_unit_test(test_long_lines), cmocka_unit_test(test_pipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
