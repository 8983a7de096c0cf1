/* Parts of the integer product shared by its two paths. */
#ifndef SLUICE_KERNELS_CPU_AVX2_LINEAR_Q8_H
#define SLUICE_KERNELS_CPU_AVX2_LINEAR_Q8_H

#if defined(__x86_64__)

#include "kernels/cpu/avx2/codes.h"
#include "kernels/cpu/avx2/linear.h"
#include "kernels/cpu/tokens.h"

#define GEMV_TOKENS 2u /* up to so many tokens unpack weights in registers, again for each tile */
#define GEMM_TOKENS 4u /* tokens in one register block */

/* Row sums of one tile for 1..GEMV_TOKENS tokens: a[2 * t + half]. */
typedef void (*gemv_fn)(const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m256 *a);
gemv_fn gemv_q8_avx2(enum dtype type, unsigned n_tokens);

/* Tiles [tile0, tile1) for any number of tokens. */
void gemm_q8_avx2(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode, float *y,
                  size_t ldy, void *scratch);

/* All lanes the four activations at q. */
INLINE __m256i quad_of(const int8_t *q)
{
    int32_t x;

    __builtin_memcpy(&x, q, sizeof x);
    return _mm256_set1_epi32(x);
}

/* a + idot * (sw * dx), then for types with a minimum + mw * sum. */
INLINE __m256 add_group(bool minimum, __m256 a, __m256i dot, __m256 sw, float dx, __m256 mw, float sum)
{
    a = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(sw, _mm256_set1_ps(dx)), a);
    return minimum ? _mm256_fmadd_ps(mw, _mm256_set1_ps(sum), a) : a;
}

#endif
#endif
