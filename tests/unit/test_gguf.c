/* GGUF: one small file with every kind of value, what the source interface makes of it, and what each damage is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/io/gguf.h"
#include "lib/io/source.h"
#include "tests/unit/bytes.h"

static void put_str(struct bytes *b, const char *label, const char *s)
{
    bytes_int(b, label, 8, strlen(s));
    bytes_raw(b, s, strlen(s));
}

static void put_kv(struct bytes *b, const char *key, unsigned type, unsigned size, uint64_t value)
{
    put_str(b, key, key);
    bytes_int(b, NULL, 4, type);
    bytes_int(b, NULL, size, value);
}

static void put_array(struct bytes *b, const char *key, const char *type_label, unsigned type, const char *n_label, uint64_t n)
{
    put_str(b, NULL, key);
    bytes_int(b, NULL, 4, GGUF_ARRAY);
    bytes_int(b, type_label, 4, type);
    bytes_int(b, n_label, 8, n);
}

static void put_metadata(struct bytes *b)
{
    put_str(b, "first key", "general.architecture");
    bytes_int(b, "first type", 4, GGUF_STRING);
    put_str(b, "first value", "llama");
    put_kv(b, "t.u8", GGUF_U8, 1, 200);
    put_kv(b, "t.i8", GGUF_I8, 1, (uint64_t)-5);
    put_kv(b, "t.u16", GGUF_U16, 2, 65000);
    put_kv(b, "t.i16", GGUF_I16, 2, (uint64_t)-300);
    put_kv(b, "t.u32", GGUF_U32, 4, 4000000000u);
    put_kv(b, "t.i32", GGUF_I32, 4, (uint64_t)-70000);
    put_kv(b, "t.f32", GGUF_F32, 4, 0x3fc00000u); /* 1.5 */
    put_str(b, NULL, "t.bool");
    bytes_int(b, NULL, 4, GGUF_BOOL);
    bytes_int(b, "bool value", 1, 1);
    put_kv(b, "t.u64", GGUF_U64, 8, UINT64_MAX);
    put_kv(b, "t.i64", GGUF_I64, 8, (uint64_t)-1);
    put_kv(b, "t.f64", GGUF_F64, 8, 0x3fb999999999999au); /* 0.1 */
    put_array(b, "t.tokens", "tokens type", GGUF_STRING, "n tokens", 3);
    put_str(b, NULL, "a");
    put_str(b, "token", "");
    put_str(b, NULL, "\xc3\xa9");
    put_array(b, "t.scores", "scores type", GGUF_F32, "n scores", 2);
    assert_true(b->n % 4); /* the reader must copy them */
    bytes_int(b, NULL, 4, 0x3f800000u);
    bytes_int(b, NULL, 4, 0xbf800000u);
    put_array(b, "t.types", NULL, GGUF_I32, NULL, 2);
    bytes_int(b, NULL, 4, 1);
    bytes_int(b, NULL, 4, (uint64_t)-2);
    put_array(b, "t.none", NULL, GGUF_I32, NULL, 0);
    put_str(b, NULL, "general.alignment");
    bytes_int(b, "alignment type", 4, GGUF_U32);
    bytes_int(b, "alignment", 4, 32);
}

static void put_tensors(struct bytes *b)
{
    put_str(b, "first name", "t.a");
    bytes_int(b, "a rank", 4, 2);
    bytes_int(b, "a columns", 8, 4);
    bytes_int(b, "a rows", 8, 3);
    bytes_int(b, "a type", 4, DT_F32);
    bytes_int(b, "a offset", 8, 0);
    bytes_int(b, NULL, 8, 3);
    bytes_raw(b, "t.", 2);
    bytes_int(b, "last letter of b", 1, 'b');
    bytes_int(b, NULL, 4, 2);
    bytes_int(b, "b columns", 8, 32);
    bytes_int(b, NULL, 8, 2);
    bytes_int(b, "b type", 4, DT_Q4_0);
    bytes_int(b, NULL, 8, 64); /* a gap after the 48 bytes of a */
    put_str(b, NULL, "t.c");
    bytes_int(b, NULL, 4, 1);
    bytes_int(b, "c columns", 8, 5);
    bytes_int(b, NULL, 4, DT_F16);
    bytes_int(b, "c offset", 8, 128);
    bytes_pad(b, 32);
    for (unsigned i = 0; i < 128 + 10; i++)
        bytes_int(b, NULL, 1, i);
}

