#include "kernels/cpu/avx2/linear_q8.h"

#if defined(__x86_64__)

/* A panel holds a tile unpacked, one record for 32 columns: [8 quads][64] codes, then [halves][16] float scales, then as many
 * minima for the types that have them. */
INLINE size_t record_bytes(unsigned halves, bool minimum)
{
    return 8 * 64 + 64 * halves * (minimum ? 2 : 1);
}

/* --- unpacking -------------------------------------------------------------------------------------------------------- */

INLINE void unpack_tile(enum dtype type, const unsigned char *tile, uint32_t n_cols, unsigned char *panel)
{
    const unsigned cols = type_unit_cols(type), halves = type_halves(type);

    for (uint32_t c = 0; c < n_cols; c += cols) {
        struct unit_scales s;

        load_unit_scales(type, tile, &s);
        for (unsigned g = 0; g < cols / 32; g++) {
            float *scales = (float *)(panel + 512);

#pragma GCC unroll 2
            for (unsigned half = 0; half < 2; half++) {
                __m256i v[8];

                unpack_codes(type, tile + type_codes_at(type) + (size_t)g * 64 * type_bits(type), half, v);
#pragma GCC unroll 8
                for (unsigned j = 0; j < 8; j++)
                    _mm256_store_si256((void *)(panel + 64 * j + 32 * half), v[j]);
#pragma GCC unroll 2
                for (unsigned h = 0; h < halves; h++) {
                    __m256 sw, mw;

                    group_scale(type, tile, &s, g, h, half, &sw, &mw);
                    _mm256_store_ps(scales + 16 * h + 8 * half, sw);
                    if (type_minimum(type))
                        _mm256_store_ps(scales + 16 * (halves + h) + 8 * half, mw);
                }
            }
            panel += record_bytes(halves, type_minimum(type));
        }
        tile += type_unit_bytes(type);
    }
}

typedef void (*unpack_fn)(const unsigned char *tile, uint32_t n_cols, unsigned char *panel);

/* --- core ------------------------------------------------------------------------------------------------------------- */

/* Exact sums of n quads of the panel for T tokens and both halves of the tile, added to dot[2 * t + half]. */
INLINE void dot_block(bool is_signed, unsigned step, unsigned T, unsigned n, const unsigned char *panel, const int8_t *q,
                      size_t ldq, __m256i *dot)
{
#pragma GCC unroll 8
    for (unsigned j = 0; j < n; j += step) {
        __m256i pairs[2 * GEMM_TOKENS];

#pragma GCC unroll 8
        for (unsigned i = 0; i < step; i++) {
            const __m256i w0 = _mm256_load_si256((const void *)(panel + 64 * (j + i)));
            const __m256i w1 = _mm256_load_si256((const void *)(panel + 64 * (j + i) + 32));

#pragma GCC unroll 4
            for (unsigned t = 0; t < T; t++) {
                const __m256i x = quad_of(q + t * ldq + 4 * (j + i));
                const __m256i p0 = mul_quad(is_signed, w0, x), p1 = mul_quad(is_signed, w1, x);

                pairs[2 * t] = i ? _mm256_add_epi16(pairs[2 * t], p0) : p0;
                pairs[2 * t + 1] = i ? _mm256_add_epi16(pairs[2 * t + 1], p1) : p1;
            }
        }
#pragma GCC unroll 8
        for (unsigned i = 0; i < 2 * T; i++)
            dot[i] = _mm256_add_epi32(dot[i], widen_pairs(pairs[i]));
    }
}

/* One tile times T tokens. */
INLINE void core(unsigned T, unsigned halves, bool minimum, bool is_signed, unsigned step, const unsigned char *panel,
                 uint32_t n_groups, const struct tokens *b, __m256 *out)
{
    const size_t record = record_bytes(halves, minimum);
    struct tokens k = *b;
    __m256 a[2 * GEMM_TOKENS];

#pragma GCC unroll 8
    for (unsigned i = 0; i < 2 * T; i++)
        a[i] = _mm256_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++) {
        const float *scales = (const float *)(panel + 512);

#pragma GCC unroll 2
        for (unsigned h = 0; h < halves; h++) {
            const unsigned quads = 8 / halves;
            __m256i dot[2 * GEMM_TOKENS];

#pragma GCC unroll 8
            for (unsigned i = 0; i < 2 * T; i++)
                dot[i] = minimum || is_signed ? _mm256_setzero_si256() : _mm256_set1_epi32(k.fold[i / 2 * k.ldp + h]);
            dot_block(is_signed, step < quads ? step : quads, T, quads, panel + 64 * quads * h, k.q + 16 * h, k.ldq, dot);
#pragma GCC unroll 8
            for (unsigned i = 0; i < 2 * T; i++) {
                const __m256 sw = _mm256_load_ps(scales + 16 * h + 8 * (i % 2));
                const __m256 mw = minimum ? _mm256_load_ps(scales + 16 * (halves + h) + 8 * (i % 2)) : sw;

                a[i] = add_group(minimum, a[i], dot[i], sw, k.d[i / 2 * k.ldd], mw, minimum ? k.sum[i / 2 * k.ldp + h] : 0);
            }
        }
        panel += record;
        k.q += 32;
        k.d++;
        k.sum += halves;
        k.fold += halves;
    }
