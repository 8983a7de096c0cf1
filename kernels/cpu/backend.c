#include "kernels/backend.h"

#include <string.h>

#include "lib/core/mem.h"

#define GLU_FEW_TOKENS 16u   /* up to here a member takes all its columns at once */
#define GLU_BLOCK_TILES 8u   /* else this many tiles at a time, so that the block stays in the second-level cache */
#define ATTEND_Q_TILE 32u    /* queries of one sequence in a work item */

size_t act_place(struct act *a, unsigned kinds, uint32_t n_tokens, uint32_t n_cols, void *mem)
{
    uint32_t ld = (uint32_t)mem_round_up(n_cols, 64);
    size_t n = (size_t)n_tokens * ld, at = 0;
    unsigned char *base = mem;

    if (mem)
        *a = (struct act){ .n_tokens = n_tokens, .n_cols = n_cols, .ld = ld, .kinds = kinds };
    if (kinds & ACT_F32) {
        if (mem)
            a->f = (float *)(void *)(base + at);
        at += mem_round_up(n * sizeof(float), 64);
    }
    if (kinds & ACT_Q8) {
        size_t scales = mem_round_up(n / 32 * sizeof(float), 64);

        if (mem) {
            a->q = (int8_t *)(base + at);
            a->d = (float *)(void *)(base + at + n);
            a->s = (int16_t *)(void *)(base + at + n + scales);
        }
        at += n + scales + mem_round_up(n / 16 * sizeof(int16_t), 64);
    }
    if (kinds & ACT_BF16) {
        if (mem)
            a->bf = (uint16_t *)(void *)(base + at);
        at += mem_round_up(n * sizeof(uint16_t), 64);
    }
    return at;
}

static uint32_t glu_block_cols(uint32_t n_tokens, uint32_t n_ff, unsigned size)
{
    uint32_t share = (uint32_t)mem_round_up((n_ff + size - 1) / size + 2 * TILE_ROWS, 2 * TILE_ROWS);

    return n_tokens <= GLU_FEW_TOKENS || share < GLU_BLOCK_TILES * TILE_ROWS ? share : GLU_BLOCK_TILES * TILE_ROWS;
}

size_t backend_tmp_floats(uint32_t n_tokens, uint32_t n_ff, unsigned size)
{
    uint32_t few = n_tokens < GLU_FEW_TOKENS ? n_tokens : GLU_FEW_TOKENS;
    size_t a = (size_t)few * glu_block_cols(few, n_ff, size);
    size_t b = (size_t)n_tokens * glu_block_cols(n_tokens, n_ff, size);

    return 2 * (a > b ? a : b);
}

static void cpu_sync(struct exec *x)
{
    pool_barrier(x->pool);
}

static void cpu_embed(struct exec *x, const struct embed_table *t, const int32_t *tokens, uint32_t n_tokens, float scale,
                      float *out)
{
    uint32_t b, e;

    pool_split(x->pool, x->member, n_tokens, 1, &b, &e);
    for (uint32_t i = b; i < e; i++) {
        float *row = out + (size_t)i * t->n_cols;

        if (t->packed)
            wmat_row_f32(t->packed, (uint32_t)tokens[i], row);
        else
            dtype_row_f32(t->type, (const unsigned char *)t->rows + (size_t)tokens[i] * t->row_bytes, t->n_cols, row);
        if (scale != 1)
            x->ops->scale(row, scale, t->n_cols);
    }
}

static void act_shape(struct act *a, uint32_t n_tokens, uint32_t n_cols, unsigned kinds)
{
    a->n_tokens = n_tokens;
    a->n_cols = n_cols;
    a->ld = (uint32_t)mem_round_up(n_cols, 64);
    a->kinds = kinds;
}

