/* A tile of up to ATTN_TILE rows keeps 2 registers of sums a row: 16 keys in the scores, 16 dimensions in the weighted values
 * (twice as many for few rows). Every sum is a chain of its own (over dimensions for a score, over keys for a value), so
 * neither the number of rows nor the grouping changes a bit of it. */
#include "kernels/cpu/attn.h"

#if defined(__x86_64__)

#include <math.h>

#include "kernels/cpu/avx2/math.h"
#include "kernels/cpu/avx2/nn.h"
#include "kernels/cpu/inline.h"

#define FEW_ROWS 3u /* 4 registers a row up to so many */
#define SPAN 64u    /* tokens whose values are read whole, a few dimensions at a time */

static void store_f32(float *kd, float *vd, uint32_t hd, const float *k, const float *v)
{
    for (uint32_t d = 0; d < hd; d++)
        kd[(size_t)d * KV_GROUP] = k[d];
    for (uint32_t d = 0; d < hd; d += 8)
        _mm256_storeu_ps(vd + d, _mm256_loadu_ps(v + d));
}

void kv_store_avx2(const struct attn_args *a, uint32_t kvh, uint32_t pos, const float *k, const float *v)
{
    const uint32_t hd = a->kv->head_dim, t = pos % KV_GROUP;
    unsigned char *kg = kv_key_group(a, kvh, pos), *vg = kv_value_group(a, kvh, pos);
    uint32_t *kd = (uint32_t *)(void *)kg + t, *vd = (uint32_t *)(void *)vg + (size_t)(t / 2) * hd;

    if (a->kv->type == KV_F32) {
        store_f32((float *)(void *)kg + t, (float *)(void *)vg + (size_t)t * hd, hd, k, v);
        return;
    }
    for (uint32_t d = 0; d < hd; d += 8, kd += 4 * KV_GROUP) {
        const __m256i kb = bf16_avx2(_mm256_loadu_ps(k + d)), vb = bf16_avx2(_mm256_loadu_ps(v + d));
        const __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(kb), _mm256_extracti128_si256(kb, 1));
        const __m256i old = _mm256_loadu_si256((const void *)(vd + d));

        kd[0] = (uint32_t)_mm_extract_epi32(pairs, 0);
        kd[KV_GROUP] = (uint32_t)_mm_extract_epi32(pairs, 1);
        kd[2 * KV_GROUP] = (uint32_t)_mm_extract_epi32(pairs, 2);
        kd[3 * KV_GROUP] = (uint32_t)_mm_extract_epi32(pairs, 3);
        _mm256_storeu_si256((void *)(vd + d), t % 2 ? _mm256_blend_epi16(old, _mm256_slli_epi32(vb, 16), 0xaa) : vb);
    }
}

/* --- scores ----------------------------------------------------------------------------------------------------------- */

/* 8 pairs of bfloat16: the first (low) or second (high) of each as floats. */
INLINE __m256 pair_half(const unsigned char *p, const uint32_t half)
{
    const __m256i v = _mm256_loadu_si256((const void *)p);

    return _mm256_castsi256_ps(half ? _mm256_and_si256(v, _mm256_set1_epi32(INT32_C(-65536))) : _mm256_slli_epi32(v, 16));
}

/* Dimension d + half (d even) of 8 of the keys of a group. */
INLINE __m256 load_keys(const unsigned char *group, size_t d, const uint32_t half, const uint32_t eight, const bool bf16)
{
    return bf16 ? pair_half(group + d * 32 + eight * 32, half)
                : _mm256_loadu_ps((const float *)(const void *)(group + (d + half) * 64 + eight * 32));
}

/* Scores of n_rows rows and n_groups groups of keys. q: [head_dim][ATTN_TILE]; p: row stride ATTN_CHUNK. ahead: what is
 * read next, as large as the keys. */
INLINE void score_block(const unsigned char *const *keys, const unsigned char *const *ahead, const float *q, uint32_t hd,
                        float *p, const uint32_t n_rows, const uint32_t n_groups, const bool bf16)
{
    __m256 s[ATTN_TILE][4];

UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++)
UNROLL(4)
        for (uint32_t g = 0; g < 2 * n_groups; g++)
            s[r][g] = _mm256_setzero_ps();
    for (size_t d = 0; d < hd; d += 2)
