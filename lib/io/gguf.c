#include "lib/io/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ALIGNMENT 32u
#define NAME_MAX_BYTES 255u
/* Far above any model; what a sparse file of zeros cannot use to fill memory. */
#define METADATA_MAX (1u << 16)
#define TENSORS_MAX (1u << 20)
#define STRINGS_MAX (1u << 26) /* of all arrays together */

static const uint8_t type_bytes[GGUF_N_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

struct reader {
    struct gguf *g;
    size_t at;
    struct err *e;
    uint64_t n_strings;
};

static size_t left(const struct reader *r)
{
    return r->g->map.bytes - r->at;
}

static int truncated(const struct reader *r, const char *what)
{
    return err_set(r->e, ERR_FORMAT, "%s: ends at byte %zu inside %s: the file is truncated or damaged", r->g->map.path,
                   r->g->map.bytes, what);
}

static int take(struct reader *r, void *out, size_t n, const char *what)
{
    if (left(r) < n)
        return truncated(r, what);
    memcpy(out, r->g->map.data + r->at, n);
    r->at += n;
    return 0;
}

/* A borrowed string: u64 length, bytes. */
static int take_str(struct reader *r, struct source_str *s, const char *what)
{
    uint64_t n = 0;
    int rc = take(r, &n, sizeof n, what);

    if (rc)
        return rc;
    if (n > left(r))
        return err_set(r->e, ERR_FORMAT, "%s: string of %llu bytes at byte %zu (%s) goes past the end of the file",
                       r->g->map.path, (unsigned long long)n, r->at - sizeof n, what);
    s->ptr = (const char *)r->g->map.data + r->at;
    s->len = (size_t)n;
    r->at += (size_t)n;
    return 0;
}

static int nomem(const struct reader *r)
{
    return err_set(r->e, ERR_NOMEM, "%s: no memory for its header", r->g->map.path);
}

static int read_strings(struct reader *r, struct gguf_kv *kv)
{
    int rc;

    if (kv->n > left(r) / 8)
        return truncated(r, "an array of strings");
    if ((r->n_strings += kv->n) > STRINGS_MAX)
        return err_set(r->e, ERR_LIMIT, "%s: more than %u strings in its metadata", r->g->map.path, STRINGS_MAX);
    if (!(kv->strs = malloc((kv->n ? kv->n : 1) * sizeof *kv->strs)))
        return nomem(r);
    for (uint64_t i = 0; i < kv->n; i++)
        if ((rc = take_str(r, &kv->strs[i], "a metadata string")))
            return rc;
    if (!kv->array) { /* callers want single strings terminated */
        char *copy = malloc(kv->strs[0].len + 1);

        if (!copy)
            return nomem(r);
        memcpy(copy, kv->strs[0].ptr, kv->strs[0].len);
        copy[kv->strs[0].len] = '\0';
        kv->strs[0].ptr = kv->aligned = copy;
    }
    return 0;
}

/* Callers read arrays of 4-byte values in place. */
static int align_words(struct reader *r, struct gguf_kv *kv)
{
    if (!kv->array || type_bytes[kv->type] != 4 || (uintptr_t)kv->data % 4 == 0)
        return 0;
    if (!(kv->aligned = malloc(kv->n ? (size_t)kv->n * 4 : 4)))
        return nomem(r);
    memcpy(kv->aligned, kv->data, (size_t)kv->n * 4);
    kv->data = kv->aligned;
    return 0;
}

static int read_value(struct reader *r, struct gguf_kv *kv, const struct source_str *key)
{
    int rc, shown = key->len < 96 ? (int)key->len : 96;

    kv->n = 1;
    if ((rc = take(r, &kv->type, 4, "a metadata type")))
        return rc;
    if (kv->type == GGUF_ARRAY) {
        kv->array = true;
        if ((rc = take(r, &kv->type, 4, "an array type")) || (rc = take(r, &kv->n, 8, "an array length")))
            return rc;
    }
    if (kv->type == GGUF_ARRAY)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: metadata '%.*s' is an array of arrays, which is not supported",
                       r->g->map.path, shown, key->ptr);
    if (kv->type >= GGUF_N_TYPES)
        return err_set(r->e, ERR_FORMAT, "%s: metadata '%.*s' has unknown type %u at byte %zu", r->g->map.path, shown,
                       key->ptr, kv->type, r->at);
    if (kv->type == GGUF_STRING)
        return read_strings(r, kv);
    if (kv->n > left(r) / type_bytes[kv->type])
        return truncated(r, "a metadata array");
    kv->data = r->g->map.data + r->at;
    r->at += (size_t)kv->n * type_bytes[kv->type];
    if (kv->type == GGUF_BOOL)
        for (uint64_t i = 0; i < kv->n; i++)
            if (kv->data[i] > 1)
                return err_set(r->e, ERR_FORMAT, "%s: metadata '%.*s' is a boolean of value %u", r->g->map.path, shown,
                               key->ptr, kv->data[i]);
    return align_words(r, kv);
}

