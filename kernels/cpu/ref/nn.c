#include "kernels/cpu/ref/nn.h"

#include <math.h>

#include "kernels/cpu/init.h"

static void rmsnorm_ref(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    double sum = 0;
    float inv;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    inv = (float)(1 / sqrt(sum / n + eps));
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] * inv * (w ? w[i] : 1.0f);
}

static void add_ref(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void scale_ref(float *y, float a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] *= a;
}

static void silu_mul_ref(float *g, const float *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        g[i] = g[i] / (1 + expf(-g[i])) * u[i];
}

/* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) is x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
static void gelu_mul_ref(float *g, const float *u, uint32_t n)
{
    const float a = 1.5957691216057308f, b = 0.044715f;

    for (uint32_t i = 0; i < n; i++) {
        const float x = g[i], z = a * x * (1 + b * x * x);

        g[i] = x / (1 + expf(-z)) * u[i];
    }
}

static void rope_ref(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs, bool interleaved)
{
    const uint32_t half = head_dim / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;

    for (uint32_t h = 0; h < n_heads; h++, x += head_dim)
        for (uint32_t i = 0; i < half; i++) {
            float *p = x + (size_t)i * step, a = p[0], b = p[apart];
            const float c = cs[2 * i], s = cs[2 * i + 1];

            p[0] = a * c - b * s;
            p[apart] = b * c + a * s;
        }
}

static float max_ref(const float *x, uint32_t n)
{
    float m = -INFINITY;

    for (uint32_t i = 0; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

static uint32_t argmax_ref(const float *x, uint32_t n)
{
    const float m = max_ref(x, n);

    for (uint32_t i = 0; i < n; i++)
        if (x[i] == m)
            return i;
    return 0;
}

static double sum_exp_ref(const float *x, uint32_t n, float shift)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - shift);
    return sum;
}

void kern_init_nn_ref(struct kern_ops *ops)
{
    ops->rmsnorm = rmsnorm_ref;
    ops->add = add_ref;
    ops->scale = scale_ref;
    ops->silu_mul = silu_mul_ref;
    ops->gelu_mul = gelu_mul_ref;
    ops->rope = rope_ref;
    ops->kv_store = kv_store_ref;
    ops->attention = attention_ref;
    ops->argmax = argmax_ref;
    ops->max = max_ref;
    ops->sum_exp = sum_exp_ref;
}
