#include "kernels/cpu/init.h"

#if defined(__x86_64__)

#include <math.h>

#include "kernels/cpu/avx2/math.h"
#include "kernels/cpu/avx2/nn.h"

static void rmsnorm_avx2(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    __m256 a = _mm256_setzero_ps(), b = a, inv;
    uint32_t i = 0;

    for (; n - i >= 16; i += 16) {
        const __m256 u = _mm256_loadu_ps(x + i), v = _mm256_loadu_ps(x + i + 8);

        a = _mm256_fmadd_ps(u, u, a);
        b = _mm256_fmadd_ps(v, v, b);
    }
    for (; i < n; i += 8) {
        const __m256 u = load_first(x + i, n - i);

        a = _mm256_fmadd_ps(u, u, a);
    }
    inv = _mm256_set1_ps(1 / sqrtf(sum_lanes(_mm256_add_ps(a, b)) / (float)n + eps));
    for (i = 0; i < n; i += 8) {
        const __m256 u = _mm256_mul_ps(load_first(x + i, n - i), inv);

        store_first(y + i, n - i, w ? _mm256_mul_ps(u, load_first(w + i, n - i)) : u);
    }
}

static void add_avx2(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8)
        store_first(y + i, n - i, _mm256_add_ps(load_first(y + i, n - i), load_first(x + i, n - i)));
}

static void scale_avx2(float *y, float a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8)
        store_first(y + i, n - i, _mm256_mul_ps(load_first(y + i, n - i), _mm256_set1_ps(a)));
}

/* x / (1 + e^-z) */
static inline __m256 times_sigmoid(__m256 x, __m256 z)
{
    const __m256 e = exp_avx2(_mm256_sub_ps(_mm256_setzero_ps(), z));

    return _mm256_div_ps(x, _mm256_add_ps(e, _mm256_set1_ps(1)));
}

static void silu_mul_avx2(float *g, const float *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8) {
        const __m256 x = load_first(g + i, n - i);

        store_first(g + i, n - i, _mm256_mul_ps(times_sigmoid(x, x), load_first(u + i, n - i)));
    }
}

/* As in the reference: x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
static void gelu_mul_avx2(float *g, const float *u, uint32_t n)
{
    const __m256 a = _mm256_set1_ps(1.5957691216057308f), b = _mm256_set1_ps(0.044715f), one = _mm256_set1_ps(1);

    for (uint32_t i = 0; i < n; i += 8) {
        const __m256 x = load_first(g + i, n - i);
        const __m256 z = _mm256_mul_ps(_mm256_mul_ps(a, x), _mm256_fmadd_ps(_mm256_mul_ps(b, x), x, one));

        store_first(g + i, n - i, _mm256_mul_ps(times_sigmoid(x, z), load_first(u + i, n - i)));
    }
}

static void rope_pairs(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t i = 0; i < head_dim; i += 8) {
        const uint32_t left = head_dim - i;
        const __m256 t = load_first(cs + i, left), c = _mm256_moveldup_ps(t), s = _mm256_movehdup_ps(t);

        for (uint32_t h = 0; h < n_heads; h++) {
            float *p = x + (size_t)h * head_dim + i;
            const __m256 v = load_first(p, left), swapped = _mm256_permute_ps(v, 0xb1);

            store_first(p, left, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
        }
    }
}

/* The even (odd: the odd) ones of 16 floats. */
static inline __m256 every_other(__m256 t0, __m256 t1, const int odd)
{
    const __m256 mixed = odd ? _mm256_shuffle_ps(t0, t1, 0xdd) : _mm256_shuffle_ps(t0, t1, 0x88);

    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}

static void rope_halves(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    const uint32_t half = head_dim / 2;

    for (uint32_t i = 0; i < half; i += 8) {
        const uint32_t left = half - i;
        const __m256 t0 = load_first(cs + 2 * i, 2 * left);
        const __m256 t1 = left > 4 ? load_first(cs + 2 * i + 8, 2 * left - 8) : t0;
        const __m256 c = every_other(t0, t1, 0), s = every_other(t0, t1, 1);

        for (uint32_t h = 0; h < n_heads; h++) {
            float *p = x + (size_t)h * head_dim + i;
            const __m256 a = load_first(p, left), b = load_first(p + half, left);

            store_first(p, left, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
            store_first(p + half, left, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
        }
    }
}

static void rope_avx2(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs, bool interleaved)
{
    if (interleaved)
        rope_pairs(x, n_heads, head_dim, cs);
    else
        rope_halves(x, n_heads, head_dim, cs);
}

/* The second operand of max is the result when one is a NaN. */
static float max_avx2(const float *x, uint32_t n)
{
    const __m256 low = _mm256_set1_ps(-INFINITY);
    __m256 a = low, b = low;
    uint32_t i = 0;

    for (; n - i >= 16; i += 16) {
        a = _mm256_max_ps(_mm256_loadu_ps(x + i), a);
        b = _mm256_max_ps(_mm256_loadu_ps(x + i + 8), b);
    }
    for (; i < n; i += 8) {
        const __m256 in = _mm256_castsi256_ps(first_lanes(n - i));

        a = _mm256_max_ps(_mm256_blendv_ps(low, load_first(x + i, n - i), in), a);
    }
    return max_lanes(_mm256_max_ps(a, b));
}

static uint32_t argmax_avx2(const float *x, uint32_t n)
{
    const __m256 top = _mm256_set1_ps(max_avx2(x, n));

    for (uint32_t i = 0; i < n; i += 8) {
        const __m256 same = _mm256_cmp_ps(load_first(x + i, n - i), top, _CMP_EQ_OQ);
        const int at = _mm256_movemask_ps(_mm256_and_ps(same, _mm256_castsi256_ps(first_lanes(n - i))));

        if (at)
            return i + (uint32_t)__builtin_ctz((unsigned)at);
    }
    return 0;
}

static double sum_exp_avx2(const float *x, uint32_t n, float shift)
{
    const __m256 s = _mm256_set1_ps(shift);
    __m256d a = _mm256_setzero_pd(), b = a;

    for (uint32_t i = 0; i < n; i += 8) {
        __m256 e = exp_avx2(_mm256_sub_ps(load_first(x + i, n - i), s));

        e = _mm256_and_ps(e, _mm256_castsi256_ps(first_lanes(n - i)));
        a = _mm256_add_pd(a, _mm256_cvtps_pd(_mm256_castps256_ps128(e)));
        b = _mm256_add_pd(b, _mm256_cvtps_pd(_mm256_extractf128_ps(e, 1)));
    }
    return sum_lanes_pd(_mm256_add_pd(a, b));
}

void kern_init_nn_avx2(struct kern_ops *ops)
{
    ops->rmsnorm = rmsnorm_avx2;
    ops->add = add_avx2;
    ops->scale = scale_avx2;
    ops->silu_mul = silu_mul_avx2;
    ops->gelu_mul = gelu_mul_avx2;
    ops->rope = rope_avx2;
    ops->kv_store = kv_store_avx2;
    ops->attention = attention_avx2;
    ops->argmax = argmax_avx2;
    ops->max = max_avx2;
    ops->sum_exp = sum_exp_avx2;
}

#endif