static struct bytes *build(void)
{
    struct bytes *b = calloc(1, sizeof *b);

    assert_non_null(b);
    bytes_label(b, "magic");
    bytes_raw(b, "GGUF", 4);
    bytes_int(b, "version", 4, 3);
    bytes_int(b, "n tensors", 8, 3);
    bytes_int(b, "n kv", 8, 17);
    put_metadata(b);
    put_tensors(b);
    return b;
}

static int open_bytes(struct gguf **g, const unsigned char *p, size_t n, struct err *e)
{
    struct map m;

    *g = NULL;
    if (map_memory(&m, p, n, "test.gguf", e))
        return ERR_NOMEM;
    return gguf_open(g, &m, e);
}

static void check_numbers(struct source *s)
{
    static const struct {
        const char *key;
        uint64_t u;
        double f;
        bool is_u;
    } rows[] = { { "t.u8", 200, 200, true },      { "t.i8", 0, -5, false },          { "t.u16", 65000, 65000, true },
                 { "t.i16", 0, -300, false },     { "t.u32", 4000000000u, 4e9, true }, { "t.i32", 0, -70000, false },
                 { "t.f32", 0, 1.5, false },      { "t.f64", 0, 0.1, false },
                 { "t.u64", UINT64_MAX, 18446744073709551615.0, true }, { "t.i64", 0, -1, false } };
    struct err e;
    uint64_t u;
    double f;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(source_get_u64(s, rows[i].key, &u, &e), rows[i].is_u ? 0 : ERR_FORMAT);
        assert_true(!rows[i].is_u || u == rows[i].u);
        assert_int_equal(source_get_f64(s, rows[i].key, &f, &e), 0);
        assert_true(f == rows[i].f);
    }
    assert_int_equal(source_get_u64(s, "t.bool", &u, &e), ERR_FORMAT);
    assert_int_equal(source_get_u64(s, "t.scores", &u, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "'t.scores' is not a single value"));
    e.code = 77;
    assert_int_equal(source_get_u64(s, "t.absent", &u, &e), ERR_NOTFOUND);
    assert_int_equal(e.code, 77); /* absence writes no message */
}

static void check_arrays(struct source *s)
{
    const struct source_str *strs;
    const float *f32;
    const int32_t *i32;
    const char *str;
    struct err e;
    uint64_t u;
    double f;
    size_t n;

    assert_int_equal(source_get_array(s, "t.tokens", &n, &e), 0);
    assert_int_equal(n, 3);
    assert_int_equal(source_get_str_array(s, "t.tokens", &strs, &n, &e), 0);
    assert_true(n == 3 && strs[0].len == 1 && strs[1].len == 0 && strs[2].len == 2 && !memcmp(strs[2].ptr, "\xc3\xa9", 2));
    assert_int_equal(source_array_str(s, "t.tokens", 2, &str, &n, &e), 0);
    assert_true(n == 2 && !memcmp(str, "\xc3\xa9", 2));
    assert_int_equal(source_array_str(s, "t.tokens", 3, &str, &n, &e), ERR_INVAL);
    assert_int_equal(source_get_f32_array(s, "t.scores", &f32, &n, &e), 0);
    assert_true((uintptr_t)f32 % 4 == 0 && n == 2 && f32[0] == 1.0f && f32[1] == -1.0f);
    assert_int_equal(source_get_i32_array(s, "t.types", &i32, &n, &e), 0);
    assert_true((uintptr_t)i32 % 4 == 0 && n == 2 && i32[0] == 1 && i32[1] == -2);
    assert_int_equal(source_get_i32_array(s, "t.none", &i32, &n, &e), 0);
    assert_int_equal(n, 0);
    assert_int_equal(source_array_f64(s, "t.types", 1, &f, &e), 0);
    assert_true(f == -2);
    assert_int_equal(source_array_u64(s, "t.types", 0, &u, &e), 0);
    assert_int_equal(u, 1);
    assert_int_equal(source_array_u64(s, "t.types", 1, &u, &e), ERR_FORMAT);
    assert_int_equal(source_get_f32_array(s, "t.types", &f32, &n, &e), ERR_FORMAT);
    assert_int_equal(source_get_i32_array(s, "t.u32", &i32, &n, &e), ERR_FORMAT);
    assert_int_equal(source_get_str_array(s, "t.absent", &strs, &n, &e), ERR_NOTFOUND);
}

