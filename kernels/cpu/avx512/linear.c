#include "kernels/cpu/init.h"

#if defined(__x86_64__)

#include "kernels/cpu/avx512/linear.h"
#include "kernels/isa.h"

static void linear_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum act_kind kind,
                          enum linear_mode mode, float *y, size_t ldy, void *scratch)
{
    if (kind == ACT_Q8)
        linear_q8_avx512(w, tile0, tile1, x, mode, y, ldy, scratch);
    else if (kind == ACT_BF16)
        linear_bf16_avx512(w, tile0, tile1, x, mode, y, ldy);
    else
        linear_f32_avx512(w, tile0, tile1, x, mode, y, ldy, scratch);
}

/* Without VNNI the AVX2 product stays: it is as fast as one made of 512-bit multiply-adds would be. */
void kern_init_linear_avx512(struct kern_ops *ops, uint32_t flags)
{
    ops->quantize_q8 = quantize_q8_avx512;
    ops->round_bf16 = round_bf16_avx512;
    if (flags & ISA_AVX512_VNNI) {
        ops->linear = linear_avx512;
        ops->bf16_dot = (flags & ISA_AVX512_BF16) != 0;
    }
}

#endif
