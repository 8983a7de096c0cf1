#include "kernels/cpu/init.h"

#if defined(__x86_64__)

#include <math.h>

#include "kernels/cpu/avx512/math.h"
#include "kernels/cpu/avx512/nn.h"

static void rmsnorm_avx512(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    const __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1);
    __m512 a = zero, b = zero, inv;
    uint32_t i = 0;

    for (; i + 32 <= n; i += 32) {
        const __m512 u = _mm512_loadu_ps(x + i), v = _mm512_loadu_ps(x + i + 16);

        a = _mm512_fmadd_ps(u, u, a);
        b = _mm512_fmadd_ps(v, v, b);
    }
    for (; i < n; i += 16) {
        const __m512 u = _mm512_maskz_loadu_ps(first_lanes(n - i), x + i);

        a = _mm512_fmadd_ps(u, u, a);
    }
    inv = _mm512_set1_ps(1 / sqrtf(_mm512_reduce_add_ps(_mm512_add_ps(a, b)) / (float)n + eps));
    for (i = 0; i < n; i += 16) {
        const __mmask16 m = first_lanes(n - i);
        const __m512 u = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), inv);

        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(u, w ? _mm512_maskz_loadu_ps(m, w + i) : one));
    }
}

static void add_avx512(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 m = first_lanes(n - i);

        _mm512_mask_storeu_ps(y + i, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, y + i), _mm512_maskz_loadu_ps(m, x + i)));
    }
}

static void scale_avx512(float *y, float a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 m = first_lanes(n - i);

        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, y + i), _mm512_set1_ps(a)));
    }
}

/* x / (1 + e^-z) */
static inline __m512 times_sigmoid(__m512 x, __m512 z)
{
    const __m512 e = exp_avx512(_mm512_sub_ps(_mm512_setzero_ps(), z));

    return _mm512_div_ps(x, _mm512_add_ps(e, _mm512_set1_ps(1)));
}

static void silu_mul_avx512(float *g, const float *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 m = first_lanes(n - i);
        const __m512 x = _mm512_maskz_loadu_ps(m, g + i);

        _mm512_mask_storeu_ps(g + i, m, _mm512_mul_ps(times_sigmoid(x, x), _mm512_maskz_loadu_ps(m, u + i)));
    }
}

/* As in the reference: x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
static void gelu_mul_avx512(float *g, const float *u, uint32_t n)
{
    const __m512 a = _mm512_set1_ps(1.5957691216057308f), b = _mm512_set1_ps(0.044715f), one = _mm512_set1_ps(1);

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 m = first_lanes(n - i);
        const __m512 x = _mm512_maskz_loadu_ps(m, g + i);
        const __m512 z = _mm512_mul_ps(_mm512_mul_ps(a, x), _mm512_fmadd_ps(_mm512_mul_ps(b, x), x, one));

        _mm512_mask_storeu_ps(g + i, m, _mm512_mul_ps(times_sigmoid(x, z), _mm512_maskz_loadu_ps(m, u + i)));
    }
}

static void rope_pairs(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t i = 0; i < head_dim; i += 16) {
        const __mmask16 m = first_lanes(head_dim - i);
        const __m512 t = _mm512_maskz_loadu_ps(m, cs + i), c = _mm512_moveldup_ps(t), s = _mm512_movehdup_ps(t);

        for (uint32_t h = 0; h < n_heads; h++) {
            float *p = x + (size_t)h * head_dim + i;
            const __m512 v = _mm512_maskz_loadu_ps(m, p), swapped = _mm512_permute_ps(v, 0xb1);

            _mm512_mask_storeu_ps(p, m, _mm512_fmaddsub_ps(v, c, _mm512_mul_ps(swapped, s)));
        }
    }
}

static void rope_halves(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const uint32_t half = head_dim / 2;

    for (uint32_t i = 0; i < half; i += 16) {
        const uint32_t left = half - i;
        const __mmask16 m = first_lanes(left);
        const __m512 t0 = _mm512_maskz_loadu_ps(first_lanes(2 * left), cs + 2 * i);
        const __m512 t1 = left > 8 ? _mm512_maskz_loadu_ps(first_lanes(2 * left - 16), cs + 2 * i + 16) : t0;
        const __m512 c = _mm512_permutex2var_ps(t0, even, t1), s = _mm512_permutex2var_ps(t0, odd, t1);

        for (uint32_t h = 0; h < n_heads; h++) {
            float *p = x + (size_t)h * head_dim + i;
            const __m512 a = _mm512_maskz_loadu_ps(m, p), b = _mm512_maskz_loadu_ps(m, p + half);

            _mm512_mask_storeu_ps(p, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
            _mm512_mask_storeu_ps(p + half, m, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
        }
    }
}

static void rope_avx512(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs, bool interleaved)
{
    if (interleaved)
        rope_pairs(x, n_heads, head_dim, cs);
    else
        rope_halves(x, n_heads, head_dim, cs);
}

/* The second operand of max is the result when one is a NaN. */
static float max_avx512(const float *x, uint32_t n)
{
    const __m512 low = _mm512_set1_ps(-INFINITY);
    __m512 a = low, b = low;
    uint32_t i = 0;

    for (; i + 32 <= n; i += 32) {
        a = _mm512_max_ps(_mm512_loadu_ps(x + i), a);
        b = _mm512_max_ps(_mm512_loadu_ps(x + i + 16), b);
    }
    for (; i < n; i += 16)
        a = _mm512_max_ps(_mm512_mask_loadu_ps(low, first_lanes(n - i), x + i), a);
    return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}

static uint32_t argmax_avx512(const float *x, uint32_t n)
{
    const __m512 top = _mm512_set1_ps(max_avx512(x, n));

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 m = first_lanes(n - i);
        const __mmask16 at = _mm512_mask_cmp_ps_mask(m, _mm512_maskz_loadu_ps(m, x + i), top, _CMP_EQ_OQ);

        if (at)
            return i + (uint32_t)__builtin_ctz(at);
    }
    return 0;
}

static double sum_exp_avx512(const float *x, uint32_t n, float shift)
{
    const __m512 s = _mm512_set1_ps(shift);
    __m512d a = _mm512_setzero_pd(), b = a;

    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 m = first_lanes(n - i);
        const __m512 e = _mm512_maskz_mov_ps(m, exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, x + i), s)));

        a = _mm512_add_pd(a, _mm512_cvtps_pd(_mm512_castps512_ps256(e)));
        b = _mm512_add_pd(b, _mm512_cvtps_pd(_mm512_extractf32x8_ps(e, 1)));
    }
    return _mm512_reduce_add_pd(_mm512_add_pd(a, b));
}

void kern_init_nn_avx512(struct kern_ops *ops)
{
    ops->rmsnorm = rmsnorm_avx512;
    ops->add = add_avx512;
    ops->scale = scale_avx512;
    ops->silu_mul = silu_mul_avx512;
    ops->gelu_mul = gelu_mul_avx512;
    ops->rope = rope_avx512;
    ops->kv_store = kv_store_avx512;
    ops->attention = attention_avx512;
    ops->argmax = argmax_avx512;
    ops->max = max_avx512;
    ops->sum_exp = sum_exp_avx512;
}

#endif
