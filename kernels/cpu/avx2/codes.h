/* Packed weights (kernels/blocks.h) to vectors of 8 rows: half 0 or 1 of a tile is the first or second 32 bytes of every
 * 64-byte vector. Every function is inlined with a constant type, so that the branches on it vanish. */
#ifndef SLUICE_KERNELS_CPU_AVX2_CODES_H
#define SLUICE_KERNELS_CPU_AVX2_CODES_H

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/cpu/traits.h"

/* --- codes ------------------------------------------------------------------------------------------------------------ */

INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Every 16-bit lane shifted left by n, right when n is negative; bits that cross bytes are the caller's to mask. */
INLINE __m256i shift(__m256i v, int n)
{
    return n >= 0 ? _mm256_slli_epi16(v, n) : _mm256_srli_epi16(v, -n);
}

/* a | (b & c) */
INLINE __m256i or_and(__m256i a, __m256i b, __m256i c)
{
    return _mm256_or_si256(a, _mm256_and_si256(b, c));
}

INLINE void unpack_nibbles(const unsigned char *q, __m256i v[8])
{
    const __m256i low = _mm256_set1_epi8(15);

    for (int i = 0; i < 4; i++) {
        const __m256i n = load256(q + 64 * i);

        v[i] = _mm256_and_si256(n, low);
        v[i + 4] = _mm256_and_si256(_mm256_srli_epi16(n, 4), low);
    }
}

INLINE void unpack_pairs(const unsigned char *q, __m256i v[8])
{
    const __m256i low = _mm256_set1_epi8(3);

    for (int i = 0; i < 8; i++)
        v[i] = _mm256_and_si256(shift(load256(q + 64 * (i / 4)), -2 * (i % 4)), low);
}

/* Bit plane q to bit `bit` of the codes; pairs likewise to bits 4, 5. */
INLINE void or_bits(const unsigned char *q, int bit, __m256i v[8])
{
    const __m256i b = load256(q), mask = _mm256_set1_epi8((char)(1 << bit));

    for (int i = 0; i < 8; i++)
        v[i] = or_and(v[i], shift(b, bit - i), mask);
}

INLINE void or_pairs(const unsigned char *q, __m256i v[8])
{
    const __m256i mask = _mm256_set1_epi8(0x30);

    for (int i = 0; i < 8; i++)
        v[i] = or_and(v[i], shift(load256(q + 64 * (i / 4)), 4 - 2 * (i % 4)), mask);
}

/* Types whose values need all 8 bits come out signed, without an offset; the others as unsigned codes. */
INLINE bool type_signed(enum dtype type)
{
    return type == DT_Q8_0 || type_table(type);
}

/* 32 columns of 8 rows from the code block q: v[j] has quad j. */
INLINE void unpack_codes(enum dtype type, const unsigned char *q, unsigned half, __m256i v[8])
{
    q += 32 * half;
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
            v[i] = _mm256_xor_si256(load256(q + 64 * i), _mm256_set1_epi8((char)0x80));
        break;
    default:
        unpack_nibbles(q, v);
    }
    if (type_table(type)) {
        const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)iq4_values));

        for (int i = 0; i < 8; i++)
            v[i] = _mm256_shuffle_epi8(values, v[i]);
    }
}

/* --- products --------------------------------------------------------------------------------------------------------- */

/* Quads whose 16-bit pair sums can be added before they overflow: 2 * 127 * (largest code) each, 32767 in all. */
INLINE unsigned type_quads(enum dtype type)
{
    if (type_signed(type))
        return 1;
    return type_bits(type) == 6 ? 2 : type_bits(type) == 5 ? 4 : 8;
}

/* Products of one quad, summed in pairs to 16 bits. Signed weights go as magnitude times signed activation: 2 * 128 * 127
 * still fits. */
