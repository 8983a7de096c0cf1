/* Small model files for tests of tokenizers: HF folders and GGUF files without weights, in a temporary folder. Include
 * after <cmocka.h>. */
#ifndef SLUICE_TESTS_TOKEN_FILES_H
#define SLUICE_TESTS_TOKEN_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/io/json.h"

struct token_folder {
    char path[64];
};

static inline void folder_make(struct token_folder *f)
{
    strcpy(f->path, "/tmp/sluice-token-XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

static inline void folder_file(const struct token_folder *f, const char *name, const void *data, size_t n)
{
    char path[192];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s", f->path, name);
    out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static inline void folder_remove(const struct token_folder *f)
{
    static const char *const names[] = { "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                                         "generation_config.json", "chat_template.jinja", "model.gguf" };
    char path[192];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", f->path, names[i]);
        unlink(path);
    }
    rmdir(f->path);
}

/* Makes f a HF folder with this tokenizer.json. */
static inline void folder_hf(const struct token_folder *f, const char *tokenizer, size_t n)
{
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}    ";
    unsigned char st[8 + sizeof header - 1 + 4] = { sizeof header - 1 };

    memcpy(st + 8, header, sizeof header - 1);
    folder_file(f, "config.json", "{\"model_type\":\"llama\"}", 22);
    folder_file(f, "model.safetensors", st, sizeof st);
    folder_file(f, "tokenizer.json", tokenizer, n);
}

/* A GGUF file under construction: keys only. */
struct gguf_out {
    unsigned char *bytes;
    size_t n, cap;
    uint64_t n_keys;
};

static inline void gguf_put(struct gguf_out *g, const void *p, size_t n)
{
    while (g->n + n > g->cap) {
        g->cap = 2 * g->cap + 4096;
        g->bytes = realloc(g->bytes, g->cap);
        assert_non_null(g->bytes);
    }
    memcpy(g->bytes + g->n, p, n);
    g->n += n;
}

static inline void gguf_u32(struct gguf_out *g, uint32_t v)
{
    gguf_put(g, &v, sizeof v);
}

static inline void gguf_u64(struct gguf_out *g, uint64_t v)
{
    gguf_put(g, &v, sizeof v);
}

static inline void gguf_string(struct gguf_out *g, const char *s, size_t n)
{
    gguf_u64(g, n);
    gguf_put(g, s, n);
}

static inline void gguf_begin(struct gguf_out *g)
{
    memset(g, 0, sizeof *g);
    gguf_put(g, "GGUF", 4);
    gguf_u32(g, 3);
    gguf_u64(g, 0); /* tensors */
    gguf_u64(g, 0); /* keys, set by gguf_end */
}

static inline void gguf_key(struct gguf_out *g, const char *key, uint32_t type)
{
    gguf_string(g, key, strlen(key));
    gguf_u32(g, type);
    g->n_keys++;
}

static inline void gguf_key_str(struct gguf_out *g, const char *key, const char *v)
{
    gguf_key(g, key, 8);
    gguf_string(g, v, strlen(v));
}

static inline void gguf_key_u32(struct gguf_out *g, const char *key, uint32_t v)
{
    gguf_key(g, key, 4);
    gguf_u32(g, v);
}

static inline void gguf_key_bool(struct gguf_out *g, const char *key, int v)
{
    unsigned char b = v != 0;

    gguf_key(g, key, 7);
    gguf_put(g, &b, 1);
}

/* An array of n elements follows. */
static inline void gguf_key_array(struct gguf_out *g, const char *key, uint32_t type, size_t n)
{
    gguf_key(g, key, 9);
    gguf_u32(g, type);
    gguf_u64(g, n);
}

/* Writes the file and frees the builder. */
static inline void gguf_end(struct gguf_out *g, const struct token_folder *f)
{
    static const char zeros[64];

    memcpy(g->bytes + 16, &g->n_keys, sizeof g->n_keys);
    gguf_put(g, zeros, (64 - g->n % 64) % 64);
    folder_file(f, "model.gguf", g->bytes, g->n);
    free(g->bytes);
}

static inline json_t *golden_json(const char *name)
{
    char path[128];
    json_error_t why;
    json_t *j;

    snprintf(path, sizeof path, "tests/golden/tokens/%s", name);
    j = json_load_file(path, JSON_ALLOW_NUL, &why); /* texts have NULs, which json_read_file refuses */
    if (!j)
        fail_msg("%s: line %d: %s", path, why.line, why.text);
    return j;
}

#endif
