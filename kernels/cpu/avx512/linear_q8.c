/* Quantised weights times int8 activations. A few tokens: weights are unpacked in registers and used at once (gemv). More:
 * two tiles are unpacked once into a panel that all tokens then read (gemm). Both do the same operations on every sum. */
#include "kernels/cpu/avx512/linear_q8.h"

#if defined(__x86_64__)

void linear_q8_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                      float *y, size_t ldy, void *scratch)
{
    struct tokens b;
    gemv_fn gemv;

    if (x->n_tokens > GEMV_TOKENS) {
        gemm_q8_avx512(w, tile0, tile1, x, mode, y, ldy, scratch);
        return;
    }
    if (x->n_tokens == 0)
        return;
    gemv = gemv_q8_avx512(w->type);
    tokens_init(&b, x, 0, x->n_tokens, w, scratch);
    for (uint32_t tile = tile0; tile < tile1; tile++) {
        __m512 a[GEMV_TOKENS];

        gemv(x->n_tokens, w->tiles + (size_t)tile * w->tile_bytes, w->n_cols, &b, a);
        for (uint32_t t = 0; t < x->n_tokens; t++)
            put_tile(w, tile, mode, y + t * ldy, a[t]);
    }
}

#endif