UNROLL(2)
        for (uint32_t half = 0; half < 2; half++, q += ATTN_TILE) {
            __m256 k[4];

UNROLL(4)
            for (uint32_t g = 0; g < 2 * n_groups; g++)
                k[g] = load_keys(keys[g / 2], d, half, g % 2, bf16);
            if (!(bf16 && half))
UNROLL(2)
                for (uint32_t g = 0; g < n_groups; g++)
                    _mm_prefetch((const void *)(ahead[g] + (bf16 ? d * 32 : (d + half) * 64)), _MM_HINT_T0);
UNROLL(6)
            for (uint32_t r = 0; r < n_rows; r++) {
                const __m256 x = _mm256_set1_ps(q[r]);

UNROLL(4)
                for (uint32_t g = 0; g < 2 * n_groups; g++)
                    s[r][g] = _mm256_fmadd_ps(x, k[g], s[r][g]);
            }
        }
UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++)
UNROLL(4)
        for (uint32_t g = 0; g < 2 * n_groups; g++)
            _mm256_store_ps(p + (size_t)r * ATTN_CHUNK + g * 8, s[r][g]);
}

INLINE void score_rows(const struct kv_layout *kv, const struct attn_chunk *c, const struct attn_tile *t, uint32_t g0,
                       uint32_t g1, const uint32_t n_rows, const bool bf16)
{
    const uint32_t step = n_rows <= FEW_ROWS ? 2 : 1;
    const unsigned char *ahead[2];
    uint32_t g = g0;

    for (; g + step <= g1; g += step) {
        for (uint32_t i = 0, next = g + step; i < step; i++, next++) /* keys, then the chunk's first values */
            ahead[i] = next < g1 ? c->keys[next] : c->keys[g0 + (next - g1) % (g1 - g0)] + c->to_values;
        score_block(c->keys + g, ahead, t->q, kv->head_dim, t->p + g * KV_GROUP, n_rows, step, bf16);
    }
    if (g < g1)
        score_block(c->keys + g, c->keys + g, t->q, kv->head_dim, t->p + g * KV_GROUP, n_rows, 1, bf16);
}

/* --- weights ---------------------------------------------------------------------------------------------------------- */

/* Tokens [t, t + 8) that are in [lo, hi). */
INLINE __m256 range_mask(uint32_t lo, uint32_t hi, uint32_t t)
{
    return _mm256_castsi256_ps(_mm256_andnot_si256(first_lanes(lo > t ? lo - t : 0), first_lanes(hi > t ? hi - t : 0)));
}

/* Scores of a row to weights 2^(score - max); 0 outside [lo, hi). Sums lane by lane, tokens ascending. */
static void weigh_row(float *p, uint32_t lo, uint32_t hi, uint32_t g0, uint32_t g1, float *max, float *sum)
{
    const __m256 low = _mm256_set1_ps(-INFINITY);
    __m256 m = low, l[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };

    for (uint32_t t = g0 * KV_GROUP; t < g1 * KV_GROUP; t += 8)
        m = _mm256_max_ps(_mm256_blendv_ps(low, _mm256_load_ps(p + t), range_mask(lo, hi, t)), m);
    *max = max_lanes(m);
    m = _mm256_set1_ps(*max);
    for (uint32_t t = g0 * KV_GROUP; t < g1 * KV_GROUP; t += KV_GROUP)
UNROLL(2)
        for (uint32_t i = 0; i < 2; i++) {
            const __m256 e = exp2_avx2(_mm256_sub_ps(_mm256_load_ps(p + t + 8 * i), m));
            const __m256 w = _mm256_and_ps(e, range_mask(lo, hi, t + 8 * i));

            _mm256_store_ps(p + t + 8 * i, w);
            l[i] = _mm256_add_ps(l[i], w);
        }
    *sum = sum_lanes(_mm256_add_ps(l[0], l[1]));
}

