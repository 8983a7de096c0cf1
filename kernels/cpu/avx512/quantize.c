#include "kernels/cpu/avx512/linear.h"

#if defined(__x86_64__)

#include <math.h>
#include <string.h>

#include "lib/core/f16.h"

/* 16 floats to int8, rounded to nearest even; returns their sum. */
static inline int32_t to_int8(__m512 x, __m512 inv, int8_t *q)
{
    const __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(x, inv));

    _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(v));
    return _mm512_reduce_add_epi32(v);
}

void quantize_q8_avx512(const float *x, uint32_t n, uint32_t ld, int8_t *q, float *d, int16_t *s)
{
    const __m512i abs = _mm512_set1_epi32(0x7fffffff);

    for (uint32_t c = 0; c < ld; c += ACT_GROUP) {
        const uint32_t left = c < n ? n - c : 0;
        const uint32_t mask = left >= 32 ? UINT32_MAX : (1u << left) - 1;
        const __m512 a = _mm512_maskz_loadu_ps((__mmask16)mask, x + c), b = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + c + 16);
        const __m512i m = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), abs),
                                           _mm512_and_si512(_mm512_castps_si512(b), abs));
        const uint32_t bits = (uint32_t)_mm512_reduce_max_epi32(m); /* magnitudes order as their bits do */
        const float amax = f32_from_bits(bits);

        if (bits >= 0x7f800000u || amax < ACT_AMAX_MIN) {
            memset(q + c, 0, ACT_GROUP);
            d[c / 32] = bits >= 0x7f800000u ? NAN : 0;
            s[c / 16] = s[c / 16 + 1] = 0;
        } else {
            const __m512 inv = _mm512_set1_ps(127.0f / amax);

            d[c / 32] = amax / 127.0f;
            s[c / 16] = (int16_t)to_int8(a, inv, q + c);
            s[c / 16 + 1] = (int16_t)to_int8(b, inv, q + c + 16);
        }
    }
}

/* Integer rounding as in bf16_from_f32: vcvtneps2bf16 would flush subnormals. */
void round_bf16_avx512(const float *x, uint32_t n, uint32_t ld, uint16_t *bf)
{
    for (uint32_t c = 0; c < ld; c += 16) {
        const uint32_t left = c < n ? n - c : 0;
        const __mmask16 m = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
        const __m512 v = _mm512_maskz_loadu_ps(m, x + c);
        const __m512i u = _mm512_castps_si512(v);
        const __m512i even = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
        const __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff))), 16);
        const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
        const __m512i h = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), r, quiet);

        _mm256_storeu_si256((void *)(bf + c), _mm512_cvtepi32_epi16(h));
    }
}

#endif
