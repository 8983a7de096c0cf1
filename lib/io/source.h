/* A model on disk, whatever its container: one GGUF v3 file, or a Hugging Face folder (config.json, safetensors,
 * tokenizer.json, ...). Opening maps the files and validates all structure: afterwards every tensor's bytes are inside
 * the mapping and agree with its type and shape. Names and keys are the container's own; lib/model knows what they mean.
 *
 * Ownership: everything returned is borrowed from the source and lives until source_close.
 * Threads: a source is read-only after opening; any thread may read it. */
#ifndef SLUICE_IO_SOURCE_H
#define SLUICE_IO_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/dtype.h"
#include "lib/core/err.h"
#include "lib/io/json.h"

struct source;

enum source_kind { SOURCE_GGUF, SOURCE_HF };

struct source_tensor {
    const char *name;
    enum dtype type;
    uint32_t n_dims;      /* 0..4 */
    uint64_t dims[4];     /* row-major, outermost first: a matrix is {n_rows, n_cols}; GGUF order is reversed on reading */
    const void *data;     /* mapped; aligned to at least 1 byte only (safetensors promise no more) */
    uint64_t bytes;
    const char *file;     /* path of the file it lies in, for messages */
    uint64_t offset;      /* byte offset in that file, for messages */
};

/* path: a .gguf file, a folder with config.json, or a file inside such a folder. Detection is by content. */
int source_open(struct source **out, const char *path, struct err *e);
void source_close(struct source *s); /* NULL is legal */

enum source_kind source_kind(const struct source *s);
const char *source_path(const struct source *s);
uint64_t source_file_bytes(const struct source *s); /* of all files that hold tensors */

/* Tensors, in file order (HF: sorted by file, then offset). */
size_t source_n_tensors(const struct source *s);
const struct source_tensor *source_tensor_at(const struct source *s, size_t i);
const struct source_tensor *source_tensor(const struct source *s, const char *name); /* NULL: none; O(1) */

/* Tells the kernel that the mapped pages of t will not be read again, so that they leave the resident set. */
void source_tensor_release(const struct source *s, const struct source_tensor *t);

/* Metadata. GGUF: the full key ("llama.block_count"). HF: a path into config.json ("rope_scaling.factor").
 * Each returns 0, ERR_NOTFOUND (absent, or JSON null; no message is written), or ERR_FORMAT (there, but of another
 * type, or out of range). Integers accept any integer type that holds the value; f64 accepts integers too. */
int source_get_u64(const struct source *s, const char *key, uint64_t *out, struct err *e);
int source_get_f64(const struct source *s, const char *key, double *out, struct err *e);
int source_get_bool(const struct source *s, const char *key, bool *out, struct err *e);
/* *out is NUL-terminated; *len (may be NULL) is its length, which counts NULs inside. */
int source_get_str(const struct source *s, const char *key, const char **out, size_t *len, struct err *e);

/* Arrays. source_get_array gives the number of elements; the others read one (index < n). Strings of GGUF arrays are not
 * NUL-terminated. */
int source_get_array(const struct source *s, const char *key, size_t *n, struct err *e);
int source_array_u64(const struct source *s, const char *key, size_t i, uint64_t *out, struct err *e);
int source_array_f64(const struct source *s, const char *key, size_t i, double *out, struct err *e);
int source_array_str(const struct source *s, const char *key, size_t i, const char **out, size_t *len, struct err *e);

/* Bulk access for long GGUF arrays (vocabularies): strings are borrowed pointers into the mapping, not terminated. */
struct source_str {
    const char *ptr;
    size_t len;
};
int source_get_str_array(const struct source *s, const char *key, const struct source_str **out, size_t *n,
                         struct err *e);
int source_get_f32_array(const struct source *s, const char *key, const float **out, size_t *n, struct err *e);
int source_get_i32_array(const struct source *s, const char *key, const int32_t **out, size_t *n, struct err *e);

/* HF folders only: the parsed JSON file of that name ("tokenizer.json", "generation_config.json", ...), parsed at the
 * first call (this call alone is not thread-safe) and borrowed. ERR_NOTFOUND when the file is absent or the source is
 * GGUF. */
int source_json(struct source *s, const char *file, const json_t **out, struct err *e);

/* HF folders only: the whole text of a small side file such as chat_template.jinja; same rules. */
int source_text(struct source *s, const char *file, const char **out, size_t *len, struct err *e);

#endif