INLINE __m256i mul_quad(bool is_signed, __m256i w, __m256i x)
{
    if (is_signed)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

INLINE __m256i widen_pairs(__m256i pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* --- scales ----------------------------------------------------------------------------------------------------------- */

/* The scales of a unit. 6-bit ones are brought to bytes once for all groups of the unit. */
struct unit_scales {
    __m256 d[2], m[2];             /* by half; m: minimum, or dmin negated */
    uint8_t sc[16][16], mn[8][16]; /* [group][row]; only types with 6-bit scales */
} __attribute__((aligned(32)));

INLINE __m256 load_halves(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

INLINE __m256 negate(__m256 v)
{
    return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

/* lo and hi as in struct unit_q4_k; two groups at a time. */
INLINE void scales_k4(const uint8_t *lo, const uint8_t *hi, struct unit_scales *s)
{
    const __m256i low = _mm256_set1_epi8(15), two = _mm256_set1_epi8(0x30);

    for (int g = 0; g < 8; g += 2) {
        const __m256i l = load256(lo + 16 * g), h = load256(hi + 16 * (g % 4));
        const __m256i sc = _mm256_and_si256(l, low), mn = _mm256_and_si256(_mm256_srli_epi16(l, 4), low);

        _mm256_store_si256((void *)s->sc[g], or_and(sc, shift(h, g < 4 ? 4 : 0), two));
        _mm256_store_si256((void *)s->mn[g], or_and(mn, shift(h, g < 4 ? 2 : -2), two));
    }
}

INLINE void scales_q3_k(const struct unit_q3_k *u, struct unit_scales *s)
{
    const __m256i low = _mm256_set1_epi8(15), two = _mm256_set1_epi8(0x30), bias = _mm256_set1_epi8(32);

    for (int g = 0; g < 16; g += 2) {
        const __m256i l = _mm256_and_si256(shift(load256(u->lo[g % 8]), g < 8 ? 0 : -4), low);

        _mm256_store_si256((void *)s->sc[g],
                           _mm256_sub_epi8(or_and(l, shift(load256(u->hi[g % 4]), 4 - g / 4 * 2), two), bias));
    }
}

INLINE void scales_iq4_xs(const struct unit_iq4_xs *u, struct unit_scales *s)
{
    const __m256i low = _mm256_set1_epi8(15), two = _mm256_set1_epi8(0x30), bias = _mm256_set1_epi8(32);
    const __m256i h = load256(u->hi);

    for (int g = 0; g < 8; g += 2) {
        const __m256i l = _mm256_and_si256(shift(load256(u->lo[g % 4]), g < 4 ? 0 : -4), low);

        _mm256_store_si256((void *)s->sc[g], _mm256_sub_epi8(or_and(l, shift(h, 4 - g), two), bias));
    }
}

INLINE void load_unit_scales(enum dtype type, const void *unit, struct unit_scales *s)
{
    const uint16_t *halves = unit;

    for (unsigned k = 0; k < 2; k++) {
        s->d[k] = load_halves(halves + 8 * k);
        if (type_minimum(type)) {
            s->m[k] = load_halves(halves + 16 + 8 * k);
            if (type_unit_cols(type) == 256)
                s->m[k] = negate(s->m[k]);
        }
    }
    if (type == DT_Q4_K)
        scales_k4(((const struct unit_q4_k *)unit)->lo[0], ((const struct unit_q4_k *)unit)->hi[0], s);
    else if (type == DT_Q5_K)
        scales_k4(((const struct unit_q5_k *)unit)->lo[0], ((const struct unit_q5_k *)unit)->hi[0], s);
    else if (type == DT_Q3_K)
        scales_q3_k(unit, s);
    else if (type == DT_IQ4_XS)
        scales_iq4_xs(unit, s);
}

/* 8 signed bytes. */
INLINE __m256 bytes_to_ps(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

/* Scale and minimum of 8 rows for part h of group g of the unit (types with scales of 16 columns have parts 0 and 1). *mw is
 * only set for types with a minimum. */
INLINE void group_scale(enum dtype type, const void *unit, const struct unit_scales *s, unsigned g, unsigned h, unsigned half,
                        __m256 *sw, __m256 *mw)
{
    switch (type) {
    case DT_Q6_K:
        *sw = _mm256_mul_ps(s->d[half], bytes_to_ps(((const struct unit_q6_k *)unit)->sc[2 * g + h] + 8 * half));
        break;
    case DT_Q2_K: {
        const uint8_t *sc = ((const struct unit_q2_k *)unit)->sc[2 * g + h] + 8 * half;
        const __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)sc));

        *sw = _mm256_mul_ps(s->d[half], _mm256_cvtepi32_ps(_mm256_and_si256(b, _mm256_set1_epi32(15))));
        *mw = _mm256_mul_ps(s->m[half], _mm256_cvtepi32_ps(_mm256_srli_epi32(b, 4)));
        break;
    }
    case DT_Q3_K:
        *sw = _mm256_mul_ps(s->d[half], bytes_to_ps(s->sc[2 * g + h] + 8 * half));
        break;
    case DT_Q4_K:
    case DT_Q5_K:
        *sw = _mm256_mul_ps(s->d[half], bytes_to_ps(s->sc[g] + 8 * half));
        *mw = _mm256_mul_ps(s->m[half], bytes_to_ps(s->mn[g] + 8 * half));
        break;
    case DT_IQ4_XS:
        *sw = _mm256_mul_ps(s->d[half], bytes_to_ps(s->sc[g] + 8 * half));
        break;
    default:
        *sw = s->d[half];
        if (type_minimum(type))
            *mw = s->m[half];
    }
}

#endif
#endif
