#include "kernels/cpu/attn.h"

#include "lib/core/mem.h"

size_t kern_attn_scratch(uint32_t group, uint32_t head_dim)
{
    (void)group; /* rows are taken in blocks of a fixed number, whatever the group */
    return mem_round_up(sizeof(struct attn_scratch) + sizeof(float) * 2 * ATTN_BLOCK * head_dim, 64);
}
