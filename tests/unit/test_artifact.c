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
#include <hdf5.h>

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

/* An array that grows by rows, in a file with an array's own attributes. */
static void test_append(void **state)
{
    struct artifact *a;
    struct err e;
    uint64_t d[2] = { 0, 3 }, c[2] = { 4, 3 }, got[2], start[2] = { 4, 0 }, count[2] = { 3, 3 }, v[3 * 7], back[9], n;
    char note[16];

    (void)state;
    for (uint64_t i = 0; i < 21; i++)
        v[i] = i << 40;
    assert_int_equal(artifact_create(&a, path, "test-format", 1, &e), 0);
    assert_int_equal(artifact_array_create(a, "s/rows", ARTIFACT_U64, 2, d, c, "a stream", &e), 0);
    assert_int_equal(artifact_array_append(a, "s/rows", ARTIFACT_U64, 5, v, &e), 0);
    assert_int_equal(artifact_array_append(a, "s/rows", ARTIFACT_U64, 0, v, &e), 0);
    assert_int_equal(artifact_array_append(a, "s/rows", ARTIFACT_U64, 2, v + 15, &e), 0);
    assert_int_equal(artifact_array_append(a, "s/none", ARTIFACT_U64, 2, v, &e), ERR_IO);
    assert_int_equal(artifact_set_u64(a, "s/rows@bits", 4, &e), 0);
    assert_int_equal(artifact_set_u64(a, "s@layers", 30, &e), 0);
    assert_int_equal(artifact_set_u64(a, "none@bits", 4, &e), ERR_IO);
    assert_int_equal(artifact_finish(a, &e), 0);
    assert_int_equal(artifact_open(&a, path, "test-format", 1, &e), 0);
    assert_int_equal(artifact_array_shape(a, "s/rows", ARTIFACT_U64, 2, got, &e), 0);
    assert_true(got[0] == 7 && got[1] == 3);
    assert_int_equal(artifact_array_shape(a, "s/rows", ARTIFACT_F64, 2, got, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_shape(a, "s/rows", ARTIFACT_U64, 3, got, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_read(a, "s/rows", ARTIFACT_U64, start, count, back, &e), 0);
    assert_memory_equal(back, v + 12, sizeof back);
    assert_int_equal(artifact_get_u64(a, "s/rows@bits", &n, &e), 0);
    assert_int_equal(n, 4);
    assert_int_equal(artifact_get_u64(a, "s@layers", &n, &e), 0);
    assert_int_equal(n, 30);
    assert_int_equal(artifact_get_str(a, "s/rows@note", note, sizeof note, &e), 0);
    assert_string_equal(note, "a stream");
    assert_int_equal(artifact_get_u64(a, "none@bits", &n, &e), ERR_NOTFOUND);
    assert_int_equal(artifact_get_u64(a, "bits", &n, &e), ERR_NOTFOUND);
    assert_int_equal(artifact_array_verify(a, "s/rows", &e), ERR_FORMAT); /* in chunks */
    artifact_close(a);
}

/* Arrays in one piece: aligned, found by their offset, damage found by the digest. */
static void test_mapped(void **state)
{
    uint64_t d[2] = { 33, 40 }, small[1] = { 5 }, offset, zero[2] = { 0, 40 };
    float v[33 * 40], got;
    struct artifact *a;
    struct err e;
    FILE *f;

    (void)state;
    for (int i = 0; i < 33 * 40; i++)
        v[i] = (float)i;
    assert_int_equal(artifact_create(&a, path, "test-format", 1, &e), 0);
    assert_int_equal(artifact_array_put(a, "w/small", ARTIFACT_F32, 1, small, v, NULL, &e), 0);
    assert_int_equal(artifact_array_put(a, "w/big", ARTIFACT_F32, 2, d, v, "weights", &e), 0);
    assert_int_equal(artifact_array_put(a, "w/zero", ARTIFACT_F32, 2, zero, v, NULL, &e), ERR_INVAL);
    assert_int_equal(artifact_finish(a, &e), 0);
    assert_int_equal(artifact_open(&a, path, "test-format", 1, &e), 0);
    assert_int_equal(artifact_array_place(a, "w/small", ARTIFACT_F32, 1, small, &offset, &e), 0);
    assert_int_equal(artifact_array_place(a, "w/small", ARTIFACT_I32, 1, small, &offset, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_verify(a, "w/small", &e), 0);
    assert_int_equal(artifact_array_verify(a, "w/big", &e), 0);
    assert_int_equal(artifact_array_verify(a, "w/none", &e), ERR_NOTFOUND);
    assert_int_equal(artifact_array_place(a, "w/big", ARTIFACT_F32, 2, d, &offset, &e), 0);
    assert_int_equal(offset % ARTIFACT_MAP_ALIGN, 0);
    artifact_close(a);
    f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)offset + 4 * 777, SEEK_SET), 0);
    assert_int_equal(fread(&got, 4, 1, f), 1);
    assert_true(got == 777);
    assert_int_equal(fseek(f, (long)offset + 4 * 777, SEEK_SET), 0);
    assert_int_equal(fputc(1, f), 1);
    fclose(f);
    assert_int_equal(artifact_open(&a, path, "test-format", 1, &e), 0);
    assert_int_equal(artifact_array_verify(a, "w/small", &e), 0);
    assert_int_equal(artifact_array_verify(a, "w/big", &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "w/big does not match its SHA-256"));
    artifact_close(a);
}

/* A file must not make its reader read others. */
static void test_external(void **state)
{
    hsize_t d = 4;
    uint64_t dims1[1] = { 4 }, offset;
    hid_t file, space, list, set;
    struct artifact *a;
    struct err e;

    (void)state;
    assert_int_equal(artifact_create(&a, path, "test-format", 1, &e), 0);
    assert_int_equal(artifact_finish(a, &e), 0);
    file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    space = H5Screate_simple(1, &d, NULL);
    list = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(file >= 0 && space >= 0 && list >= 0);
    assert_true(H5Pset_external(list, "/etc/passwd", 0, 4) >= 0);
    set = H5Dcreate2(file, "stolen", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Dclose(set);
    H5Pclose(list);
    H5Sclose(space);
    H5Fclose(file);
    assert_int_equal(artifact_open(&a, path, "test-format", 1, &e), 0);
    assert_int_equal(artifact_array_check(a, "stolen", ARTIFACT_U8, 1, dims1, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_place(a, "stolen", ARTIFACT_U8, 1, dims1, &offset, &e), ERR_FORMAT);
    assert_int_equal(artifact_array_verify(a, "stolen", &e), ERR_FORMAT);
    artifact_close(a);
    assert_int_equal(artifact_create(&a, "/dev/null", "test-format", 1, &e), ERR_INVAL);
    assert_int_equal(artifact_create(&a, "-", "test-format", 1, &e), ERR_INVAL);
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
                                        cmocka_unit_test(test_append),     cmocka_unit_test(test_mapped),
                                        cmocka_unit_test(test_external),   cmocka_unit_test(test_damage) };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
