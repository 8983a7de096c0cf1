/* GGUF v3 files (v2 has the same layout). See source.h for what the parts mean; this is the container only. */
#ifndef SLUICE_IO_GGUF_H
#define SLUICE_IO_GGUF_H

#include "lib/io/map.h"
#include "lib/io/source.h"
#include "lib/io/strindex.h"

enum gguf_type {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_U64,
    GGUF_I64, GGUF_F64, GGUF_N_TYPES
};

struct gguf_kv {
    uint32_t type;             /* enum gguf_type; of the elements when array */
    bool array;
    uint64_t n;                /* elements; 1 when not an array */
    const unsigned char *data; /* fixed-size values: aligned when 4-byte values in an array, else at any address */
    struct source_str *strs;   /* [n] strings; a single string is NUL-terminated, array elements are not */
    void *aligned;             /* what data points to, when the file has an array of 4-byte values unaligned */
};

struct gguf {
    struct map map;
    struct gguf_kv *kv;
    struct source_str *keys;       /* [n_kv] */
    size_t n_kv;
    struct strindex key_index;
    struct source_tensor *tensors; /* in file order */
    struct source_str *names;
    size_t n_tensors;
    struct strindex name_index;
    char *text;                    /* NUL-terminated copies of tensor names */
};

/* Takes over m (closed on failure too). */
int gguf_open(struct gguf **out, struct map *m, struct err *e);
void gguf_close(struct gguf *g); /* NULL is legal */

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);

/* Element i as a number. False when it is not one (u64: not an integer >= 0). */
bool gguf_u64(const struct gguf_kv *kv, uint64_t i, uint64_t *out);
bool gguf_f64(const struct gguf_kv *kv, uint64_t i, double *out);

#endif
