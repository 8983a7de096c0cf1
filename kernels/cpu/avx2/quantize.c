#include "kernels/cpu/avx2/linear.h"

#if defined(__x86_64__)

#include <math.h>
#include <string.h>

#include "lib/core/f16.h"

static inline int32_t reduce_add(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static inline uint32_t reduce_max(__m256i v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/* 32 values of one group. */
static inline void quantize_group(const float *x, int8_t *q, float *d, int16_t *s)
{
    const __m256i abs = _mm256_set1_epi32(0x7fffffff), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i m = _mm256_setzero_si256(), v[4];
    uint32_t bits;
    float amax;

    for (int i = 0; i < 4; i++)
        m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_loadu_si256((const void *)(x + 8 * i)), abs));
    bits = reduce_max(m); /* magnitudes order as their bits do */
    amax = f32_from_bits(bits);
    if (bits >= 0x7f800000u || amax < ACT_AMAX_MIN) {
        memset(q, 0, ACT_GROUP);
        *d = bits >= 0x7f800000u ? NAN : 0;
        s[0] = s[1] = 0;
        return;
    }
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(127.0f / amax)));
    *d = amax / 127.0f;
    s[0] = (int16_t)reduce_add(_mm256_add_epi32(v[0], v[1]));
    s[1] = (int16_t)reduce_add(_mm256_add_epi32(v[2], v[3]));
    /* the packs work on 128-bit lanes: four groups of four values end up in the order 0 2 4 6 | 1 3 5 7 */
    v[0] = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    _mm256_storeu_si256((void *)q, _mm256_permutevar8x32_epi32(v[0], order));
}

void quantize_q8_avx2(const float *x, uint32_t n, uint32_t ld, int8_t *q, float *d, int16_t *s)
{
    for (uint32_t c = 0; c < ld; c += ACT_GROUP) {
        float tail[ACT_GROUP] = { 0 };

        if (c < n && n - c < ACT_GROUP)
            memcpy(tail, x + c, (n - c) * sizeof *x);
        quantize_group(c + ACT_GROUP <= n ? x + c : tail, q + c, d + c / 32, s + c / 16);
    }
}

/* As bf16_from_f32. */
static inline __m256i round_to_bf16(const float *x)
{
    const __m256 v = _mm256_loadu_ps(x);
    const __m256i u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
    const __m256i bias = _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
    const __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));

    return _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}

void round_bf16_avx2(const float *x, uint32_t n, uint32_t ld, uint16_t *bf)
{
    for (uint32_t c = 0; c < ld; c += 16) {
        const float *p = x + c;
        float tail[16] = { 0 };
        __m256i h;

        if (c + 16 > n) {
            if (c < n)
                memcpy(tail, x + c, (n - c) * sizeof *x);
            p = tail;
        }
        h = _mm256_packus_epi32(round_to_bf16(p), round_to_bf16(p + 8));
        _mm256_storeu_si256((void *)(bf + c), _mm256_permute4x64_epi64(h, 0xd8));
    }
}

#endif
