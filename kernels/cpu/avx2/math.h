/* Vector functions of 8 floats. */
#ifndef SLUICE_KERNELS_CPU_AVX2_MATH_H
#define SLUICE_KERNELS_CPU_AVX2_MATH_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

/* All bits of the first n lanes, of all when n >= 8. */
static inline __m256i first_lanes(uint32_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), lane);
}

/* The first n floats at p, all 8 when n >= 8; zero in the other lanes, whose memory is not touched. */
static inline __m256 load_first(const float *p, uint32_t n)
{
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first_lanes(n));
}

static inline void store_first(float *p, uint32_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, first_lanes(n), v);
}

static inline float sum_lanes(__m256 v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

static inline double sum_lanes_pd(__m256d v)
{
    const __m128d x = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));

    return _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)));
}

static inline float max_lanes(__m256 v)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* 2^n for the integer in each lane, -127 < n < 128; 0 for n = -127. */
static inline __m256 power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

#define ROUND_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* 2^x for x <= 0, error below 1 ulp; 0 below 2^-126; NaN stays. Polynomial: least relative error over [-1/2, 1/2] with
 * constant term 1. */
static inline __m256 exp2_avx2(__m256 x)
{
    __m256 n, r, p;

    x = _mm256_max_ps(_mm256_set1_ps(-127), x); /* the second operand when one is a NaN */
    n = _mm256_round_ps(x, ROUND_NEAREST);
    r = _mm256_sub_ps(x, n);
    p = _mm256_set1_ps(0x1.41fb2ep-13f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5f3f3p-10f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.3b2d5p-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.c6aee6p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.ebfbdcp-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.62e43p-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
    return _mm256_mul_ps(p, power_of_two(_mm256_cvtps_epi32(n)));
}

/* e^x, error below 1 ulp; exact 0 and infinity outside the range, NaN stays. */
static inline __m256 exp_avx2(__m256 x)
{
    __m256 n, r, p;
    __m256i i, half;

    x = _mm256_max_ps(_mm256_set1_ps(-104), x);
    x = _mm256_min_ps(_mm256_set1_ps(89), x);
    n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)), ROUND_NEAREST);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x); /* exact product: ln 2 in two parts */
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    p = _mm256_set1_ps(0x1.6ae68ep-10f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.12682ep-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555826p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555418p-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.fffffcp-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
    i = _mm256_cvtps_epi32(n); /* -150..128: two steps, the last of which rounds subnormals and overflows */
    half = _mm256_srai_epi32(i, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, power_of_two(half)), power_of_two(_mm256_sub_epi32(i, half)));
}

/* 8 floats as bfloat16 in the low halves of the lanes, rounded to nearest even; NaN stays a quiet NaN. */
static inline __m256i bf16_avx2(__m256 v)
{
    const __m256i u = _mm256_castps_si256(v), h = _mm256_srli_epi32(u, 16);
    const __m256i even = _mm256_and_si256(h, _mm256_set1_epi32(1));
    const __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));

    return _mm256_blendv_epi8(r, _mm256_or_si256(h, _mm256_set1_epi32(0x40)), nan);
}

#endif
#endif
