/* Packed weights (kernels/blocks.h) to vectors: the one place where the AVX-512 kernels know the layouts. Every function
 * is inlined with a constant type, so that the branches on it vanish. */
#ifndef SLUICE_KERNELS_CPU_AVX512_CODES_H
#define SLUICE_KERNELS_CPU_AVX512_CODES_H

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/cpu/traits.h"

/* --- codes ------------------------------------------------------------------------------------------------------------ */

INLINE __m512i load512(const void *p)
{
    return _mm512_loadu_si512(p);
}

/* Every 16-bit lane shifted left by n, right when n is negative; bits that cross bytes are the caller's to mask. */
INLINE __m512i shift(__m512i v, int n)
{
    return n >= 0 ? _mm512_slli_epi16(v, (unsigned)n) : _mm512_srli_epi16(v, (unsigned)-n);
}

/* a | (b & c) */
INLINE __m512i or_and(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0xf8);
}

INLINE void unpack_nibbles(const unsigned char *q, __m512i v[8])
{
    const __m512i low = _mm512_set1_epi8(15);

    for (int i = 0; i < 4; i++) {
        const __m512i n = load512(q + 64 * i);

        v[i] = _mm512_and_si512(n, low);
        v[i + 4] = _mm512_and_si512(_mm512_srli_epi16(n, 4), low);
    }
}

INLINE void unpack_pairs(const unsigned char *q, __m512i v[8])
{
    const __m512i low = _mm512_set1_epi8(3);

    for (int i = 0; i < 8; i++)
        v[i] = _mm512_and_si512(shift(load512(q + 64 * (i / 4)), -2 * (i % 4)), low);
}

/* Bit plane q to bit `bit` of the codes; pairs likewise to bits 4, 5. */
INLINE void or_bits(const unsigned char *q, int bit, __m512i v[8])
{
    const __m512i b = load512(q), mask = _mm512_set1_epi8((char)(1 << bit));

    for (int i = 0; i < 8; i++)
        v[i] = or_and(v[i], shift(b, bit - i), mask);
}

INLINE void or_pairs(const unsigned char *q, __m512i v[8])
{
    const __m512i mask = _mm512_set1_epi8(0x30);

    for (int i = 0; i < 8; i++)
        v[i] = or_and(v[i], shift(load512(q + 64 * (i / 4)), 4 - 2 * (i % 4)), mask);
}

/* Unsigned codes of 32 columns from the code block q: v[j] has quad j of the 16 rows. Table types: value + 128. */
INLINE void unpack_codes(enum dtype type, const unsigned char *q, __m512i v[8])
{
    switch (type_bits(type)) {
    case 2:
        unpack_pairs(q, v);
        break;
    case 3:
        unpack_pairs(q, v);
        or_bits(q + CODES_2, 2, v);
        break;
    case 5:
        unpack_nibbles(q, v);
        or_bits(q + CODES_4, 4, v);
        break;
    case 6:
        unpack_nibbles(q, v);
        or_pairs(q + CODES_4, v);
        break;
    case 8:
        for (int i = 0; i < 8; i++)
            v[i] = load512(q + 64 * i);
        break;
    default:
        unpack_nibbles(q, v);
    }
    if (type_table(type)) {
        const __m128i t = _mm_xor_si128(_mm_loadu_si128((const void *)iq4_values), _mm_set1_epi8((char)0x80));
        const __m512i values = _mm512_broadcast_i32x4(t);

        for (int i = 0; i < 8; i++)
            v[i] = _mm512_shuffle_epi8(values, v[i]);
    }
}

/* --- scales ----------------------------------------------------------------------------------------------------------- */

/* The scales of a unit. 6-bit ones are brought to bytes once for all groups of the unit. */
struct unit_scales {
    __m512 d, m;                  /* halves of the 16 rows; m: minimum, or dmin negated */
    uint8_t sc[16][16], mn[8][16]; /* [group][row]; only types with 6-bit scales */
} __attribute__((aligned(64)));

INLINE __m512 load_halves(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

INLINE __m512 negate(__m512 v)
{
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN)));
}

/* lo and hi as in struct unit_q4_k. */
INLINE void scales_k4(const uint8_t *lo, const uint8_t *hi, struct unit_scales *s)
{
    const __m512i low = _mm512_set1_epi8(15), two = _mm512_set1_epi8(0x30), h = load512(hi);

    for (int i = 0; i < 2; i++) { /* groups 0..3, 4..7 */
        const __m512i l = load512(lo + 64 * i);
        const __m512i sc = _mm512_and_si512(l, low), mn = _mm512_and_si512(_mm512_srli_epi16(l, 4), low);

        _mm512_store_si512(s->sc[4 * i], or_and(sc, shift(h, 4 - 4 * i), two));
        _mm512_store_si512(s->mn[4 * i], or_and(mn, shift(h, 2 - 4 * i), two));
    }
}

