#include "lib/io/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_MAX_BYTES ((size_t)8 << 20)
#define INDEX_MAX_BYTES ((size_t)64 << 20)
#define SIDE_FILE_MAX_BYTES ((size_t)128 << 20) /* tokenizer.json of the largest vocabularies is some 30 MB */
#define MAX_SHARDS 4096

static char *join(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *p = malloc(n);

    if (p)
        snprintf(p, n, "%s/%s", dir, name);
    return p;
}

static int nomem(const struct hf *h, struct err *e)
{
    return err_set(e, ERR_NOMEM, "%s: no memory for its headers", h->dir);
}

static int open_shard(struct hf *h, const char *name, struct err *e)
{
    struct safetensors *grown = realloc(h->shards, (h->n_shards + 1) * sizeof *grown);
    char *path = join(h->dir, name);
    struct map m;
    int rc;

    if (grown)
        h->shards = grown;
    if (!grown || !path) {
        free(path);
        return nomem(h, e);
    }
    rc = map_open(&m, path, e);
    free(path);
    if (rc || (rc = safetensors_open(&h->shards[h->n_shards], &m, e)))
        return rc;
    h->n_shards++;
    return 0;
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Opens each file that weight_map names once, in the order of their names. */
static int open_mapped(struct hf *h, const json_t *map, const char *index, struct err *e)
{
    const char **files = calloc(json_object_size(map) + 1, sizeof *files), *key;
    size_t n = 0, used = 0;
    json_t *v;
    int rc = files ? 0 : nomem(h, e);

    json_object_foreach((json_t *)(uintptr_t)map, key, v) {
        const char *f = json_string_value(v);

        if (rc)
            break;
        if (!f || strchr(f, '/') || !*f)
            rc = err_set(e, ERR_FORMAT, "%s: weight_map of '%.128s' is not a plain file name", index, key);
        else
            files[n++] = f;
    }
    if (!rc)
        qsort(files, n, sizeof *files, by_string);
    for (size_t i = 0; i < n && !rc; i++) {
        if (i && !strcmp(files[i], files[i - 1]))
            continue;
        if (++used > MAX_SHARDS)
            rc = err_set(e, ERR_FORMAT, "%s: more than %d files", index, MAX_SHARDS);
        else
            rc = open_shard(h, files[i], e);
    }
    free(files);
    return rc;
}

static const struct safetensors *find_shard(const struct hf *h, const char *name)
{
    for (size_t i = 0; i < h->n_shards; i++) {
        const char *base = strrchr(h->shards[i].map.path, '/');

        if (!strcmp(base ? base + 1 : h->shards[i].map.path, name))
            return &h->shards[i];
    }
    return NULL;
}

/* Every tensor of weight_map is in the file it names (as its header has it: some buffers are no tensors of ours). */
static int check_map(const struct hf *h, const json_t *map, const char *index, struct err *e)
{
    const struct safetensors *shard = NULL;
    const char *key, *last = "";
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)map, key, v) {
        const char *file = json_string_value(v);

        if (strcmp(file, last)) /* neighbours are mostly in the same file */
            shard = find_shard(h, last = file);
        if (!shard || !json_object_get(shard->header, key))
            return err_set(e, ERR_FORMAT, "%s: tensor '%.128s' is not in %.128s", index, key, file);
    }
    return 0;
}

static int merge_shards(struct hf *h, struct err *e)
{
    size_t n = 0;
    uint32_t dup;
    int rc;

    for (size_t i = 0; i < h->n_shards; i++)
        n += h->shards[i].n_tensors;
    h->tensors = calloc(n + 1, sizeof *h->tensors);
    h->names = calloc(n + 1, sizeof *h->names);
    if (!h->tensors || !h->names)
        return nomem(h, e);
    for (size_t i = 0; i < h->n_shards; i++)
        for (size_t k = 0; k < h->shards[i].n_tensors; k++) {
            struct source_tensor *t = &h->tensors[h->n_tensors];

            *t = h->shards[i].tensors[k];
            h->names[h->n_tensors++] = (struct source_str){ t->name, strlen(t->name) };
        }
    rc = strindex_build(&h->index, h->names, h->n_tensors, &dup);
    if (rc == ERR_FORMAT)
        return err_set(e, rc, "%s: tensor '%.128s' is in two files", h->dir, h->names[dup].ptr);
    return rc ? nomem(h, e) : 0;
}