/* Columns [c0, c0 + n) of token t from row; the last columns of a row carry the zero padding up to ld with them. */
static void act_fill(const struct kern_ops *ops, struct act *a, uint32_t t, uint32_t c0, uint32_t n, const float *row)
{
    size_t at = (size_t)t * a->ld + c0;
    uint32_t ld = c0 + n == a->n_cols ? a->ld - c0 : n;

    if (a->kinds & ACT_F32) {
        memcpy(a->f + at, row, n * sizeof(float));
        memset(a->f + at + n, 0, (ld - n) * sizeof(float));
    }
    if (a->kinds & ACT_Q8)
        ops->quantize_q8(row, n, ld, a->q + at, a->d + at / 32, a->s + at / 16);
    if (a->kinds & ACT_BF16)
        ops->round_bf16(row, n, ld, a->bf + at);
}

static void cpu_prepare(struct exec *x, const struct prepare_args *p, struct act_buf *buf)
{
    struct act *a = act_buf_get(buf, p->n_tokens);
    bool own = a == &buf->own;
    uint32_t b = 0, e = p->n_tokens;

    if (!own)
        pool_split(x->pool, x->member, p->n_tokens, 1, &b, &e);
    act_shape(a, p->n_tokens, p->n_cols, p->kinds);
    for (uint32_t t = b; t < e; t++) {
        const float *row = p->x + (size_t)(p->rows ? p->rows[t] : t) * p->ldx;

        if (p->norm) {
            x->ops->rmsnorm(x->tmp, row, p->norm, p->n_cols, p->eps);
            row = x->tmp;
        }
        act_fill(x->ops, a, t, 0, p->n_cols, row);
    }
    if (!own)
        pool_barrier(x->pool);
}

static void linear_range(struct exec *x, const struct linear_job *j, uint32_t t0, uint32_t t1, const struct act *a)
{
    enum act_kind kind = kern_act_kind(x->ops, j->w, x->exact);

    if (t0 < t1)
        x->ops->linear(j->w, t0, t1, a, kind, j->mode, j->y, j->ldy, x->scratch);
}

/* The jobs' tiles are laid end to end and cut into equal runs, one a member. */
static void cpu_linear(struct exec *x, const struct linear_job *jobs, uint32_t n_jobs, struct act_buf *buf,
                       uint32_t n_tokens)
{
    const struct act *a = act_buf_get(buf, n_tokens);
    uint32_t total = 0, b, e, at = 0;

    for (uint32_t i = 0; i < n_jobs; i++)
        total += jobs[i].w->n_tiles;
    pool_split(x->pool, x->member, total, 2, &b, &e);
    for (uint32_t i = 0; i < n_jobs; i++) {
        uint32_t n = jobs[i].w->n_tiles;
        uint32_t t0 = b > at ? b - at : 0, t1 = e > at ? e - at : 0;

        linear_range(x, &jobs[i], t0 < n ? t0 : n, t1 < n ? t1 : n, a);
        at += n;
    }
}

/* Tiles [t0, t1) of w, n rows, as a matrix of their own. */
static struct wmat slice(const struct wmat *w, uint32_t t0, uint32_t t1, uint32_t n)
{
    struct wmat s = *w;

    s.tiles += (size_t)t0 * w->tile_bytes;
    s.n_tiles = t1 - t0;
    s.n_rows = n;
    return s;
}

