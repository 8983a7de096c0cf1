#include "kernels/cpu/avx512/linear_q8.h"

#if defined(__x86_64__)

/* A panel holds two tiles unpacked, one record for 32 columns: [8 quads][2 tiles][64] codes, then [halves][2][16] float scales,
 * then as many minima for the types that have them. A tile left alone at the end fills both places. */
#define NT 2u

INLINE size_t record_bytes(unsigned halves, bool minimum)
{
    return NT * (8 * 64 + 64 * halves * (minimum ? 2 : 1));
}

/* --- unpacking -------------------------------------------------------------------------------------------------------- */

INLINE void unpack_tile(enum dtype type, const unsigned char *tile, uint32_t n_cols, unsigned n,
                        unsigned char *panel)
{
    const unsigned cols = type_unit_cols(type), halves = type_halves(type);
    const size_t record = record_bytes(halves, type_minimum(type));

    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned g = 0; g < cols / 32; g++) {
            float *scales = (float *)(panel + NT * 512);
            __m512i v[8];

            unpack_codes(type, tile + type_codes_at(type) + (size_t)g * 64 * type_bits(type), v);
#pragma GCC unroll 8
            for (unsigned j = 0; j < 8; j++)
                _mm512_store_si512(panel + 64 * (NT * j + n), v[j]);
#pragma GCC unroll 2
            for (unsigned h = 0; h < halves; h++) {
                __m512 sw, mw;

                group_scale(type, tile, &s, g, h, &sw, &mw);
                _mm512_store_ps(scales + 16 * (NT * h + n), sw);
                if (type_minimum(type))
                    _mm512_store_ps(scales + 16 * (NT * (halves + h) + n), mw);
            }
            panel += record;
        }
        tile += type_unit_bytes(type);
    }
}

#define UNPACK(type)                                                                                                  \
    static void unpack_##type(const unsigned char *tile, uint32_t n_cols, unsigned n, unsigned char *panel) \
    {                                                                                                                 \
        unpack_tile(DT_##type, tile, n_cols, n, panel);                                                           \
    }
#define ROW(type) { DT_##type, unpack_##type }

UNPACK(Q4_0)
UNPACK(Q4_1)
UNPACK(Q5_0)
UNPACK(Q5_1)
UNPACK(Q8_0)
UNPACK(IQ4_NL)
UNPACK(Q2_K)
UNPACK(Q3_K)
UNPACK(Q4_K)
UNPACK(Q5_K)
UNPACK(Q6_K)
UNPACK(IQ4_XS)

typedef void (*unpack_fn)(const unsigned char *tile, uint32_t n_cols, unsigned n, unsigned char *panel);

static unpack_fn find_unpack(enum dtype type)
{
    static const struct {
        enum dtype type;
        unpack_fn fn;
    } table[] = { ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1), ROW(Q8_0), ROW(IQ4_NL),
                  ROW(Q2_K), ROW(Q3_K), ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_XS) };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == type)
            return table[i].fn;
    return NULL;
}

/* --- core ------------------------------------------------------------------------------------------------------------- */

/* Two tiles times T tokens: out[2 t + tile]. The integer sums of a group and the float sums of the row stay in registers. */
INLINE void core(unsigned T, unsigned halves, bool minimum, const unsigned char *panel, uint32_t n_groups,
                 const struct tokens *b, __m512 *out)
{
    const size_t record = record_bytes(halves, minimum), ldq = b->ldq, ldd = b->ldd, ldp = b->ldp;
    const int8_t *q = b->q;
    const float *d = b->d, *sum = b->sum;
    const int32_t *fold = b->fold;
    __m512 a[NT * GEMM_TOKENS];

#pragma GCC unroll 12
    for (unsigned i = 0; i < NT * T; i++)
        a[i] = _mm512_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++) {
#pragma GCC unroll 2
        for (unsigned h = 0; h < halves; h++) {
            const float *scales = (const float *)(panel + NT * 512);
            const unsigned quads = 8 / halves;
            __m512i dot[NT * GEMM_TOKENS];

#pragma GCC unroll 6
            for (unsigned t = 0; t < T; t++)
#pragma GCC unroll 2
                for (unsigned n = 0; n < NT; n++)
                    dot[t * NT + n] = minimum ? _mm512_setzero_si512() : _mm512_set1_epi32(fold[t * ldp + h]);
#pragma GCC unroll 8
            for (unsigned j = 0; j < quads; j++) {
                __m512i v[NT];

#pragma GCC unroll 2
                for (unsigned n = 0; n < NT; n++)
                    v[n] = _mm512_load_si512(panel + 64 * (NT * (h * quads + j) + n));
#pragma GCC unroll 6
                for (unsigned t = 0; t < T; t++) {
                    int32_t x;
                    __m512i xv;

                    __builtin_memcpy(&x, q + t * ldq + 16 * h + 4 * j, sizeof x);
                    xv = _mm512_set1_epi32(x);
#pragma GCC unroll 2
                    for (unsigned n = 0; n < NT; n++)
                        dot[t * NT + n] = _mm512_dpbusd_epi32(dot[t * NT + n], v[n], xv);
                }
            }
#pragma GCC unroll 6
            for (unsigned t = 0; t < T; t++)
#pragma GCC unroll 2
                for (unsigned n = 0; n < NT; n++) {
                    const __m512 sw = _mm512_load_ps(scales + 16 * (NT * h + n));
                    const __m512 s = _mm512_mul_ps(sw, _mm512_set1_ps(d[t * ldd]));

                    a[t * NT + n] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[t * NT + n]), s, a[t * NT + n]);
                    if (minimum)
                        a[t * NT + n] = _mm512_fmadd_ps(_mm512_load_ps(scales + 16 * (NT * (halves + h) + n)),
                                                        _mm512_set1_ps(sum[t * ldp + h]), a[t * NT + n]);
                }
        }
        panel += record;
        q += 32;
        d++;
        sum += halves;
        fold += halves;
    }
