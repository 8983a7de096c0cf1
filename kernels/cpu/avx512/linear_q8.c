/* Quantised weights times int8 activations. A few tokens: weights are unpacked in registers and used at once (gemv). More:
 * two tiles are unpacked once into a panel that all tokens then read (gemm). Both do the same operations on every sum. */
#include "kernels/cpu/avx512/linear_q8.h"

#if defined(__x86_64__)

static void sums_32(const struct act *x, size_t t, const struct unit_info *u, uint32_t n_groups, int32_t *fold, float *sum)
{
    const int16_t *s = x->s + t * (x->ld / 16);
    const float *d = x->d + t * (x->ld / 32);
    const __m512i k = _mm512_set1_epi16((short)(u->minimum ? 1 : -(int)u->offset));

    for (uint32_t g = 0; g < n_groups; g += 16) {
        const __mmask16 m = n_groups - g >= 16 ? 0xffff : (__mmask16)((1u << (n_groups - g)) - 1);
        const __m512i v = _mm512_madd_epi16(_mm512_maskz_loadu_epi32(m, s + 2 * g), k);

        if (u->minimum)
            _mm512_storeu_ps(sum + g, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, d + g), _mm512_cvtepi32_ps(v)));
        else
            _mm512_storeu_si512(fold + g, v);
    }
}

static void sums_16(const struct act *x, size_t t, const struct unit_info *u, uint32_t n_halves, int32_t *fold, float *sum)
{
    const int16_t *s = x->s + t * (x->ld / 16);
    const float *d = x->d + t * (x->ld / 32);
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);

    for (uint32_t h = 0; h < n_halves; h += 16) { /* always whole: such types have 16 halves a unit */
        const __m512i v = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)(s + h)));
        const __m512 dx = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(d + h / 2)));

        if (u->minimum)
            _mm512_storeu_ps(sum + h, _mm512_mul_ps(dx, _mm512_cvtepi32_ps(v)));
        else
            _mm512_storeu_si512(fold + h, _mm512_mullo_epi32(v, _mm512_set1_epi32(-(int)u->offset)));
    }
}

void tokens_init(struct tokens *b, const struct act *x, uint32_t t0, uint32_t n, const struct wmat *w, void *buf)
{
    const struct unit_info *u = unit_info(w->type);
    const uint32_t groups = w->n_cols / u->group;

    b->q = x->q + (size_t)t0 * x->ld;
    b->d = x->d + (size_t)t0 * (x->ld / 32);
    b->ldq = x->ld;
    b->ldd = x->ld / 32;
    b->ldp = (groups + 15u) & ~15u;
    b->fold = buf;
    b->sum = buf;
    for (uint32_t t = 0; t < n; t++) {
        int32_t *fold = (int32_t *)buf + t * b->ldp;
        float *sum = (float *)buf + t * b->ldp;

        if (u->group == 32)
            sums_32(x, t0 + t, u, groups, fold, sum);
        else
            sums_16(x, t0 + t, u, groups, fold, sum);
    }
}

void linear_q8_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                      float *y, size_t ldy, void *scratch)
{
    struct tokens b;
    gemv_fn gemv;

    if (x->n_tokens > GEMV_TOKENS) {
        gemm_q8_avx512(w, tile0, tile1, x, mode, y, ldy, scratch);
        return;
    }
    if (x->n_tokens == 0)
        return;
    gemv = gemv_q8_avx512(w->type, x->n_tokens);
    tokens_init(&b, x, 0, x->n_tokens, w, scratch);
    for (uint32_t tile = tile0; tile < tile1; tile++) {
        __m512 a[GEMV_TOKENS];

        gemv(w->tiles + (size_t)tile * w->tile_bytes, w->n_cols, &b, a);
        for (uint32_t t = 0; t < x->n_tokens; t++)
            put_tile(w, tile, mode, y + t * ldy, a[t]);
    }
}

#endif