INLINE void scales_q3_k(const struct unit_q3_k *u, struct unit_scales *s)
{
    const __m512i low = _mm512_set1_epi8(15), two = _mm512_set1_epi8(0x30), h = load512(u->hi), bias = _mm512_set1_epi8(32);

    for (int i = 0; i < 4; i++) { /* groups 4i .. 4i + 3 */
        const __m512i l = _mm512_and_si512(shift(load512(u->lo[4 * (i % 2)]), i < 2 ? 0 : -4), low);

        _mm512_store_si512(s->sc[4 * i], _mm512_sub_epi8(or_and(l, shift(h, 4 - 2 * i), two), bias));
    }
}

INLINE void scales_iq4_xs(const struct unit_iq4_xs *u, struct unit_scales *s)
{
    const __m512i low = _mm512_set1_epi8(15), two = _mm512_set1_epi8(0x30), bias = _mm512_set1_epi8(32);
    const __m512i l = load512(u->lo), h = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)u->hi));
    /* 16-bit lanes of groups 0, 1 hold their bits at 0, those of 2, 3 at 2, of 4, 5 at 4, of 6, 7 at 6: brought to 4 */
    const __m512i h0 = _mm512_mask_blend_epi32(0xff00, shift(h, 4), shift(h, 2));
    const __m512i h1 = _mm512_mask_blend_epi32(0xff00, h, shift(h, -2));

    _mm512_store_si512(s->sc[0], _mm512_sub_epi8(or_and(_mm512_and_si512(l, low), h0, two), bias));
    _mm512_store_si512(s->sc[4], _mm512_sub_epi8(or_and(_mm512_and_si512(shift(l, -4), low), h1, two), bias));
}

INLINE void load_unit_scales(enum dtype type, const void *unit, struct unit_scales *s)
{
    const uint16_t *halves = unit;

    s->d = load_halves(halves);
    if (type_minimum(type))
        s->m = type_unit_cols(type) == 32 ? load_halves(halves + 16) : negate(load_halves(halves + 16));
    if (type == DT_Q4_K)
        scales_k4(((const struct unit_q4_k *)unit)->lo[0], ((const struct unit_q4_k *)unit)->hi[0], s);
    else if (type == DT_Q5_K)
        scales_k4(((const struct unit_q5_k *)unit)->lo[0], ((const struct unit_q5_k *)unit)->hi[0], s);
    else if (type == DT_Q3_K)
        scales_q3_k(unit, s);
    else if (type == DT_IQ4_XS)
        scales_iq4_xs(unit, s);
}

INLINE __m512 bytes_to_ps(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

/* Scale and minimum of the 16 rows for half h of group g of the unit. *mw is only set for types with a minimum. */
INLINE void group_scale(enum dtype type, const void *unit, const struct unit_scales *s, unsigned g, unsigned h, __m512 *sw,
                        __m512 *mw)
{
    switch (type) {
    case DT_Q6_K:
        *sw = _mm512_mul_ps(s->d, bytes_to_ps(((const struct unit_q6_k *)unit)->sc[2 * g + h]));
        break;
    case DT_Q2_K: {
        const __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)((const struct unit_q2_k *)unit)->sc[2 * g + h]));

        *sw = _mm512_mul_ps(s->d, _mm512_cvtepi32_ps(_mm512_and_si512(b, _mm512_set1_epi32(15))));
        *mw = _mm512_mul_ps(s->m, _mm512_cvtepi32_ps(_mm512_srli_epi32(b, 4)));
        break;
    }
    case DT_Q3_K:
        *sw = _mm512_mul_ps(s->d, bytes_to_ps(s->sc[2 * g + h]));
        break;
    case DT_Q4_K:
    case DT_Q5_K:
        *sw = _mm512_mul_ps(s->d, bytes_to_ps(s->sc[g]));
        *mw = _mm512_mul_ps(s->m, bytes_to_ps(s->mn[g]));
        break;
    case DT_IQ4_XS:
        *sw = _mm512_mul_ps(s->d, bytes_to_ps(s->sc[g]));
        break;
    default:
        *sw = s->d;
        if (type_minimum(type))
            *mw = s->m;
    }
}

#endif
#endif
