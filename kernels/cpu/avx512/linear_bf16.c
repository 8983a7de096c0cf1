/* BF16 weights times BF16 activations with vdpbf16ps: pairs of columns, one chain for each sum. */
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/tokens.h"

#if defined(__x86_64__)

#include <string.h>

#define BF16_TOKENS 8u

INLINE __m512bh pairs(__m512i v)
{
    __m512bh h;

    memcpy(&h, &v, sizeof h);
    return h;
}

/* Activations past an odd n_cols are zero and so is the weight beside the last column. */
INLINE void core(unsigned nt, unsigned T, const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const uint16_t *x,
                 size_t ldx, __m512 *out)
{
    __m512 a[2 * BF16_TOKENS];

#pragma GCC unroll 16
    for (unsigned i = 0; i < nt * T; i++)
        a[i] = _mm512_setzero_ps();
    for (size_t c = 0; c < n_cols; c += 2) {
        __m512i v[2];

#pragma GCC unroll 2
        for (unsigned n = 0; n < nt; n++)
            v[n] = _mm512_load_si512(tiles + n * tile_bytes + 32 * c);
#pragma GCC unroll 8
        for (unsigned t = 0; t < T; t++) {
            int32_t pair;
            __m512i xv;

            memcpy(&pair, x + t * ldx + c, sizeof pair);
            xv = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
            for (unsigned n = 0; n < nt; n++)
                a[t * nt + n] = _mm512_dpbf16_ps(a[t * nt + n], pairs(v[n]), pairs(xv));
        }
    }
#pragma GCC unroll 16
    for (unsigned i = 0; i < nt * T; i++)
        out[i] = a[i];
}

typedef void (*core_fn)(const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const uint16_t *x, size_t ldx,
                        __m512 *a);

#define CORE(nt, T)                                                                                                   \
    static void core_##nt##_##T(const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const uint16_t *x,    \
                                size_t ldx, __m512 *a)                                                                \
    {                                                                                                                 \
        core(nt, T, tiles, tile_bytes, n_cols, x, ldx, a);                                                           \
    }
#define CORES_N(nt) CORE(nt, 1) CORE(nt, 2) CORE(nt, 3) CORE(nt, 4) CORE(nt, 5) CORE(nt, 6) CORE(nt, 7) CORE(nt, 8)
#define NAMES_N(nt)                                                                                                   \
    { core_##nt##_1, core_##nt##_2, core_##nt##_3, core_##nt##_4, core_##nt##_5, core_##nt##_6, core_##nt##_7, core_##nt##_8 }

CORES_N(1)
CORES_N(2)

static const core_fn cores[2][BF16_TOKENS] = { NAMES_N(1), NAMES_N(2) };

void linear_bf16_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                        float *y, size_t ldy)
{
    for (uint32_t tile = tile0; tile < tile1;) {
        const unsigned nt = tile1 - tile > 1 ? 2 : 1;
        const unsigned char *src = w->tiles + (size_t)tile * w->tile_bytes;
        uint32_t t, T;

        for (t = 0; t < x->n_tokens; t += T) {
            __m512 a[2 * BF16_TOKENS];

            T = tokens_block(x->n_tokens - t, BF16_TOKENS);
            cores[nt - 1][T - 1](src, w->tile_bytes, w->n_cols, x->bf + (size_t)t * x->ld, x->ld, a);
            for (uint32_t i = 0; i < T; i++)
                for (unsigned n = 0; n < nt; n++)
                    put_tile(w, tile + n, mode, y + (t + i) * ldy, a[i * nt + n]);
        }
        tile += nt;
    }
}

#endif