static int open_sharded(struct hf *h, const char *index, struct err *e)
{
    json_t *j = NULL;
    const json_t *map;
    int rc = json_read_file(&j, index, INDEX_MAX_BYTES, e);

    if (rc)
        return rc;
    map = json_object_get(j, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        rc = err_set(e, ERR_FORMAT, "%s: no weight_map", index);
    else if (!(rc = open_mapped(h, map, index, e)) && !(rc = merge_shards(h, e)))
        rc = check_map(h, map, index, e);
    json_decref(j);
    return rc;
}

/* The single file comes first, as in transformers: an index beside it is what an earlier save left. */
static int open_weights(struct hf *h, struct err *e)
{
    char *index = join(h->dir, "model.safetensors.index.json"), *single = join(h->dir, "model.safetensors");
    int rc;

    if (!index || !single) {
        rc = nomem(h, e);
    } else if (!access(single, F_OK)) {
        rc = open_shard(h, "model.safetensors", e);
        if (!rc)
            rc = merge_shards(h, e);
    } else if (!access(index, F_OK)) {
        rc = open_sharded(h, index, e);
    } else {
        rc = err_set(e, ERR_NOTFOUND, "%s: has neither model.safetensors nor model.safetensors.index.json (other weight formats "
                     "must be converted)", h->dir);
    }
    free(index);
    free(single);
    return rc;
}

int hf_open(struct hf **out, const char *dir, struct err *e)
{
    struct hf *h = calloc(1, sizeof *h);
    char *config = NULL;
    int rc;

    *out = NULL;
    if (!h || !(h->dir = strdup(dir)) || !(config = join(dir, "config.json"))) {
        rc = err_set(e, ERR_NOMEM, "no memory to open %s", dir);
        goto fail;
    }
    if ((rc = json_read_file(&h->config, config, CONFIG_MAX_BYTES, e)))
        goto fail;
    if (!json_is_object(h->config)) {
        rc = err_set(e, ERR_FORMAT, "%s: not a JSON object", config);
        goto fail;
    }
    if ((rc = open_weights(h, e)))
        goto fail;
    free(config);
    *out = h;
    return 0;
fail:
    free(config);
    hf_close(h);
    return rc;
}

void hf_close(struct hf *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n_files; i++) {
        free(h->files[i].name);
        json_decref(h->files[i].json);
        free(h->files[i].text);
    }
    free(h->files);
    strindex_free(&h->index);
    free(h->tensors);
    free(h->names);
    for (size_t i = 0; i < h->n_shards; i++)
        safetensors_close(&h->shards[i]);
    free(h->shards);
    json_decref(h->config);
    free(h->dir);
    free(h);
}

const json_t *hf_config(const struct hf *h, const char *path)
{
    const json_t *v = h->config;
    char part[96];

    for (const char *end; *path; path = *end ? end + 1 : end) {
        size_t n;

        end = strchrnul(path, '.');
        n = (size_t)(end - path);
        if (n >= sizeof part)
            return NULL;
        memcpy(part, path, n);
        part[n] = '\0';
        if (!(v = json_object_get(v, part)))
            return NULL;
    }
    return json_is_null(v) ? NULL : v;
}

static int side_file(struct hf *h, const char *name, bool json, const struct hf_file **out, struct err *e)
{
    struct hf_file *grown, f = { 0 };
    char *path;
    struct map m = { 0 };
    int rc;

    for (size_t i = 0; i < h->n_files; i++)
        if (!strcmp(h->files[i].name, name) && !h->files[i].json == !json) {
            *out = &h->files[i];
            return 0;
        }
    if (!(path = join(h->dir, name)))
        return nomem(h, e);
    if (access(path, F_OK)) {
        free(path);
        return ERR_NOTFOUND;
    }
    rc = map_open(&m, path, e);
    if (!rc && m.bytes > SIDE_FILE_MAX_BYTES)
        rc = err_set(e, ERR_LIMIT, "%s: %zu bytes: at most %zu", path, m.bytes, SIDE_FILE_MAX_BYTES);
    if (!rc && json) {
        rc = json_parse(&f.json, (const char *)m.data, m.bytes, path, e);
    } else if (!rc) {
        f.len = m.bytes;
        if ((f.text = malloc(m.bytes + 1))) {
            if (m.bytes)
                memcpy(f.text, m.data, m.bytes);
            f.text[m.bytes] = '\0';
        } else {
            rc = nomem(h, e);
        }
    }
    map_close(&m);
    free(path);
    f.name = strdup(name);
    grown = realloc(h->files, (h->n_files + 1) * sizeof *grown);
    if (grown)
        h->files = grown;
    if (!rc && (!f.name || !grown))
        rc = nomem(h, e);
    if (rc) {
        free(f.name);
        free(f.text);
        json_decref(f.json);
        return rc;
    }
    h->files[h->n_files] = f;
    *out = &h->files[h->n_files++];
    return 0;
}

int hf_json(struct hf *h, const char *name, const json_t **out, struct err *e)
{
    const struct hf_file *f;
    int rc = side_file(h, name, true, &f, e);

    *out = rc ? NULL : f->json;
    return rc;
}

int hf_text(struct hf *h, const char *name, const char **out, size_t *len, struct err *e)
{
    const struct hf_file *f;
    int rc = side_file(h, name, false, &f, e);

    *out = rc ? NULL : f->text;
    *len = rc ? 0 : f->len;
    return rc;
}
