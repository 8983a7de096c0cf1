/* AVX-512 linear layers: the families behind kern_ops.linear. Arguments as there. */
#ifndef SLUICE_KERNELS_CPU_AVX512_LINEAR_H
#define SLUICE_KERNELS_CPU_AVX512_LINEAR_H

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/kern.h"

void quantize_q8_avx512(const float *x, uint32_t n, uint32_t ld, int8_t *q, float *d, int16_t *s);
void round_bf16_avx512(const float *x, uint32_t n, uint32_t ld, uint16_t *bf);

void linear_q8_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                      float *y, size_t ldy, void *scratch);
void linear_f32_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                       float *y, size_t ldy, void *scratch);
void linear_bf16_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                        float *y, size_t ldy);

/* Stores or adds the 16 results of one token for the rows of a tile; rows past n_rows are left alone. */
static inline void put_tile(const struct wmat *w, uint32_t tile, enum linear_mode mode, float *y, __m512 v)
{
    const uint32_t row = tile * TILE_ROWS, left = w->n_rows - row;
    const __mmask16 m = left >= TILE_ROWS ? 0xffff : (__mmask16)((1u << left) - 1);

    if (mode == LINEAR_ADD)
        v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, y + row), v);
    _mm512_mask_storeu_ps(y + row, m, v);
}

#endif
#endif
