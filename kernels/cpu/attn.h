/* What the attention kernels of all instruction sets share: the rows of a call, the chunks of keys that they see, and the
 * scratch memory. A row is one query head of one query token; all rows of a call read the same KV head. The vector
 * kernels give attn_run a function for one tile of rows and one chunk of keys. */
#ifndef SLUICE_KERNELS_CPU_ATTN_H
#define SLUICE_KERNELS_CPU_ATTN_H

#include "kernels/kern.h"
#include "kernels/kv_addr.h"

#define ATTN_TILE 6u   /* rows that share keys and values loaded into registers */
#define ATTN_BLOCK 48u /* rows that share a chunk of keys and values in the cache: a multiple of ATTN_TILE */
#define ATTN_GROUPS (ATTN_CHUNK / KV_GROUP)

/* One row: keys [lo, hi) are visible. */
struct attn_row {
    const float *q;
    float *out;
    uint32_t lo, hi;
};

/* Where the keys of one chunk are: groups of KV_GROUP tokens, those that no row of the block sees being NULL. The values of
 * a group are to_values bytes behind its keys. */
struct attn_chunk {
    const unsigned char *keys[ATTN_GROUPS];
    size_t to_values;
    uint32_t first; /* position of the chunk's first key */
};

/* The state of a tile of n rows: sums over the chunks merged so far, relative to max. Lanes past n may hold anything. */
struct attn_tile {
    uint32_t n;
    float max[16], sum[16];
    const struct attn_row *rows;
    const float *q; /* [head_dim][ATTN_TILE], scaled by scale * log2(e): scores are exponents of two */
    float *o;       /* [n][head_dim] */
    float *p;       /* [ATTN_TILE][ATTN_CHUNK], weights; shared by all tiles */
    float *c;       /* [ATTN_TILE][head_dim], sums of the chunk; shared by all tiles */
};

typedef void attn_tile_fn(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t);

struct attn_scratch {
    struct attn_row rows[ATTN_BLOCK];
    struct attn_tile tiles[ATTN_BLOCK / ATTN_TILE];
    _Alignas(64) float p[ATTN_TILE * ATTN_CHUNK];
    _Alignas(64) float data[]; /* [2 * ATTN_BLOCK + ATTN_TILE][head_dim]: q of all tiles, o of all tiles, c */
};

/* Row r of queries q0.. of KV head kvh: queries in order, the heads of the group inside. */
static inline void attn_row_init(struct attn_row *row, const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t r)
{
    const uint32_t hd = a->kv->head_dim, group = a->n_heads / a->kv->n_kv_heads;
    const uint32_t i = q0 + r / group, head = kvh * group + r % group, pos = a->pos0 + i;

    row->q = a->q + (size_t)i * a->ldq + (size_t)head * hd;
    row->out = a->out + (size_t)i * a->ldo + (size_t)head * hd;
    row->lo = a->window && pos >= a->window ? pos - a->window + 1 : 0;
    row->hi = pos + 1;
}

/* The whole of kern_ops.attention; fn adds one chunk to one tile, and sees only chunks that a row of the tile sees. */
void attn_run(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch, attn_tile_fn *fn);

/* The keys of a chunk that the rows of a tile see, counted from the chunk's first. A row that sees none has lo = hi = 0. */
struct attn_ranges {
    uint32_t lo[ATTN_TILE], hi[ATTN_TILE]; /* of each row */
    uint32_t any_lo, any_hi;               /* of at least one: whole pairs of tokens */
    uint32_t all_lo, all_hi;               /* of all: whole pairs of tokens; all_lo = all_hi = any_hi when there are none */
    float old[16], new[16];                /* factors of the tile's sums and of the chunk's; by the kernel */
};

void attn_find_ranges(const struct attn_chunk *c, const struct attn_tile *t, struct attn_ranges *x);

#endif