/* Weights of all rows, and the factors with which the chunk's sums are merged into the tile's. */
static void weigh_tile(struct attn_tile *t, struct attn_ranges *x)
{
    const uint32_t g0 = x->any_lo / KV_GROUP, g1 = (x->any_hi + KV_GROUP - 1) / KV_GROUP;
    float max[8] = { 0 }, sum[8] = { 0 };
    __m256 top;

    for (uint32_t r = 0; r < t->n; r++)
        if (x->lo[r] < x->hi[r])
            weigh_row(t->p + (size_t)r * ATTN_CHUNK, x->lo[r], x->hi[r], g0, g1, &max[r], &sum[r]);
    top = _mm256_max_ps(_mm256_loadu_ps(t->max), _mm256_loadu_ps(max)); /* of rows that see nothing: not used */
    _mm256_storeu_ps(x->old, exp2_avx2(_mm256_sub_ps(_mm256_loadu_ps(t->max), top)));
    _mm256_storeu_ps(x->new, exp2_avx2(_mm256_sub_ps(_mm256_loadu_ps(max), top)));
    for (uint32_t r = 0; r < t->n; r++)
        if (x->lo[r] < x->hi[r]) {
            t->max[r] = max[r] > t->max[r] ? max[r] : t->max[r];
            t->sum[r] = t->sum[r] * x->old[r] + sum[r] * x->new[r];
        }
}

/* --- values ----------------------------------------------------------------------------------------------------------- */

/* Dimensions [d, d + 8) of token t of a group. */
INLINE size_t value_offset(uint32_t t, size_t hd, size_t d, const bool bf16)
{
    return ((bf16 ? t / 2 : t) * hd + d) * 4;
}

INLINE __m256 load_values(const unsigned char *p, const uint32_t half, const bool bf16)
{
    return bf16 ? pair_half(p, half) : _mm256_loadu_ps((const float *)(const void *)p);
}

/* Adds tokens [t0, t1), whole pairs, to o: 8 * n_vecs dimensions from d0 on. ragged: only to the rows that see the token. */
INLINE void value_span(const struct attn_chunk *c, const struct attn_tile *t, const struct attn_ranges *x, uint32_t t0,
                       uint32_t t1, size_t hd, size_t d0, __m256 o[ATTN_TILE][4], const uint32_t n_rows, const uint32_t n_vecs,
                       const bool ragged, const bool bf16)
{
    for (uint32_t i = t0; i < t1; i += 2) {
        const uint32_t g = i / KV_GROUP, next = g + SPAN / KV_GROUP;
        const unsigned char *group = c->keys[g] + c->to_values;
        const unsigned char *ahead = next < ATTN_GROUPS && c->keys[next] ? c->keys[next] + c->to_values : group;

UNROLL(2)
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t at = i + half;
            const size_t offset = value_offset(at % KV_GROUP, hd, d0, bf16);
            __m256 v[4];

UNROLL(4)
            for (uint32_t j = 0; j < n_vecs; j++)
                v[j] = load_values(group + offset + 32 * j, half, bf16);
            if (!ragged && !(bf16 && half))
                _mm_prefetch((const void *)(ahead + offset), _MM_HINT_T0);
UNROLL(6)
            for (uint32_t r = 0; r < n_rows; r++) {
                const __m256 w = _mm256_set1_ps(t->p[(size_t)r * ATTN_CHUNK + at]);

                if (ragged && !(at >= x->lo[r] && at < x->hi[r]))
                    continue;
UNROLL(4)
                for (uint32_t j = 0; j < n_vecs; j++)
                    o[r][j] = _mm256_fmadd_ps(w, v[j], o[r][j]);
            }
        }
    }
}

