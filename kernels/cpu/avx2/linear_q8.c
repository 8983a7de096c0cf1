/* Quantised weights times int8 activations: 32 columns of 8 rows are unpacked into registers, then multiplied with a block of
 * tokens, whose float sums are in memory. */
#include "kernels/cpu/avx2/codes.h"
#include "kernels/cpu/avx2/linear.h"
#include "kernels/cpu/tokens.h"

#if defined(__x86_64__)

#define Q8_TOKENS      32u  /* tokens that share one unpacking */
#define PREFETCH_BYTES 2048 /* ahead of the code block in use */

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
INLINE void block_group(enum dtype type, uint32_t T, const unsigned char *unit, const struct unit_scales *s, unsigned g,
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
        __m256 sw[2], mw[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
        __m256i v[8];

        unpack_codes(type, codes, half, v);
#pragma GCC unroll 2
        for (unsigned h = 0; h < halves; h++)
            group_scale(type, unit, s, g, h, half, &sw[h], &mw[h]);
        for (uint32_t t = 0; t < T; t++) {
            const int8_t *q = b->q + t * b->ldq + c;
            const size_t p = t * b->ldp + c / 32 * halves;

#pragma GCC unroll 2
            for (unsigned h = 0; h < halves; h++) {
                const __m256i start = type_folds(type) ? _mm256_set1_epi32(b->fold[p + h]) : _mm256_setzero_si256();
                const __m256i dot = dot_quads(type, v + 4 * h, 8 / halves, q + 16 * h, start);

                a[2 * t + half] = add_group(type_minimum(type), a[2 * t + half], dot, sw[h], b->d[t * b->ldd + c / 32],
                                            mw[h], type_minimum(type) ? b->sum[p + h] : 0);
            }
        }
    }
}

INLINE void block(enum dtype type, uint32_t T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m256 *a)
{
    const unsigned cols = type_unit_cols(type);
    const struct tokens k = *b;

    for (uint32_t i = 0; i < 2 * T; i++)
        a[i] = _mm256_setzero_ps();
    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned g = 0; g < cols / 32; g++)
            block_group(type, T, tile, &s, g, c, &k, a);
        tile += type_unit_bytes(type);
    }
}

/* One token keeps its sums in registers; several have theirs in memory. */
#define BLOCK(type)                                                                                                  \
    static void block_##type(uint32_t T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m256 *a) \
    {                                                                                                                \
        if (T == 1) {                                                                                                \
            __m256 one[2];                                                                                           \
                                                                                                                     \
            block(DT_##type, 1, tile, n_cols, b, one);                                                                \
            a[0] = one[0];                                                                                           \
            a[1] = one[1];                                                                                           \
        } else {                                                                                                     \
            block(DT_##type, T, tile, n_cols, b, a);                                                                  \
        }                                                                                                            \
    }
#define ROW(type) { DT_##type, block_##type }

BLOCK(Q4_0)
BLOCK(Q4_1)
BLOCK(Q5_0)
BLOCK(Q5_1)
BLOCK(Q8_0)
BLOCK(IQ4_NL)
BLOCK(Q2_K)
BLOCK(Q3_K)
BLOCK(Q4_K)
BLOCK(Q5_K)
BLOCK(Q6_K)
BLOCK(IQ4_XS)

typedef void (*block_fn)(uint32_t T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m256 *a);

static block_fn find_block(enum dtype type)
{
    static const struct {
        enum dtype type;
        block_fn fn;
    } table[] = { ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1), ROW(Q8_0), ROW(IQ4_NL),
                  ROW(Q2_K), ROW(Q3_K), ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_XS) };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == type)
            return table[i].fn;
    return NULL;
}

void linear_q8_avx2(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                    float *y, size_t ldy, void *scratch)
{
    const block_fn fn = find_block(w->type);
    uint32_t t0, n, t, T;

    for (t0 = 0; t0 < x->n_tokens; t0 += n) {
        struct tokens b;

        n = tokens_block(x->n_tokens - t0, tokens_max(w));
        tokens_init(&b, x, t0, n, w, scratch);
        for (uint32_t tile = tile0; tile < tile1; tile++)
            for (t = 0; t < n; t += T) {
                const struct tokens part = tokens_from(&b, t);
                __m256 a[2 * Q8_TOKENS];

                T = tokens_block(n - t, Q8_TOKENS);
                fn(T, w->tiles + (size_t)tile * w->tile_bytes, w->n_cols, &part, a);
                for (uint32_t i = 0; i < T; i++)
                    put_tile(w, tile, mode, y + (t0 + t + i) * ldy, a + 2 * i);
            }
    }
}

#endif
