#include "lib/io/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/io/artifact_priv.h"

/* Keeps the innermost message, which says what happened. */
static herr_t keep_message(unsigned n, const H5E_error2_t *entry, void *arg)
{
    (void)n;
    if (entry->desc && entry->desc[0])
        snprintf(arg, 256, "%s", entry->desc);
    return 0;
}

int artifact_fail(struct err *e, int code, const struct artifact *a, const char *what, const char *name)
{
    char why[256] = "";

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_message, why);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_message, why);
    H5Eclear2(H5E_DEFAULT);
    return err_set(e, code, "%s: %s%s%s%s%s", a->path, what, name ? " " : "", name ? name : "", why[0] ? ": " : "", why);
}

static struct artifact *artifact_new(const char *path)
{
    struct artifact *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    a->file = H5I_INVALID_HID;
    if (!(a->path = strdup(path))) {
        free(a);
        return NULL;
    }
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* else HDF5 prints its errors itself */
    return a;
}

int artifact_create(struct artifact **out, const char *path, const char *format, uint32_t version, struct err *e)
{
    struct artifact *a = artifact_new(path);
    hid_t access = H5I_INVALID_HID;
    int rc;

    *out = NULL;
    if (!a)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    if ((rc = outfile_create(&a->out, path, e)))
        goto fail;
    access = H5Pcreate(H5P_FILE_ACCESS);
    /* The 1.10 format: checksums on all metadata. */
    if (access < 0 || H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0 ||
        H5Pset_alignment(access, ARTIFACT_MAP_ALIGN, ARTIFACT_MAP_ALIGN) < 0 ||
        (a->file = H5Fcreate(a->out.temp, H5F_ACC_TRUNC, H5P_DEFAULT, access)) < 0) {
        rc = artifact_fail(e, ERR_IO, a, "cannot create", NULL);
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
    int rc = 0;

    if (H5Fclose(a->file) < 0)
        rc = artifact_fail(e, ERR_IO, a, "cannot write", NULL);
    a->file = H5I_INVALID_HID;
    if (!rc)
        rc = outfile_commit(&a->out, e);
    artifact_close(a);
    return rc;
}

int artifact_open(struct artifact **out, const char *path, const char *format, uint32_t version_max, struct err *e)
{
    struct artifact *a = artifact_new(path);
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
        rc = artifact_fail(e, ERR_FORMAT, a, "not an HDF5 file, or a damaged one", NULL);
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
    outfile_abort(&a->out);
    free(a->path);
    free(a);
}

/* Attributes ---------------------------------------------------------------------------------------------------------- */

/* The object that "ARRAY@NAME" is about, and NAME; the file and all of it when there is no '@'. Closed with H5Oclose. */
static hid_t open_object(struct artifact *a, const char *full, const char **name)
{
    const char *sep = strrchr(full, '@');
    char *object;
    hid_t id;

    *name = sep ? sep + 1 : full;
    if (!sep)
        return H5Oopen(a->file, "/", H5P_DEFAULT);
    object = strndup(full, (size_t)(sep - full));
    id = object ? H5Oopen(a->file, object, H5P_DEFAULT) : H5I_INVALID_HID;
    free(object);
    return id;
}

static int set_attr(struct artifact *a, const char *full, hid_t stored, hid_t type, const void *value, struct err *e)
{
    const char *name;
    hid_t object = open_object(a, full, &name), space = H5Screate(H5S_SCALAR), attr = H5I_INVALID_HID;
    int rc = 0;

    if (object < 0 || space < 0 || (attr = H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT)) < 0 ||
        H5Awrite(attr, type, value) < 0)
        rc = artifact_fail(e, ERR_IO, a, "cannot write attribute", full);
    if (attr >= 0)
        H5Aclose(attr);
    if (space >= 0)
        H5Sclose(space);
    if (object >= 0)
        H5Oclose(object);
    return rc;
}

int artifact_set_str(struct artifact *a, const char *name, const char *value, struct err *e)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    int rc;

    if (type < 0 || H5Tset_size(type, strlen(value) + 1) < 0 || H5Tset_strpad(type, H5T_STR_NULLTERM) < 0 ||
        H5Tset_cset(type, H5T_CSET_UTF8) < 0)
        rc = artifact_fail(e, ERR_IO, a, "cannot write attribute", name);
    else
        rc = set_attr(a, name, type, type, value, e);
    if (type >= 0)
        H5Tclose(type);
    return rc;
}

int artifact_set_u64(struct artifact *a, const char *name, uint64_t value, struct err *e)
{
    return set_attr(a, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value, e);
}

int artifact_set_f64(struct artifact *a, const char *name, double value, struct err *e)
{
    return set_attr(a, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, e);
}

/* Opens an attribute that must be one value of the class. */
static int open_attr(struct artifact *a, const char *full, H5T_class_t want, hid_t *attr, hid_t *type, struct err *e)
{
    const char *name;
    hid_t object = open_object(a, full, &name), space = H5I_INVALID_HID;
    htri_t exists = object < 0 ? 0 : H5Aexists(object, name);
    bool one;

    *attr = *type = H5I_INVALID_HID;
    if (exists > 0)
        *attr = H5Aopen(object, name, H5P_DEFAULT);
    if (object >= 0)
        H5Oclose(object);
    if (exists <= 0) {
        H5Eclear2(H5E_DEFAULT);
        return err_set(e, ERR_NOTFOUND, "%s: no attribute %s", a->path, full);
    }
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
    return err_set(e, ERR_FORMAT, "%s: attribute %s is not one %s", a->path, full,
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
            rc = artifact_fail(e, ERR_FORMAT, a, "bad string attribute", name);
    }
    close_attr(attr, type);
    return rc;
}

int artifact_get_u64(struct artifact *a, const char *name, uint64_t *out, struct err *e)
{
    hid_t attr, type;
    int rc = open_attr(a, name, H5T_INTEGER, &attr, &type, e);

    if (!rc && (H5Tget_size(type) > 8 || H5Aread(attr, H5T_NATIVE_UINT64, out) < 0))
        rc = artifact_fail(e, ERR_FORMAT, a, "bad integer attribute", name);
    close_attr(attr, type);
    return rc;
}

int artifact_get_f64(struct artifact *a, const char *name, double *out, struct err *e)
{
    hid_t attr, type;
    int rc = open_attr(a, name, H5T_FLOAT, &attr, &type, e);

    if (!rc && (H5Tget_size(type) > 8 || H5Aread(attr, H5T_NATIVE_DOUBLE, out) < 0))
        rc = artifact_fail(e, ERR_FORMAT, a, "bad number attribute", name);
    close_attr(attr, type);
    return rc;
}