/* Adds tokens [t0, t1) of one span to 8 * n_vecs dimensions of the chunk's sums. */
INLINE void value_block(const struct attn_chunk *c, const struct attn_tile *t, const struct attn_ranges *x, uint32_t t0,
                        uint32_t t1, size_t hd, size_t d0, const uint32_t n_rows, const uint32_t n_vecs, const bool bf16)
{
    const uint32_t lo = x->all_lo < t0 ? t0 : x->all_lo < t1 ? x->all_lo : t1;
    const uint32_t hi = x->all_hi < t0 ? t0 : x->all_hi < t1 ? x->all_hi : t1;
    __m256 o[ATTN_TILE][4];

UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++)
UNROLL(4)
        for (uint32_t j = 0; j < n_vecs; j++)
            o[r][j] = t0 == x->any_lo ? _mm256_setzero_ps() : _mm256_loadu_ps(t->c + r * hd + d0 + 8 * j);
    value_span(c, t, x, t0, lo, hd, d0, o, n_rows, n_vecs, true, bf16);
    value_span(c, t, x, lo, hi, hd, d0, o, n_rows, n_vecs, false, bf16);
    value_span(c, t, x, hi, t1, hd, d0, o, n_rows, n_vecs, true, bf16);
UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++)
UNROLL(4)
        for (uint32_t j = 0; j < n_vecs; j++)
            _mm256_storeu_ps(t->c + r * hd + d0 + 8 * j, o[r][j]);
}

INLINE void value_rows(const struct attn_chunk *c, const struct attn_tile *t, const struct attn_ranges *x, size_t hd,
                       const uint32_t n_rows, const bool bf16)
{
    for (uint32_t t0 = x->any_lo, t1; t0 < x->any_hi; t0 = t1) {
        size_t d = 0;

        t1 = (t0 / SPAN + 1) * SPAN < x->any_hi ? (t0 / SPAN + 1) * SPAN : x->any_hi;
        for (; n_rows <= FEW_ROWS && d + 32 <= hd; d += 32)
            value_block(c, t, x, t0, t1, hd, d, n_rows, 4, bf16);
        for (; d < hd; d += 16)
            value_block(c, t, x, t0, t1, hd, d, n_rows, 2, bf16);
    }
}

/* The chunk's sums into the tile's. */
static void merge(struct attn_tile *t, const struct attn_ranges *x, size_t hd)
{
    for (uint32_t r = 0; r < t->n; r++) {
        const __m256 a = _mm256_set1_ps(x->old[r]), b = _mm256_set1_ps(x->new[r]);
        const float *from = t->c + r * hd;
        float *to = t->o + r * hd;

        for (size_t d = 0; x->lo[r] < x->hi[r] && d < hd; d += 8)
            _mm256_storeu_ps(to + d, _mm256_fmadd_ps(_mm256_loadu_ps(to + d), a, _mm256_mul_ps(_mm256_loadu_ps(from + d), b)));
    }
}

/* --- one tile --------------------------------------------------------------------------------------------------------- */

INLINE void add_rows(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t, const uint32_t n_rows,
                     const bool bf16)
{
    struct attn_ranges x;

    attn_find_ranges(c, t, &x);
    score_rows(kv, c, t, x.any_lo / KV_GROUP, (x.any_hi + KV_GROUP - 1) / KV_GROUP, n_rows, bf16);
    weigh_tile(t, &x);
    value_rows(c, t, &x, kv->head_dim, n_rows, bf16);
    merge(t, &x, kv->head_dim);
}

INLINE void add_chunk(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t, const bool bf16)
{
    switch (t->n) {
    case 1:
        add_rows(kv, c, t, 1, bf16);
        break;
    case 2:
        add_rows(kv, c, t, 2, bf16);
        break;
    case 3:
        add_rows(kv, c, t, 3, bf16);
        break;
    case 4:
        add_rows(kv, c, t, 4, bf16);
        break;
    case 5:
        add_rows(kv, c, t, 5, bf16);
        break;
    default:
        add_rows(kv, c, t, 6, bf16);
    }
}

static void add_chunk_bf16(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t)
{
    add_chunk(kv, c, t, true);
}

static void add_chunk_f32(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t)
{
    add_chunk(kv, c, t, false);
}

void attention_avx2(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch)
{
    attn_run(a, kvh, q0, q1, scratch, a->kv->type == KV_BF16 ? add_chunk_bf16 : add_chunk_f32);
}

#endif
