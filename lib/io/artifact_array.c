/* Arrays of artifacts: in checksummed chunks, or in one piece with a digest. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/core/sha256.h"
#include "lib/io/artifact_priv.h"

#define VERIFY_BYTES ((size_t)4 << 20)

static hid_t file_type(enum artifact_type t)
{
    switch (t) {
    case ARTIFACT_U8: return H5T_STD_U8LE;
    case ARTIFACT_I32: return H5T_STD_I32LE;
    case ARTIFACT_F32: return H5T_IEEE_F32LE;
    case ARTIFACT_F64: return H5T_IEEE_F64LE;
    case ARTIFACT_U64: return H5T_STD_U64LE;
    }
    return H5I_INVALID_HID;
}

static hid_t memory_type(enum artifact_type t)
{
    switch (t) {
    case ARTIFACT_U8: return H5T_NATIVE_UINT8;
    case ARTIFACT_I32: return H5T_NATIVE_INT32;
    case ARTIFACT_F32: return H5T_NATIVE_FLOAT;
    case ARTIFACT_F64: return H5T_NATIVE_DOUBLE;
    case ARTIFACT_U64: return H5T_NATIVE_UINT64;
    }
    return H5I_INVALID_HID;
}

static uint64_t type_bytes(enum artifact_type t)
{
    return t == ARTIFACT_U8 ? 1 : t == ARTIFACT_I32 || t == ARTIFACT_F32 ? 4 : 8;
}

static void close_all(hid_t set, hid_t space, hid_t type, hid_t list)
{
    if (list >= 0)
        H5Pclose(list);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
}

static int set_note(struct artifact *a, const char *name, const char *attr, const char *value, struct err *e)
{
    size_t n = strlen(name) + strlen(attr) + 2;
    char *full = malloc(n);
    int rc;

    if (!full)
        return err_set(e, ERR_NOMEM, "%s: out of memory", a->path);
    snprintf(full, n, "%s@%s", name, attr);
    rc = artifact_set_str(a, full, value, e);
    free(full);
    return rc;
}

/* chunk NULL: in one piece. *set is open on success. */
static int create(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims, const uint64_t *dims,
                  const uint64_t *chunk, hid_t *set, struct err *e)
{
    hsize_t d[ARTIFACT_MAX_DIMS], c[ARTIFACT_MAX_DIMS], max[ARTIFACT_MAX_DIMS];
    hid_t space = H5I_INVALID_HID, list = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
    int rc = 0;

    *set = H5I_INVALID_HID;
    for (uint32_t i = 0; i < n_dims && i < ARTIFACT_MAX_DIMS; i++) {
        d[i] = max[i] = dims[i];
        c[i] = chunk ? chunk[i] : 1;
    }
    if (n_dims && chunk && !dims[0])
        max[0] = H5S_UNLIMITED;
    if (n_dims && n_dims <= ARTIFACT_MAX_DIMS)
        space = H5Screate_simple((int)n_dims, d, max);
    if (space < 0 || list < 0 || link < 0 || H5Pset_create_intermediate_group(link, 1) < 0 ||
        (chunk && (H5Pset_chunk(list, (int)n_dims, c) < 0 || H5Pset_fletcher32(list) < 0)) ||
        (*set = H5Dcreate2(a->file, name, file_type(type), space, link, list, H5P_DEFAULT)) < 0)
        rc = artifact_fail(e, ERR_IO, a, "cannot create array", name);
    if (link >= 0)
        H5Pclose(link);
    close_all(H5I_INVALID_HID, space, H5I_INVALID_HID, list);
    return rc;
}

int artifact_array_create(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                          const uint64_t *dims, const uint64_t *chunk, const char *note, struct err *e)
{
    hid_t set;
    int rc = create(a, name, type, n_dims, dims, chunk, &set, e);

    if (rc)
        return rc;
    H5Dclose(set);
    return note ? set_note(a, name, "note", note, e) : 0;
}

/* Opens an array of ours: elements of the type (any when negative), stored in this very file. */
static int open_array(struct artifact *a, const char *name, int type, uint32_t n_dims, uint64_t *dims, hid_t *set,
                      struct err *e)
{
    hid_t space, have, list;
    hsize_t d[ARTIFACT_MAX_DIMS];
    bool good;

    if ((*set = H5Dopen2(a->file, name, H5P_DEFAULT)) < 0)
        return artifact_fail(e, ERR_NOTFOUND, a, "no array", name);
    space = H5Dget_space(*set);
    have = H5Dget_type(*set);
    list = H5Dget_create_plist(*set);
    good = space >= 0 && have >= 0 && list >= 0 && (type < 0 || H5Tequal(have, file_type((enum artifact_type)type)) > 0) &&
           H5Pget_layout(list) != H5D_VIRTUAL && H5Pget_external_count(list) == 0 &&
           H5Sget_simple_extent_ndims(space) == (int)n_dims && H5Sget_simple_extent_dims(space, d, NULL) >= 0;
    close_all(H5I_INVALID_HID, space, have, list);
    for (uint32_t i = 0; good && i < n_dims; i++)
        dims[i] = d[i];
    if (good)
        return 0;
    H5Dclose(*set);
    *set = H5I_INVALID_HID;
    return artifact_fail(e, ERR_FORMAT, a, "unexpected type, rank or storage of array", name);
}

