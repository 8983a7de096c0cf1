#include "lib/io/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hdf5.h>

struct artifact {
    hid_t file;
    char *path;
    char *tmp;        /* name while writing, else NULL */
    uint32_t version;
};

/* Keeps the innermost message, which says what happened. */
static herr_t keep_message(unsigned n, const H5E_error2_t *entry, void *arg)
{
    (void)n;
    if (entry->desc && entry->desc[0])
        snprintf(arg, 256, "%s", entry->desc);
    return 0;
}

static int fail(struct err *e, int code, const struct artifact *a, const char *what, const char *name)
{
    char why[256] = "";

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_message, why);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_message, why);
    H5Eclear2(H5E_DEFAULT);
    return err_set(e, code, "%s: %s%s%s%s%s", a->path, what, name ? " " : "", name ? name : "", why[0] ? ": " : "", why);
}

static hid_t file_type(enum artifact_type t)
{
    switch (t) {
    case ARTIFACT_U8: return H5T_STD_U8LE;
    case ARTIFACT_I32: return H5T_STD_I32LE;
    case ARTIFACT_F32: return H5T_IEEE_F32LE;
    case ARTIFACT_F64: return H5T_IEEE_F64LE;
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
    }
    return H5I_INVALID_HID;
}

static struct artifact *artifact_new(const char *path, bool writing)
{
    struct artifact *a = calloc(1, sizeof *a);
    size_t size = strlen(path) + 32;

    if (!a)
        return NULL;
    a->file = H5I_INVALID_HID;
    a->path = strdup(path);
    if (writing && (a->tmp = malloc(size)))
        snprintf(a->tmp, size, "%s.tmp-%ld", path, (long)getpid());
    if (!a->path || (writing && !a->tmp)) {
        artifact_close(a);
        return NULL;
    }
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* else HDF5 prints its errors itself */
    return a;
}

int artifact_create(struct artifact **out, const char *path, const char *format, uint32_t version, struct err *e)
{
    struct artifact *a = artifact_new(path, true);
    hid_t access = H5I_INVALID_HID;
    int rc, fd = -1;

    *out = NULL;
    if (!a)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    fd = open(a->tmp, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666); /* for a clear message */
    if (fd < 0) {
        rc = err_set(e, ERR_IO, "%s: cannot create: %s", a->tmp, strerror(errno));
        goto fail;
    }
    close(fd);
    access = H5Pcreate(H5P_FILE_ACCESS);
    /* The 1.10 format: checksums on all metadata. */
    if (access < 0 || H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0 ||
        (a->file = H5Fcreate(a->tmp, H5F_ACC_TRUNC, H5P_DEFAULT, access)) < 0) {
        rc = fail(e, ERR_IO, a, "cannot create", NULL);
        goto fail;
    }
    H5Pclose(access);
    access = H5I_INVALID_HID;
    a->version = version;
    if ((rc = artifact_set_str(a, "format", format, e)) || (rc = artifact_set_u64(a, "version", version, e)) ||
        (rc = artifact_set_str(a, "tool_version", SLUICE_VERSION, e)))
        goto fail;
    *out = a;
    return 0;
fail:
    if (access >= 0)
        H5Pclose(access);
    artifact_close(a);
    return rc;
}

int artifact_finish(struct artifact *a, struct err *e)
{
    int rc = 0, fd;

    if (H5Fclose(a->file) < 0)
        rc = fail(e, ERR_IO, a, "cannot write", NULL);
    a->file = H5I_INVALID_HID;
    if (!rc) {
        fd = open(a->tmp, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) || rename(a->tmp, a->path))
            rc = err_set(e, ERR_IO, "%s: cannot complete: %s", a->path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    if (!rc) {
        free(a->tmp);
        a->tmp = NULL;
    }
    artifact_close(a);
    return rc;
}

int artifact_open(struct artifact **out, const char *path, const char *format, uint32_t version_max, struct err *e)
{
    struct artifact *a = artifact_new(path, false);
    char have[64];
    uint64_t version;
    int rc, fd;

    *out = NULL;
    if (!a)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        goto fail;
    }
    close(fd);
    if ((a->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT)) < 0) {
        rc = fail(e, ERR_FORMAT, a, "not an HDF5 file, or a damaged one", NULL);
        goto fail;
    }
    if (artifact_get_str(a, "format", have, sizeof have, NULL) || strcmp(have, format)) {
        rc = err_set(e, ERR_FORMAT, "%s: not a %s file", path, format);
        goto fail;
    }
    if ((rc = artifact_get_u64(a, "version", &version, e)))
        goto fail;
    if (version == 0 || version > version_max) {
        rc = err_set(e, ERR_UNSUPPORTED, "%s: %s version %llu; this build reads up to %u", path, format,
                     (unsigned long long)version, version_max);
        goto fail;
    }
    a->version = (uint32_t)version;
    *out = a;
    return 0;
