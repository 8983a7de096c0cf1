/* safetensors files, and Hugging Face folders of them: shapes and bytes, shards, side files, detection by content, and what
 * each damage is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/io/safetensors.h"
#include "lib/io/source.h"
#include "tests/unit/bytes.h"

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"m.b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"m.a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"m.position_ids\":{\"dtype\":\"I64\",\"shape\":[1,2],\"data_offsets\":[32,48]},"
    "\"m.scale\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[48,50]}}   ";

/* A file with this header and n bytes 0, 1, 2, ... */
static struct bytes *build(const char *header, size_t n)
{
    struct bytes *b = calloc(1, sizeof *b);

    assert_non_null(b);
    bytes_int(b, "length", 8, strlen(header));
    bytes_raw(b, header, strlen(header));
    for (size_t i = 0; i < n; i++)
        bytes_int(b, NULL, 1, i);
    return b;
}

static int open_bytes(struct safetensors *s, const unsigned char *p, size_t n, struct err *e)
{
    struct map m;

    if (map_memory(&m, p, n, "t.safetensors", e))
        return ERR_NOMEM;
    return safetensors_open(s, &m, e);
}

static void test_good(void **state)
{
    struct bytes *b = build(good, 50);
    unsigned char *p = bytes_copy(b->p, b->n);
    struct safetensors s;
    struct err e;

    (void)state;
    assert_int_equal(open_bytes(&s, p, b->n, &e), 0);
    assert_int_equal(s.n_tensors, 3); /* in the order of their bytes, the buffer left out */
    assert_string_equal(s.tensors[0].name, "m.a");
    assert_true(s.tensors[0].type == DT_F32 && s.tensors[0].n_dims == 2 && s.tensors[0].dims[0] == 2 &&
                s.tensors[0].dims[1] == 3 && s.tensors[0].bytes == 24);
    assert_string_equal(s.tensors[1].name, "m.b");
    assert_true(s.tensors[1].type == DT_BF16 && s.tensors[1].n_dims == 1 && *(const unsigned char *)s.tensors[1].data == 24);
    assert_true(s.tensors[2].type == DT_F16 && s.tensors[2].n_dims == 0 && s.tensors[2].bytes == 2);
    safetensors_close(&s);
    safetensors_close(&s);
    free(p);
    free(b);
}

struct bad {
    const char *name, *header;
    int code;
    const char *message;
};

#define T(shape, offsets) "{\"t\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

/* Each with 16 bytes of data. */
static const struct bad bad[] = {
    { "no JSON", "hello", ERR_FORMAT, "line 1" },
    { "an array", "[]", ERR_FORMAT, "header is not a JSON object" },
    { "cut JSON", "{\"t\":{", ERR_FORMAT, "line 1" },
    { "two values", "{} {}", ERR_FORMAT, "end of file expected" },
    { "duplicate name", "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                        "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", ERR_FORMAT, "duplicate" },
    { "invalid UTF-8", "{\"t\xff\":1}", ERR_FORMAT, "unable to decode byte 0xff" },
    { "no object", "{\"t\":7}", ERR_FORMAT, "tensor 't': no dtype" },
    { "no dtype", "{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", ERR_FORMAT, "tensor 't': no dtype" },
    { "FP8", "{\"t\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", ERR_UNSUPPORTED,
      "tensor 't' has type F8_E4M3, which is not supported" },
    { "integers", "{\"t\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", ERR_UNSUPPORTED, "type I64" },
    { "a buffer past the end", "{\"position_ids\":{\"dtype\":\"I64\",\"shape\":[9],\"data_offsets\":[0,72]}}", ERR_FORMAT,
      "truncated?" },
    { "no shape", "{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", ERR_FORMAT, "shape is not an array" },
    { "five dimensions", T("[1,1,1,1,1]", "[0,4]"), ERR_FORMAT, "shape is not an array of at most 4" },
    { "zero", T("[0]", "[0,0]"), ERR_FORMAT, "a dimension is not a positive integer" },
    { "negative", T("[-1]", "[0,4]"), ERR_FORMAT, "a dimension is not a positive integer" },
    { "float", T("[1.0]", "[0,4]"), ERR_FORMAT, "a dimension is not a positive integer" },
    { "beyond 64 bits", T("[99999999999999999999]", "[0,4]"), ERR_FORMAT, "line 1" },
    { "product overflows", T("[4294967296,4294967296,4]", "[0,4]"), ERR_FORMAT, "shape is too large" },
    { "bytes overflow", T("[4611686018427387904]", "[0,0]"), ERR_FORMAT, "tensor 't' has 0 bytes" },
    { "no offsets", "{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", ERR_FORMAT, "data_offsets is not [begin, end]" },
    { "one offset", T("[1]", "[0]"), ERR_FORMAT, "data_offsets is not [begin, end]" },
    { "backwards", T("[1]", "[8,4]"), ERR_FORMAT, "data_offsets is not [begin, end]" },
    { "negative offset", T("[1]", "[-4,0]"), ERR_FORMAT, "data_offsets is not [begin, end]" },
    { "past the end", T("[1]", "[16,20]"), ERR_FORMAT, "tensor 't' ends at byte" },
    { "far past the end", T("[1]", "[9223372036854775803,9223372036854775807]"), ERR_FORMAT, "truncated?" },
    { "wrong size", T("[3]", "[0,8]"), ERR_FORMAT, "tensor 't' has 8 bytes, its shape and type need 12" },
    { "overlap", "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                 "\"u\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", ERR_FORMAT, "tensors 't' and 'u' overlap" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bytes *b = build(bad[i].header, 16);
        unsigned char *p = bytes_copy(b->p, b->n);
        struct safetensors s;
        struct err e = { 0, "" };
        int rc = open_bytes(&s, p, b->n, &e);

        if (rc != bad[i].code || e.code != rc || !strstr(e.msg, bad[i].message) || !strstr(e.msg, "t.safetensors"))
            fail_msg("%s: code %d, message '%s'", bad[i].name, rc, e.msg);
        free(p);
        free(b);
    }
}

static void test_length(void **state)
{
    static const uint64_t lengths[] = { 0, 5, 1 << 20, 100000001, 1ull << 60, UINT64_MAX };
    struct bytes *b = build(good, 50);
    struct safetensors s;
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        bytes_patch(b, "length", 8, lengths[i]);
        assert_int_equal(open_bytes(&s, b->p, b->n, &e), ERR_FORMAT);
    }
    assert_non_null(strstr(e.msg, "header of 18446744073709551615 bytes in a file of"));
    free(b);
    b = build(good, 50);
    for (size_t n = 0; n < b->n; n++) {
        unsigned char *p = bytes_copy(b->p, n);

        if (open_bytes(&s, p, n, &e) != ERR_FORMAT)
            fail_msg("cut at %zu", n);
        free(p);
    }
    free(b);
}

