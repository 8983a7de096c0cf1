/* What a model's graph is written in: operations on whole batches, behind one table per back end.
 *
 * A graph is run by every member of the back end's team at once (SPMD); each call must be made by all of them with the same
 * arguments. An operation does the member's share; results of the others may be read only after sync, unless the comment
 * says that the operation ends with one. The CPU back end's team is a thread pool; a back end that queues work on a device
 * has a team of one and an empty sync.
 *
 * Matrices of floats are row-major, one row a token. All pointers are to memory of the back end's alloc. */
#ifndef SLUICE_KERNELS_BACKEND_H
#define SLUICE_KERNELS_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "lib/core/pool.h"

/* Up to this many tokens every member prepares all activations for itself, which costs less than waiting for others. */
#define ACT_OWN_TOKENS 2u

struct act_buf { /* one member's view: the struct is private, the arrays behind `shared` are common to the team */
    struct act shared;
    struct act own; /* room for ACT_OWN_TOKENS tokens */
    bool has_own;
};

struct exec { /* one member's view of a forward pass */
    const struct backend *be;
    const struct kern_ops *ops;
    struct pool *pool;
    unsigned member, size;
    bool exact;
    void *scratch;       /* private: linear and attention kernels */
    float *tmp;          /* private: glu's [2][tokens][columns] block, backend_tmp_floats() */
    atomic_uint *ticket; /* shared: one work counter per layer, zero before the pass */
};

struct embed_table {
    const struct wmat *packed; /* when the matrix is packed (tied to the head); else rows is read */
    enum dtype type;
    const void *rows;
    size_t row_bytes;
    uint32_t n_cols;
};

struct prepare_args {
    const float *x;        /* rows of stride ldx */
    size_t ldx;
    const uint32_t *rows;  /* indices of the rows to take, NULL: 0..n_tokens-1 */
    uint32_t n_tokens, n_cols;
    const float *norm;     /* RMS norm gains applied first, NULL: none */
    float eps;
    unsigned kinds;        /* OR of act_kind to produce */
};

struct linear_job {
    const struct wmat *w;
    float *y; /* rows of stride ldy */
    size_t ldy;
    enum linear_mode mode;
};

enum glu_act { GLU_SILU, GLU_GELU_TANH };

struct attend_run {
    uint32_t first, n_tokens; /* rows of the batch: consecutive tokens of one sequence */
    uint32_t pos0;            /* position of the first */
    const uint32_t *blocks;   /* block table, covering pos0 + n_tokens positions */
};

struct attend_args {
    float *q, *k, *v;  /* rows of strides ldq, ldkv, ldkv; overwritten (bias, norm and RoPE are applied in place) */
    size_t ldq, ldkv;
    const float *q_bias, *k_bias, *v_bias; /* NULL: none */
    const float *q_norm, *k_norm;          /* [head_dim], NULL: none */
    float eps;
    const float *cs;   /* [n_tokens][head_dim / 2][2] cos, sin */
    bool rope_interleaved;
    const struct kv_layout *kv;
    unsigned char *pool_base;
    uint32_t layer, n_heads, window;
    float scale;
    const struct attend_run *runs;
    uint32_t n_runs, n_tokens;
    float *out;        /* rows of stride ldq */
};

struct backend {
    const char *name;
    void (*sync)(struct exec *x);
    /* x[n_tokens][n_cols] = scale * rows of the table. */
    void (*embed)(struct exec *x, const struct embed_table *t, const int32_t *tokens, uint32_t n_tokens, float scale,
                  float *out);
    /* Norm and conversion into the activation kinds. Ends with a sync where one is needed to read a. */
    void (*prepare)(struct exec *x, const struct prepare_args *p, struct act_buf *a);
    /* Several matrices times the same n_tokens activations. */
    void (*linear)(struct exec *x, const struct linear_job *jobs, uint32_t n_jobs, struct act_buf *a, uint32_t n_tokens);
    /* out = act(gate in) * (up in), converted to `kinds`; out must not have own. */
    void (*glu)(struct exec *x, const struct wmat *gate, const struct wmat *up, enum glu_act act, struct act_buf *in,
                uint32_t n_tokens, unsigned kinds, struct act_buf *out);
    /* Bias, q/k norm, RoPE, KV store and attention of all runs. May sync inside. */
    void (*attend)(struct exec *x, const struct attend_args *a);
    /* out[n_tokens][n] += rmsnorm(y[n_tokens][n]) * w */
    void (*add_norm)(struct exec *x, float *out, const float *y, const float *w, float eps, uint32_t n_tokens, uint32_t n);
};

extern const struct backend backend_cpu;

/* The activations that this member reads for n_tokens tokens. */
static inline struct act *act_buf_get(struct act_buf *a, uint32_t n_tokens)
{
    return a->has_own && n_tokens <= ACT_OWN_TOKENS ? &a->own : &a->shared;
}

/* Room for n_tokens tokens of n_cols columns in the given kinds: sets ld and pointers into mem when mem is not NULL;
 * returns the bytes needed (a multiple of 64). */
size_t act_place(struct act *a, unsigned kinds, uint32_t n_tokens, uint32_t n_cols, void *mem);

/* Floats of exec.tmp for batches of up to n_tokens tokens and glu width n_ff on a team of `size`. */
size_t backend_tmp_floats(uint32_t n_tokens, uint32_t n_ff, unsigned size);

#endif
