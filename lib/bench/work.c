/* How many bytes and operations a step of the engine needs at least. */
#include "lib/bench/bench.h"

#define MULTIPLY_ADD 2.0 /* operations */

/* A matrix that is read `reads` times, for `tokens` activations in all. */
static void add_linear(struct bench_work *w, const struct kern_ops *ops, bool exact, const struct wmat *m, double tokens,
                       double reads)
{
    double n = MULTIPLY_ADD * (double)m->n_rows * (double)m->n_cols * tokens;

    w->weight_bytes += reads * (double)m->n_tiles * (double)m->tile_bytes;
    switch (kern_act_kind(ops, m, exact)) {
    case ACT_Q8: w->i8_ops += n; break;
    case ACT_BF16: w->bf16_ops += n; break;
    case ACT_F32: w->f32_ops += n; break;
    }
}

static void add_layers(struct bench_work *w, const struct model *m, const struct kern_ops *ops, bool exact, double tokens,
                       double reads)
{
    for (uint32_t i = 0; i < m->params.n_layers; i++) {
        const struct model_layer *l = &m->layers[i];
        const struct wmat *mats[] = { &l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down };

        for (size_t j = 0; j < sizeof mats / sizeof mats[0]; j++)
            add_linear(w, ops, exact, mats[j], tokens, reads);
    }
}

/* Keys visible to the queries at positions pos .. pos + n - 1, summed; window 0: all before and itself. */
static double visible_sum(uint32_t pos, uint32_t n, uint32_t window)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t seen = pos + i + 1;

        sum += window && seen > window ? window : seen;
    }
    return sum;
}

/* Keys that at least one of these queries sees. */
static double visible_union(uint32_t pos, uint32_t n, uint32_t window)
{
    uint32_t end = pos + n, first = window && pos + 1 > window ? pos + 1 - window : 0;

    return end - first;
}

/* n_new tokens at position pos of each of n_seqs sequences, in one step. */
static void add_attention(struct bench_work *w, const struct model *m, enum kv_type kv, uint32_t n_seqs, uint32_t pos,
                          uint32_t n_new)
{
    const struct model_params *p = &m->params;
    double per_key = 2.0 * p->n_kv_heads * p->head_dim * (kv == KV_F32 ? 4 : 2);

    for (uint32_t i = 0; i < p->n_layers; i++) {
        uint32_t window = m->layers[i].local ? p->window : 0;

        w->kv_bytes += n_seqs * per_key * visible_union(pos, n_new, window);
        w->attention_ops += 2 * MULTIPLY_ADD * p->n_heads * p->head_dim * n_seqs * visible_sum(pos, n_new, window);
    }
}

void bench_work_decode(struct bench_work *w, const struct model *m, const struct kern_ops *ops, bool exact, enum kv_type kv,
                       uint32_t n_seqs, uint32_t pos)
{
    add_layers(w, m, ops, exact, n_seqs, 1);
    add_linear(w, ops, exact, &m->head, n_seqs, 1);
    add_attention(w, m, kv, n_seqs, pos, 1);
    w->steps++;
}

void bench_work_prefill(struct bench_work *w, const struct model *m, const struct kern_ops *ops, bool exact,
                        enum kv_type kv, uint32_t n_seqs, uint32_t n_tokens, uint32_t chunk)
{
    uint64_t tokens = (uint64_t)n_seqs * n_tokens, steps = (tokens + chunk - 1) / chunk;

    add_layers(w, m, ops, exact, (double)tokens, (double)steps);
    add_linear(w, ops, exact, &m->head, n_seqs, (double)(steps < n_seqs ? steps : n_seqs));
    for (uint32_t pos = 0; pos < n_tokens; pos += chunk)
        add_attention(w, m, kv, n_seqs, pos, n_tokens - pos < chunk ? n_tokens - pos : chunk);
    w->steps += (uint32_t)steps;
}

double bench_least_seconds(const struct bench_work *w, const struct bench_limits *l, bool bf16_attention)
{
    double read = (w->weight_bytes + w->kv_bytes) / l->read_bytes;
    double compute = w->i8_ops / l->i8_ops + w->bf16_ops / l->bf16_ops + w->f32_ops / l->f32_ops +
                     w->attention_ops / (bf16_attention ? l->bf16_ops : l->f32_ops);

    return read > compute ? read : compute;
}
