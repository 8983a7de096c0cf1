#include "lib/io/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/io/gguf.h"
#include "lib/io/hf.h"

struct source { /* exactly one of gguf and hf */
    char *path;
    struct gguf *gguf;
    struct hf *hf;
};

/* The folder that path is or lies in when that holds config.json; freed by the caller; NULL when there is none. */
static char *hf_folder(const char *path)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    bool folder = !stat(path, &st) && S_ISDIR(st.st_mode);
    size_t n = folder ? strlen(path) : slash ? (size_t)(slash - path) + (slash == path) : 0;
    char *dir = malloc(n + sizeof "./config.json"), *out = NULL;

    if (!dir)
        return NULL;
    memcpy(dir, n ? path : ".", n ? n : 1);
    n = n ? n : 1;
    strcpy(dir + n, "/config.json");
    if (!access(dir, F_OK)) {
        dir[n] = '\0';
        out = strdup(dir);
    }
    free(dir);
    return out;
}

static int open_file(struct source *s, const char *path, struct err *e)
{
    struct map m;
    char *dir;
    int rc = map_open(&m, path, e);

    if (rc)
        return rc;
    if (m.bytes >= 4 && !memcmp(m.data, "GGUF", 4))
        return gguf_open(&s->gguf, &m, e);
    map_close(&m);
    if (!(dir = hf_folder(path)))
        return err_set(e, ERR_FORMAT, "%s: neither a GGUF file nor in a folder with config.json", path);
    rc = hf_open(&s->hf, dir, e);
    free(dir);
    return rc;
}

int source_open(struct source **out, const char *path, struct err *e)
{
    struct source *s = calloc(1, sizeof *s);
    struct stat st;
    int rc;

    *out = NULL;
    if (!s || !(s->path = strdup(path)))
        rc = err_set(e, ERR_NOMEM, "no memory to open %s", path);
    else if (!stat(path, &st) && S_ISDIR(st.st_mode))
        rc = hf_open(&s->hf, path, e);
    else
        rc = open_file(s, path, e);
    if (rc)
        source_close(s);
    else
        *out = s;
    return rc;
}

void source_close(struct source *s)
{
    if (!s)
        return;
    gguf_close(s->gguf);
    hf_close(s->hf);
    free(s->path);
    free(s);
}

enum source_kind source_kind(const struct source *s)
{
    return s->gguf ? SOURCE_GGUF : SOURCE_HF;
}

const char *source_path(const struct source *s)
{
    return s->path;
}

uint64_t source_file_bytes(const struct source *s)
{
    uint64_t n = 0;

    if (s->gguf)
        return s->gguf->map.bytes;
    for (size_t i = 0; i < s->hf->n_shards; i++)
        n += s->hf->shards[i].map.bytes;
    return n;
}

size_t source_n_tensors(const struct source *s)
{
    return s->gguf ? s->gguf->n_tensors : s->hf->n_tensors;
}

const struct source_tensor *source_tensor_at(const struct source *s, size_t i)
{
    return s->gguf ? &s->gguf->tensors[i] : &s->hf->tensors[i];
}

const struct source_tensor *source_tensor(const struct source *s, const char *name)
{
    uint32_t i = strindex_find(s->gguf ? &s->gguf->name_index : &s->hf->index, name, strlen(name));

    return i == STRINDEX_NONE ? NULL : source_tensor_at(s, i);
}

void source_tensor_release(const struct source *s, const struct source_tensor *t)
{
    if (s->gguf) {
        map_release(&s->gguf->map, t->data, t->bytes);
        return;
    }
    for (size_t i = 0; i < s->hf->n_shards; i++)
        if (s->hf->shards[i].map.path == t->file)
            map_release(&s->hf->shards[i].map, t->data, t->bytes);
}

static int wrong_type(const struct source *s, const char *key, const char *want, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s: '%s' is not %s", s->path, key, want);
}

/* A scalar under key: kv or j is set. */
static int find(const struct source *s, const char *key, bool array, const struct gguf_kv **kv, const json_t **j,
                struct err *e)
{
    *kv = s->gguf ? gguf_find(s->gguf, key) : NULL;
    *j = s->hf ? hf_config(s->hf, key) : NULL;
    if (!*kv && !*j)
        return ERR_NOTFOUND;
    if (*kv ? (*kv)->array != array : json_is_array(*j) != array)
        return wrong_type(s, key, array ? "an array" : "a single value", e);
    return 0;
}

static bool json_u64(const json_t *j, uint64_t *out)
{
    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return false;
    *out = (uint64_t)json_integer_value(j);
    return true;
}

static bool json_f64(const json_t *j, double *out)
{
    if (!json_is_number(j))
        return false;
    *out = json_number_value(j);
    return true;
}

static bool any_u64(const struct gguf_kv *kv, const json_t *j, size_t i, uint64_t *out)
{
    return kv ? gguf_u64(kv, i, out) : json_u64(j, out);
}

static bool any_f64(const struct gguf_kv *kv, const json_t *j, size_t i, double *out)
{
    return kv ? gguf_f64(kv, i, out) : json_f64(j, out);
}

