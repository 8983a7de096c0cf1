/* CPU kernels: one table of function pointers, filled from the scalar reference upward (kern_ops_init). A kernel works on
 * the part of the work it is given by the caller and knows nothing of threads; kernels/cpu/backend.c splits work.
 *
 * Batch invariance: what a kernel computes for one token (row, head) is the same bits whatever the other tokens of the
 * call are, for every kernel of one ISA. Quantised products (ACT_Q8) are moreover the same bits on every ISA, because
 * integer sums are exact and the float operations on them are prescribed below. */
#ifndef SLUICE_KERNELS_KERN_H
#define SLUICE_KERNELS_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/dtype.h"

#define TILE_ROWS 16u /* rows interleaved in a packed weight tile: the 32-bit lanes of a 512-bit vector */
#define ACT_GROUP 32u /* columns that share one activation scale */
#define ACT_AMAX_MIN 0x1p-119f /* a group of smaller magnitudes counts as zero (127 / amax would overflow) */

/* --- packed weights --------------------------------------------------------------------------------------------------
 * A matrix [n_rows][n_cols] cut into tiles of TILE_ROWS rows; the last tile is padded with zero weights. Tiles follow
 * one another; inside a tile, columns are in order and the rows' values interleaved for the SIMD kernels
 * (kernels/blocks.h has the layout of each type). A packed matrix takes as many bytes as its source, padding aside. */
struct wmat {
    enum dtype type;
    uint32_t n_rows, n_cols;
    uint32_t n_tiles;           /* ceil(n_rows / TILE_ROWS) */
    size_t tile_bytes;          /* multiple of 64 */
    const unsigned char *tiles; /* n_tiles * tile_bytes, 64-byte aligned; owned by whoever allocated it */
};

/* Fills everything but tiles. n_cols must be a multiple of the type's block. False when type has no packed layout or a size
 * overflows. */
bool wmat_init(struct wmat *w, enum dtype type, uint64_t n_rows, uint64_t n_cols);

/* Packs tiles [tile0, tile1) from src, the whole row-major matrix in ggml's block layout (any alignment), into dst (the
 * start of the whole packed matrix). Different ranges may be packed by different threads at once. */
void wmat_pack(const struct wmat *w, const void *src, unsigned char *dst, uint32_t tile0, uint32_t tile1);

/* Row `row` as floats, out[n_cols]. Slow path for embedding look-ups of tied matrices, exactness tests and tools. */
void wmat_row_f32(const struct wmat *w, uint32_t row, float *out);

/* One row of n values in ggml's block layout (n a multiple of the block), any alignment, as floats: the definition of each
 * type (formulas: shared by packing tests and embedding look-ups of unpacked tensors). */
void dtype_row_f32(enum dtype type, const void *src, size_t n, float *out);

/* --- activations -----------------------------------------------------------------------------------------------------
 * Token-major, row stride ld elements (multiple of 64, columns past n_cols are zero). Which arrays are filled follows
 * from kinds; a linear layer names the one it reads (kern_act_kind). */
enum act_kind { ACT_F32 = 1, ACT_Q8 = 2, ACT_BF16 = 4 };

struct act {
    uint32_t n_tokens, n_cols, ld;
    unsigned kinds;     /* OR of enum act_kind */
    float *f;           /* [n_tokens][ld] */
    int8_t *q;          /* [n_tokens][ld]      x ~ d * q, |q| <= 127 */
    float *d;           /* [n_tokens][ld / 32] d = amax / 127 over the group, 0 for an all-zero group */
    int16_t *s;         /* [n_tokens][ld / 16] sums of q over 16 columns */
    uint16_t *bf;       /* [n_tokens][ld]      rounded to nearest even */
};

enum linear_mode { LINEAR_STORE, LINEAR_ADD };

/* --- attention over a paged KV pool ----------------------------------------------------------------------------------
 * The pool is [B, L, 2, H]: block `b` starts at base + b * block_bytes; its layer l has K, then V, each H elements,
 * H = block_tokens * n_kv_heads * head_dim. block_tokens is a multiple of 16, head_dim of 16. Inside H, per KV head:
 *   bf16: K [n_kv_heads][block_tokens/16][head_dim/2][16 tokens][2 dims]   V [n_kv_heads][block_tokens/2][head_dim][2 tokens]
 *   f32:  K [n_kv_heads][block_tokens/16][head_dim][16 tokens]             V [n_kv_heads][block_tokens][head_dim]
 * so that scores need no horizontal sums. Slots past the sequence's end may hold anything, NaN included: kernels never let
 * them reach a result (storing an even token of a bf16 V pair zeroes its odd partner). */
enum kv_type { KV_BF16, KV_F32 };

struct kv_layout {
    enum kv_type type;
    uint32_t n_layers, n_kv_heads, head_dim, block_tokens;
    size_t part_bytes;  /* H elements in bytes: one layer's K or V in one block */
    size_t block_bytes; /* n_layers * 2 * part_bytes */
};

