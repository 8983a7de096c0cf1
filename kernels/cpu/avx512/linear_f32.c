/* Float activations: F32, F16 and BF16 weights, and quantised ones for exact runs. Every sum is one chain of fused
 * multiply-adds in column order. */
#include "kernels/cpu/avx512/codes.h"
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/tokens.h"

#if defined(__x86_64__)

#define NT            2u  /* tiles in a register block; a tile left alone at the end is taken twice */
#define F32_TOKENS    8u  /* tokens in a register block, or 4, 2, 1 */
#define DIRECT_TOKENS 16u /* halves are converted as they are read up to so many tokens, once into scratch beyond */

/* Two columns, c and c + 1, of the 16 rows of a tile. */
INLINE void load_columns(enum dtype type, const unsigned char *tile, size_t c, __m512 v[2])
{
    if (type == DT_F32) {
        v[0] = _mm512_loadu_ps(tile + 64 * c);
        v[1] = _mm512_loadu_ps(tile + 64 * c + 64);
    } else if (type == DT_F16) {
        v[0] = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(tile + 32 * c)));
        v[1] = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(tile + 32 * c + 32)));
    } else {
        const __m512i p = load512(tile + 32 * c);

        v[0] = _mm512_castsi512_ps(_mm512_slli_epi32(p, 16));
        v[1] = _mm512_castsi512_ps(_mm512_and_si512(p, _mm512_set1_epi32(INT32_C(-65536))));
    }
}

/* The last column of an odd number; BF16 tiles have a zero column after it. */
INLINE __m512 load_column(enum dtype type, const unsigned char *tile, size_t c)
{
    __m512 v[2];

    if (type == DT_F32)
        return _mm512_loadu_ps(tile + 64 * c);
    if (type == DT_F16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(tile + 32 * c)));
    load_columns(type, tile, c, v);
    return v[0];
}

INLINE void core(enum dtype type, unsigned T, const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const float *x,
                 size_t ldx, __m512 *out)
{
    __m512 a[NT * F32_TOKENS];
    uint32_t c;

#pragma GCC unroll 16
    for (unsigned i = 0; i < NT * T; i++)
        a[i] = _mm512_setzero_ps();
    for (c = 0; c + 1 < n_cols; c += 2) {
        __m512 v[NT][2];

#pragma GCC unroll 2
        for (unsigned n = 0; n < NT; n++)
            load_columns(type, tiles + n * tile_bytes, c, v[n]);
#pragma GCC unroll 2
        for (unsigned k = 0; k < 2; k++)
#pragma GCC unroll 8
            for (unsigned t = 0; t < T; t++) {
                const __m512 xv = _mm512_set1_ps(x[t * ldx + c + k]);

#pragma GCC unroll 2
                for (unsigned n = 0; n < NT; n++)
                    a[t * NT + n] = _mm512_fmadd_ps(v[n][k], xv, a[t * NT + n]);
            }
    }
    if (c < n_cols)
        for (unsigned n = 0; n < NT; n++) {
            const __m512 v = load_column(type, tiles + n * tile_bytes, c);

#pragma GCC unroll 8
            for (unsigned t = 0; t < T; t++)
                a[t * NT + n] = _mm512_fmadd_ps(v, _mm512_set1_ps(x[t * ldx + c]), a[t * NT + n]);
        }
#pragma GCC unroll 16
    for (unsigned i = 0; i < NT * T; i++)
        out[i] = a[i];
}

typedef void (*core_fn)(const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const float *x, size_t ldx, __m512 *a);

