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
INLINE void gemv_group(enum dtype type, uint32_t T, const unsigned char *unit, const struct unit_scales *s, unsigned g,
                       uint32_t c0, const struct tokens *b, __m512 *a)
{
    const unsigned halves = type_halves(type), code_bytes = 64 * type_bits(type);
    const unsigned char *codes = unit + type_codes_at(type) + (size_t)g * code_bytes;
    const size_t c = c0 + 32 * (size_t)g;
    __m512 sw[2], mw[2];
    __m512i v[8];

#pragma GCC unroll 8
    for (unsigned i = 0; i < code_bytes; i += 64)
        _mm_prefetch((const char *)codes + PREFETCH_BYTES + i, _MM_HINT_T0);
    unpack_codes(type, codes, v);
#pragma GCC unroll 2
    for (unsigned h = 0; h < halves; h++)
        group_scale(type, unit, s, g, h, &sw[h], &mw[h]);
    for (uint32_t t = 0; t < T; t++) {
        const int8_t *q = b->q + t * b->ldq + c;
        const size_t p = t * b->ldp + c / 32 * halves;
        const __m512 dx = _mm512_set1_ps(b->d[t * b->ldd + c / 32]);
        __m512 sum = a[t];

#pragma GCC unroll 2
        for (unsigned h = 0; h < halves; h++) {
            const __m512i start = type_minimum(type) ? _mm512_setzero_si512() : _mm512_set1_epi32(b->fold[p + h]);
            const __m512i dot = dot_quads(v + 4 * h, 8 / (int)halves, q + 16 * h, start);

            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(sw[h], dx), sum);
            if (type_minimum(type))
                sum = _mm512_fmadd_ps(mw[h], _mm512_set1_ps(b->sum[p + h]), sum);
        }
        a[t] = sum;
    }
}

INLINE void gemv(enum dtype type, uint32_t T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m512 *a)
{
    const unsigned cols = type_unit_cols(type);
    const struct tokens k = *b;

    for (uint32_t t = 0; t < T; t++)
        a[t] = _mm512_setzero_ps();
    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned g = 0; g < cols / 32; g++)
            gemv_group(type, T, tile, &s, g, c, &k, a);
        tile += type_unit_bytes(type);
    }
}

/* One token keeps its sums in a register; several have theirs in memory. */
#define GEMVS(type)                                                                                                  \
    static void gemv_##type(uint32_t T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m512 *a) \
    {                                                                                                                \
        if (T == 1) {                                                                                                \
            __m512 one;                                                                                              \
                                                                                                                     \
            gemv(DT_##type, 1, tile, n_cols, b, &one);                                                               \
            *a = one;                                                                                                \
        } else {                                                                                                     \
            gemv(DT_##type, T, tile, n_cols, b, a);                                                                  \
        }                                                                                                            \
    }
#define ROW(type) { DT_##type, gemv_##type }

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

gemv_fn gemv_q8_avx512(enum dtype type)
{
    static const struct {
        enum dtype type;
        gemv_fn fn;
    } table[] = { ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1), ROW(Q8_0), ROW(IQ4_NL),
                  ROW(Q2_K), ROW(Q3_K), ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_XS) };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == type)
            return table[i].fn;
    return NULL;
}

#endif
