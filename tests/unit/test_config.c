/* Configuration files: what they may hold, and what each malformed one is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/io/config.h"

struct want {
    const char *name, *value;
    unsigned line;
};

static void check_entries(const char *text, const struct want *want, size_t n)
{
    struct config *c = NULL;
    struct err e;

    assert_int_equal(config_parse(&c, text, strlen(text), "t.yaml", &e), 0);
    assert_int_equal(config_n(c), n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(config_at(c, i)->name, want[i].name);
        assert_string_equal(config_at(c, i)->value, want[i].value);
        assert_int_equal(config_at(c, i)->line, want[i].line);
    }
    config_close(c);
}

static void test_entries(void **state)
{
    static const struct want flat[] = { { "threads", "2", 2 },      { "model", "a b.gguf", 3 }, { "stop", "x", 4 },
                                        { "stop", "y", 4 },         { "pre", "", 5 },           { "text", "null", 6 },
                                        { "kv_type", "bf16", 7 },   { "many", "1", 9 },         { "many", "caf\xc3\xa9", 10 } };
    static const struct want flow[] = { { "a", "1", 1 }, { "b", "two words", 1 } };

    (void)state;
    check_entries("# a comment\nthreads: 2\nmodel: a b.gguf\nstop: [x, \"y\"]\npre: ~\ntext: 'null'\nkv_type: bf16\n"
                  "many:\n- 1\n- caf\xc3\xa9\nnone: []\n",
                  flat, sizeof flat / sizeof flat[0]);
    check_entries("{a: 1, b: two words}", flow, 2);
    check_entries("\xef\xbb\xbf{a: 1, b: two words}", flow, 2);
    check_entries("", NULL, 0);
    check_entries("---\n...\n", NULL, 0);
    check_entries("# nothing but a comment\n", NULL, 0);
}

struct bad {
    const char *name, *text;
    size_t len; /* 0: strlen */
    int code;
    const char *message;
};

static const struct bad bad[] = {
    { "nested map", "a: 1\nb:\n  c: 2\n", 0, ERR_FORMAT, "t.yaml:3:3: a value must be a single value or a list" },
    { "map in a list", "a: [1, {b: 2}]\n", 0, ERR_FORMAT, "t.yaml:1:8: a list may hold only single values" },
    { "list in a list", "a: [[1]]\n", 0, ERR_FORMAT, "t.yaml:1:5: a list may hold only single values" },
    { "duplicate key", "a: 1\nb: 2\na: 3\n", 0, ERR_FORMAT, "t.yaml:3:1: this key occurs twice" },
    { "duplicate of an empty list", "a: []\na: []\n", 0, ERR_FORMAT, "t.yaml:2:1: this key occurs twice" },
    { "anchor", "a: &x 1\n", 0, ERR_FORMAT, "anchors and tags are not allowed" },
    { "anchor on a list", "a: &x [1]\n", 0, ERR_FORMAT, "t.yaml:1:4:" },
    { "alias", "a: *x\n", 0, ERR_FORMAT, "a value must be a single value or a list" },
    { "alias as document", "*x\n", 0, ERR_FORMAT, "expected a mapping" },
    { "tag", "a: !!int 1\n", 0, ERR_FORMAT, "anchors and tags are not allowed" },
    { "merge key", "<<: *x\n", 0, ERR_FORMAT, "a value must be" },
    { "key that is a list", "[a]: 1\n", 0, ERR_FORMAT, "a key must be a name" },
    { "top-level list", "- a\n- b\n", 0, ERR_FORMAT, "t.yaml:1:1: expected a mapping" },
    { "top-level scalar", "hello\n", 0, ERR_FORMAT, "t.yaml:1:1: expected a mapping" },
    { "two documents", "a: 1\n---\nb: 2\n", 0, ERR_FORMAT, "t.yaml:2:1: more than one document" },
    { "tab indentation", "a:\n\t- 1\n", 0, ERR_FORMAT, "t.yaml:2:1:" },
    { "unclosed list", "a: [1, 2\n", 0, ERR_FORMAT, "t.yaml:2:1:" },
    { "unclosed string", "a: \"x\n", 0, ERR_FORMAT, "t.yaml:" },
    { "invalid UTF-8", "a: \xff\xfe\n", 0, ERR_FORMAT, "t.yaml:" },
    { "UTF-16", "\xff\xfe" "a\0:\0 \0" "1\0", 10, ERR_FORMAT, "t.yaml:" },
    { "NUL in a value", "a: \"x\\0y\"\n", 0, ERR_FORMAT, "a NUL character" },
    { "NUL byte", "a: 1\0b: 2\n", 10, ERR_FORMAT, "t.yaml:" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct config *c = (struct config *)1;
        struct err e = { 0, "" };
        int rc = config_parse(&c, bad[i].text, bad[i].len ? bad[i].len : strlen(bad[i].text), "t.yaml", &e);

        if (rc != bad[i].code || e.code != rc || c || !strstr(e.msg, bad[i].message))
            fail_msg("%s: code %d, message '%s'", bad[i].name, rc, e.msg);
    }
}

/* Limits hold before time or memory is spent on what is over them. */
static void test_limits(void **state)
{
    size_t n = (size_t)1 << 20, at = 0;
    char *text = malloc(n + 1);
    struct config *c;
    struct err e;

    (void)state;
    assert_non_null(text);
    for (unsigned i = 0; i < 5000; i++)
        at += (size_t)sprintf(text + at, "k%u: []\n", i);
    assert_int_equal(config_parse(&c, text, at, "t.yaml", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "t.yaml:4097:1: too many keys"));
    at = (size_t)sprintf(text, "a: [");
    memset(text + at, ',', n - at);
    for (size_t i = at; i < n; i += 2)
        text[i] = 'x';
    assert_int_equal(config_parse(&c, text, n, "t.yaml", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "too many values"));
    memset(text, '[', n);
    assert_int_equal(config_parse(&c, text, n, "t.yaml", &e), ERR_FORMAT);
    assert_int_equal(config_parse(&c, text, n + 1, "t.yaml", &e), ERR_LIMIT);
    free(text);
}

static void test_files(void **state)
{
    char path[] = "/tmp/test-config-XXXXXX";
    int fd = mkstemp(path);
    struct config *c;
    struct err e;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "ctx: 512\nx: [", 13), 13);
    assert_int_equal(config_open(&c, path, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, path));
    assert_int_equal(pwrite(fd, "x: 1\n    ", 9, 9), 9);
    assert_int_equal(config_open(&c, path, &e), 0);
    assert_int_equal(config_n(c), 2);
    config_close(c);
    close(fd);
    unlink(path);
    assert_int_equal(config_open(&c, path, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "No such file"));
    assert_int_equal(config_open(&c, "/tmp", &e), ERR_IO);
    config_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_entries), cmocka_unit_test(test_bad),
                                        cmocka_unit_test(test_limits), cmocka_unit_test(test_files) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
