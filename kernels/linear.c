#include "kernels/kern.h"
#include "lib/core/mem.h"

size_t kern_linear_scratch(uint32_t max_cols)
{
    const size_t cols = mem_round_up((size_t)max_cols, 64);

    /* ACT_F32 expands two tiles to floats: 128 bytes a column. The integer path takes two tiles of codes (32), scales and
     * minima of every 16 columns (16), and 4 bytes for every group of the tokens_max() tokens (64, and padding). */
    return 2 * TILE_ROWS * sizeof(float) * cols + 512 * 16 * sizeof(int32_t) + 4096;
}

enum act_kind kern_act_kind(const struct kern_ops *ops, const struct wmat *w, bool exact)
{
    const struct dtype_info *info = dtype_info((uint32_t)w->type);

    if (exact)
        return ACT_F32;
    if (info && info->quantised)
        return ACT_Q8;
    return w->type == DT_BF16 && ops->bf16_dot ? ACT_BF16 : ACT_F32;
}