#pragma GCC unroll 8
    for (unsigned i = 0; i < 2 * T; i++)
        out[i] = a[i];
}

typedef void (*core_fn)(const unsigned char *panel, uint32_t n_groups, const struct tokens *b, __m256 *a);

#define CORE(type, T)                                                                                               \
    static void core_##type##_##T(const unsigned char *panel, uint32_t n_groups, const struct tokens *b, __m256 *a) \
    {                                                                                                               \
        core(T, type_halves(DT_##type), type_minimum(DT_##type), type_signed(DT_##type), type_quads(DT_##type),    \
             panel, n_groups, b, a);                                                                                \
    }
#define CORES(type) CORE(type, 1) CORE(type, 2) CORE(type, 3) CORE(type, 4)
#define UNPACK(type)                                                                          \
    static void unpack_##type(const unsigned char *tile, uint32_t n_cols, unsigned char *panel) \
    {                                                                                         \
        unpack_tile(DT_##type, tile, n_cols, panel);                                          \
    }

/* One set of cores for the types whose panels are alike: named after the first of them. */
CORES(Q4_0)
CORES(Q4_1)
CORES(Q5_0)
CORES(Q5_1)
CORES(Q8_0)
CORES(Q2_K)
CORES(Q3_K)
CORES(Q6_K)

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

struct functions {
    enum dtype type;
    unpack_fn unpack;
    core_fn core[GEMM_TOKENS];
};

#define ROW(type, like) { DT_##type, unpack_##type, { core_##like##_1, core_##like##_2, core_##like##_3, core_##like##_4 } }

static const struct functions *find_functions(enum dtype type)
{
    static const struct functions table[] = { ROW(Q4_0, Q4_0), ROW(Q4_1, Q4_1),   ROW(Q5_0, Q5_0), ROW(Q5_1, Q5_1),
                                              ROW(Q8_0, Q8_0), ROW(IQ4_NL, Q8_0), ROW(Q2_K, Q2_K), ROW(Q3_K, Q3_K),
                                              ROW(Q4_K, Q4_1), ROW(Q5_K, Q5_1),   ROW(Q6_K, Q6_K), ROW(IQ4_XS, Q8_0) };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == type)
            return &table[i];
    return NULL;
}

/* --- tiles ------------------------------------------------------------------------------------------------------------ */

void gemm_q8_avx2(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode, float *y,
                  size_t ldy, void *scratch)
{
    const struct unit_info *u = unit_info(w->type);
    const struct functions *f = find_functions(w->type);
    unsigned char *panel = scratch;
    void *sums = panel + w->n_cols / 32 * record_bytes(32u / u->group, u->minimum);
    uint32_t t0, n, t, T;

    for (t0 = 0; t0 < x->n_tokens; t0 += n) {
        struct tokens b;

        n = tokens_block(x->n_tokens - t0, tokens_max(w));
        tokens_init(&b, x, t0, n, w, sums);
        for (uint32_t tile = tile0; tile < tile1; tile++) {
            f->unpack(w->tiles + (size_t)tile * w->tile_bytes, w->n_cols, panel);
            for (t = 0; t < n; t += T) {
                const struct tokens part = tokens_from(&b, t);
                __m256 a[2 * GEMM_TOKENS];

                T = tokens_block(n - t, GEMM_TOKENS);
                f->core[T - 1](panel, w->n_cols / 32, &part, a);
                for (uint32_t i = 0; i < T; i++)
                    put_tile(w, tile, mode, y + (t0 + t + i) * ldy, a + 2 * i);
            }
        }
    }
}

#endif
