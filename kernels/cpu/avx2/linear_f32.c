/* Float activations: F32, F16 and BF16 weights, and quantised ones for exact runs. Every sum is one chain of fused
 * multiply-adds in column order. */
#include "kernels/cpu/avx2/codes.h"
#include "kernels/cpu/avx2/linear.h"
#include "kernels/cpu/tokens.h"

#if defined(__x86_64__)

#define F32_TOKENS    4u  /* tokens in a register block, or 2, 1 */
#define DIRECT_TOKENS 12u /* halves are converted as they are read up to so many tokens, once into scratch beyond */

/* Columns c and c + 1 of the 16 rows of a tile: v[column][half]. */
INLINE void load_columns(enum dtype type, const unsigned char *tile, size_t c, __m256 v[2][2])
{
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; half++) {
        if (type == DT_F32) {
            v[0][half] = _mm256_loadu_ps((const float *)tile + 16 * c + 8 * half);
            v[1][half] = _mm256_loadu_ps((const float *)tile + 16 * (c + 1) + 8 * half);
        } else if (type == DT_F16) {
            v[0][half] = load_halves((const uint16_t *)tile + 16 * c + 8 * half);
            v[1][half] = load_halves((const uint16_t *)tile + 16 * (c + 1) + 8 * half);
        } else {
            const __m256i p = load256(tile + 32 * c + 32 * half);

            v[0][half] = _mm256_castsi256_ps(_mm256_slli_epi32(p, 16));
            v[1][half] = _mm256_castsi256_ps(_mm256_and_si256(p, _mm256_set1_epi32(INT32_C(-65536))));
        }
    }
}

/* The last column of an odd number; BF16 tiles have a zero column after it. */
INLINE void load_column(enum dtype type, const unsigned char *tile, size_t c, __m256 v[2])
{
    __m256 both[2][2];

    if (type == DT_BF16) {
        load_columns(type, tile, c, both);
        v[0] = both[0][0];
        v[1] = both[0][1];
        return;
    }
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; half++)
        v[half] = type == DT_F32 ? _mm256_loadu_ps((const float *)tile + 16 * c + 8 * half)
                                 : load_halves((const uint16_t *)tile + 16 * c + 8 * half);
}

INLINE void core(enum dtype type, unsigned T, const unsigned char *tile, uint32_t n_cols, const float *x, size_t ldx,
                 __m256 *out)
{
    __m256 a[2 * F32_TOKENS];
    uint32_t c;

#pragma GCC unroll 8
    for (unsigned i = 0; i < 2 * T; i++)
        a[i] = _mm256_setzero_ps();
    for (c = 0; c + 1 < n_cols; c += 2) {
        __m256 v[2][2];

        load_columns(type, tile, c, v);
#pragma GCC unroll 2
        for (unsigned k = 0; k < 2; k++)
#pragma GCC unroll 4
            for (unsigned t = 0; t < T; t++) {
                const __m256 xv = _mm256_set1_ps(x[t * ldx + c + k]);

                a[2 * t] = _mm256_fmadd_ps(v[k][0], xv, a[2 * t]);
                a[2 * t + 1] = _mm256_fmadd_ps(v[k][1], xv, a[2 * t + 1]);
            }
    }
    if (c < n_cols) {
        __m256 v[2];

        load_column(type, tile, c, v);
#pragma GCC unroll 8
        for (unsigned i = 0; i < 2 * T; i++)
            a[i] = _mm256_fmadd_ps(v[i % 2], _mm256_set1_ps(x[i / 2 * ldx + c]), a[i]);
    }
#pragma GCC unroll 8
    for (unsigned i = 0; i < 2 * T; i++)
        out[i] = a[i];
}

typedef void (*core_fn)(const unsigned char *tile, uint32_t n_cols, const float *x, size_t ldx, __m256 *a);

#define CORE(type, T)                                                                                                 \
    static void core_##type##_##T(const unsigned char *tile, uint32_t n_cols, const float *x, size_t ldx, __m256 *a) \
    {                                                                                                                 \
        core(DT_##type, T, tile, n_cols, x, ldx, a);                                                                  \
    }
#define CORES(type) CORE(type, 1) CORE(type, 2) CORE(type, 4)
#define NAMES(type) { core_##type##_1, core_##type##_2, core_##type##_4 }

CORES(F32)
CORES(F16)
CORES(BF16)

/* [type][log2 T] */
static const core_fn cores[3][3] = { NAMES(F32), NAMES(F16), NAMES(BF16) };

/* --- weights as an F32 tile ------------------------------------------------------------------------------------------- */

/* Column k of quad v as floats without offset. */
INLINE __m256 quad_column(enum dtype type, __m256i v, unsigned k)
{
    if (type_signed(type))
        return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(v, (int)(24 - 8 * k)), 24));
    v = _mm256_and_si256(_mm256_srli_epi32(v, (int)(8 * k)), _mm256_set1_epi32(255));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(v, _mm256_set1_epi32(type_offset(type))));
}

