/* Addresses inside the paged KV pool; layout in kernels/kern.h. */
#ifndef SLUICE_KERNELS_KV_ADDR_H
#define SLUICE_KERNELS_KV_ADDR_H

#include "kernels/kern.h"

#define KV_GROUP 16u /* tokens interleaved in K; a group never crosses a block */

static inline size_t kv_elem_bytes(const struct kv_layout *l)
{
    return l->type == KV_BF16 ? 2 : 4;
}

/* The group of 16 keys of KV head kvh that holds position pos. */
static inline unsigned char *kv_key_group(const struct attn_args *a, uint32_t kvh, uint32_t pos)
{
    const struct kv_layout *l = a->kv;
    const uint32_t bt = l->block_tokens;
    const size_t token = (size_t)kvh * bt + pos % bt / KV_GROUP * KV_GROUP;

    return a->base + a->blocks[pos / bt] * l->block_bytes + (size_t)a->layer * 2 * l->part_bytes +
           token * l->head_dim * kv_elem_bytes(l);
}

/* The group of 16 values that holds position pos: 8 rows [head_dim][2] of bf16, or 16 rows [head_dim] of f32. */
static inline unsigned char *kv_value_group(const struct attn_args *a, uint32_t kvh, uint32_t pos)
{
    return kv_key_group(a, kvh, pos) + a->kv->part_bytes;
}

#endif