fail:
    artifact_close(a);
    return rc;
}

uint32_t artifact_version(const struct artifact *a)
{
    return a->version;
}

const char *artifact_path(const struct artifact *a)
{
    return a->path;
}

void artifact_close(struct artifact *a)
{
    if (!a)
        return;
    if (a->file >= 0)
        H5Fclose(a->file);
    if (a->tmp)
        unlink(a->tmp);
    free(a->tmp);
    free(a->path);
    free(a);
}

/* Attributes ---------------------------------------------------------------------------------------------------------- */

static int set_attr(struct artifact *a, hid_t object, const char *name, hid_t stored, hid_t type, const void *value,
                    struct err *e)
{
    hid_t space = H5Screate(H5S_SCALAR), attr = H5I_INVALID_HID;
    int rc = 0;

    if (space < 0 || (attr = H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT)) < 0 ||
        H5Awrite(attr, type, value) < 0)
        rc = fail(e, ERR_IO, a, "cannot write attribute", name);
    if (attr >= 0)
        H5Aclose(attr);
    if (space >= 0)
        H5Sclose(space);
    return rc;
}

static int set_str(struct artifact *a, hid_t object, const char *name, const char *value, struct err *e)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    int rc;

    if (type < 0 || H5Tset_size(type, strlen(value) + 1) < 0 || H5Tset_strpad(type, H5T_STR_NULLTERM) < 0 ||
        H5Tset_cset(type, H5T_CSET_UTF8) < 0)
        rc = fail(e, ERR_IO, a, "cannot write attribute", name);
    else
        rc = set_attr(a, object, name, type, type, value, e);
    if (type >= 0)
        H5Tclose(type);
    return rc;
}

int artifact_set_str(struct artifact *a, const char *name, const char *value, struct err *e)
{
    return set_str(a, a->file, name, value, e);
}

int artifact_set_u64(struct artifact *a, const char *name, uint64_t value, struct err *e)
{
    return set_attr(a, a->file, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value, e);
}

int artifact_set_f64(struct artifact *a, const char *name, double value, struct err *e)
{
    return set_attr(a, a->file, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, e);
}

/* Opens an attribute that must be one value of the class. */
static int open_attr(struct artifact *a, const char *name, H5T_class_t want, hid_t *attr, hid_t *type, struct err *e)
{
    hid_t space = H5I_INVALID_HID;
    bool one;

    *attr = *type = H5I_INVALID_HID;
    if (H5Aexists(a->file, name) <= 0)
        return err_set(e, ERR_NOTFOUND, "%s: no attribute %s", a->path, name);
    *attr = H5Aopen(a->file, name, H5P_DEFAULT);
    if (*attr >= 0) {
        space = H5Aget_space(*attr);
        *type = H5Aget_type(*attr);
    }
    one = space >= 0 && *type >= 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Tget_class(*type) == want;
    if (space >= 0)
        H5Sclose(space);
    if (one)
        return 0;
    H5Eclear2(H5E_DEFAULT);
    return err_set(e, ERR_FORMAT, "%s: attribute %s is not one %s", a->path, name,
                   want == H5T_STRING ? "string" : want == H5T_INTEGER ? "integer" : "number");
}

static void close_attr(hid_t attr, hid_t type)
{
    if (type >= 0)
        H5Tclose(type);
    if (attr >= 0)
        H5Aclose(attr);
}

int artifact_get_str(struct artifact *a, const char *name, char *out, size_t size, struct err *e)
{
    hid_t attr, type;
    int rc = open_attr(a, name, H5T_STRING, &attr, &type, e);

    if (!rc) {
        size_t n = H5Tget_size(type);

        memset(out, 0, size);
        if (H5Tis_variable_str(type) != 0 || n == 0 || n > size || H5Aread(attr, type, out) < 0 || memchr(out, 0, n) == NULL)
            rc = fail(e, ERR_FORMAT, a, "bad string attribute", name);
    }
    close_attr(attr, type);
    return rc;
}

int artifact_get_u64(struct artifact *a, const char *name, uint64_t *out, struct err *e)
{
    hid_t attr, type;
    int rc = open_attr(a, name, H5T_INTEGER, &attr, &type, e);

    if (!rc && (H5Tget_size(type) > 8 || H5Aread(attr, H5T_NATIVE_UINT64, out) < 0))
        rc = fail(e, ERR_FORMAT, a, "bad integer attribute", name);
    close_attr(attr, type);
    return rc;
}