int artifact_array_shape(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims, uint64_t *dims,
                         struct err *e)
{
    hid_t set;
    int rc = n_dims <= ARTIFACT_MAX_DIMS ? open_array(a, name, (int)type, n_dims, dims, &set, e)
                                         : err_set(e, ERR_INVAL, "%s: rank %u of array %s", a->path, n_dims, name);

    if (!rc)
        H5Dclose(set);
    return rc;
}

int artifact_array_check(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                         const uint64_t *dims, struct err *e)
{
    uint64_t have[ARTIFACT_MAX_DIMS];
    int rc = artifact_array_shape(a, name, type, n_dims, have, e);

    for (uint32_t i = 0; !rc && i < n_dims; i++)
        if (have[i] != dims[i])
            rc = err_set(e, ERR_FORMAT, "%s: dimension %u of array %s is %" PRIu64 ": expected %" PRIu64, a->path, i, name,
                         have[i], dims[i]);
    return rc;
}

/* Moves a block between memory and an open array. */
static int transfer(struct artifact *a, hid_t set, const char *name, enum artifact_type type, const uint64_t *start,
                    const uint64_t *count, const void *from, void *to, struct err *e)
{
    hid_t space = set >= 0 ? H5Dget_space(set) : H5I_INVALID_HID, mem = H5I_INVALID_HID;
    int n_dims = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1, rc = 0;
    hsize_t s[ARTIFACT_MAX_DIMS], c[ARTIFACT_MAX_DIMS];

    for (int i = 0; i < n_dims && i < ARTIFACT_MAX_DIMS; i++) {
        s[i] = start[i];
        c[i] = count[i];
    }
    if (n_dims < 1 || n_dims > ARTIFACT_MAX_DIMS || (mem = H5Screate_simple(n_dims, c, NULL)) < 0 ||
        H5Sselect_hyperslab(space, H5S_SELECT_SET, s, NULL, c, NULL) < 0 ||
        (from ? H5Dwrite(set, memory_type(type), mem, space, H5P_DEFAULT, from)
              : H5Dread(set, memory_type(type), mem, space, H5P_DEFAULT, to)) < 0)
        rc = artifact_fail(e, from ? ERR_IO : ERR_FORMAT, a, from ? "cannot write array" : "cannot read array", name);
    if (mem >= 0)
        H5Sclose(mem);
    if (space >= 0)
        H5Sclose(space);
    return rc;
}

int artifact_array_write(struct artifact *a, const char *name, enum artifact_type type, const uint64_t *start,
                         const uint64_t *count, const void *data, struct err *e)
{
    hid_t set = H5Dopen2(a->file, name, H5P_DEFAULT);
    int rc = transfer(a, set, name, type, start, count, data, NULL, e);

    close_all(set, H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID);
    return rc;
}

int artifact_array_read(struct artifact *a, const char *name, enum artifact_type type, const uint64_t *start,
                        const uint64_t *count, void *data, struct err *e)
{
    hid_t set = H5Dopen2(a->file, name, H5P_DEFAULT);
    int rc = transfer(a, set, name, type, start, count, NULL, data, e);

    close_all(set, H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID);
    return rc;
}

int artifact_array_append(struct artifact *a, const char *name, enum artifact_type type, uint64_t n_rows, const void *data,
                          struct err *e)
{
    hid_t set = H5Dopen2(a->file, name, H5P_DEFAULT), space = set >= 0 ? H5Dget_space(set) : H5I_INVALID_HID;
    int n_dims = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1, rc;
    uint64_t start[ARTIFACT_MAX_DIMS] = { 0 }, count[ARTIFACT_MAX_DIMS];
    hsize_t d[ARTIFACT_MAX_DIMS];

    if (n_dims < 1 || n_dims > ARTIFACT_MAX_DIMS || H5Sget_simple_extent_dims(space, d, NULL) < 0) {
        rc = artifact_fail(e, ERR_IO, a, "cannot extend array", name);
    } else {
        for (int i = 0; i < n_dims; i++)
            count[i] = d[i];
        start[0] = d[0];
        count[0] = n_rows;
        d[0] += n_rows;
        rc = !n_rows ? 0 : H5Dset_extent(set, d) < 0 ? artifact_fail(e, ERR_IO, a, "cannot extend array", name)
                                                     : transfer(a, set, name, type, start, count, data, NULL, e);
    }
    close_all(set, space, H5I_INVALID_HID, H5I_INVALID_HID);
    return rc;
}

/* Arrays in one piece --------------------------------------------------------------------------------------------------- */