INLINE void expand(enum dtype type, const unsigned char *tile, uint32_t n_cols, float *out)
{
    const unsigned cols = type_unit_cols(type), halves = type_halves(type);

    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned i = 0; i < cols / 32 * 2; i++) {
            const unsigned g = i / 2, half = i % 2;
            float *o = out + 16 * ((size_t)c + 32 * g) + 8 * half;
            __m256 sw[2], mw[2];
            __m256i v[8];

            unpack_codes(type, tile + type_codes_at(type) + (size_t)g * 64 * type_bits(type), half, v);
            for (unsigned h = 0; h < halves; h++)
                group_scale(type, tile, &s, g, h, half, &sw[h], &mw[h]);
#pragma GCC unroll 32
            for (unsigned k = 0; k < 32; k++) {
                const __m256 f = quad_column(type, v[k / 4], k % 4);
                const unsigned h = k * halves / 32;

                /* the product is exact, so fusing the addition changes nothing */
                _mm256_store_ps(o + 16 * k, type_minimum(type) ? _mm256_fmadd_ps(sw[h], f, mw[h]) : _mm256_mul_ps(sw[h], f));
            }
        }
        tile += type_unit_bytes(type);
    }
}

INLINE void widen(enum dtype type, const unsigned char *tile, uint32_t n_cols, float *out)
{
    for (size_t c = 0; c < n_cols; c++) {
        __m256 v[2];

        if (type == DT_F16) {
            load_column(type, tile, c, v);
        } else {
            __m256 both[2][2];

            load_columns(type, tile, c & ~(size_t)1, both);
            v[0] = both[c & 1][0];
            v[1] = both[c & 1][1];
        }
        _mm256_store_ps(out + 16 * c, v[0]);
        _mm256_store_ps(out + 16 * c + 8, v[1]);
    }
}

static void to_f32(enum dtype type, const unsigned char *tile, uint32_t n_cols, float *out)
{
    switch (type) {
#define CASE(type)                            \
    case DT_##type:                           \
        expand(DT_##type, tile, n_cols, out); \
        break
        CASE(Q4_0);
        CASE(Q4_1);
        CASE(Q5_0);
        CASE(Q5_1);
        CASE(Q8_0);
        CASE(IQ4_NL);
        CASE(Q2_K);
        CASE(Q3_K);
        CASE(Q4_K);
        CASE(Q5_K);
        CASE(Q6_K);
        CASE(IQ4_XS);
#undef CASE
    case DT_F16:
        widen(DT_F16, tile, n_cols, out);
        break;
    default:
        widen(DT_BF16, tile, n_cols, out);
    }
}

/* --- tiles ------------------------------------------------------------------------------------------------------------ */

void linear_f32_avx2(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                     float *y, size_t ldy, void *scratch)
{
    const bool half = w->type == DT_F16 || w->type == DT_BF16;
    const bool direct = w->type == DT_F32 || (half && x->n_tokens <= DIRECT_TOKENS);
    const unsigned kind = !direct || w->type == DT_F32 ? 0 : w->type == DT_F16 ? 1 : 2;

    for (uint32_t tile = tile0; tile < tile1 && x->n_tokens; tile++) {
        const unsigned char *src = w->tiles + (size_t)tile * w->tile_bytes;
        uint32_t t, T;

        if (!direct) {
            to_f32(w->type, src, w->n_cols, scratch);
            src = scratch;
        }
        for (t = 0; t < x->n_tokens; t += T) {
            __m256 a[2 * F32_TOKENS];
            unsigned log_T;

            T = tokens_power(x->n_tokens - t, F32_TOKENS, &log_T);
            cores[kind][log_T](src, w->n_cols, x->f + (size_t)t * x->ld, x->ld, a);
            for (uint32_t i = 0; i < T; i++)
                put_tile(w, tile, mode, y + (t + i) * ldy, a + 2 * i);
        }
    }
}

#endif