#pragma GCC unroll 12
    for (unsigned i = 0; i < NT * T; i++)
        out[i] = a[i];
}

typedef void (*core_fn)(const unsigned char *panel, uint32_t n_groups, const struct tokens *b, __m512 *a);

#define CORE(T, halves, minimum)                                                                                     \
    static void core_##T##_##halves##_##minimum(const unsigned char *panel, uint32_t n_groups, const struct tokens *b, \
                                                __m512 *a)                                                           \
    {                                                                                                                \
        core(T, halves, minimum, panel, n_groups, b, a);                                                            \
    }
#define CORES(halves, minimum) CORE(4, halves, minimum) CORE(5, halves, minimum) CORE(6, halves, minimum)
#define NAMES(halves, minimum) { core_4_##halves##_##minimum, core_5_##halves##_##minimum, core_6_##halves##_##minimum }

CORES(1, 0)
CORES(1, 1)
CORES(2, 0)
CORES(2, 1)

/* [halves - 1][minimum][T - 4]; blocks of nearly equal size are never smaller when there are more than GEMV_TOKENS tokens */
static const core_fn cores[2][2][GEMM_TOKENS - 3] = { { NAMES(1, 0), NAMES(1, 1) }, { NAMES(2, 0), NAMES(2, 1) } };

/* --- tiles ------------------------------------------------------------------------------------------------------------ */

/* Tokens of b, n of them, times the panel's nt tiles from `tile` on. */
static void panel_tokens(const struct wmat *w, uint32_t tile, unsigned nt, const unsigned char *panel, const struct tokens *b,
                         uint32_t n, enum linear_mode mode, float *y, size_t ldy)
{
    const struct unit_info *u = unit_info(w->type);
    const core_fn *const fns = cores[32u / u->group - 1][u->minimum];
    uint32_t t, T;

    for (t = 0; t < n; t += T) {
        const struct tokens part = tokens_from(b, t);
        __m512 a[NT * GEMM_TOKENS];

        T = tokens_block(n - t, GEMM_TOKENS);
        fns[T - 4](panel, w->n_cols / 32, &part, a);
        for (uint32_t i = 0; i < T; i++)
            for (unsigned k = 0; k < nt; k++)
                put_tile(w, tile + k, mode, y + (t + i) * ldy, a[i * NT + k]);
    }
}

void gemm_q8_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                    float *y, size_t ldy, void *scratch)
{
    const struct unit_info *u = unit_info(w->type);
    const unpack_fn unpack = find_unpack(w->type);
    unsigned char *panel = scratch;
    void *sums = panel + w->n_cols / 32 * record_bytes(32u / u->group, u->minimum);
    uint32_t t, n;

    for (t = 0; t < x->n_tokens; t += n) {
        struct tokens b;

        n = tokens_block(x->n_tokens - t, tokens_max(w));
        tokens_init(&b, x, t, n, w, sums);
        for (uint32_t tile = tile0; tile < tile1; tile += 2) {
            const unsigned nt = tile1 - tile > 1 ? 2 : 1;

            for (unsigned k = 0; k < NT; k++)
                unpack(w->tiles + (size_t)(tile + k % nt) * w->tile_bytes, w->n_cols, k, panel);
            panel_tokens(w, tile, nt, panel, &b, n, mode, y + (size_t)t * ldy, ldy);
        }
    }
}

#endif
