#include "kernels/cpu/init.h"

#if defined(__x86_64__)

#include "kernels/cpu/avx2/linear.h"

/* ACT_BF16 cannot occur: bf16_dot is false. */
static void linear_avx2(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum act_kind kind,
                        enum linear_mode mode, float *y, size_t ldy, void *scratch)
{
    if (kind == ACT_Q8)
        linear_q8_avx2(w, tile0, tile1, x, mode, y, ldy, scratch);
    else
        linear_f32_avx2(w, tile0, tile1, x, mode, y, ldy, scratch);
}

void kern_init_linear_avx2(struct kern_ops *ops, uint32_t flags)
{
    (void)flags;
    ops->quantize_q8 = quantize_q8_avx2;
    ops->round_bf16 = round_bf16_avx2;
    ops->linear = linear_avx2;
}

#endif
