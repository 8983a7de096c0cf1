/* JSON: strictness, and where an error is said to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/io/json.h"

static void test_good(void **state)
{
    static const char *const texts[] = { "{}", "[]", "1", "\"caf\xc3\xa9\"", "null", " { \"a\" : [ 1, 2.5, true ] } \n" };
    struct err e;
    json_t *j;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(json_parse(&j, texts[i], strlen(texts[i]), "t.json", &e), 0);
        json_decref(j);
    }
}

static const struct {
    const char *name, *text;
    size_t len; /* 0: strlen */
    const char *message;
} bad[] = {
    { "empty", "", 0, "t.json: line 1" },
    { "blank", " \n ", 0, "t.json: line 2" },
    { "word", "hello", 0, "line 1, column 5" },
    { "cut object", "{\"a\":", 0, "line 1" },
    { "trailing comma", "[1,]", 0, "line 1, column 4" },
    { "second value", "1 2", 0, "end of file expected" },
    { "duplicate key", "{\"a\":1,\n \"a\":2}", 0, "line 2, column 4: duplicate" },
    { "escaped duplicate", "{\"a\":1,\"\\u0061\":2}", 0, "duplicate" },
    { "single quotes", "{'a':1}", 0, "line 1" },
    { "comment", "// x\n1", 0, "line 1" },
    { "NaN", "NaN", 0, "line 1" },
    { "Infinity", "[-Infinity]", 0, "line 1" },
    { "leading zero", "01", 0, "line 1" },
    { "big integer", "123456789012345678901234567890", 0, "too big integer" },
    { "big real", "1e999", 0, "real number overflow" },
    { "control character", "\"a\tb\"", 0, "control character" },
    { "NUL byte", "\"a\0b\"", 5, "line 1" },
    { "NUL escape", "\"a\\u0000b\"", 0, "\\u0000" },
    { "invalid UTF-8", "\"\xc3(\"", 0, "unable to decode byte" },
    { "overlong UTF-8", "\"\xc0\xaf\"", 0, "unable to decode byte" },
    { "surrogate in UTF-8", "\"\xed\xa0\x80\"", 0, "unable to decode byte" },
    { "lone surrogate", "\"\\ud800\"", 0, "Unicode" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = { 0, "" };
        json_t *j = (json_t *)1;
        int rc = json_parse(&j, bad[i].text, bad[i].len ? bad[i].len : strlen(bad[i].text), "t.json", &e);

        if (rc != ERR_FORMAT || e.code != rc || j || !strstr(e.msg, bad[i].message))
            fail_msg("%s: code %d, message '%s'", bad[i].name, rc, e.msg);
    }
}

static void test_depth(void **state)
{
    size_t n = 1 << 20;
    char *text = malloc(n);
    struct err e;
    json_t *j;

    (void)state;
    assert_non_null(text);
    memset(text, '[', n);
    assert_int_equal(json_parse(&j, text, n, "t.json", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "depth"));
    free(text);
}

static void test_files(void **state)
{
    char path[] = "/tmp/test-json-XXXXXX";
    int fd = mkstemp(path);
    struct err e;
    json_t *j;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(json_read_file(&j, path, 10, &e), ERR_FORMAT); /* empty */
    assert_int_equal(write(fd, "[1, 2, 3]\n", 10), 10);
    close(fd);
    assert_int_equal(json_read_file(&j, path, 10, &e), 0);
    assert_int_equal(json_array_size(j), 3);
    json_decref(j);
    assert_int_equal(json_read_file(&j, path, 9, &e), ERR_LIMIT);
    assert_null(j);
    unlink(path);
    assert_int_equal(json_read_file(&j, path, 9, &e), ERR_IO);
    assert_non_null(strstr(e.msg, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_good), cmocka_unit_test(test_bad), cmocka_unit_test(test_depth),
                                        cmocka_unit_test(test_files) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
