/* kv_store and attention: the pool's bytes against the reference's, results against sums in double precision, and the same
 * bits however the queries are cut. Slots that hold no token are NaN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/f16.h"
#include "lib/core/mem.h"
#include "tests/kern/checkkern.h"

#define N_LAYERS 2u
#define LAYER 1u
#define N_KVH 2u
#define KVH 1u
#define PAD 5u /* floats between rows of q and of out */

struct shape {
    enum kv_type type;
    uint32_t head_dim, group, block_tokens, pos0, n_q, window;
};

struct problem {
    struct shape s;
    struct kv_layout kv;
    uint32_t n_keys, n_blocks;
    size_t pool_bytes, q_bytes, kv_bytes, table_bytes, scratch_bytes;
    unsigned char *pool;
    uint32_t *table;
    float *q, *out, *k, *v; /* k, v: [n_keys][head_dim] as stored, rounded for bf16 */
    void *scratch;
    struct attn_args args;
};

static void fill(struct checker *c, float *x, size_t n, float range)
{
    for (size_t i = 0; i < n; i++)
        x[i] = check_uniform(c, -range, range);
}

static void shuffle(struct checker *c, uint32_t *x, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t j = check_u32(c) % i, t = x[i - 1];

        x[i - 1] = x[j];
        x[j] = t;
    }
}

static float stored(enum kv_type type, float x)
{
    return type == KV_BF16 ? f32_from_bf16(bf16_from_f32(x)) : x;
}

/* The pool holds twice the blocks that the sequence has; the table names a random half in random order. */
static void problem_init(struct checker *c, struct problem *p, struct shape s)
{
    uint32_t ids[256];

    *p = (struct problem){ .s = s, .n_keys = s.pos0 + s.n_q };
    kv_layout_init(&p->kv, s.type, N_LAYERS, N_KVH, s.head_dim, s.block_tokens);
    p->n_blocks = (p->n_keys + s.block_tokens - 1) / s.block_tokens;
    p->pool_bytes = 2 * p->n_blocks * p->kv.block_bytes;
    p->pool = guard_new(p->pool_bytes);
    p->table_bytes = p->n_blocks * sizeof *p->table;
    p->table = guard_new(p->table_bytes);
    for (uint32_t i = 0; i < 2 * p->n_blocks; i++)
        ids[i] = i;
    shuffle(c, ids, 2 * p->n_blocks);
    memcpy(p->table, ids, p->table_bytes);

    p->args = (struct attn_args){ .kv = &p->kv, .base = p->pool, .blocks = p->table, .layer = LAYER, .n_heads = N_KVH * s.group,
                                  .n_q = s.n_q, .pos0 = s.pos0, .window = s.window, .scale = 1 / sqrtf((float)s.head_dim) };
    p->args.ldq = p->args.ldo = (size_t)p->args.n_heads * s.head_dim + PAD;
    p->q_bytes = s.n_q * p->args.ldq * sizeof(float);
    p->q = guard_new(p->q_bytes);
    p->out = guard_new(p->q_bytes);
    p->args.q = p->q;
    p->args.out = p->out;
    fill(c, p->q, s.n_q * p->args.ldq, 4);
    p->kv_bytes = (size_t)p->n_keys * s.head_dim * sizeof(float);
    p->k = guard_new(p->kv_bytes);
    p->v = guard_new(p->kv_bytes);
    fill(c, p->k, (size_t)p->n_keys * s.head_dim, 2);
    fill(c, p->v, (size_t)p->n_keys * s.head_dim, 2);
    p->scratch_bytes = kern_attn_scratch(s.group, s.head_dim);
    p->scratch = guard_new(p->scratch_bytes);
}

static void problem_free(struct problem *p)
{
    guard_free(p->pool, p->pool_bytes);
    guard_free(p->table, p->table_bytes);
    guard_free(p->q, p->q_bytes);
    guard_free(p->out, p->q_bytes);
    guard_free(p->k, p->kv_bytes);
    guard_free(p->v, p->kv_bytes);
    guard_free(p->scratch, p->scratch_bytes);
}

/* Stores all tokens of KV head KVH, in order. */
static void store_all(struct problem *p, const struct kern_ops *ops)
{
    const uint32_t hd = p->s.head_dim;

    for (uint32_t i = 0; i < p->n_keys; i++)
        ops->kv_store(&p->args, KVH, i, p->k + (size_t)i * hd, p->v + (size_t)i * hd);
}

static const char *describe(const struct problem *p)
{
    static char text[128];

    snprintf(text, sizeof text, "%s head %u group %u block %u pos %u queries %u window %u", p->s.type == KV_BF16 ? "bf16" : "f32",
             p->s.head_dim, p->s.group, p->s.block_tokens, p->s.pos0, p->s.n_q, p->s.window);
    return text;
}