static void cpu_glu(struct exec *x, const struct wmat *gate, const struct wmat *up, enum glu_act act, struct act_buf *in,
                    uint32_t n_tokens, unsigned kinds, struct act_buf *out)
{
    void (*mul)(float *, const float *, uint32_t) = act == GLU_SILU ? x->ops->silu_mul : x->ops->gelu_mul;
    const struct act *a = act_buf_get(in, n_tokens);
    struct act *o = &out->shared;
    uint32_t step = glu_block_cols(n_tokens, gate->n_rows, x->size) / TILE_ROWS, b, e;

    act_shape(o, n_tokens, gate->n_rows, kinds);
    pool_split(x->pool, x->member, gate->n_tiles, 2, &b, &e); /* two tiles: whole activation groups */
    for (uint32_t t0 = b; t0 < e; t0 += step) {
        uint32_t t1 = t0 + step < e ? t0 + step : e, c0 = t0 * TILE_ROWS;
        uint32_t c1 = t1 * TILE_ROWS < gate->n_rows ? t1 * TILE_ROWS : gate->n_rows, n = c1 - c0;
        float *g = x->tmp, *u = x->tmp + (size_t)n_tokens * n;
        struct wmat wg = slice(gate, t0, t1, n), wu = slice(up, t0, t1, n);
        struct linear_job jg = { &wg, g, n, LINEAR_STORE }, ju = { &wu, u, n, LINEAR_STORE };

        linear_range(x, &jg, 0, t1 - t0, a);
        linear_range(x, &ju, 0, t1 - t0, a);
        for (uint32_t t = 0; t < n_tokens; t++) {
            mul(g + (size_t)t * n, u + (size_t)t * n, n);
            act_fill(x->ops, o, t, c0, n, g + (size_t)t * n);
        }
    }
}

static void add_bias(const struct kern_ops *ops, float *y, const float *bias, uint32_t n)
{
    if (bias)
        ops->add(y, bias, n);
}

static void norm_heads(const struct kern_ops *ops, float *y, const float *w, uint32_t n_heads, uint32_t hd, float eps)
{
    for (uint32_t h = 0; w && h < n_heads; h++)
        ops->rmsnorm(y + (size_t)h * hd, y + (size_t)h * hd, w, hd, eps);
}

/* Everything that happens to row t between the projections and attention, for KV head kvh and its query heads. */
static void attend_rotate_store(struct exec *x, const struct attend_args *a, const struct attn_args *s, uint32_t t,
                                uint32_t pos, uint32_t kvh)
{
    uint32_t hd = a->kv->head_dim, group = a->n_heads / a->kv->n_kv_heads;
    size_t qo = (size_t)kvh * group * hd, ko = (size_t)kvh * hd;
    float *q = a->q + (size_t)t * a->ldq + qo;
    float *k = a->k + (size_t)t * a->ldkv + ko, *v = a->v + (size_t)t * a->ldkv + ko;
    const float *cs = a->cs + (size_t)t * hd;

    add_bias(x->ops, q, a->q_bias ? a->q_bias + qo : NULL, group * hd);
    add_bias(x->ops, k, a->k_bias ? a->k_bias + ko : NULL, hd);
    add_bias(x->ops, v, a->v_bias ? a->v_bias + ko : NULL, hd);
    norm_heads(x->ops, q, a->q_norm, group, hd, a->eps);
    norm_heads(x->ops, k, a->k_norm, 1, hd, a->eps);
    x->ops->rope(q, group, hd, cs, a->rope_interleaved);
    x->ops->rope(k, 1, hd, cs, a->rope_interleaved);
    x->ops->kv_store(s, kvh, pos, k, v);
}

static struct attn_args attend_run_args(const struct attend_args *a, const struct attend_run *r)
{
    return (struct attn_args){
        .kv = a->kv,
        .base = a->pool_base,
        .blocks = r->blocks,
        .layer = a->layer,
        .n_heads = a->n_heads,
        .n_q = r->n_tokens,
        .pos0 = r->pos0,
        .window = a->window,
        .scale = a->scale,
        .q = a->q + (size_t)r->first * a->ldq,
        .ldq = a->ldq,
        .out = a->out + (size_t)r->first * a->ldq,
        .ldo = a->ldq,
    };
}