int source_get_u64(const struct source *s, const char *key, uint64_t *out, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = find(s, key, false, &kv, &j, e);

    if (rc)
        return rc;
    return any_u64(kv, j, 0, out) ? 0 : wrong_type(s, key, "an integer >= 0", e);
}

int source_get_f64(const struct source *s, const char *key, double *out, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = find(s, key, false, &kv, &j, e);

    if (rc)
        return rc;
    return any_f64(kv, j, 0, out) ? 0 : wrong_type(s, key, "a number", e);
}

int source_get_bool(const struct source *s, const char *key, bool *out, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = find(s, key, false, &kv, &j, e);

    if (rc)
        return rc;
    if (kv ? kv->type != GGUF_BOOL : !json_is_boolean(j))
        return wrong_type(s, key, "a boolean", e);
    *out = kv ? kv->data[0] : json_is_true(j);
    return 0;
}

static int any_str(const struct source *s, const char *key, const struct gguf_kv *kv, const json_t *j, size_t i,
                   const char **out, size_t *len, struct err *e)
{
    if (kv ? kv->type != GGUF_STRING : !json_is_string(j))
        return wrong_type(s, key, "a string", e);
    *out = kv ? kv->strs[i].ptr : json_string_value(j);
    if (len)
        *len = kv ? kv->strs[i].len : json_string_length(j);
    return 0;
}

int source_get_str(const struct source *s, const char *key, const char **out, size_t *len, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = find(s, key, false, &kv, &j, e);

    return rc ? rc : any_str(s, key, kv, j, 0, out, len, e);
}

int source_get_array(const struct source *s, const char *key, size_t *n, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = find(s, key, true, &kv, &j, e);

    if (!rc)
        *n = kv ? (size_t)kv->n : json_array_size(j);
    return rc;
}

static int element(const struct source *s, const char *key, size_t i, const struct gguf_kv **kv, const json_t **j,
                   struct err *e)
{
    int rc = find(s, key, true, kv, j, e);

    if (rc)
        return rc;
    if (i >= (*kv ? (size_t)(*kv)->n : json_array_size(*j)))
        return err_set(e, ERR_INVAL, "%s: '%s' has no element %zu", s->path, key, i);
    if (*j)
        *j = json_array_get(*j, i);
    return 0;
}

int source_array_u64(const struct source *s, const char *key, size_t i, uint64_t *out, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = element(s, key, i, &kv, &j, e);

    if (rc)
        return rc;
    return any_u64(kv, j, i, out) ? 0 : wrong_type(s, key, "an array of integers >= 0", e);
}

int source_array_f64(const struct source *s, const char *key, size_t i, double *out, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = element(s, key, i, &kv, &j, e);

    if (rc)
        return rc;
    return any_f64(kv, j, i, out) ? 0 : wrong_type(s, key, "an array of numbers", e);
}

int source_array_str(const struct source *s, const char *key, size_t i, const char **out, size_t *len, struct err *e)
{
    const struct gguf_kv *kv;
    const json_t *j;
    int rc = element(s, key, i, &kv, &j, e);

    return rc ? rc : any_str(s, key, kv, j, i, out, len, e);
}

static int bulk(const struct source *s, const char *key, uint32_t type, const char *want, const struct gguf_kv **kv,
                struct err *e)
{
    const json_t *j;
    int rc = find(s, key, true, kv, &j, e);

    if (rc)
        return rc;
    return *kv && (*kv)->type == type ? 0 : wrong_type(s, key, want, e);
}

int source_get_str_array(const struct source *s, const char *key, const struct source_str **out, size_t *n, struct err *e)
{
    const struct gguf_kv *kv;
    int rc = bulk(s, key, GGUF_STRING, "an array of strings", &kv, e);

    if (rc)
        return rc;
    *out = kv->strs;
    *n = (size_t)kv->n;
    return 0;
}

/* 4-byte elements, which gguf_open has aligned. */
static int bulk_words(const struct source *s, const char *key, uint32_t type, const char *want, const void **out, size_t *n,
                      struct err *e)
{
    const struct gguf_kv *kv;
    int rc = bulk(s, key, type, want, &kv, e);

    if (rc)
        return rc;
    *n = (size_t)kv->n;
    *out = kv->data;
    return 0;
}

int source_get_f32_array(const struct source *s, const char *key, const float **out, size_t *n, struct err *e)
{
    const void *p;
    int rc = bulk_words(s, key, GGUF_F32, "an array of floats", &p, n, e);

    if (!rc)
        *out = p;
    return rc;
}

int source_get_i32_array(const struct source *s, const char *key, const int32_t **out, size_t *n, struct err *e)
{
    const void *p;
    int rc = bulk_words(s, key, GGUF_I32, "an array of 32-bit integers", &p, n, e);

    if (!rc)
        *out = p;
    return rc;
}

int source_json(struct source *s, const char *file, const json_t **out, struct err *e)
{
    return s->hf ? hf_json(s->hf, file, out, e) : ERR_NOTFOUND;
}

int source_text(struct source *s, const char *file, const char **out, size_t *len, struct err *e)
{
    return s->hf ? hf_text(s->hf, file, out, len, e) : ERR_NOTFOUND;
}