static int read_metadata(struct reader *r, uint64_t n)
{
    struct gguf *g = r->g;
    uint32_t dup;
    int rc;

    if (n > left(r) / 13) /* key length, type, one byte */
        return err_set(r->e, ERR_FORMAT, "%s: %llu metadata entries do not fit in the file", g->map.path,
                       (unsigned long long)n);
    if (n > METADATA_MAX)
        return err_set(r->e, ERR_LIMIT, "%s: %llu metadata entries: at most %u", g->map.path, (unsigned long long)n,
                       METADATA_MAX);
    g->kv = calloc(n ? n : 1, sizeof *g->kv);
    g->keys = calloc(n ? n : 1, sizeof *g->keys);
    if (!g->kv || !g->keys)
        return nomem(r);
    for (g->n_kv = 0; g->n_kv < n; g->n_kv++) {
        struct source_str *key = &g->keys[g->n_kv];

        if ((rc = take_str(r, key, "a metadata key")))
            return rc;
        if ((rc = read_value(r, &g->kv[g->n_kv], key))) {
            g->n_kv++; /* what it allocated is freed with the others */
            return rc;
        }
    }
    rc = strindex_build(&g->key_index, g->keys, g->n_kv, &dup);
    if (rc == ERR_FORMAT)
        return err_set(r->e, rc, "%s: metadata '%.*s' occurs twice", g->map.path,
                       (int)(g->keys[dup].len < 96 ? g->keys[dup].len : 96), g->keys[dup].ptr);
    return rc ? nomem(r) : 0;
}

static int read_dims(struct reader *r, struct source_tensor *t, uint64_t *count)
{
    uint64_t dim;
    int rc;

    if ((rc = take(r, &t->n_dims, 4, "a tensor's rank")))
        return rc;
    if (!t->n_dims || t->n_dims > 4)
        return err_set(r->e, ERR_FORMAT, "%s: tensor '%s' has %u dimensions: expected 1 to 4", t->file, t->name, t->n_dims);
    for (uint32_t i = t->n_dims; i-- > 0;) { /* the file has the fastest-varying first */
        if ((rc = take(r, &dim, 8, "a tensor's shape")))
            return rc;
        if (!dim || __builtin_mul_overflow(*count, dim, count) || *count > INT64_MAX)
            return err_set(r->e, ERR_FORMAT, "%s: tensor '%s' has a dimension of %llu: empty or too large", t->file,
                           t->name, (unsigned long long)dim);
        t->dims[i] = dim;
    }
    return 0;
}

static int read_tensor_info(struct reader *r, struct source_tensor *t)
{
    const struct dtype_info *info;
    uint64_t count = 1, row;
    uint32_t type;
    int rc;

    if ((rc = read_dims(r, t, &count)) || (rc = take(r, &type, 4, "a tensor's type")) ||
        (rc = take(r, &t->offset, 8, "a tensor's offset")))
        return rc;
    if (!(info = dtype_info(type))) {
        const char *name = dtype_ggml_name(type);
        char number[24];

        snprintf(number, sizeof number, "number %u", type);
        return err_set(r->e, ERR_UNSUPPORTED, "%s: tensor '%s' has type %s, which is not supported", t->file, t->name,
                       name ? name : number);
    }
    t->type = info->type;
    row = t->dims[t->n_dims - 1];
    if (row % info->block)
        return err_set(r->e, ERR_FORMAT, "%s: tensor '%s' has rows of %llu, not a multiple of the %u of a %s block", t->file,
                       t->name, (unsigned long long)row, info->block, info->name);
    if (__builtin_mul_overflow(count / info->block, (uint64_t)info->block_bytes, &t->bytes))
        return err_set(r->e, ERR_FORMAT, "%s: tensor '%s' is too large", t->file, t->name);
    return 0;
}

