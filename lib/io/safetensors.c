#include "lib/io/safetensors.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_MAX_BYTES ((uint64_t)100 << 20)

struct type_row {
    const char *name;
    uint32_t bytes;
    int type; /* enum dtype, or -1: only allowed for buffers */
};

static const struct type_row types[] = {
    { "F32", 4, DT_F32 }, { "F16", 2, DT_F16 }, { "BF16", 2, DT_BF16 }, { "I64", 8, -1 }, { "I32", 4, -1 },
    { "I16", 2, -1 },     { "I8", 1, -1 },      { "U64", 8, -1 },       { "U32", 4, -1 }, { "U16", 2, -1 },
    { "U8", 1, -1 },      { "BOOL", 1, -1 },
};

static int bad(const struct safetensors *s, const char *name, const char *what, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s: tensor '%.128s': %s", s->map.path, name, what);
}

static const struct type_row *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

static bool is_buffer(const char *name)
{
    return strstr(name, "inv_freq") || strstr(name, "position_ids") || strstr(name, "num_batches_tracked");
}

static int read_shape(const struct safetensors *s, struct source_tensor *t, const json_t *shape, uint64_t *count,
                      struct err *e)
{
    *count = 1;
    if (!json_is_array(shape) || json_array_size(shape) > 4)
        return bad(s, t->name, "shape is not an array of at most 4 numbers", e);
    t->n_dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->n_dims; i++) {
        const json_t *d = json_array_get(shape, i);

        if (!json_is_integer(d) || json_integer_value(d) <= 0)
            return bad(s, t->name, "a dimension is not a positive integer", e);
        t->dims[i] = (uint64_t)json_integer_value(d);
        if (__builtin_mul_overflow(*count, t->dims[i], count))
            return bad(s, t->name, "shape is too large", e);
    }
    return 0;
}

static int read_offsets(const struct safetensors *s, struct source_tensor *t, const json_t *offsets, uint64_t data,
                        struct err *e)
{
    const json_t *a = json_array_get(offsets, 0), *b = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(a), end = json_integer_value(b);

    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !json_is_integer(a) || !json_is_integer(b) ||
        begin < 0 || end < begin)
        return bad(s, t->name, "data_offsets is not [begin, end]", e);
    if ((uint64_t)end > s->map.bytes - data)
        return err_set(e, ERR_FORMAT, "%s: tensor '%.128s' ends at byte %llu, the file has %zu: truncated?", s->map.path,
                       t->name, (unsigned long long)((uint64_t)end + data), s->map.bytes);
    t->bytes = (uint64_t)(end - begin);
    t->offset = data + (uint64_t)begin;
    t->data = s->map.data + t->offset;
    return 0;
}

/* *keep is false for a buffer that is left out. */
static int read_tensor(const struct safetensors *s, struct source_tensor *t, const char *name, const json_t *v,
                       uint64_t data, bool *keep, struct err *e)
{
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    const struct type_row *type;
    uint64_t count, bytes;
    int rc;

    t->name = name;
    t->file = s->map.path;
    if (!json_is_object(v) || !dtype)
        return bad(s, name, "no dtype", e);
    type = find_type(dtype);
    *keep = type && type->type >= 0;
    if (!*keep && !(type && is_buffer(name)))
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor '%.128s' has type %.16s, which is not supported (F32, F16, BF16 are)",
                       s->map.path, name, dtype);
    if ((rc = read_shape(s, t, json_object_get(v, "shape"), &count, e)) ||
        (rc = read_offsets(s, t, json_object_get(v, "data_offsets"), data, e)))
        return rc;
    if (__builtin_mul_overflow(count, (uint64_t)type->bytes, &bytes) || bytes != t->bytes)
        return err_set(e, ERR_FORMAT, "%s: tensor '%.128s' has %llu bytes, its shape and type need %llu", s->map.path, name,
                       (unsigned long long)t->bytes, (unsigned long long)bytes);
    t->type = *keep ? (enum dtype)type->type : DT_F32;
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct source_tensor *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int read_all(struct safetensors *s, struct err *e)
{
    uint64_t n = 0;
    const char *name;
    json_t *v;
    int rc;

    if (s->map.bytes < 8)
        return err_set(e, ERR_FORMAT, "%s: %zu bytes are no safetensors file", s->map.path, s->map.bytes);
    memcpy(&n, s->map.data, 8);
    if (n > HEADER_MAX_BYTES || n > s->map.bytes - 8)
        return err_set(e, ERR_FORMAT, "%s: header of %llu bytes in a file of %zu: truncated or no safetensors file",
                       s->map.path, (unsigned long long)n, s->map.bytes);
    if ((rc = json_parse(&s->header, (const char *)s->map.data + 8, (size_t)n, s->map.path, e)))
        return rc;
    if (!json_is_object(s->header))
        return err_set(e, ERR_FORMAT, "%s: header is not a JSON object", s->map.path);
    s->tensors = calloc(json_object_size(s->header) + 1, sizeof *s->tensors);
    if (!s->tensors)
        return err_set(e, ERR_NOMEM, "%s: no memory for its header", s->map.path);
    json_object_foreach(s->header, name, v) {
        bool keep = false;

        if (!strcmp(name, "__metadata__"))
            continue;
        if ((rc = read_tensor(s, &s->tensors[s->n_tensors], name, v, 8 + n, &keep, e)))
            return rc;
        if (keep)
            s->n_tensors++;
        else
            memset(&s->tensors[s->n_tensors], 0, sizeof s->tensors[0]);
    }
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_offset);
    for (size_t i = 1; i < s->n_tensors; i++)
        if (s->tensors[i].offset - s->tensors[i - 1].offset < s->tensors[i - 1].bytes)
            return err_set(e, ERR_FORMAT, "%s: tensors '%.128s' and '%.128s' overlap", s->map.path, s->tensors[i - 1].name,
                           s->tensors[i].name);
    return 0;
}

int safetensors_open(struct safetensors *s, struct map *m, struct err *e)
{
    int rc;

    memset(s, 0, sizeof *s);
    s->map = *m;
    if ((rc = read_all(s, e)))
        safetensors_close(s);
    return rc;
}

void safetensors_close(struct safetensors *s)
{
    json_decref(s->header);
    free(s->tensors);
    map_close(&s->map);
    memset(s, 0, sizeof *s);
}