static void check_store(struct checker *c, struct problem *p)
{
    unsigned char *want = guard_new(p->pool_bytes);

    store_all(p, c->ref);
    memcpy(want, p->pool, p->pool_bytes);
    memset(p->pool, 0xff, p->pool_bytes);
    store_all(p, c->ops);
    check_that(c, !memcmp(want, p->pool, p->pool_bytes), "kv_store %s: not the reference's bytes", describe(p));
    check_that(c, guard_intact(p->pool, p->pool_bytes), "kv_store %s: stray writes", describe(p));
    guard_free(want, p->pool_bytes);
}

/* Row of query i, head h in the group, in double: want[head_dim], and the error that is allowed for each in tol. */
static void exact_row(const struct problem *p, uint32_t i, uint32_t h, double *s, double *want, double *tol)
{
    const uint32_t hd = p->s.head_dim, pos = p->s.pos0 + i, hi = pos + 1;
    const uint32_t lo = p->s.window && pos + 1 > p->s.window ? pos + 1 - p->s.window : 0;
    const float *q = p->q + i * p->args.ldq + (size_t)(KVH * p->s.group + h) * hd;
    double max = -INFINITY, sum = 0, worst = 0;

    for (uint32_t t = lo; t < hi; t++) {
        double dot = 0, mag = 0;

        for (uint32_t d = 0; d < hd; d++) {
            const double x = (double)q[d] * stored(p->s.type, p->k[(size_t)t * hd + d]);

            dot += x;
            mag += fabs(x);
        }
        s[t] = dot * p->args.scale;
        max = s[t] > max ? s[t] : max;
        worst = fmax(worst, check_tolerance(hd, mag * p->args.scale));
    }
    memset(want, 0, hd * sizeof *want);
    memset(tol, 0, hd * sizeof *tol);
    for (uint32_t t = lo; t < hi; t++) {
        const double e = exp(s[t] - max);

        sum += e;
        for (uint32_t d = 0; d < hd; d++) {
            const double v = e * stored(p->s.type, p->v[(size_t)t * hd + d]);

            want[d] += v;
            tol[d] += fabs(v);
        }
    }
    for (uint32_t d = 0; d < hd; d++) { /* an error of x in a score changes its weight by a factor e^x */
        want[d] /= sum;
        tol[d] = check_tolerance(hi - lo, tol[d] / sum) + 2 * worst * tol[d] / sum;
    }
}

static void check_values(struct checker *c, const struct problem *p)
{
    const uint32_t hd = p->s.head_dim;
    double *s = malloc(p->n_keys * sizeof *s), want[1024], tol[1024];
    bool ok = s != NULL;

    for (uint32_t i = 0; ok && i < p->s.n_q; i++)
        for (uint32_t h = 0; h < p->s.group; h++) {
            const float *got = p->out + i * p->args.ldo + (size_t)(KVH * p->s.group + h) * hd;

            exact_row(p, i, h, s, want, tol);
            for (uint32_t d = 0; d < hd && ok; d++)
                ok = check_that(c, fabs(got[d] - want[d]) <= tol[d], "attention %s: query %u head %u dim %u is %.9g, not %.9g (+- %.2g)",
                                describe(p), i, h, d, (double)got[d], want[d], tol[d]);
        }
    free(s);
}

/* Rows of all other heads and the padding must be as they were: NaN. */
static void check_stray(struct checker *c, const struct problem *p)
{
    const size_t hd = p->s.head_dim, first = (size_t)KVH * p->s.group * hd, last = first + p->s.group * hd;
    bool ok = guard_intact(p->out, p->q_bytes) && guard_intact(p->scratch, p->scratch_bytes);

    for (uint32_t i = 0; i < p->s.n_q; i++)
        for (size_t j = 0; j < p->args.ldo; j++)
            ok = ok && (j >= first && j < last ? true : f32_bits(p->out[i * p->args.ldo + j]) == UINT32_MAX);
    check_that(c, ok, "attention %s: stray writes", describe(p));
}

/* The same bits when the queries come in pieces: by q0 and q1, and as calls of their own. */
static void check_pieces(struct checker *c, struct problem *p)
{
    float *want = malloc(p->q_bytes);

    if (!check_that(c, want != NULL, "no memory"))
        return;
    memcpy(want, p->out, p->q_bytes);
    for (unsigned kind = 0; kind < 3; kind++) {
        memset(p->out, 0xff, p->q_bytes);
        for (uint32_t q0 = 0, q1; q0 < p->s.n_q; q0 = q1) {
            q1 = kind == 0 ? q0 + 1 : q0 + 1 + check_u32(c) % (p->s.n_q - q0);
            if (kind == 2) {
                struct attn_args a = p->args;

                a.pos0 += q0;
                a.n_q = q1 - q0;
                a.q += q0 * a.ldq;
                a.out += q0 * a.ldo;
                c->ops->attention(&a, KVH, 0, q1 - q0, p->scratch);
            } else {
                c->ops->attention(&p->args, KVH, q0, q1, p->scratch);
            }
        }
        check_that(c, !memcmp(want, p->out, p->q_bytes), "attention %s: other bits in pieces (%u)", describe(p), kind);
    }
    free(want);
}

