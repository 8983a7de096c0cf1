#include "kernels/cpu/attn.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/ref/nn.h"
#include "lib/core/f16.h"

void kv_store_ref(const struct attn_args *a, uint32_t kvh, uint32_t pos, const float *k, const float *v)
{
    const uint32_t hd = a->kv->head_dim, t = pos % KV_GROUP;
    unsigned char *kg = kv_key_group(a, kvh, pos), *vg = kv_value_group(a, kvh, pos);

    if (a->kv->type == KV_BF16) {
        uint16_t *kd = (uint16_t *)(void *)kg + t * 2, *vd = (uint16_t *)(void *)vg + (size_t)(t / 2) * hd * 2;

        for (uint32_t d = 0; d < hd; d++) {
            kd[(size_t)(d / 2) * KV_GROUP * 2 + d % 2] = bf16_from_f32(k[d]);
            vd[2 * d + t % 2] = bf16_from_f32(v[d]);
            if (t % 2 == 0)
                vd[2 * d + 1] = 0;
        }
    } else {
        float *kd = (float *)(void *)kg + t;

        for (uint32_t d = 0; d < hd; d++)
            kd[(size_t)d * KV_GROUP] = k[d];
        memcpy((float *)(void *)vg + (size_t)t * hd, v, hd * sizeof *v);
    }
}

/* Dots of q with the 16 keys of a group. */
static void group_scores(const struct kv_layout *l, const unsigned char *group, const float *q, float *s)
{
    for (uint32_t t = 0; t < KV_GROUP; t++)
        s[t] = 0;
    if (l->type == KV_BF16) {
        const uint16_t *k = (const uint16_t *)(const void *)group;

        for (uint32_t d = 0; d < l->head_dim; d += 2, k += 2 * KV_GROUP)
            for (uint32_t t = 0; t < KV_GROUP; t++) {
                s[t] += q[d] * f32_from_bf16(k[2 * t]);
                s[t] += q[d + 1] * f32_from_bf16(k[2 * t + 1]);
            }
    } else {
        const float *k = (const float *)(const void *)group;

        for (uint32_t d = 0; d < l->head_dim; d++, k += KV_GROUP)
            for (uint32_t t = 0; t < KV_GROUP; t++)
                s[t] += q[d] * k[t];
    }
}

/* o += p times the value of the token in slot t of the group. */
static void add_value(const struct kv_layout *l, const unsigned char *group, uint32_t t, float p, float *o)
{
    const uint32_t hd = l->head_dim;

    if (l->type == KV_BF16) {
        const uint16_t *v = (const uint16_t *)(const void *)group + (size_t)(t / 2) * hd * 2 + t % 2;

        for (uint32_t d = 0; d < hd; d++)
            o[d] += p * f32_from_bf16(v[2 * d]);
    } else {
        const float *v = (const float *)(const void *)group + (size_t)t * hd;

        for (uint32_t d = 0; d < hd; d++)
            o[d] += p * v[d];
    }
}

/* Keys [lo, hi) of one chunk: p gets the weights, *max and *sum their maximum and sum. */
static void chunk_weights(const struct attn_args *a, uint32_t kvh, const float *q, uint32_t lo, uint32_t hi, float *p,
                          float *max, float *sum)
{
    const uint32_t first = lo / ATTN_CHUNK * ATTN_CHUNK;
    float m = -INFINITY, l = 0;

    for (uint32_t t = lo / KV_GROUP * KV_GROUP; t < hi; t += KV_GROUP)
        group_scores(a->kv, kv_key_group(a, kvh, t), q, p + (t - first));
    for (uint32_t t = lo; t < hi; t++) {
        p[t - first] *= a->scale;
        m = p[t - first] > m ? p[t - first] : m;
    }
    for (uint32_t t = lo; t < hi; t++)
        l += p[t - first] = expf(p[t - first] - m);
    *max = m;
    *sum = l;
}

/* Adds keys [lo, hi) of one chunk to the row's sums, which are relative to *max. */
static void row_chunk(const struct attn_args *a, uint32_t kvh, const struct attn_row *r, uint32_t lo, uint32_t hi,
                      struct attn_scratch *s, float *max, float *sum)
{
    const uint32_t first = lo / ATTN_CHUNK * ATTN_CHUNK, hd = a->kv->head_dim;
    float m, l, top, old, new, *o = s->data;

    chunk_weights(a, kvh, r->q, lo, hi, s->p, &m, &l);
    memset(o, 0, hd * sizeof *o);
    for (uint32_t t = lo; t < hi; t++)
        add_value(a->kv, kv_value_group(a, kvh, t), t % KV_GROUP, s->p[t - first], o);
    top = m > *max ? m : *max;
    old = expf(*max - top);
    new = expf(m - top);
    *max = top;
    *sum = *sum * old + l * new;
    for (uint32_t d = 0; d < hd; d++)
        r->out[d] = r->out[d] * old + o[d] * new;
}

void attention_ref(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch)
{
    const uint32_t hd = a->kv->head_dim, n = (q1 - q0) * (a->n_heads / a->kv->n_kv_heads);

    for (uint32_t i = 0; i < n; i++) {
        float max = -INFINITY, sum = 0;
        struct attn_row r;

        attn_row_init(&r, a, kvh, q0, i);
        memset(r.out, 0, hd * sizeof *r.out);
        for (uint32_t t = r.lo, end; t < r.hi; t = end) {
            end = (t / ATTN_CHUNK + 1) * ATTN_CHUNK;
            end = end < r.hi ? end : r.hi;
            row_chunk(a, kvh, &r, t, end, scratch, &max, &sum);
        }
        for (uint32_t d = 0; d < hd; d++)
            r.out[d] /= sum;
    }
}
