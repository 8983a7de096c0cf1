#include "kernels/cpu/attn.h"

#include <math.h>
#include <string.h>

#include "lib/core/mem.h"

#define LOG2_E 1.4426950408889634

size_t kern_attn_scratch(uint32_t group, uint32_t head_dim)
{
    (void)group; /* rows are taken in blocks of a fixed number, whatever the group */
    return mem_round_up(sizeof(struct attn_scratch) + sizeof(float) * (2 * ATTN_BLOCK + ATTN_TILE) * head_dim, 64);
}

/* Rows [r0, r0 + n) of the call, cut into tiles of nearly equal numbers of rows. Returns the number of tiles. */
static uint32_t start_block(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t r0, uint32_t n,
                            struct attn_scratch *s)
{
    const uint32_t hd = a->kv->head_dim, n_tiles = (n + ATTN_TILE - 1) / ATTN_TILE;
    const float scale = (float)(a->scale * LOG2_E);
    float *q = s->data, *o = s->data + (size_t)ATTN_BLOCK * hd;

    for (uint32_t i = 0; i < n; i++)
        attn_row_init(&s->rows[i], a, kvh, q0, r0 + i);
    for (uint32_t i = 0, row = 0; i < n_tiles; i++) {
        struct attn_tile *t = &s->tiles[i];

        t->n = n / n_tiles + (i < n % n_tiles);
        t->rows = s->rows + row;
        t->q = q;
        t->o = o;
        t->p = s->p;
        t->c = s->data + (size_t)2 * ATTN_BLOCK * hd;
        for (uint32_t r = 0; r < 16; r++) {
            t->max[r] = -INFINITY;
            t->sum[r] = 0;
        }
        for (uint32_t r = 0; r < t->n; r++)
            for (uint32_t d = 0; d < hd; d++)
                q[(size_t)d * ATTN_TILE + r] = t->rows[r].q[d] * scale;
        memset(o, 0, sizeof *o * t->n * hd);
        q += (size_t)ATTN_TILE * hd;
        o += (size_t)t->n * hd;
        row += t->n;
    }
    return n_tiles;
}

/* The groups that hold positions [lo, hi), all in one chunk. */
static void find_keys(const struct attn_args *a, uint32_t kvh, uint32_t lo, uint32_t hi, struct attn_chunk *c)
{
    const size_t group_bytes = (size_t)KV_GROUP * a->kv->head_dim * kv_elem_bytes(a->kv);
    const uint32_t bt = a->kv->block_tokens;
    uint32_t g = (lo - c->first) / KV_GROUP;

    memset(c->keys, 0, sizeof c->keys);
    for (uint32_t pos = c->first + g * KV_GROUP; pos < hi;) {
        const uint32_t in_block = (bt - pos % bt) / KV_GROUP;
        const unsigned char *k = kv_key_group(a, kvh, pos);

        for (uint32_t i = 0; i < in_block && pos < hi; i++, pos += KV_GROUP, k += group_bytes)
            c->keys[g++] = k;
    }
}

static void finish_block(uint32_t n_tiles, uint32_t hd, const struct attn_scratch *s)
{
    for (uint32_t i = 0; i < n_tiles; i++) {
        const struct attn_tile *t = &s->tiles[i];

        for (uint32_t r = 0; r < t->n; r++)
            for (uint32_t d = 0; d < hd; d++)
                t->rows[r].out[d] = t->o[(size_t)r * hd + d] / t->sum[r];
    }
}

/* Every row's range is one run of keys, and the ranges of a tile's rows are not far apart: a row sees nothing of the chunk
 * only when the others see a few tokens at its edge. */
void attn_find_ranges(const struct attn_chunk *c, const struct attn_tile *t, struct attn_ranges *x)
{
    uint32_t lo = 0, hi = ATTN_CHUNK;

    x->any_lo = ATTN_CHUNK;
    x->any_hi = 0;
    for (uint32_t r = 0; r < t->n; r++) {
        const struct attn_row *row = &t->rows[r];
        uint32_t l = row->lo > c->first ? row->lo - c->first : 0;
        uint32_t h = row->hi <= c->first ? 0 : row->hi - c->first < ATTN_CHUNK ? row->hi - c->first : ATTN_CHUNK;

        if (l < h) {
            x->any_lo = l < x->any_lo ? l : x->any_lo;
            x->any_hi = h > x->any_hi ? h : x->any_hi;
        } else {
            l = h = 0;
        }
        x->lo[r] = l;
        x->hi[r] = h;
        lo = l > lo ? l : lo;
        hi = h < hi ? h : hi;
    }
    x->any_lo &= ~1u;
    x->any_hi = (x->any_hi + 1) & ~1u;
    x->all_lo = (lo + 1) & ~1u;
    x->all_hi = hi & ~1u;
    if (x->all_lo >= x->all_hi)
        x->all_lo = x->all_hi = x->any_hi;
}

void attn_run(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch, attn_tile_fn *fn)
{
    const uint32_t n = (q1 - q0) * (a->n_heads / a->kv->n_kv_heads);
    struct attn_scratch *s = scratch;
    struct attn_chunk c;

    c.to_values = a->kv->part_bytes;
    for (uint32_t r0 = 0; r0 < n; r0 += ATTN_BLOCK) {
        const uint32_t nb = n - r0 < ATTN_BLOCK ? n - r0 : ATTN_BLOCK;
        const uint32_t n_tiles = start_block(a, kvh, q0, r0, nb, s);
        const uint32_t lo = s->rows[0].lo, hi = s->rows[nb - 1].hi; /* both ascend with the row */

        for (c.first = lo / ATTN_CHUNK * ATTN_CHUNK; c.first < hi; c.first += ATTN_CHUNK) {
            const uint32_t end = hi - c.first < ATTN_CHUNK ? hi : c.first + ATTN_CHUNK;

            find_keys(a, kvh, lo > c.first ? lo : c.first, end, &c);
            for (uint32_t i = 0; i < n_tiles; i++) {
                struct attn_tile *t = &s->tiles[i];

                if (t->rows[0].lo < end && t->rows[t->n - 1].hi > c.first)
                    fn(a->kv, &c, t);
            }
        }
        finish_block(n_tiles, a->kv->head_dim, s);
    }
}
