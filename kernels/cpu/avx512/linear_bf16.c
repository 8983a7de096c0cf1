/* BF16 weights times BF16 activations with vdpbf16ps: pairs of columns, one chain for each sum. */
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/tokens.h"

#if defined(__x86_64__)

#include <string.h>

#define NT          2u /* tiles in a register block; a tile left alone at the end is taken twice */
#define BF16_TOKENS 8u /* tokens in a register block, or 4, 2, 1 */

INLINE __m512bh pairs(__m512i v)
{
    __m512bh h;

    memcpy(&h, &v, sizeof h);
    return h;
}

/* Activations past an odd n_cols are zero and so is the weight beside the last column. */
INLINE void core(unsigned T, const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const uint16_t *x, size_t ldx,
                 __m512 *out)
{
    __m512 a[NT * BF16_TOKENS];

#pragma GCC unroll 16
    for (unsigned i = 0; i < NT * T; i++)
        a[i] = _mm512_setzero_ps();
    for (size_t c = 0; c < n_cols; c += 2) {
        __m512i v[NT];

#pragma GCC unroll 2
        for (unsigned n = 0; n < NT; n++)
            v[n] = _mm512_load_si512(tiles + n * tile_bytes + 32 * c);
#pragma GCC unroll 8
        for (unsigned t = 0; t < T; t++) {
            int32_t pair;
            __m512i xv;

            memcpy(&pair, x + t * ldx + c, sizeof pair);
            xv = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
            for (unsigned n = 0; n < NT; n++)
                a[t * NT + n] = _mm512_dpbf16_ps(a[t * NT + n], pairs(v[n]), pairs(xv));
        }
    }
#pragma GCC unroll 16
    for (unsigned i = 0; i < NT * T; i++)
        out[i] = a[i];
}

typedef void (*core_fn)(const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const uint16_t *x, size_t ldx,
                        __m512 *a);

#define CORE(T)                                                                                                       \
    static void core_##T(const unsigned char *tiles, size_t tile_bytes, uint32_t n_cols, const uint16_t *x, size_t ldx, \
                         __m512 *a)                                                                                   \
    {                                                                                                                 \
        core(T, tiles, tile_bytes, n_cols, x, ldx, a);                                                               \
    }

CORE(1)
CORE(2)
CORE(4)
CORE(8)

static const core_fn cores[4] = { core_1, core_2, core_4, core_8 }; /* [log2 T] */

void linear_bf16_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                        float *y, size_t ldy)
{
    for (uint32_t tile = tile0; tile < tile1;) {
        const unsigned nt = tile1 - tile > 1 ? 2 : 1;
        const unsigned char *src = w->tiles + (size_t)tile * w->tile_bytes;
        uint32_t t, T;

        for (t = 0; t < x->n_tokens; t += T) {
            __m512 a[NT * BF16_TOKENS];
            unsigned log_T;

            T = tokens_power(x->n_tokens - t, BF16_TOKENS, &log_T);
            cores[log_T](src, nt == 2 ? w->tile_bytes : 0, w->n_cols, x->bf + (size_t)t * x->ld, x->ld, a);
            for (uint32_t i = 0; i < T; i++)
                for (unsigned n = 0; n < nt; n++)
                    put_tile(w, tile + n, mode, y + (t + i) * ldy, a[i * NT + n]);
        }
        tile += nt;
    }
}

#endif
