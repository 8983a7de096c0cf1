/* A model in memory: hyperparameters, packed weights and the source they came from.
 * Immutable after opening; any thread may read it. */
#ifndef SLUICE_MODEL_MODEL_H
#define SLUICE_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "lib/core/err.h"
#include "lib/core/pool.h"
#include "lib/io/source.h"

enum rope_scaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_FACTORS /* tensor rope_freqs.weight divides frequencies */ };
enum model_act { MODEL_SILU, MODEL_GELU_TANH };

struct model_params {
    const char *arch; /* "llama", "qwen2", "qwen3", "gemma3": name of the row in the table of architectures */
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab;
    uint32_t n_ctx_train;       /* positions the model was trained for; 0 unknown */
    float rms_eps;
    float attn_scale;           /* multiplies q.k */
    float embed_scale;          /* multiplies embeddings; 1 for none */
    enum model_act act;
    float rope_theta, rope_theta_local; /* local: sliding-window layers */
    enum rope_scaling rope_scaling;
    float rope_factor, rope_low_freq, rope_high_freq;
    uint32_t rope_orig_ctx;
    bool rope_interleaved;      /* pairs (2i, 2i+1): llama GGUF stores q and k permuted for it */
    uint32_t window;            /* sliding window in tokens, 0 none */
    uint32_t window_pattern;    /* every window_pattern-th layer is global; 0: all from window_first on have the window */
    uint32_t window_first;      /* first layer that may have the window */
    bool qkv_bias, qk_norm, post_norms;
    bool norm_plus_one;         /* the container stores gain - 1 */
    bool tied;                  /* the head is the embedding matrix */
};

struct model_layer {
    struct wmat q, k, v, o, gate, up, down;
    const float *attn_norm, *ffn_norm;             /* [n_embd] */
    const float *q_bias, *k_bias, *v_bias;         /* NULL when there is none */
    const float *q_norm, *k_norm;                  /* [head_dim], NULL when there is none */
    const float *attn_post_norm, *ffn_post_norm;   /* [n_embd], NULL when there is none */
    bool local;                                    /* sliding window and rope_theta_local */
};

struct model {
    struct model_params params;
    struct model_layer *layers; /* [n_layers] */
    struct wmat embed;          /* packed when tied; else tiles is NULL and embed_rows is used */
    const struct source_tensor *embed_rows; /* look-ups in the container's own layout when not tied */
    struct wmat head;           /* same tiles as embed when tied */
    const float *final_norm;    /* [n_embd] */
    const float *rope_freqs;    /* [head_dim / 2] radians per position, global layers */
    const float *rope_freqs_local; /* the same for sliding-window layers */
    struct source *source;      /* owned */
    size_t weight_bytes;        /* resident bytes of packed weights */
    size_t step_bytes;          /* weight bytes that one decode step reads */
    void *arena;
    size_t arena_bytes;
};

/* Opens path (see source_open), recognises the architecture, checks every tensor's shape and packs the weights with the
 * pool's threads, giving mapped pages back as it goes. pool may be NULL (one thread). */
int model_open(struct model **out, const char *path, struct pool *pool, struct err *e);
/* The same, taking over an open source (closed on failure too). */
int model_open_source(struct model **out, struct source *s, struct pool *pool, struct err *e);
void model_close(struct model *m); /* NULL is legal */

/* Reads only the hyperparameters. */
int model_params_read(struct model_params *out, const struct source *s, struct err *e);

/* Canonical (GGUF) tensor name of a container's tensor name under the model's architecture, or NULL when the model does
 * not use it. buf holds the result. */
const char *model_canonical_name(const struct source *s, const struct model_params *p, const char *name, char *buf,
                                 size_t size);

/* Names of supported architectures, NULL-terminated. */
const char *const *model_arch_names(void);

#endif
