/* Artifacts: HDF5 files with a format name and a version, attributes, and arrays. Nothing appears under the final name before
 * it is complete. Every byte is checksummed: HDF5's metadata checksums (file format 1.10 and later), Fletcher-32 on each
 * chunk of arrays that are written and read by blocks (both checked when read), and SHA-256 over each array that is stored in
 * one piece to be mapped (checked by artifact_array_verify).
 *
 * Names of arrays may contain '/' for groups. Threads: one at a time for the whole process (HDF5 has one global state). */
#ifndef SLUICE_IO_ARTIFACT_H
#define SLUICE_IO_ARTIFACT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"

#define ARTIFACT_MAX_DIMS 4

#define ARTIFACT_MAP_ALIGN 4096

enum artifact_type { ARTIFACT_U8, ARTIFACT_I32, ARTIFACT_F32, ARTIFACT_F64, ARTIFACT_U64 }; /* little-endian in the file */

struct artifact;

/* Writing: makes a temporary file beside path, which must be a regular file or nothing yet. format: "sluice-logits"; version counts incompatible changes. */
int artifact_create(struct artifact **out, const char *path, const char *format, uint32_t version, struct err *e);
/* Flushes, renames to the final name, frees a in any case. On failure the temporary file is gone. */
int artifact_finish(struct artifact *a, struct err *e);

/* Reading. ERR_FORMAT when path is no such artifact, ERR_UNSUPPORTED when its version is above version_max. */
int artifact_open(struct artifact **out, const char *path, const char *format, uint32_t version_max, struct err *e);
uint32_t artifact_version(const struct artifact *a);
const char *artifact_path(const struct artifact *a);

/* Ends reading, or abandons writing and removes the temporary file. NULL is legal. */
void artifact_close(struct artifact *a);

/* Attributes of the file, or with a name "ARRAY@NAME" of that array or group, which must exist. Readers: ERR_NOTFOUND when
 * there is none (with a message), ERR_FORMAT when it has another type or does not fit. Strings are NUL-terminated UTF-8; size
 * is the buffer's. */
int artifact_set_str(struct artifact *a, const char *name, const char *value, struct err *e);
int artifact_set_u64(struct artifact *a, const char *name, uint64_t value, struct err *e);
int artifact_set_f64(struct artifact *a, const char *name, double value, struct err *e);
int artifact_get_str(struct artifact *a, const char *name, char *out, size_t size, struct err *e);
int artifact_get_u64(struct artifact *a, const char *name, uint64_t *out, struct err *e);
int artifact_get_f64(struct artifact *a, const char *name, double *out, struct err *e);

/* A new array. dims[0] may be 0: such an array grows by artifact_array_append. chunk: shape of the pieces that are
 * checksummed, and best the unit of writing; 1 <= chunk[i] <= dims[i] where that is not 0. note: what it holds, as the
 * attribute "note". */
int artifact_array_create(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                          const uint64_t *dims, const uint64_t *chunk, const char *note, struct err *e);
/* ERR_NOTFOUND, or ERR_FORMAT when an array is not of this type and shape. */
int artifact_array_check(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                         const uint64_t *dims, struct err *e);
/* The same for type and rank only; gives the shape. */
int artifact_array_shape(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims, uint64_t *dims,
                         struct err *e);
/* The block that starts at `start` and has shape `count`, of the array's rank each (which artifact_array_check or _shape has
 * shown); data is row-major and dense, of the given type, which need not be the array's. */
int artifact_array_write(struct artifact *a, const char *name, enum artifact_type type, const uint64_t *start,
                         const uint64_t *count, const void *data, struct err *e);
int artifact_array_read(struct artifact *a, const char *name, enum artifact_type type, const uint64_t *start,
                        const uint64_t *count, void *data, struct err *e);
/* Adds n_rows rows (of shape dims[1..]) at the end of an array created with dims[0] = 0. */
int artifact_array_append(struct artifact *a, const char *name, enum artifact_type type, uint64_t n_rows, const void *data,
                          struct err *e);

/* Arrays to be mapped. artifact_array_put writes a whole array in one piece; it is aligned to ARTIFACT_MAP_ALIGN in the file
 * when it has at least as many bytes. */
int artifact_array_put(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims, const uint64_t *dims,
                       const void *data, const char *note, struct err *e);
/* Where the bytes of such an array lie in the file: *offset and the product of dims and element size are inside the file.
 * Otherwise as artifact_array_check; ERR_FORMAT too when the array is not in one piece. */
int artifact_array_place(struct artifact *a, const char *name, enum artifact_type type, uint32_t n_dims,
                         const uint64_t *dims, uint64_t *offset, struct err *e);
/* Reads an array that artifact_array_put wrote and compares it with its SHA-256: ERR_FORMAT when they differ. */
int artifact_array_verify(struct artifact *a, const char *name, struct err *e);

#endif