static int read_tensors(struct reader *r, uint64_t n)
{
    struct gguf *g = r->g;
    size_t text = 0, text_size;
    int rc;

    if (n > left(r) / 32) /* name length, rank, one dimension, type, offset */
        return err_set(r->e, ERR_FORMAT, "%s: %llu tensors do not fit in the file", g->map.path, (unsigned long long)n);
    if (n > TENSORS_MAX)
        return err_set(r->e, ERR_LIMIT, "%s: %llu tensors: at most %u", g->map.path, (unsigned long long)n, TENSORS_MAX);
    g->tensors = calloc(n ? n : 1, sizeof *g->tensors);
    g->names = calloc(n ? n : 1, sizeof *g->names);
    if (!g->tensors || !g->names)
        return nomem(r);
    text_size = (size_t)n * (NAME_MAX_BYTES + 1) < left(r) ? (size_t)n * (NAME_MAX_BYTES + 1) : left(r); /* 32 > the NUL */
    if (!(g->text = malloc(text_size + 1)))
        return nomem(r);
    for (g->n_tensors = 0; g->n_tensors < n; g->n_tensors++) {
        struct source_tensor *t = &g->tensors[g->n_tensors];
        struct source_str *name = &g->names[g->n_tensors];

        if ((rc = take_str(r, name, "a tensor's name")))
            return rc;
        if (!name->len || name->len > NAME_MAX_BYTES || memchr(name->ptr, 0, name->len))
            return err_set(r->e, ERR_FORMAT, "%s: tensor %zu has a name of %zu bytes: expected 1 to %u without NUL",
                           g->map.path, g->n_tensors, name->len, NAME_MAX_BYTES);
        memcpy(g->text + text, name->ptr, name->len);
        g->text[text + name->len] = '\0';
        t->name = name->ptr = g->text + text;
        text += name->len + 1;
        t->file = g->map.path;
        if ((rc = read_tensor_info(r, t)))
            return rc;
    }
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct source_tensor *x = *(const struct source_tensor *const *)a, *y = *(const struct source_tensor *const *)b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int check_overlap(struct reader *r)
{
    const struct gguf *g = r->g;
    const struct source_tensor **order = malloc((g->n_tensors ? g->n_tensors : 1) * sizeof *order);
    int rc = 0;

    if (!order)
        return nomem(r);
    for (size_t i = 0; i < g->n_tensors; i++)
        order[i] = &g->tensors[i];
    qsort(order, g->n_tensors, sizeof *order, by_offset);
    for (size_t i = 1; i < g->n_tensors && !rc; i++)
        if (order[i]->offset - order[i - 1]->offset < order[i - 1]->bytes)
            rc = err_set(r->e, ERR_FORMAT, "%s: tensors '%s' and '%s' overlap at byte %llu", g->map.path,
                         order[i - 1]->name, order[i]->name, (unsigned long long)order[i]->offset);
    free(order);
    return rc;
}

static int place_tensors(struct reader *r)
{
    struct gguf *g = r->g;
    const struct gguf_kv *kv = gguf_find(g, "general.alignment");
    uint64_t align = DEFAULT_ALIGNMENT, start;
    uint32_t dup;
    int rc;

    if (kv && (!gguf_u64(kv, 0, &align) || kv->array || !align || align > 1u << 20 || (align & (align - 1))))
        return err_set(r->e, ERR_FORMAT, "%s: general.alignment is not a power of two up to 1048576", g->map.path);
    start = (r->at + align - 1) & ~(align - 1);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct source_tensor *t = &g->tensors[i];
        uint64_t end;

        if (t->offset % align)
            return err_set(r->e, ERR_FORMAT, "%s: tensor '%s' at offset %llu is not aligned to %llu", t->file, t->name,
                           (unsigned long long)t->offset, (unsigned long long)align);
        if (__builtin_add_overflow(t->offset, start, &t->offset) || __builtin_add_overflow(t->offset, t->bytes, &end))
            return err_set(r->e, ERR_FORMAT, "%s: tensor '%s' has an offset that is too large", t->file, t->name);
        if (end > g->map.bytes)
            return err_set(r->e, ERR_FORMAT, "%s: tensor '%s' needs bytes up to %llu, the file has %zu: truncated?", t->file,
                           t->name, (unsigned long long)end, g->map.bytes);
        t->data = g->map.data + t->offset;
    }
    rc = strindex_build(&g->name_index, g->names, g->n_tensors, &dup);
    if (rc == ERR_FORMAT)
        return err_set(r->e, rc, "%s: tensor '%s' occurs twice", g->map.path, g->tensors[dup].name);
    return rc ? nomem(r) : check_overlap(r);
}