int artifact_get_f64(struct artifact *a, const char *name, double *out, struct err *e)
{
    hid_t attr, type;
    int rc = open_attr(a, name, H5T_FLOAT, &attr, &type, e);

    if (!rc && (H5Tget_size(type) > 8 || H5Aread(attr, H5T_NATIVE_DOUBLE, out) < 0))
        rc = fail(e, ERR_FORMAT, a, "bad number attribute", name);
    close_attr(attr, type);
    return rc;
}

/* Arrays -------------------------------------------------------------------------------------------------------------- */

int artifact_array_create(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                          const uint64_t *dims, const uint64_t *chunk, const char *note, struct err *e)
{
    hsize_t d[ARTIFACT_MAX_DIMS], c[ARTIFACT_MAX_DIMS];
    hid_t space = H5I_INVALID_HID, create = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
    hid_t set = H5I_INVALID_HID;
    int rc = 0;

    for (uint32_t i = 0; i < n_dims; i++) {
        d[i] = dims[i];
        c[i] = chunk[i];
    }
    space = H5Screate_simple((int)n_dims, d, NULL);
    if (space < 0 || create < 0 || link < 0 || H5Pset_chunk(create, (int)n_dims, c) < 0 || H5Pset_fletcher32(create) < 0 ||
        H5Pset_create_intermediate_group(link, 1) < 0 ||
        (set = H5Dcreate2(a->file, name, file_type(type), space, link, create, H5P_DEFAULT)) < 0)
        rc = fail(e, ERR_IO, a, "cannot create array", name);
    else if (note)
        rc = set_str(a, set, "note", note, e);
    if (set >= 0)
        H5Dclose(set);
    if (space >= 0)
        H5Sclose(space);
    if (create >= 0)
        H5Pclose(create);
    if (link >= 0)
        H5Pclose(link);
    return rc;
}

int artifact_array_check(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                         const uint64_t *dims, struct err *e)
{
    hid_t set = H5I_INVALID_HID, space = H5I_INVALID_HID, have = H5I_INVALID_HID;
    hsize_t d[ARTIFACT_MAX_DIMS];
    int rc = 0;
    bool same;

    if ((set = H5Dopen2(a->file, name, H5P_DEFAULT)) < 0)
        return fail(e, ERR_NOTFOUND, a, "no array", name);
    space = H5Dget_space(set);
    have = H5Dget_type(set);
    same = space >= 0 && have >= 0 && H5Tequal(have, file_type(type)) > 0 &&
           H5Sget_simple_extent_ndims(space) == (int)n_dims && H5Sget_simple_extent_dims(space, d, NULL) >= 0;
    for (uint32_t i = 0; same && i < n_dims; i++)
        same = d[i] == dims[i];
    if (!same)
        rc = fail(e, ERR_FORMAT, a, "unexpected type or shape of array", name);
    if (have >= 0)
        H5Tclose(have);
    if (space >= 0)
        H5Sclose(space);
    H5Dclose(set);
    return rc;
}

/* Opens the array and selects the block, in the file and in memory. */
static int transfer(struct artifact *a, const char *name, enum artifact_type type, const uint64_t *start,
                    const uint64_t *count, const void *from, void *to, struct err *e)
{
    hid_t set = H5Dopen2(a->file, name, H5P_DEFAULT), space = H5I_INVALID_HID, mem = H5I_INVALID_HID;
    hsize_t s[ARTIFACT_MAX_DIMS], c[ARTIFACT_MAX_DIMS];
    int n_dims = -1, rc = 0;

    if (set >= 0)
        space = H5Dget_space(set);
    if (space >= 0)
        n_dims = H5Sget_simple_extent_ndims(space);
    for (int i = 0; i < n_dims && i < ARTIFACT_MAX_DIMS; i++) {
        s[i] = start[i];
        c[i] = count[i];
    }
    if (n_dims < 1 || n_dims > ARTIFACT_MAX_DIMS || (mem = H5Screate_simple(n_dims, c, NULL)) < 0 ||
        H5Sselect_hyperslab(space, H5S_SELECT_SET, s, NULL, c, NULL) < 0 ||
        (from ? H5Dwrite(set, memory_type(type), mem, space, H5P_DEFAULT, from)
              : H5Dread(set, memory_type(type), mem, space, H5P_DEFAULT, to)) < 0)
        rc = fail(e, from ? ERR_IO : ERR_FORMAT, a, from ? "cannot write array" : "cannot read array", name);
    if (mem >= 0)
        H5Sclose(mem);
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
    return rc;
}

int artifact_array_write(struct artifact *a, const char *name, enum artifact_type type, const uint64_t *start,
                         const uint64_t *count, const void *data, struct err *e)
{
    return transfer(a, name, type, start, count, data, NULL, e);
}

int artifact_array_read(struct artifact *a, const char *name, enum artifact_type type, const uint64_t *start,
                        const uint64_t *count, void *data, struct err *e)
{
    return transfer(a, name, type, start, count, NULL, data, e);
}
