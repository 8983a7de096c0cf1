/* A tile of up to ATTN_TILE rows keeps 4 registers of sums a row: four groups of 16 keys in the scores, 64 dimensions in the
 * weighted values (128 for few rows). Every sum is a chain of its own (over dimensions for a score, over keys for a value),
 * so neither the number of rows nor the grouping changes a bit of it. */
#include "kernels/cpu/attn.h"

#if defined(__x86_64__)

#include <math.h>

#include "kernels/cpu/avx512/math.h"
#include "kernels/cpu/avx512/nn.h"
#include "kernels/cpu/inline.h"

#define PREFETCH_ROWS 4u /* tiles of fewer rows read in order with so little work that the hardware's prefetcher does better */

void kv_store_avx512(const struct attn_args *a, uint32_t kvh, uint32_t pos, const float *k, const float *v)
{
    const uint32_t hd = a->kv->head_dim, t = pos % KV_GROUP;
    unsigned char *kg = kv_key_group(a, kvh, pos), *vg = kv_value_group(a, kvh, pos);

    if (a->kv->type == KV_BF16) {
        uint32_t *kd = (uint32_t *)(void *)kg + t, *vd = (uint32_t *)(void *)vg + (size_t)(t / 2) * hd;

        for (uint32_t d = 0; d < hd; d += 16, kd += 8 * KV_GROUP) {
            const __m512i kb = bf16_avx512(_mm512_loadu_ps(k + d)), vb = bf16_avx512(_mm512_loadu_ps(v + d));
            const __m512i even = _mm512_maskz_loadu_epi16(0x55555555, vd + d);
            uint32_t pairs[8];

            _mm256_storeu_si256((void *)pairs, _mm512_cvtepi32_epi16(kb));
            for (uint32_t i = 0; i < 8; i++)
                kd[(size_t)i * KV_GROUP] = pairs[i];
            _mm512_storeu_si512(vd + d, t % 2 ? _mm512_or_si512(even, _mm512_slli_epi32(vb, 16)) : vb);
        }
    } else {
        float *kd = (float *)(void *)kg + t, *vd = (float *)(void *)vg + (size_t)t * hd;

        for (uint32_t d = 0; d < hd; d++)
            kd[(size_t)d * KV_GROUP] = k[d];
        for (uint32_t d = 0; d < hd; d += 16)
            _mm512_storeu_ps(vd + d, _mm512_loadu_ps(v + d));
    }
}

/* --- scores ----------------------------------------------------------------------------------------------------------- */

/* Rows of 16 pairs of bfloat16: the first (low) or second (high) of each as floats. */
INLINE __m512 pair_half(const void *p, const uint32_t half)
{
    return _mm512_castsi512_ps(half ? _mm512_maskz_loadu_epi16(0xaaaaaaaa, p)
                                    : _mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}

/* Dimension d + half of the 16 keys of a group; d is even. */
INLINE size_t key_offset(size_t d, const uint32_t half, const bool bf16)
{
    return bf16 ? d * 32 : (d + half) * 64;
}

INLINE __m512 load_key(const unsigned char *group, size_t d, const uint32_t half, const bool bf16)
{
    const unsigned char *p = group + key_offset(d, half, bf16);

    return bf16 ? pair_half(p, half) : _mm512_loadu_ps(p);
}

/* Scores of n_rows rows and n_groups groups of keys. q: [head_dim][ATTN_TILE]; p: row stride ATTN_CHUNK. ahead: NULL, or what
 * is read next, as large as the keys. */
INLINE void score_block(const unsigned char *const *keys, const unsigned char *const *ahead, const float *q, uint32_t hd,
                        float *p, const uint32_t n_rows, const uint32_t n_groups, const bool bf16)
{
    __m512 s[ATTN_TILE][4];

UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++)
UNROLL(4)
        for (uint32_t g = 0; g < n_groups; g++)
            s[r][g] = _mm512_setzero_ps();
    for (size_t d = 0; d < hd; d += 2)
UNROLL(2)
        for (uint32_t half = 0; half < 2; half++, q += ATTN_TILE) {
            __m512 k[4];

UNROLL(4)
            for (uint32_t g = 0; g < n_groups; g++) {
                k[g] = load_key(keys[g], d, half, bf16);
                if (ahead && n_rows >= PREFETCH_ROWS && !(bf16 && half))
                    _mm_prefetch(ahead[g] + key_offset(d, half, bf16), _MM_HINT_T0);
            }
UNROLL(6)
            for (uint32_t r = 0; r < n_rows; r++) {
                const __m512 x = _mm512_set1_ps(q[r]);

UNROLL(4)
                for (uint32_t g = 0; g < n_groups; g++)
                    s[r][g] = _mm512_fmadd_ps(x, k[g], s[r][g]);
            }
        }
UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++)
UNROLL(4)
        for (uint32_t g = 0; g < n_groups; g++)
            _mm512_store_ps(p + (size_t)r * ATTN_CHUNK + g * KV_GROUP, s[r][g]);
}

