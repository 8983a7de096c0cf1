#include "kernels/cpu/avx512/linear_q8.h"

#if defined(__x86_64__)

#define PREFETCH_BYTES 2048 /* ahead of the code block in use */

/* Products of half h (quads 4h .. 4h + 3) or, for whole groups, of all eight quads with one token: two chains. */
INLINE __m512i dot_quads(const __m512i *v, int n, const int8_t *q, __m512i even)
{
    __m512i odd = _mm512_setzero_si512();

#pragma GCC unroll 4
    for (int j = 0; j < n; j += 2) {
        int32_t x[2];

        __builtin_memcpy(x, q + 4 * j, sizeof x);
        even = _mm512_dpbusd_epi32(even, v[j], _mm512_set1_epi32(x[0]));
        odd = _mm512_dpbusd_epi32(odd, v[j + 1], _mm512_set1_epi32(x[1]));
    }
    return _mm512_add_epi32(even, odd);
}

/* Group g of the unit, whose first column is c0, into the sums a of T tokens. */
INLINE void gemv_group(enum dtype type, unsigned T, const unsigned char *unit, const struct unit_scales *s, unsigned g,
                       uint32_t c0, const struct tokens *b, __m512 *a)
{
    const unsigned halves = type_halves(type), code_bytes = 64 * type_bits(type);
    const unsigned char *codes = unit + type_codes_at(type) + (size_t)g * code_bytes;
    const size_t c = c0 + 32 * (size_t)g;
    __m512i v[8];

#pragma GCC unroll 8
    for (unsigned i = 0; i < code_bytes; i += 64)
        _mm_prefetch((const char *)codes + PREFETCH_BYTES + i, _MM_HINT_T0);
    unpack_codes(type, codes, v);
#pragma GCC unroll 2
    for (unsigned h = 0; h < halves; h++) {
        const size_t p = c / 32 * halves + h;
        __m512 sw, mw;

        group_scale(type, unit, s, g, h, &sw, &mw);
#pragma GCC unroll 4
        for (unsigned t = 0; t < T; t++) {
            const __m512i start =
                type_minimum(type) ? _mm512_setzero_si512() : _mm512_set1_epi32(b->fold[t * b->ldp + p]);
            const __m512i dot = dot_quads(v + 4 * h, 8 / (int)halves, b->q + t * b->ldq + c + 16 * h, start);

            a[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(sw, _mm512_set1_ps(b->d[t * b->ldd + c / 32])),
                                   a[t]);
            if (type_minimum(type))
                a[t] = _mm512_fmadd_ps(mw, _mm512_set1_ps(b->sum[t * b->ldp + p]), a[t]);
        }
    }
}

INLINE void gemv(enum dtype type, unsigned T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m512 *out)
{
    const unsigned cols = type_unit_cols(type);
    const struct tokens k = *b;
    __m512 a[GEMV_TOKENS];

#pragma GCC unroll 4
    for (unsigned t = 0; t < T; t++)
        a[t] = _mm512_setzero_ps();
    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned g = 0; g < cols / 32; g++)
            gemv_group(type, T, tile, &s, g, c, &k, a);
        tile += type_unit_bytes(type);
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < T; t++)
        out[t] = a[t];
}

#define GEMV(type, n)                                                                                               \
    static void gemv_##type##_##n(const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m512 *a)   \
    {                                                                                                               \
        gemv(DT_##type, n, tile, n_cols, b, a);                                                                     \
    }
#define GEMVS(type) GEMV(type, 1) GEMV(type, 2) GEMV(type, 3) GEMV(type, 4)
#define ROW(type)   { DT_##type, { gemv_##type##_1, gemv_##type##_2, gemv_##type##_3, gemv_##type##_4 } }

GEMVS(Q4_0)
GEMVS(Q4_1)
GEMVS(Q5_0)
GEMVS(Q5_1)
GEMVS(Q8_0)
GEMVS(IQ4_NL)
GEMVS(Q2_K)
GEMVS(Q3_K)
GEMVS(Q4_K)
GEMVS(Q5_K)
GEMVS(Q6_K)
GEMVS(IQ4_XS)

gemv_fn gemv_q8_avx512(enum dtype type, unsigned n_tokens)
{
    static const struct {
        enum dtype type;
        gemv_fn fn[GEMV_TOKENS];
    } table[] = { ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1), ROW(Q8_0), ROW(IQ4_NL),
                  ROW(Q2_K), ROW(Q3_K), ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_XS) };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == type)
            return table[i].fn[n_tokens - 1];
    return NULL;
}

#endif
