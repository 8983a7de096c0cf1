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
#include "lib/io/artifact.h"

static char dir[] = "/tmp/test-artifact-XXXXXX";
static char path[64], other[64];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/a.h5", dir);
    snprintf(other, sizeof other, "%s/b.h5", dir);
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(dir); /* fails when a temporary file is left */
}

static const uint64_t dims[2] = { 5, 7 }, chunk[2] = { 2, 7 };

static void write_sample(void)
{
    struct artifact *a;
    struct err e;
    float v[5 * 7];
    uint64_t start[2] = { 0, 0 }, count[2] = { 2, 7 };

    for (int i = 0; i < 35; i++)
        v[i] = (float)i / 4;
    unlink(path);
    assert_int_equal(artifact_create(&a, path, "test-format", 3, &e), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(artifact_set_str(a, "who", "caf\xc3\xa9", &e), 0);
    assert_int_equal(artifact_set_u64(a, "n", UINT64_MAX, &e), 0);
    assert_int_equal(artifact_set_f64(a, "x", 0.1, &e), 0);
    assert_int_equal(artifact_array_create(a, "group/values", ARTIFACT_F32, 2, dims, chunk, "quarters", &e), 0);
    for (start[0] = 0; start[0] < 5; start[0] += 2) {
        count[0] = start[0] + 2 <= 5 ? 2 : 1;
        assert_int_equal(artifact_array_write(a, "group/values", ARTIFACT_F32, start, count, v + start[0] * 7, &e), 0);
    }
    assert_int_equal(artifact_finish(a, &e), 0);
}

static void test_round_trip(void **state)
{
    struct artifact *a;
    struct err e;
    char text[16];
    uint64_t n, start[2] = { 1, 2 }, count[2] = { 3, 4 }, bad[2] = { 5, 8 };
    double x, got[12];

    (void)state;
    write_sample();
    assert_int_equal(artifact_open(&a, path, "test-format", 3, &e), 0);
    assert_int_equal(artifact_version(a), 3);
    assert_int_equal(artifact_get_str(a, "who", text, sizeof text, &e), 0);
    assert_string_equal(text, "caf\xc3\xa9");
    assert_int_equal(artifact_get_str(a, "who", text, 3, &e), ERR_FORMAT);
    assert_int_equal(artifact_get_str(a, "n", text, sizeof text, &e), ERR_FORMAT);
    assert_int_equal(artifact_get_str(a, "nobody", text, sizeof text, &e), ERR_NOTFOUND);
    assert_int_equal(artifact_get_u64(a, "n", &n, &e), 0);
    assert_true(n == UINT64_MAX);
    assert_int_equal(artifact_get_u64(a, "x", &n, &e), ERR_FORMAT);
    assert_int_equal(artifact_get_f64(a, "x", &x, &e), 0);
    assert_true(x == 0.1);
    assert_int_equal(artifact_array_check(a, "group/values", ARTIFACT_F32, 2, dims, &e), 0);
    assert_int_equal(artifact_array_check(a, "group/values", ARTIFACT_F64, 2, dims, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_check(a, "group/values", ARTIFACT_F32, 2, bad, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_check(a, "group/values", ARTIFACT_F32, 1, dims, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_check(a, "group/none", ARTIFACT_F32, 2, dims, &e), ERR_NOTFOUND);
    assert_int_equal(artifact_array_read(a, "group/values", ARTIFACT_F64, start, count, got, &e), 0);
    for (int i = 0; i < 12; i++)
        assert_true(got[i] == (double)((1 + i / 4) * 7 + 2 + i % 4) / 4);
    count[0] = 5;
    assert_int_equal(artifact_array_read(a, "group/values", ARTIFACT_F64, start, count, got, &e), ERR_FORMAT);
    artifact_close(a);
}

static void test_refusals(void **state)
{
    struct artifact *a;
    struct err e;
    FILE *f;

    (void)state;
    write_sample();
    assert_int_equal(artifact_open(&a, path, "another-format", 3, &e), ERR_FORMAT);
    assert_null(a);
    assert_int_equal(artifact_open(&a, path, "test-format", 2, &e), ERR_UNSUPPORTED);
    assert_int_equal(artifact_open(&a, "/nowhere/at/all", "test-format", 2, &e), ERR_IO);
    assert_int_equal(artifact_create(&a, "/nowhere/at/all", "test-format", 2, &e), ERR_IO);
    f = fopen(other, "w");
    assert_non_null(f);
    fputs("this is no HDF5 file", f);
    fclose(f);
    assert_int_equal(artifact_open(&a, other, "test-format", 3, &e), ERR_FORMAT);
    assert_int_equal(artifact_create(&a, other, "test-format", 3, &e), 0); /* abandoned: other stays as it was */
    artifact_close(a);
    assert_int_equal(artifact_open(&a, other, "test-format", 3, &e), ERR_FORMAT);
}

/* Reads all there is; any result but a crash or wrong values passes. */
static int read_all(const char *name)
{
    struct artifact *a;
    char who[16];
    uint64_t n, start[2] = { 0, 0 };
    double x;
    float v[35];
    int rc = artifact_open(&a, name, "test-format", 3, NULL);

    if (rc)
        return rc;
    if (!(rc = artifact_get_str(a, "who", who, sizeof who, NULL)) && !(rc = artifact_get_u64(a, "n", &n, NULL)) &&
        !(rc = artifact_get_f64(a, "x", &x, NULL)) &&
        !(rc = artifact_array_check(a, "group/values", ARTIFACT_F32, 2, dims, NULL)) &&
        !(rc = artifact_array_read(a, "group/values", ARTIFACT_F32, start, dims, v, NULL))) {
        assert_string_equal(who, "caf\xc3\xa9");
        assert_true(n == UINT64_MAX && x == 0.1);
        for (int i = 0; i < 35; i++)
            assert_true(v[i] == (float)i / 4);
    }
    artifact_close(a);
    return rc;
}

static void put(const char *name, const unsigned char *p, size_t n)
{
    FILE *f = fopen(name, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

static void test_damage(void **state)
{
    unsigned char *p;
    struct stat st;
    FILE *f;
    size_t n;

    (void)state;
    write_sample();
    assert_int_equal(stat(path, &st), 0);
    n = (size_t)st.st_size;
    p = malloc(n);
    f = fopen(path, "rb");
    assert_non_null(p);
    assert_non_null(f);
    assert_int_equal(fread(p, 1, n, f), n);
    fclose(f);
    assert_int_equal(read_all(path), 0);
    for (uint64_t i = 0; i < 200; i++) {
        size_t at = (size_t)(rng_uniform(1, 0, i) * (double)n);
        unsigned char was = p[at], flip = (unsigned char)(1 + rng_uniform(1, 1, i) * 255);

        put(other, p, at);
        assert_int_not_equal(read_all(other), 0);
        p[at] ^= flip;
        put(other, p, n);
        read_all(other);
        p[at] = was;
    }
    free(p);
}

/* HDF5 1.10 itself leaks what it read of a damaged file. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5";
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refusals),
                                        cmocka_unit_test(test_damage) };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