/* Tokens that a query must not see are NaN: the following one, and, with a window, one that has left it. */
static void check_hidden(struct checker *c, struct problem *p)
{
    const uint32_t hd = p->s.head_dim, at = check_u32(c) % p->s.n_q, pos = p->s.pos0 + at;
    float *want = malloc(p->q_bytes), nan[1024];
    bool ok = true;

    if (!check_that(c, want != NULL, "no memory"))
        return;
    for (uint32_t d = 0; d < hd; d++)
        nan[d] = NAN;
    c->ops->attention(&p->args, KVH, 0, p->s.n_q, p->scratch);
    memcpy(want, p->out, p->q_bytes);
    for (uint32_t i = pos & ~1u; i < p->n_keys && i <= (pos | 1); i++) { /* the pair, in order */
        const float *k = i == pos ? nan : p->k + (size_t)i * hd, *v = i == pos ? nan : p->v + (size_t)i * hd;

        c->ops->kv_store(&p->args, KVH, i, k, v);
    }
    c->ops->attention(&p->args, KVH, 0, p->s.n_q, p->scratch);
    for (uint32_t i = 0; i < p->s.n_q; i++) {
        const size_t row = i * p->args.ldo + (size_t)KVH * p->s.group * hd, n = (size_t)p->s.group * hd;
        const bool sees = i >= at && (!p->s.window || i - at < p->s.window);

        if (!sees)
            ok = ok && !memcmp(want + row, p->out + row, n * sizeof(float));
        for (size_t j = 0; sees && j < n; j++)
            ok = ok && isnan(p->out[row + j]);
    }
    check_that(c, ok, "attention %s: a NaN at position %u is seen by the wrong queries", describe(p), pos);
    free(want);
}

static void check_shape(struct checker *c, struct shape s)
{
    struct problem p;

    problem_init(c, &p, s);
    check_store(c, &p);
    c->ops->attention(&p.args, KVH, 0, s.n_q, p.scratch);
    check_stray(c, &p);
    check_values(c, &p);
    check_pieces(c, &p);
    check_hidden(c, &p);
    problem_free(&p);
}

static void check_attn(struct checker *c)
{
    static const uint32_t starts[] = { 0, 1, 14, 15, 16, 17, 240, 254, 255, 256, 257, 511, 512, 513, 700 };
    static const uint32_t windows[] = { 0, 1, 2, 15, 16, 17, 100, 255, 256, 257, 512 };
    static const uint32_t dims[] = { 16, 32, 48, 64, 80, 96, 128, 192, 256 };
    static const uint32_t queries[] = { 1, 1, 2, 3, 7, 33, 50 };
    static const struct shape large[] = { { KV_BF16, 1024, 2, 16, 300, 3, 0 }, { KV_F32, 1024, 1, 32, 254, 5, 100 },
                                          { KV_BF16, 528, 3, 16, 250, 9, 17 }, { KV_F32, 512, 16, 16, 511, 2, 0 },
                                          { KV_BF16, 64, 9, 64, 4093, 5, 0 },  { KV_BF16, 128, 6, 64, 3900, 13, 1024 } };

    if (!check_wanted(c, "attention", c->prev && c->prev->attention == c->ops->attention))
        return;
    for (unsigned i = 0; i < sizeof starts / sizeof starts[0]; i++)
        for (unsigned k = 0; k < 2 * sizeof windows / sizeof windows[0]; k++) {
            struct shape s = { .type = k % 2 ? KV_F32 : KV_BF16, .pos0 = starts[i], .window = windows[k / 2] };

            s.n_q = queries[check_u32(c) % 7];
            s.block_tokens = 16 << check_u32(c) % 3;
            s.head_dim = dims[check_u32(c) % 9];
            s.group = 1 + check_u32(c) % (s.n_q > 3 ? 7 : 16);
            check_shape(c, s);
        }
    for (unsigned i = 0; i < sizeof large / sizeof large[0]; i++)
        check_shape(c, large[i]);
}

/* --- time ------------------------------------------------------------------------------------------------------------- */

struct timed {
    struct checker *c;
    struct attn_args a;
    uint32_t step; /* queries a call */
    void *scratch;
};

