/* AVX2 linear layers: the families behind kern_ops.linear. Arguments as there. */
#ifndef SLUICE_KERNELS_CPU_AVX2_LINEAR_H
#define SLUICE_KERNELS_CPU_AVX2_LINEAR_H

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/kern.h"

void quantize_q8_avx2(const float *x, uint32_t n, uint32_t ld, int8_t *q, float *d, int16_t *s);
void round_bf16_avx2(const float *x, uint32_t n, uint32_t ld, uint16_t *bf);

void linear_q8_avx2(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                    float *y, size_t ldy, void *scratch);
void linear_f32_avx2(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                     float *y, size_t ldy, void *scratch);

/* Stores or adds the results v[2] of one token for the 16 rows of a tile; rows past n_rows are left alone. */
static inline void put_tile(const struct wmat *w, uint32_t tile, enum linear_mode mode, float *y, const __m256 *v)
{
    const uint32_t row = tile * TILE_ROWS, left = w->n_rows - row;

    y += row;
    if (left >= TILE_ROWS) {
        for (unsigned k = 0; k < 2; k++)
            _mm256_storeu_ps(y + 8 * k, mode == LINEAR_ADD ? _mm256_add_ps(_mm256_loadu_ps(y + 8 * k), v[k]) : v[k]);
    } else {
        float r[TILE_ROWS];

        _mm256_storeu_ps(r, v[0]);
        _mm256_storeu_ps(r + 8, v[1]);
        for (uint32_t i = 0; i < left; i++)
            y[i] = mode == LINEAR_ADD ? y[i] + r[i] : r[i];
    }
}

#endif
#endif