#define ATTN_CHUNK 256u /* KV tokens per softmax chunk, counted from position 0 of the sequence */

struct attn_args {
    const struct kv_layout *kv;
    unsigned char *base;          /* pool */
    const uint32_t *blocks;       /* the sequence's block table: position p is in blocks[p / block_tokens] */
    uint32_t layer;
    uint32_t n_heads;             /* query heads; head h reads KV head h / (n_heads / n_kv_heads) */
    uint32_t n_q;                 /* consecutive query tokens of one sequence */
    uint32_t pos0;                /* position of the first; keys 0..pos0+i are visible to query i (causal) */
    uint32_t window;              /* 0: all; else only keys > position - window */
    float scale;                  /* multiplies q.k */
    const float *q;               /* [n_q] rows of stride ldq: [n_heads][head_dim] */
    size_t ldq;
    float *out;                   /* [n_q] rows of stride ldo: [n_heads][head_dim] */
    size_t ldo;
};

struct kern_ops {
    const char *isa; /* "ref", "avx2", "avx512" */
    bool bf16_dot;   /* BF16 weights take ACT_BF16 on the fast path */

    /* x[n] -> q, d, s as in struct act, for n columns, zero-filled up to ld. d = amax / 127.0f; q = nearbyintf(x * (127.0f / amax)),
     * round to nearest even; identical on every ISA. A group that holds an infinity or a NaN gets d = NaN, q = 0. */
    void (*quantize_q8)(const float *x, uint32_t n, uint32_t ld, int8_t *q, float *d, int16_t *s);
    void (*round_bf16)(const float *x, uint32_t n, uint32_t ld, uint16_t *bf);

    /* Rows of tiles [tile0, tile1) of w times every token of x: y[t * ldy + row] (row < n_rows) = or += the product.
     * kind: the activation array to read; ACT_Q8 needs a quantised w, ACT_BF16 a BF16 w, ACT_F32 any.
     * ACT_Q8, per (row, token): a = 0; for each weight group g in column order: a = fmaf((float)idot, sw * dx, a), then for
     * types with a minimum a = fmaf(mw, dx * (float)isum, a); idot = sum (q_w - offset) * q_x exactly, sw and mw the group's
     * float scale and (signed) minimum, dx the activation scale. Groups of 16 share dx of their 32.
     * ACT_F32: weights are dequantised to float exactly as dtype_row_f32 does, then summed by fmaf in a fixed order that
     * depends on n_cols only. scratch: kern_linear_scratch() bytes, 64-byte aligned, private to the calling thread. */
    void (*linear)(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum act_kind kind,
                   enum linear_mode mode, float *y, size_t ldy, void *scratch);

    /* y[n] = x[n] * w[n] / sqrt(mean(x^2) + eps); w NULL means ones; y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *w, uint32_t n, float eps);
    void (*add)(float *y, const float *x, uint32_t n);         /* y += x */
    void (*scale)(float *y, float a, uint32_t n);              /* y *= a */
    void (*silu_mul)(float *g, const float *u, uint32_t n);    /* g = g * sigmoid(g) * u */
    void (*gelu_mul)(float *g, const float *u, uint32_t n);    /* g = gelu_tanh(g) * u */
    /* Rotates n_heads heads of head_dim floats in place; cs is [head_dim/2][2] = {cos, sin} of this position.
     * interleaved: pairs (2i, 2i+1); else (i, i + head_dim/2). */
    void (*rope)(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs, bool interleaved);

    /* Writes k and v (head_dim floats each) of KV head kvh of the token at position pos into the pool for a->layer. */
    void (*kv_store)(const struct attn_args *a, uint32_t kvh, uint32_t pos, const float *k, const float *v);
    /* Causal attention of queries [q0, q1) of a for the query heads of KV head kvh. Keys are taken in chunks of ATTN_CHUNK
     * positions; each chunk gives (max, sum, weighted values) on its own and chunks are merged in ascending order, so the
     * result does not depend on q0, q1 or n_q. scratch: kern_attn_scratch() bytes, private. */
    void (*attention)(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch);

    /* Reductions over logits. NaN compares lowest. */
    uint32_t (*argmax)(const float *x, uint32_t n);            /* lowest index of the largest value */
    float (*max)(const float *x, uint32_t n);
    double (*sum_exp)(const float *x, uint32_t n, float shift); /* sum exp(x - shift) */
};

/* Bytes of scratch that linear (for matrices of up to max_cols columns) and attention (group = n_heads / n_kv_heads) need. */
size_t kern_linear_scratch(uint32_t max_cols);
size_t kern_attn_scratch(uint32_t group, uint32_t head_dim);

/* The activation kind that w takes: exact -> ACT_F32; else ACT_Q8 for quantised types, ACT_BF16 for BF16 where ops has
 * bf16_dot, ACT_F32 otherwise. */
enum act_kind kern_act_kind(const struct kern_ops *ops, const struct wmat *w, bool exact);

bool kv_layout_init(struct kv_layout *l, enum kv_type type, uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                    uint32_t block_tokens);

#endif
