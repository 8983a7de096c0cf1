#include "kernels/kern.h"
#include "kernels/kv_addr.h"
#include "lib/core/mem.h"

bool kv_layout_init(struct kv_layout *l, enum kv_type type, uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                    uint32_t block_tokens)
{
    size_t n;

    *l = (struct kv_layout){ .type = type,
                             .n_layers = n_layers,
                             .n_kv_heads = n_kv_heads,
                             .head_dim = head_dim,
                             .block_tokens = block_tokens };
    if (!n_layers || !n_kv_heads || !head_dim || head_dim % 16 || !block_tokens || block_tokens % KV_GROUP)
        return false;
    return mem_mul(n_kv_heads, head_dim, &n) && mem_mul(n, block_tokens, &n) &&
           mem_mul(n, kv_elem_bytes(l), &l->part_bytes) && mem_mul(l->part_bytes, 2, &n) &&
           mem_mul(n, n_layers, &l->block_bytes);
}