INLINE void score_rows(const struct kv_layout *kv, const struct attn_chunk *c, const struct attn_tile *t, uint32_t g0,
                       uint32_t g1, const uint32_t n_rows, const bool bf16)
{
    const unsigned char *ahead[4];
    uint32_t g = g0;

    for (; g + 4 <= g1; g += 4) {
        for (uint32_t i = 0, next = g + 4; i < 4; i++, next++) /* keys, then the chunk's first values */
            ahead[i] = next < g1 ? c->keys[next] : c->keys[g0 + (next - g1)] + c->to_values;
        score_block(c->keys + g, ahead, t->q, kv->head_dim, t->p + g * KV_GROUP, n_rows, 4, bf16);
    }
    for (; g + 2 <= g1; g += 2)
        score_block(c->keys + g, NULL, t->q, kv->head_dim, t->p + g * KV_GROUP, n_rows, 2, bf16);
    if (g < g1)
        score_block(c->keys + g, NULL, t->q, kv->head_dim, t->p + g * KV_GROUP, n_rows, 1, bf16);
}

INLINE void score_tile(const struct kv_layout *kv, const struct attn_chunk *c, const struct attn_tile *t, uint32_t g0,
                       uint32_t g1, const bool bf16)
{
    switch (t->n) {
    case 1:
        score_rows(kv, c, t, g0, g1, 1, bf16);
        break;
    case 2:
        score_rows(kv, c, t, g0, g1, 2, bf16);
        break;
    case 3:
        score_rows(kv, c, t, g0, g1, 3, bf16);
        break;
    case 4:
        score_rows(kv, c, t, g0, g1, 4, bf16);
        break;
    case 5:
        score_rows(kv, c, t, g0, g1, 5, bf16);
        break;
    default:
        score_rows(kv, c, t, g0, g1, 6, bf16);
    }
}

/* --- weights ---------------------------------------------------------------------------------------------------------- */

/* Lanes of group g that are in [lo, hi). */
INLINE __mmask16 range_mask(uint32_t lo, uint32_t hi, uint32_t g)
{
    const uint32_t first = g * KV_GROUP, a = lo > first ? lo - first : 0, b = hi > first ? hi - first : 0;

    return (__mmask16)(first_lanes(b) & ~first_lanes(a));
}

/* Scores of a row to weights 2^(score - max); 0 outside [lo, hi). Sums lane by lane, groups ascending. */
static void weigh_row(float *p, uint32_t lo, uint32_t hi, uint32_t g0, uint32_t g1, float *max, float *sum)
{
    __m512 m = _mm512_set1_ps(-INFINITY), l = _mm512_setzero_ps();

    for (uint32_t g = g0; g < g1; g++)
        m = _mm512_mask_max_ps(m, range_mask(lo, hi, g), _mm512_load_ps(p + g * KV_GROUP), m);
    *max = _mm512_reduce_max_ps(m);
    m = _mm512_set1_ps(*max);
    for (uint32_t g = g0; g < g1; g++) {
        const __m512 e = exp2_avx512(_mm512_sub_ps(_mm512_load_ps(p + g * KV_GROUP), m));
        const __m512 w = _mm512_maskz_mov_ps(range_mask(lo, hi, g), e);

        _mm512_store_ps(p + g * KV_GROUP, w);
        l = _mm512_add_ps(l, w);
    }
    *sum = _mm512_reduce_add_ps(l);
}