static void test_values(void **state)
{
    char path[] = "/tmp/test-gguf-XXXXXX";
    int fd = mkstemp(path);
    struct bytes *b = build();
    struct source *s;
    const char *str;
    struct err e;
    bool yes = false;
    size_t n;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    bytes_save(path, b->p, b->n);
    assert_int_equal(source_open(&s, path, &e), 0);
    assert_int_equal(source_kind(s), SOURCE_GGUF);
    assert_int_equal(source_file_bytes(s), b->n);
    assert_int_equal(source_get_str(s, "general.architecture", &str, &n, &e), 0);
    assert_string_equal(str, "llama");
    assert_int_equal(n, 5);
    assert_int_equal(source_get_bool(s, "t.bool", &yes, &e), 0);
    assert_true(yes);
    assert_int_equal(source_get_bool(s, "t.u8", &yes, &e), ERR_FORMAT);
    assert_int_equal(source_get_str(s, "t.u8", &str, &n, &e), ERR_FORMAT);
    assert_int_equal(source_json(s, "config.json", &(const json_t *){ NULL }, &e), ERR_NOTFOUND);
    check_numbers(s);
    check_arrays(s);
    source_close(s);
    unlink(path);
    free(b);
}

static void check_tensor(const struct gguf *g, size_t i, const char *name, enum dtype type, uint32_t n_dims, uint64_t rows,
                         uint64_t columns, uint64_t bytes, unsigned first)
{
    const struct source_tensor *t = &g->tensors[i];

    assert_string_equal(t->name, name);
    assert_int_equal(t->type, type);
    assert_int_equal(t->n_dims, n_dims);
    assert_int_equal(t->dims[n_dims - 1], columns);
    assert_true(n_dims == 1 || t->dims[0] == rows);
    assert_int_equal(t->bytes, bytes);
    assert_int_equal(*(const unsigned char *)t->data, first);
    assert_ptr_equal(t->data, g->map.data + t->offset);
    assert_string_equal(t->file, "test.gguf");
}

static void test_tensors(void **state)
{
    struct bytes *b = build();
    unsigned char *p = bytes_copy(b->p, b->n);
    struct gguf *g;
    struct err e;

    (void)state;
    assert_int_equal(open_bytes(&g, p, b->n, &e), 0);
    assert_int_equal(g->n_tensors, 3);
    check_tensor(g, 0, "t.a", DT_F32, 2, 3, 4, 48, 0);
    check_tensor(g, 1, "t.b", DT_Q4_0, 2, 2, 32, 36, 64);
    check_tensor(g, 2, "t.c", DT_F16, 1, 0, 5, 10, 128);
    gguf_close(g);
    free(p);
    bytes_patch(b, "version", 4, 2); /* the same layout */
    p = bytes_copy(b->p, b->n);
    assert_int_equal(open_bytes(&g, p, b->n, &e), 0);
    gguf_close(g);
    free(p);
    free(b);
    gguf_close(NULL);
}

struct bad {
    const char *name, *field;
    unsigned size;
    uint64_t value;
    int code;
    const char *message;
};

