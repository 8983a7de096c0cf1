/* Vector functions of 16 floats. */
#ifndef SLUICE_KERNELS_CPU_AVX512_MATH_H
#define SLUICE_KERNELS_CPU_AVX512_MATH_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

/* The first n lanes, all when n >= 16. */
static inline __mmask16 first_lanes(uint32_t n)
{
    return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* 2^x, error below 1 ulp; 2^-inf is 0, NaN stays. Polynomial: least relative error over [-1/2, 1/2] with constant term 1. */
static inline __m512 exp2_avx512(__m512 x)
{
    const __m512 n = _mm512_roundscale_ps(x, 0), r = _mm512_reduce_ps(x, 0); /* reduce: 0 for infinities */
    __m512 p = _mm512_set1_ps(0x1.41fb2ep-13f);

    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.5f3f3p-10f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.3b2d5p-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.c6aee6p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ebfbdcp-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62e43p-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    return _mm512_scalef_ps(p, n);
}

/* e^x, error below 1 ulp; exact 0 and infinity outside the range, NaN stays. */
static inline __m512 exp_avx512(__m512 x)
{
    __m512 n, r, p;

    x = _mm512_max_ps(_mm512_set1_ps(-104), x); /* the second operand when one is a NaN */
    x = _mm512_min_ps(_mm512_set1_ps(89), x);
    n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)), 0);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x); /* exact product: ln 2 in two parts */
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    p = _mm512_set1_ps(0x1.6ae68ep-10f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.12682ep-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555826p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555418p-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.fffffcp-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    return _mm512_scalef_ps(p, n);
}

/* 16 floats as bfloat16 in the low halves of the lanes, rounded to nearest even; NaN stays a quiet NaN. In integers, because
 * vcvtneps2bf16 flushes subnormals. */
static inline __m512i bf16_avx512(__m512 v)
{
    const __m512i u = _mm512_castps_si512(v), h = _mm512_srli_epi32(u, 16);
    const __m512i even = _mm512_and_si512(h, _mm512_set1_epi32(1));
    const __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff))), 16);

    return _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), h, _mm512_set1_epi32(0x40));
}

#endif
#endif