/* One token a sequence: each (sequence, KV head) is stored and attended to by the same member, so nobody waits. */
static void attend_decode(struct exec *x, const struct attend_args *a)
{
    uint32_t kvh_n = a->kv->n_kv_heads, n = a->n_runs * kvh_n;

    for (uint32_t i = atomic_fetch_add(&x->ticket[a->layer], 1); i < n; i = atomic_fetch_add(&x->ticket[a->layer], 1)) {
        const struct attend_run *r = &a->runs[i / kvh_n];
        struct attn_args s = attend_run_args(a, r);

        attend_rotate_store(x, a, &s, r->first, r->pos0, i % kvh_n);
        x->ops->attention(&s, i % kvh_n, 0, 1, x->scratch);
    }
}

/* Item i of a run: the last query tiles, which see the most keys, come first so that the members end together. */
static void attend_prefill_item(struct exec *x, const struct attend_args *a, const struct attend_run *r, uint32_t i)
{
    struct attn_args s = attend_run_args(a, r);
    uint32_t tiles = (r->n_tokens + ATTEND_Q_TILE - 1) / ATTEND_Q_TILE;
    uint32_t tile = tiles - 1 - i / a->kv->n_kv_heads, q0 = tile * ATTEND_Q_TILE;
    uint32_t q1 = q0 + ATTEND_Q_TILE < r->n_tokens ? q0 + ATTEND_Q_TILE : r->n_tokens;

    x->ops->attention(&s, i % a->kv->n_kv_heads, q0, q1, x->scratch);
}

/* A boundary between members inside a run moves to an even position: the two tokens of a V pair share a word. */
static uint32_t even_boundary(const struct attend_run *r, uint32_t t)
{
    uint32_t end = r->first + r->n_tokens;

    if (t <= r->first)
        return r->first;
    t = t < end ? t + ((r->pos0 + (t - r->first)) & 1) : end;
    return t;
}

static void attend_prefill(struct exec *x, const struct attend_args *a)
{
    uint32_t kvh_n = a->kv->n_kv_heads, b, e, first = 0, run = 0, next;

    pool_split(x->pool, x->member, a->n_tokens, 16, &b, &e);
    for (uint32_t i = 0; i < a->n_runs; i++) {
        const struct attend_run *r = &a->runs[i];
        struct attn_args s = attend_run_args(a, r);

        for (uint32_t t = even_boundary(r, b); t < even_boundary(r, e); t++)
            for (uint32_t h = 0; h < kvh_n; h++)
                attend_rotate_store(x, a, &s, t, r->pos0 + (t - r->first), h);
    }
    pool_barrier(x->pool);
    for (uint32_t i = atomic_fetch_add(&x->ticket[a->layer], 1);; i = atomic_fetch_add(&x->ticket[a->layer], 1)) {
        for (; run < a->n_runs; run++, first = next) {
            next = first + kvh_n * ((a->runs[run].n_tokens + ATTEND_Q_TILE - 1) / ATTEND_Q_TILE);
            if (i < next)
                break;
        }
        if (run == a->n_runs)
            return;
        attend_prefill_item(x, a, &a->runs[run], i - first);
    }
}

static void cpu_attend(struct exec *x, const struct attend_args *a)
{
    if (a->n_tokens == a->n_runs)
        attend_decode(x, a);
    else
        attend_prefill(x, a);
}

static void cpu_add_norm(struct exec *x, float *out, const float *y, const float *w, float eps, uint32_t n_tokens,
                         uint32_t n)
{
    uint32_t b, e;

    pool_split(x->pool, x->member, n_tokens, 1, &b, &e);
    for (uint32_t t = b; t < e; t++) {
        x->ops->rmsnorm(x->tmp, y + (size_t)t * n, w, n, eps);
        x->ops->add(out + (size_t)t * n, x->tmp, n);
    }
}

const struct backend backend_cpu = {
    .name = "cpu",
    .sync = cpu_sync,
    .embed = cpu_embed,
    .prepare = cpu_prepare,
    .linear = cpu_linear,
    .glu = cpu_glu,
    .attend = cpu_attend,
    .add_norm = cpu_add_norm,
};
