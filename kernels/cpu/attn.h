/* What the attention kernels of all instruction sets share: rows, their key ranges, and the scratch memory.
 * A row is one query head of one query token; the rows of a call read the same KV head. */
#ifndef SLUICE_KERNELS_CPU_ATTN_H
#define SLUICE_KERNELS_CPU_ATTN_H

#include "kernels/kern.h"
#include "kernels/kv_addr.h"

#define ATTN_TILE 6u   /* rows that share loaded keys and values in registers */
#define ATTN_BLOCK 48u /* rows that share a chunk of keys and values in the cache: a multiple of ATTN_TILE */

/* One row: keys [lo, hi) are visible. max, sum: of the chunks merged so far. */
struct attn_row {
    const float *q;
    float *out;
    uint32_t lo, hi;
    float max, sum;
};

struct attn_scratch {
    struct attn_row rows[ATTN_BLOCK];
    float p[ATTN_TILE][ATTN_CHUNK]; /* scores, then weights of a tile */
    float data[];                   /* q: [ATTN_BLOCK / ATTN_TILE][head_dim][ATTN_TILE], then o: [ATTN_BLOCK][head_dim] */
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

#endif