static int read_all(struct reader *r)
{
    char magic[4];
    uint32_t version;
    uint64_t n_tensors, n_kv;
    int rc;

    if ((rc = take(r, magic, 4, "the magic number")))
        return rc;
    if (memcmp(magic, "GGUF", 4))
        return err_set(r->e, ERR_FORMAT, "%s: not a GGUF file", r->g->map.path);
    if ((rc = take(r, &version, 4, "the header")) || (rc = take(r, &n_tensors, 8, "the header")) ||
        (rc = take(r, &n_kv, 8, "the header")))
        return rc;
    if (version == 3u << 24 || version == 2u << 24)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: big-endian GGUF files are not supported", r->g->map.path);
    if (version != 2 && version != 3)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: GGUF version %u is not supported (2 and 3 are)", r->g->map.path, version);
    if ((rc = read_metadata(r, n_kv)) || (rc = read_tensors(r, n_tensors)))
        return rc;
    return place_tensors(r);
}

int gguf_open(struct gguf **out, struct map *m, struct err *e)
{
    struct reader r = { .g = calloc(1, sizeof *r.g), .e = e };
    int rc;

    *out = NULL;
    if (!r.g) {
        map_close(m);
        return err_set(e, ERR_NOMEM, "no memory to open a GGUF file");
    }
    r.g->map = *m;
    if ((rc = read_all(&r)))
        gguf_close(r.g);
    else
        *out = r.g;
    return rc;
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_kv; i++) {
        free(g->kv[i].strs);
        free(g->kv[i].aligned);
    }
    free(g->kv);
    free(g->keys);
    strindex_free(&g->key_index);
    free(g->tensors);
    free(g->names);
    strindex_free(&g->name_index);
    free(g->text);
    map_close(&g->map);
    free(g);
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    uint32_t i = strindex_find(&g->key_index, key, strlen(key));

    return i == STRINDEX_NONE ? NULL : &g->kv[i];
}

/* An integer of any type but U64. */
static bool small_integer(const struct gguf_kv *kv, uint64_t i, int64_t *out)
{
    const unsigned char *p = kv->data ? kv->data + i * type_bytes[kv->type] : NULL;

    switch (kv->type) {
    case GGUF_U8: *out = *p; return true;
    case GGUF_I8: *out = (int8_t)*p; return true;
    case GGUF_U16: { uint16_t x; memcpy(&x, p, 2); *out = x; return true; }
    case GGUF_I16: { int16_t x; memcpy(&x, p, 2); *out = x; return true; }
    case GGUF_U32: { uint32_t x; memcpy(&x, p, 4); *out = x; return true; }
    case GGUF_I32: { int32_t x; memcpy(&x, p, 4); *out = x; return true; }
    case GGUF_I64: memcpy(out, p, 8); return true;
    default: return false;
    }
}

bool gguf_u64(const struct gguf_kv *kv, uint64_t i, uint64_t *out)
{
    int64_t v;

    if (kv->type == GGUF_U64) {
        memcpy(out, kv->data + i * 8, 8);
        return true;
    }
    if (!small_integer(kv, i, &v) || v < 0)
        return false;
    *out = (uint64_t)v;
    return true;
}

bool gguf_f64(const struct gguf_kv *kv, uint64_t i, double *out)
{
    uint64_t u;
    int64_t v;
    float f;

    if (kv->type == GGUF_F64) {
        memcpy(out, kv->data + i * 8, 8);
        return true;
    }
    if (kv->type == GGUF_F32) {
        memcpy(&f, kv->data + i * 4, 4);
        *out = (double)f;
        return true;
    }
    if (small_integer(kv, i, &v))
        *out = (double)v;
    else if (gguf_u64(kv, i, &u))
        *out = (double)u;
    else
        return false;
    return true;
}