/* Weights of all rows, and the factors with which the chunk's sums are merged into the tile's. */
static void weigh_tile(struct attn_tile *t, struct attn_ranges *x)
{
    const uint32_t g0 = x->any_lo / KV_GROUP, g1 = (x->any_hi + KV_GROUP - 1) / KV_GROUP;
    float max[16] = { 0 }, sum[16] = { 0 };
    __mmask16 seen = 0;
    __m512 m, m_old, m_new, old, new;

    for (uint32_t r = 0; r < t->n; r++)
        if (x->lo[r] < x->hi[r]) {
            weigh_row(t->p + (size_t)r * ATTN_CHUNK, x->lo[r], x->hi[r], g0, g1, &max[r], &sum[r]);
            seen |= (__mmask16)(1u << r);
        }
    m_old = _mm512_loadu_ps(t->max);
    m_new = _mm512_loadu_ps(max);
    m = _mm512_mask_max_ps(m_old, seen, m_old, m_new);
    old = exp2_avx512(_mm512_sub_ps(m_old, m));
    new = exp2_avx512(_mm512_sub_ps(m_new, m));
    _mm512_mask_storeu_ps(t->max, seen, m);
    _mm512_mask_storeu_ps(t->sum, seen,
                          _mm512_fmadd_ps(_mm512_loadu_ps(t->sum), old, _mm512_mul_ps(_mm512_loadu_ps(sum), new)));
    _mm512_storeu_ps(x->old, old);
    _mm512_storeu_ps(x->new, new);
}

/* --- values ----------------------------------------------------------------------------------------------------------- */

/* Dimensions [d, d + 16) of token t of a group; half = t % 2. */
INLINE size_t value_offset(uint32_t t, size_t hd, size_t d, const bool bf16)
{
    return ((bf16 ? t / 2 : t) * hd + d) * 4;
}

INLINE __m512 load_value(const unsigned char *group, uint32_t t, const uint32_t half, size_t hd, size_t d, const bool bf16)
{
    const unsigned char *p = group + value_offset(t, hd, d, bf16);

    return bf16 ? pair_half(p, half) : _mm512_loadu_ps(p);
}

/* Adds tokens [t0, t1), whole pairs, to o. ragged: only to the rows that see the token. */
INLINE void value_span(const struct attn_chunk *c, const struct attn_tile *t, const struct attn_ranges *x, uint32_t t0,
                       uint32_t t1, size_t hd, size_t d0, __m512 o[ATTN_TILE][8], const uint32_t n_rows, const uint32_t n_vecs,
                       const bool ragged, const bool bf16)
{
    for (uint32_t i = t0; i < t1; i += 2) {
        const uint32_t g = i / KV_GROUP, next = g + 3;
        const unsigned char *group = c->keys[g] + c->to_values;
        const unsigned char *ahead = next < ATTN_GROUPS && c->keys[next] ? c->keys[next] + c->to_values : group;

UNROLL(2)
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t at = i + half, slot = at % KV_GROUP;
            __m512 v[8];

UNROLL(8)
            for (uint32_t j = 0; j < n_vecs; j++) {
                v[j] = load_value(group, slot, half, hd, d0 + 16 * j, bf16);
                if (!ragged && n_rows >= PREFETCH_ROWS && !(bf16 && half))
                    _mm_prefetch(ahead + value_offset(slot, hd, d0 + 16 * j, bf16), _MM_HINT_T0);
            }
UNROLL(6)
            for (uint32_t r = 0; r < n_rows; r++) {
                const __m512 w = _mm512_set1_ps(t->p[(size_t)r * ATTN_CHUNK + at]);
                const __mmask16 m = at >= x->lo[r] && at < x->hi[r] ? 0xffff : 0;

UNROLL(8)
                for (uint32_t j = 0; j < n_vecs; j++)
                    o[r][j] = ragged ? _mm512_mask3_fmadd_ps(w, v[j], o[r][j], m) : _mm512_fmadd_ps(w, v[j], o[r][j]);
            }
        }
    }
}