/* Every call takes the next layer, so that the keys and values of a call are not in the cache. */
static void call_attention(void *arg)
{
    struct timed *t = arg;

    t->a.layer = (t->a.layer + 1) % t->a.kv->n_layers;
    for (uint32_t q = 0; q < t->a.n_q; q += t->step)
        t->c->ops->attention(&t->a, 0, q, q + t->step < t->a.n_q ? q + t->step : t->a.n_q, t->scratch);
}

static void bench_shape(struct checker *c, struct shape s)
{
    const uint32_t n = s.pos0 + s.n_q, n_blocks = (n + s.block_tokens - 1) / s.block_tokens;
    const double rows = (double)s.n_q * s.group, keys = s.pos0 + (s.n_q + 1) / 2.0;
    struct kv_layout kv;
    struct timed t = { .c = c, .step = 32 };
    size_t pool_bytes, q_bytes;
    double seconds, bytes, ops, peak = peak_float_ops(c->ops->isa);
    uint32_t *table = malloc(n_blocks * sizeof *table);
    float *q, *out;

    kv_layout_init(&kv, s.type, s.n_q > 1 ? 2 : 1 + 96 * 8192 / (n * s.head_dim / 64), 1, s.head_dim, s.block_tokens);
    pool_bytes = n_blocks * kv.block_bytes;
    q_bytes = sizeof(float) * s.n_q * s.group * s.head_dim;
    t.a = (struct attn_args){ .kv = &kv, .base = mem_map(pool_bytes), .blocks = table, .n_heads = s.group, .n_q = s.n_q,
                              .pos0 = s.pos0, .scale = 0.1f, .ldq = (size_t)s.group * s.head_dim,
                              .ldo = (size_t)s.group * s.head_dim };
    q = mem_alloc(q_bytes);
    out = mem_alloc(q_bytes);
    t.scratch = mem_alloc(kern_attn_scratch(s.group, s.head_dim));
    if (!table || !t.a.base || !q || !out || !t.scratch) {
        fprintf(stderr, "checkkern: no memory\n");
        exit(1);
    }
    memset(t.a.base, 0x3c, pool_bytes);
    for (uint32_t i = 0; i < n_blocks; i++)
        table[i] = i;
    shuffle(c, table, n_blocks);
    fill(c, q, q_bytes / sizeof *q, 1);
    t.a.q = q;
    t.a.out = out;
    seconds = bench_seconds(call_attention, &t);
    bytes = 2.0 * n * s.head_dim * (s.type == KV_BF16 ? 2 : 4);
    ops = 4.0 * rows * keys * s.head_dim;
    printf("%s\tattention\t%s\t%u\t%u\t%u\t%u\t%.1f\t%.1f\t%.2f\t%.1f\t%.2f\n", c->ops->isa, s.type == KV_BF16 ? "bf16" : "f32",
           s.head_dim, s.group, s.pos0, s.n_q, seconds * 1e6, ops / seconds * 1e-9, peak > 0 ? ops / seconds / peak : 0.0,
           bytes / seconds * 1e-9, bytes / seconds / peak_read_bytes());
    fflush(stdout);
    mem_unmap(t.a.base, pool_bytes);
    free(table);
    free(q);
    free(out);
    free(t.scratch);
}

static void bench_attn(struct checker *c)
{
    static const struct shape shapes[] = {
        { KV_BF16, 64, 1, 16, 4095, 1, 0 },  { KV_BF16, 64, 3, 16, 4095, 1, 0 },  { KV_BF16, 64, 7, 16, 4095, 1, 0 },
        { KV_BF16, 128, 1, 16, 4095, 1, 0 }, { KV_BF16, 128, 6, 16, 4095, 1, 0 }, { KV_BF16, 256, 4, 16, 4095, 1, 0 },
        { KV_BF16, 64, 3, 16, 127, 1, 0 },   { KV_F32, 64, 3, 16, 4095, 1, 0 },   { KV_BF16, 64, 3, 16, 0, 512, 0 },
        { KV_BF16, 128, 6, 16, 0, 512, 0 },  { KV_BF16, 256, 4, 16, 0, 512, 0 },  { KV_BF16, 64, 3, 16, 4096, 512, 0 },
        { KV_F32, 64, 3, 16, 0, 512, 0 },
    };

    if (!check_wanted(c, "attention", c->prev && c->prev->attention == c->ops->attention))
        return;
    printf("# isa\tkernel\ttype\thead\tgroup\tpos\tqueries\tus\tGFLOP/s\tof peak\tKV GB/s\tof read\n");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(c->ops->isa, "ref") || shapes[i].n_q == 1)
            bench_shape(c, shapes[i]);
}

const struct family family_attn = { "attention", check_attn, bench_attn };