static const struct bad bad[] = {
    { "magic", "magic", 4, 0, ERR_FORMAT, "not a GGUF file" },
    { "version 1", "version", 4, 1, ERR_UNSUPPORTED, "GGUF version 1 is not supported" },
    { "version 4", "version", 4, 4, ERR_UNSUPPORTED, "GGUF version 4 is not supported" },
    { "big-endian", "version", 4, 3u << 24, ERR_UNSUPPORTED, "big-endian" },
    { "too many tensors", "n tensors", 8, 1ull << 60, ERR_FORMAT, "1152921504606846976 tensors do not fit" },
    { "one tensor more", "n tensors", 8, 4, ERR_FORMAT, "" },
    { "too many entries", "n kv", 8, 1ull << 60, ERR_FORMAT, "1152921504606846976 metadata entries do not fit" },
    { "negative entries", "n kv", 8, UINT64_MAX, ERR_FORMAT, "metadata entries do not fit" },
    { "one entry more", "n kv", 8, 18, ERR_FORMAT, "" },
    { "key too long", "first key", 8, 1ull << 60, ERR_FORMAT, "string of 1152921504606846976 bytes at byte 24 (a metadata key)" },
    { "key length wraps", "first key", 8, UINT64_MAX, ERR_FORMAT, "past the end of the file" },
    { "unknown type", "first type", 4, 13, ERR_FORMAT, "'general.architecture' has unknown type 13" },
    { "string too long", "first value", 8, UINT64_MAX - 7, ERR_FORMAT, "(a metadata string) goes past the end" },
    { "bool of 2", "bool value", 1, 2, ERR_FORMAT, "'t.bool' is a boolean of value 2" },
    { "array of arrays", "tokens type", 4, GGUF_ARRAY, ERR_UNSUPPORTED, "'t.tokens' is an array of arrays" },
    { "array of unknown type", "tokens type", 4, 77, ERR_FORMAT, "unknown type 77" },
    { "too many strings", "n tokens", 8, 1ull << 60, ERR_FORMAT, "inside an array of strings" },
    { "too many numbers", "n scores", 8, 1ull << 62, ERR_FORMAT, "inside a metadata array" },
    { "string length of an element", "token", 8, 1ull << 40, ERR_FORMAT, "string of 1099511627776 bytes" },
    { "duplicate key", "t.i8", 12, 0, ERR_FORMAT, "metadata 't.u8' occurs twice" }, /* value: see test_bad */
    { "alignment 0", "alignment", 4, 0, ERR_FORMAT, "general.alignment is not a power of two" },
    { "alignment 48", "alignment", 4, 48, ERR_FORMAT, "general.alignment is not a power of two" },
    { "alignment 2 GB", "alignment", 4, 1u << 31, ERR_FORMAT, "general.alignment is not a power of two" },
    { "alignment of floats", "alignment type", 4, GGUF_F32, ERR_FORMAT, "general.alignment is not a power of two" },
    { "tensor without a name", "first name", 8, 0, ERR_FORMAT, "tensor 0 has a name of 0 bytes" },
    { "tensor name too long", "first name", 8, 256, ERR_FORMAT, "tensor 0 has a name of 256 bytes: expected 1 to 255" },
    { "tensor name past the end", "first name", 8, 1u << 30, ERR_FORMAT, "(a tensor's name) goes past the end" },
    { "duplicate tensor", "last letter of b", 1, 'a', ERR_FORMAT, "tensor 't.a' occurs twice" },
    { "NUL in a name", "last letter of b", 1, 0, ERR_FORMAT, "without NUL" },
    { "rank 0", "a rank", 4, 0, ERR_FORMAT, "'t.a' has 0 dimensions: expected 1 to 4" },
    { "rank 5", "a rank", 4, 5, ERR_FORMAT, "'t.a' has 5 dimensions: expected 1 to 4" },
    { "no rows", "a rows", 8, 0, ERR_FORMAT, "'t.a' has a dimension of 0: empty or too large" },
    { "product overflows", "a rows", 8, 1ull << 62, ERR_FORMAT, "empty or too large" },
    { "bytes overflow", "c columns", 8, INT64_MAX, ERR_FORMAT, "'t.c'" },
    { "unsupported type", "a type", 4, 16, ERR_UNSUPPORTED, "'t.a' has type IQ2_XXS, which is not supported" },
    { "integers", "a type", 4, 26, ERR_UNSUPPORTED, "'t.a' has type I32, which is not supported" },
    { "unknown tensor type", "a type", 4, 4, ERR_UNSUPPORTED, "'t.a' has type number 4, which is not supported" },
    { "huge tensor type", "a type", 4, UINT32_MAX, ERR_UNSUPPORTED, "has type number 4294967295" },
    { "part of a block", "b columns", 8, 33, ERR_FORMAT, "'t.b' has rows of 33, not a multiple of the 32 of a Q4_0 block" },
    { "unaligned", "a offset", 8, 1, ERR_FORMAT, "'t.a' at offset 1 is not aligned to 32" },
    { "offset wraps", "a offset", 8, UINT64_MAX - 31, ERR_FORMAT, "'t.a' has an offset that is too large" },
    { "past the end", "c offset", 8, 160, ERR_FORMAT, "truncated?" },
    { "far past the end", "c offset", 8, 1ull << 62, ERR_FORMAT, "'t.c' needs bytes up to" },
    { "overlap", "c offset", 8, 64, ERR_FORMAT, "overlap at byte" },
    { "overlap at the end", "c offset", 8, 96, ERR_FORMAT, "tensors 't.b' and 't.c' overlap" },
    { "row too long", "c columns", 8, 6, ERR_FORMAT, "'t.c' needs bytes up to" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bytes *b = build();
        struct gguf *g;
        struct err e = { 0, "" };
        unsigned char *p;
        int rc;

        if (bad[i].size == 12) { /* a length of 4 and the letters of another key */
            bytes_patch(b, bad[i].field, 8, 4);
            for (size_t k = 0; k < b->n_labels; k++)
                if (!strcmp(b->labels[k].name, bad[i].field))
                    memcpy(b->p + b->labels[k].at + 8, "t.u8", 4);
        } else {
            bytes_patch(b, bad[i].field, bad[i].size, bad[i].value);
        }
        p = bytes_copy(b->p, b->n);
        rc = open_bytes(&g, p, b->n, &e);
        if (rc != bad[i].code || e.code != rc || g || !strstr(e.msg, bad[i].message) || !strstr(e.msg, "test.gguf"))
            fail_msg("%s: code %d, message '%s'", bad[i].name, rc, e.msg);
        free(p);
        free(b);
    }
}