/* 16 * n_vecs dimensions from d0 on. */
INLINE void value_block(const struct attn_chunk *c, const struct attn_tile *t, const struct attn_ranges *x, size_t hd, size_t d0,
                        const uint32_t n_rows, const uint32_t n_vecs, const bool bf16)
{
    __m512 o[ATTN_TILE][8];

UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++)
UNROLL(8)
        for (uint32_t j = 0; j < n_vecs; j++)
            o[r][j] = _mm512_setzero_ps();
    value_span(c, t, x, x->any_lo, x->all_lo, hd, d0, o, n_rows, n_vecs, true, bf16);
    value_span(c, t, x, x->all_lo, x->all_hi, hd, d0, o, n_rows, n_vecs, false, bf16);
    value_span(c, t, x, x->all_hi, x->any_hi, hd, d0, o, n_rows, n_vecs, true, bf16);
UNROLL(6)
    for (uint32_t r = 0; r < n_rows; r++) {
        const __m512 old = _mm512_set1_ps(x->old[r]), new = _mm512_set1_ps(x->new[r]);
        const __mmask16 m = x->lo[r] < x->hi[r] ? 0xffff : 0;

UNROLL(8)
        for (uint32_t j = 0; j < n_vecs; j++) {
            float *to = t->o + r * hd + d0 + 16 * j;

            _mm512_mask_storeu_ps(to, m, _mm512_fmadd_ps(_mm512_loadu_ps(to), old, _mm512_mul_ps(o[r][j], new)));
        }
    }
}

INLINE void value_rows(const struct kv_layout *kv, const struct attn_chunk *c, const struct attn_tile *t,
                       const struct attn_ranges *x, const uint32_t n_rows, const bool bf16)
{
    const size_t hd = kv->head_dim;
    size_t d = 0;

    for (; n_rows <= 3 && d + 128 <= hd; d += 128)
        value_block(c, t, x, hd, d, n_rows, 8, bf16);
    for (; d + 64 <= hd; d += 64)
        value_block(c, t, x, hd, d, n_rows, 4, bf16);
    for (; d < hd; d += 16)
        value_block(c, t, x, hd, d, n_rows, 1, bf16);
}

INLINE void value_tile(const struct kv_layout *kv, const struct attn_chunk *c, const struct attn_tile *t,
                       const struct attn_ranges *x, const bool bf16)
{
    switch (t->n) {
    case 1:
        value_rows(kv, c, t, x, 1, bf16);
        break;
    case 2:
        value_rows(kv, c, t, x, 2, bf16);
        break;
    case 3:
        value_rows(kv, c, t, x, 3, bf16);
        break;
    case 4:
        value_rows(kv, c, t, x, 4, bf16);
        break;
    case 5:
        value_rows(kv, c, t, x, 5, bf16);
        break;
    default:
        value_rows(kv, c, t, x, 6, bf16);
    }
}

/* --- one tile --------------------------------------------------------------------------------------------------------- */

INLINE void add_chunk(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t, const bool bf16)
{
    struct attn_ranges x;

    attn_find_ranges(c, t, &x);
    score_tile(kv, c, t, x.any_lo / KV_GROUP, (x.any_hi + KV_GROUP - 1) / KV_GROUP, bf16);
    weigh_tile(t, &x);
    value_tile(kv, c, t, &x, bf16);
}

static void add_chunk_bf16(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t)
{
    add_chunk(kv, c, t, true);
}

static void add_chunk_f32(const struct kv_layout *kv, const struct attn_chunk *c, struct attn_tile *t)
{
    add_chunk(kv, c, t, false);
}

void attention_avx512(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch)
{
    attn_run(a, kvh, q0, q1, scratch, a->kv->type == KV_BF16 ? add_chunk_bf16 : add_chunk_f32);
}

#endif