#define CORE(type, T)                                                                                                 \
    static void core_##type##_##T(const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const float *x,     \
                                  size_t ldx, __m512 *a)                                                              \
    {                                                                                                                 \
        core(DT_##type, T, tiles, tile_bytes, n_cols, x, ldx, a);                                                    \
    }
#define CORES(type) CORE(type, 1) CORE(type, 2) CORE(type, 4) CORE(type, 8)
#define NAMES(type) { core_##type##_1, core_##type##_2, core_##type##_4, core_##type##_8 }

CORES(F32)
CORES(F16)
CORES(BF16)

/* [type][log2 T] */
static const core_fn cores[3][4] = { NAMES(F32), NAMES(F16), NAMES(BF16) };

/* --- weights as an F32 tile ------------------------------------------------------------------------------------------- */

INLINE void expand(enum dtype type, const unsigned char *tile, uint32_t n_cols, float *out)
{
    const unsigned cols = type_unit_cols(type), halves = type_halves(type);
    const __m512i byte = _mm512_set1_epi32(255), offset = _mm512_set1_epi32(type_offset(type));

    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned g = 0; g < cols / 32; g++) {
            __m512 sw[2], mw[2];
            __m512i v[8];

            unpack_codes(type, tile + type_codes_at(type) + (size_t)g * 64 * type_bits(type), v);
            for (unsigned h = 0; h < halves; h++)
                group_scale(type, tile, &s, g, h, &sw[h], &mw[h]);
#pragma GCC unroll 8
            for (unsigned j = 0; j < 8; j++)
#pragma GCC unroll 4
                for (unsigned k = 0; k < 4; k++) {
                    const __m512i q = _mm512_sub_epi32(_mm512_and_si512(_mm512_srli_epi32(v[j], 8 * k), byte), offset);
                    const __m512 f = _mm512_cvtepi32_ps(q);
                    const unsigned h = j * halves / 8;

                    /* the product is exact, so fusing the addition changes nothing */
                    _mm512_store_ps(out, type_minimum(type) ? _mm512_fmadd_ps(sw[h], f, mw[h]) : _mm512_mul_ps(sw[h], f));
                    out += 16;
                }
        }
        tile += type_unit_bytes(type);
    }
}

static void widen_f16(const unsigned char *tile, uint32_t n_cols, float *out)
{
    for (size_t c = 0; c < n_cols; c++)
        _mm512_store_ps(out + 16 * c, load_column(DT_F16, tile, c));
}

static void widen_bf16(const unsigned char *tile, uint32_t n_cols, float *out)
{
    for (uint32_t c = 0; c < n_cols; c += 2) {
        __m512 v[2];

        load_columns(DT_BF16, tile, c, v);
        _mm512_store_ps(out + 16 * (size_t)c, v[0]);
        if (c + 1 < n_cols)
            _mm512_store_ps(out + 16 * (size_t)c + 16, v[1]);
    }
}

static void to_f32(enum dtype type, const unsigned char *tile, uint32_t n_cols, float *out)
{
    switch (type) {
#define CASE(type)                                  \
    case DT_##type:                                 \
        expand(DT_##type, tile, n_cols, out);       \
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
        widen_f16(tile, n_cols, out);
        break;
    default:
        widen_bf16(tile, n_cols, out);
    }
}

/* --- tiles ------------------------------------------------------------------------------------------------------------ */

void linear_f32_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                       float *y, size_t ldy, void *scratch)
{
    const bool half = w->type == DT_F16 || w->type == DT_BF16;
    const bool direct = w->type == DT_F32 || (half && x->n_tokens <= DIRECT_TOKENS);
    const unsigned kind = !direct || w->type == DT_F32 ? 0 : w->type == DT_F16 ? 1 : 2;

    for (uint32_t tile = tile0; tile < tile1 && x->n_tokens;) {
        const unsigned nt = tile1 - tile > 1 ? 2 : 1;
        const unsigned char *src = w->tiles + (size_t)tile * w->tile_bytes;
        size_t stride = nt == 2 ? w->tile_bytes : 0;
        uint32_t t, T;

        if (!direct) {
            for (unsigned n = 0; n < nt; n++)
                to_f32(w->type, src + n * w->tile_bytes, w->n_cols, (float *)scratch + 16 * (size_t)w->n_cols * n);
            src = scratch;
            stride = nt == 2 ? 64 * (size_t)w->n_cols : 0;
        }
        for (t = 0; t < x->n_tokens; t += T) {
            __m512 a[NT * F32_TOKENS];
            unsigned log_T;

            T = tokens_power(x->n_tokens - t, F32_TOKENS, &log_T);
            cores[kind][log_T](src, stride, w->n_cols, x->f + (size_t)t * x->ld, x->ld, a);
            for (uint32_t i = 0; i < T; i++)
                for (unsigned n = 0; n < nt; n++)
                    put_tile(w, tile + n, mode, y + (t + i) * ldy, a[i * NT + n]);
        }
        tile += nt;
    }
}

#endif