/* Folders --------------------------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/test-safetensors-XXXXXX";
static char path[128];

static const char *at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text)
{
    bytes_save(at(name), text, strlen(text));
}

static void put_tensors(const char *name, const char *header, size_t n)
{
    struct bytes *b = build(header, n);

    bytes_save(at(name), b->p, b->n);
    free(b);
}

static const char *const names[] = { "config.json", "model.safetensors", "model.safetensors.index.json", "s-1.safetensors",
                                     "s-2.safetensors", "generation_config.json", "chat_template.jinja", "README" };

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(at(names[i]));
    return 0;
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    clear(state);
    return rmdir(dir);
}

static void check_config(struct source *s)
{
    struct err e;
    const char *str;
    uint64_t u;
    double f;
    bool yes;
    size_t n;

    assert_int_equal(source_get_u64(s, "n", &u, &e), 0);
    assert_int_equal(u, 3);
    assert_int_equal(source_get_u64(s, "minus", &u, &e), ERR_FORMAT);
    assert_int_equal(source_get_u64(s, "x", &u, &e), ERR_FORMAT);
    assert_int_equal(source_get_f64(s, "n", &f, &e), 0);
    assert_true(f == 3);
    assert_int_equal(source_get_f64(s, "rope.factor", &f, &e), 0);
    assert_true(f == 32.5);
    assert_int_equal(source_get_f64(s, "rope", &f, &e), ERR_FORMAT);
    assert_int_equal(source_get_f64(s, "rope.none", &f, &e), ERR_NOTFOUND);
    assert_int_equal(source_get_f64(s, "n.none", &f, &e), ERR_NOTFOUND);
    assert_int_equal(source_get_f64(s, "empty", &f, &e), ERR_NOTFOUND);
    assert_int_equal(source_get_bool(s, "yes", &yes, &e), 0);
    assert_true(yes);
    assert_int_equal(source_get_str(s, "archs", &str, &n, &e), ERR_FORMAT);
    assert_int_equal(source_get_array(s, "archs", &n, &e), 0);
    assert_int_equal(n, 2);
    assert_int_equal(source_array_str(s, "archs", 1, &str, &n, &e), 0);
    assert_string_equal(str, "B");
    assert_int_equal(source_array_u64(s, "archs", 0, &u, &e), ERR_FORMAT);
}

static void test_single(void **state)
{
    static const char *const paths[] = { "", "README", "model.safetensors", "config.json" };
    struct source *s;
    struct err e;
    const json_t *j;
    const char *text;
    size_t n;

    (void)state;
    put("config.json", "{\"n\":3,\"minus\":-1,\"x\":0.5,\"rope\":{\"factor\":32.5},\"empty\":null,\"yes\":true,"
                       "\"archs\":[\"A\",\"B\"]}");
    put("README", "hello");
    put_tensors("model.safetensors", good, 50);
    put("model.safetensors.index.json", "a left-over that is not read");
    put("chat_template.jinja", "{{ x }}");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(source_open(&s, at(paths[i]), &e), 0);
        assert_int_equal(source_kind(s), SOURCE_HF);
        assert_int_equal(source_n_tensors(s), 3);
        assert_ptr_equal(source_tensor(s, "m.b"), source_tensor_at(s, 1));
        assert_null(source_tensor(s, "m"));
        source_tensor_release(s, source_tensor_at(s, 0));
        assert_int_equal(((const unsigned char *)source_tensor_at(s, 0)->data)[23], 23);
        source_close(s);
    }
    assert_int_equal(source_open(&s, at(""), &e), 0);
    check_config(s);
    assert_int_equal(source_json(s, "generation_config.json", &j, &e), ERR_NOTFOUND);
    put("generation_config.json", "{\"eos_token_id\":[1,2]}");
    assert_int_equal(source_json(s, "generation_config.json", &j, &e), 0);
    assert_int_equal(json_array_size(json_object_get(j, "eos_token_id")), 2);
    assert_int_equal(source_text(s, "chat_template.jinja", &text, &n, &e), 0);
    assert_string_equal(text, "{{ x }}");
    assert_int_equal(source_json(s, "chat_template.jinja", &j, &e), ERR_FORMAT);
    assert_int_equal(source_text(s, "absent", &text, &n, &e), ERR_NOTFOUND);
    source_close(s);
}

static void test_shards(void **state)
{
    static const struct bad maps[] = {
        { "no map", "{}", ERR_FORMAT, "no weight_map" },
        { "an array", "[]", ERR_FORMAT, "no weight_map" },
        { "empty", "{\"weight_map\":{}}", ERR_FORMAT, "no weight_map" },
        { "a number", "{\"weight_map\":{\"a\":1}}", ERR_FORMAT, "weight_map of 'a' is not a plain file name" },
        { "a path", "{\"weight_map\":{\"a\":\"../s-1.safetensors\"}}", ERR_FORMAT, "not a plain file name" },
        { "the folder", "{\"weight_map\":{\"a\":\"..\"}}", ERR_IO, "not a regular file" },
        { "absent file", "{\"weight_map\":{\"a\":\"s-3.safetensors\"}}", ERR_IO, "s-3.safetensors: cannot open" },
        { "tensor elsewhere", "{\"weight_map\":{\"a\":\"s-2.safetensors\",\"b\":\"s-1.safetensors\"}}", ERR_FORMAT,
          "is not in s-" },
        { "absent tensor", "{\"weight_map\":{\"a\":\"s-1.safetensors\",\"c\":\"s-2.safetensors\"}}", ERR_FORMAT,
          "tensor 'c' is not in s-2.safetensors" },
    };
    struct source *s;
    struct err e;

    (void)state;
    clear(NULL);
    put("config.json", "{}");
    put_tensors("s-1.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                   "\"position_ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[4,12]}}", 12);
    put_tensors("s-2.safetensors", "{\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4);
    put("model.safetensors.index.json", "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"b\":\"s-2.safetensors\","
                                        "\"position_ids\":\"s-1.safetensors\",\"a\":\"s-1.safetensors\"}}");
    assert_int_equal(source_open(&s, dir, &e), 0);
    assert_int_equal(source_n_tensors(s), 2);
    assert_string_equal(source_tensor_at(s, 0)->name, "a");
    assert_non_null(strstr(source_tensor(s, "b")->file, "s-2.safetensors"));
    source_tensor_release(s, source_tensor(s, "b"));
    source_close(s);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        int rc;

        put("model.safetensors.index.json", maps[i].header);
        rc = source_open(&s, dir, &e);
        if (rc != maps[i].code || s || !strstr(e.msg, maps[i].message))
            fail_msg("%s: code %d, message '%s'", maps[i].name, rc, e.msg);
    }
    put_tensors("s-2.safetensors", "{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4);
    put("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"s-2.safetensors\",\"position_ids\":\"s-1.safetensors\"}}");
    assert_int_equal(source_open(&s, dir, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "tensor 'a' is in two files"));
}

static void test_not_a_model(void **state)
{
    struct source *s;
    struct err e;

    (void)state;
    clear(NULL);
    assert_int_equal(source_open(&s, at("absent"), &e), ERR_IO);
    assert_non_null(strstr(e.msg, "No such file"));
    assert_int_equal(source_open(&s, dir, &e), ERR_IO); /* no config.json */
    assert_non_null(strstr(e.msg, "config.json"));
    put("README", "hello");
    assert_int_equal(source_open(&s, at("README"), &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "neither a GGUF file nor in a folder with config.json"));
    put("README", "");
    assert_int_equal(source_open(&s, at("README"), &e), ERR_FORMAT);
    put("config.json", "{}");
    assert_int_equal(source_open(&s, dir, &e), ERR_NOTFOUND);
    assert_non_null(strstr(e.msg, "neither model.safetensors nor"));
    put("config.json", "[1]");
    assert_int_equal(source_open(&s, dir, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "not a JSON object"));
    put("config.json", "{\"a\":1,\n\"a\":2}");
    assert_int_equal(source_open(&s, dir, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "config.json: line 2"));
    source_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_good),   cmocka_unit_test(test_bad),
                                        cmocka_unit_test(test_length), cmocka_unit_test(test_single),
                                        cmocka_unit_test(test_shards), cmocka_unit_test(test_not_a_model) };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