int artifact_array_put(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims, const uint64_t *dims,
                       const void *data, const char *note, struct err *e)
{
    unsigned char digest[SHA256_BYTES];
    char hex[SHA256_HEX_SIZE];
    uint64_t bytes = type_bytes(type);
    struct sha256 sha;
    hid_t set;
    int rc;

    for (uint32_t i = 0; i < n_dims; i++)
        if (!dims[i] || __builtin_mul_overflow(bytes, dims[i], &bytes))
            return err_set(e, ERR_INVAL, "%s: array %s is empty or too large", a->path, name);
    if ((rc = create(a, name, type, n_dims, dims, NULL, &set, e)))
        return rc;
    rc = H5Dwrite(set, memory_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0
             ? artifact_fail(e, ERR_IO, a, "cannot write array", name)
             : 0;
    H5Dclose(set);
    if (rc || (note && (rc = set_note(a, name, "note", note, e))))
        return rc;
    sha256_init(&sha);
    sha256_add(&sha, data, (size_t)bytes);
    sha256_end(&sha, digest);
    sha256_hex(digest, hex);
    return set_note(a, name, "sha256", hex, e);
}

/* Opens an array that is in one piece inside the file: its bytes are [*offset, *offset + *bytes). */
static int locate(struct artifact *a, const char *name, hid_t set, uint64_t *offset, uint64_t *bytes, struct err *e)
{
    hid_t list = H5Dget_create_plist(set);
    bool flat = list >= 0 && H5Pget_layout(list) == H5D_CONTIGUOUS && H5Pget_nfilters(list) == 0;
    haddr_t at = flat ? H5Dget_offset(set) : HADDR_UNDEF;
    struct stat st;

    if (list >= 0)
        H5Pclose(list);
    *bytes = H5Dget_storage_size(set);
    if (at == HADDR_UNDEF || stat(a->path, &st) || at > (haddr_t)st.st_size || *bytes > (haddr_t)st.st_size - at)
        return artifact_fail(e, ERR_FORMAT, a, "not stored in one piece inside the file: array", name);
    *offset = at;
    return 0;
}

int artifact_array_place(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                         const uint64_t *dims, uint64_t *offset, struct err *e)
{
    uint64_t have[ARTIFACT_MAX_DIMS], bytes, want = type_bytes(type);
    hid_t set;
    int rc = artifact_array_check(a, name, type, n_dims, dims, e);

    if (rc || (rc = open_array(a, name, (int)type, n_dims, have, &set, e)))
        return rc;
    rc = locate(a, name, set, offset, &bytes, e);
    H5Dclose(set);
    for (uint32_t i = 0; !rc && i < n_dims; i++)
        if (__builtin_mul_overflow(want, dims[i], &want))
            want = UINT64_MAX;
    return rc || want == bytes ? rc : err_set(e, ERR_FORMAT, "%s: array %s has %" PRIu64 " bytes: expected %" PRIu64, a->path,
                                              name, bytes, want);
}

/* The digest of a range of the file itself: what a mapping would show. */
static int hash_range(struct artifact *a, uint64_t offset, uint64_t bytes, char hex[SHA256_HEX_SIZE], struct err *e)
{
    FILE *f = fopen(a->path, "rbe");
    char *buf = malloc(VERIFY_BYTES);
    unsigned char digest[SHA256_BYTES];
    struct sha256 sha;
    int rc = 0;

    sha256_init(&sha);
    if (!f || !buf || fseeko(f, (off_t)offset, SEEK_SET))
        rc = err_set(e, ERR_IO, "%s: cannot read", a->path);
    while (!rc && bytes) {
        size_t n = bytes < VERIFY_BYTES ? (size_t)bytes : VERIFY_BYTES;

        if (fread(buf, 1, n, f) != n)
            rc = err_set(e, ERR_IO, "%s: cannot read", a->path);
        else
            sha256_add(&sha, buf, n);
        bytes -= n;
    }
    sha256_end(&sha, digest);
    sha256_hex(digest, hex);
    free(buf);
    if (f)
        fclose(f);
    return rc;
}

int artifact_array_verify(struct artifact *a, const char *name, struct err *e)
{
    hid_t set = H5Dopen2(a->file, name, H5P_DEFAULT);
    char want[SHA256_HEX_SIZE], have[SHA256_HEX_SIZE];
    size_t n = strlen(name) + sizeof "@sha256";
    uint64_t offset, bytes;
    char *attr;
    int rc;

    if (set < 0)
        return artifact_fail(e, ERR_NOTFOUND, a, "no array", name);
    rc = locate(a, name, set, &offset, &bytes, e);
    H5Dclose(set);
    if (rc)
        return rc;
    if (!(attr = malloc(n)))
        return err_set(e, ERR_NOMEM, "%s: out of memory", a->path);
    snprintf(attr, n, "%s@sha256", name);
    rc = artifact_get_str(a, attr, want, sizeof want, e);
    free(attr);
    if (rc || (rc = hash_range(a, offset, bytes, have, e)))
        return rc;
    return strcmp(want, have) ? err_set(e, ERR_FORMAT, "%s: array %s does not match its SHA-256: the file is damaged", a->path,
                                        name)
                              : 0;
}
