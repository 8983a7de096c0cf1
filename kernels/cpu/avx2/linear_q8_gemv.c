#include "kernels/cpu/avx2/linear_q8.h"

#if defined(__x86_64__)

#define PREFETCH_BYTES 2048 /* ahead of the code block in use */

/* Exact sum of n quads times one token, from start. */
INLINE __m256i dot_quads(enum dtype type, const __m256i *v, unsigned n, const int8_t *q, __m256i start)
{
    const unsigned step = type_quads(type) < n ? type_quads(type) : n;
    __m256i dot = start;

#pragma GCC unroll 8
    for (unsigned j = 0; j < n; j += step) {
        __m256i pairs = mul_quad(type_signed(type), v[j], quad_of(q + 4 * j));

#pragma GCC unroll 8
        for (unsigned i = 1; i < step; i++)
            pairs = _mm256_add_epi16(pairs, mul_quad(type_signed(type), v[j + i], quad_of(q + 4 * (j + i))));
        dot = _mm256_add_epi32(dot, widen_pairs(pairs));
    }
    return dot;
}

INLINE bool type_folds(enum dtype type)
{
    return !type_minimum(type) && !type_signed(type);
}

/* Group g of the unit, whose first column is c0, into the sums a of T tokens. */
INLINE void gemv_group(enum dtype type, unsigned T, const unsigned char *unit, const struct unit_scales *s, unsigned g,
                       uint32_t c0, const struct tokens *b, __m256 *a)
{
    const unsigned halves = type_halves(type), code_bytes = 64 * type_bits(type);
    const unsigned char *codes = unit + type_codes_at(type) + (size_t)g * code_bytes;
    const size_t c = c0 + 32 * (size_t)g;

#pragma GCC unroll 8
    for (unsigned i = 0; i < code_bytes; i += 64)
        _mm_prefetch((const char *)codes + PREFETCH_BYTES + i, _MM_HINT_T0);
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; half++) {
        __m256i v[8];

        unpack_codes(type, codes, half, v);
#pragma GCC unroll 2
        for (unsigned h = 0; h < halves; h++) {
            const size_t p = c / 32 * halves + h;
            __m256 sw, mw = _mm256_setzero_ps();

            group_scale(type, unit, s, g, h, half, &sw, &mw);
#pragma GCC unroll 2
            for (unsigned t = 0; t < T; t++) {
                const __m256i start =
                    type_folds(type) ? _mm256_set1_epi32(b->fold[t * b->ldp + p]) : _mm256_setzero_si256();
                const __m256i dot = dot_quads(type, v + 4 * h, 8 / halves, b->q + t * b->ldq + c + 16 * h, start);

                a[2 * t + half] = add_group(type_minimum(type), a[2 * t + half], dot, sw, b->d[t * b->ldd + c / 32], mw,
                                            type_minimum(type) ? b->sum[t * b->ldp + p] : 0);
            }
        }
    }
}

INLINE void gemv(enum dtype type, unsigned T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m256 *out)
{
    const unsigned cols = type_unit_cols(type);
    const struct tokens k = *b;
    __m256 a[2 * GEMV_TOKENS];

#pragma GCC unroll 4
    for (unsigned i = 0; i < 2 * T; i++)
        a[i] = _mm256_setzero_ps();
    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned g = 0; g < cols / 32; g++)
            gemv_group(type, T, tile, &s, g, c, &k, a);
        tile += type_unit_bytes(type);
    }
#pragma GCC unroll 4
    for (unsigned i = 0; i < 2 * T; i++)
        out[i] = a[i];
}

#define GEMV(type, n)                                                                                               \
    static void gemv_##type##_##n(const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m256 *a)   \
    {                                                                                                               \
        gemv(DT_##type, n, tile, n_cols, b, a);                                                                     \
    }
#define GEMVS(type) GEMV(type, 1) GEMV(type, 2)
#define ROW(type)   { DT_##type, { gemv_##type##_1, gemv_##type##_2 } }

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

gemv_fn gemv_q8_avx2(enum dtype type, unsigned n_tokens)
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