/* No prefix of a file is a file; the message has the size that it ends at or that it should have. */
static void test_truncated(void **state)
{
    struct bytes *b = build();

    (void)state;
    for (size_t n = 0; n < b->n; n++) {
        unsigned char *p = bytes_copy(b->p, n);
        struct gguf *g;
        struct err e;
        int rc = open_bytes(&g, p, n, &e);

        if (rc != ERR_FORMAT || g)
            fail_msg("cut at %zu: code %d, message '%s'", n, rc, e.msg);
        free(p);
    }
    free(b);
}

static void test_every_byte(void **state)
{
    struct bytes *b = build();

    (void)state;
    for (size_t i = 0; i < b->n; i++)
        for (unsigned k = 0; k < 8; k += 7) {
            unsigned char *p = bytes_copy(b->p, b->n);
            struct gguf *g;
            struct err e;

            p[i] ^= (unsigned char)(1u << k);
            if (!open_bytes(&g, p, b->n, &e))
                gguf_close(g);
            free(p);
        }
    free(b);
}

/* Counts that a large sparse file would allow. */
static void test_limits(void **state)
{
    static const struct {
        const char *field;
        uint64_t n;
        const char *message;
    } rows[] = { { "n kv", 65537, "65537 metadata entries: at most 65536" },
                 { "n tensors", 1048577, "1048577 tensors: at most 1048576" } };
    size_t size = (size_t)40 << 20;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes *b = build();
        unsigned char *p = calloc(1, size);
        struct gguf *g;
        struct err e;

        assert_non_null(p);
        bytes_patch(b, rows[i].field, 8, rows[i].n);
        memcpy(p, b->p, b->n);
        assert_int_equal(open_bytes(&g, p, size, &e), ERR_LIMIT);
        assert_non_null(strstr(e.msg, rows[i].message));
        free(p);
        free(b);
    }
}

static void test_empty(void **state)
{
    struct bytes *b = calloc(1, sizeof *b);
    struct gguf *g;
    struct err e;
    unsigned char *p;

    (void)state;
    assert_non_null(b);
    bytes_raw(b, "GGUF", 4);
    bytes_int(b, NULL, 4, 3);
    bytes_int(b, NULL, 8, 0);
    bytes_int(b, NULL, 8, 0);
    p = bytes_copy(b->p, b->n);
    assert_int_equal(open_bytes(&g, p, b->n, &e), 0);
    assert_null(gguf_find(g, "anything"));
    gguf_close(g);
    free(p);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_values),    cmocka_unit_test(test_tensors),
                                        cmocka_unit_test(test_bad),       cmocka_unit_test(test_truncated),
                                        cmocka_unit_test(test_every_byte), cmocka_unit_test(test_limits),
                                        cmocka_unit_test(test_empty) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
