/* The crossed tests: one pool per thread count, one engine per shape. */
#include "lib/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/isa.h"
#include "lib/core/clock.h"
#include "lib/core/mem.h"
#include "lib/core/rng.h"

#define DEFAULT_CHUNK 512u

struct run {
    const struct bench_plan *plan;
    const struct model *m;
    void *buf;                 /* for the read bandwidth */
    size_t buf_bytes;

    struct pool *pool;         /* of the current thread count */
    struct bench_limits limits; /* of the current thread count and ISA */
    struct kern_ops ops;       /* of the current ISA */
    const char *isa;           /* as the plan names it */
    uint32_t chunk, max_gen;

    /* the current shape */
    struct engine *g;
    struct seq **seqs;         /* [batch] */
    struct step_item *items;   /* [batch] */
    int32_t *prompts;          /* [batch][prompt] */
    int32_t *next;             /* [batch] */
    float *logits;             /* [batch][n_vocab] */
    double *rates;             /* [repeats] tokens per second */
    struct bench_row row;
    bool filled;               /* seqs hold the prompts */
};

static int32_t random_token(const struct run *r, uint32_t seq, uint64_t position)
{
    return (int32_t)(rng_uniform(r->plan->seed, seq, position) * r->m->params.n_vocab);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void close_shape(struct run *r)
{
    for (uint64_t i = 0; r->seqs && r->g && i < r->row.batch; i++)
        engine_seq_close(r->g, r->seqs[i]);
    engine_close(r->g);
    free(r->seqs);
    free(r->items);
    free(r->prompts);
    free(r->next);
    free(r->logits);
    r->g = NULL;
    r->seqs = NULL;
    r->items = NULL;
    r->prompts = r->next = NULL;
    r->logits = NULL;
    r->filled = false;
}

static int open_shape(struct run *r, uint32_t batch, uint32_t prompt, enum kv_type kv, struct err *e)
{
    struct engine_opts o = { .isa = r->isa, .exact = r->plan->exact, .kv_type = kv, .ctx_tokens = prompt + r->max_gen + 1,
                             .n_seqs = batch, .chunk_tokens = r->chunk, .no_prefix_cache = true };
    int rc;

    memset(&r->row, 0, sizeof r->row);
    r->row.batch = batch;
    r->row.prompt_tokens = prompt;
    r->row.threads = pool_size(r->pool);
    r->row.isa = r->ops.isa;
    r->row.kv_type = kv == KV_F32 ? "f32" : "bf16";
    r->row.exact = r->plan->exact;
    r->row.repeats = r->plan->repeats;
    r->seqs = calloc(batch, sizeof *r->seqs);
    r->items = calloc(batch, sizeof *r->items);
    r->prompts = malloc(((size_t)batch * prompt + 1) * sizeof *r->prompts);
    r->next = malloc(batch * sizeof *r->next);
    r->logits = mem_alloc((size_t)batch * r->m->params.n_vocab * sizeof *r->logits);
    if (!r->seqs || !r->items || !r->prompts || !r->next || !r->logits)
        return err_set(e, ERR_NOMEM, "batch of %u with %u tokens: out of memory", batch, prompt);
    rc = engine_open(&r->g, r->m, r->pool, &o, e);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < batch; i++)
        for (uint32_t j = 0; j < prompt; j++)
            r->prompts[(size_t)i * prompt + j] = random_token(r, i, j);
    return 0;
}

/* Computes the prompts in empty sequences. */
static int prefill(struct run *r, uint64_t *ns, struct err *e)
{
    uint32_t batch = (uint32_t)r->row.batch, prompt = (uint32_t)r->row.prompt_tokens;
    uint64_t start;
    int rc;

    for (uint32_t i = 0; i < batch; i++) {
        engine_seq_close(r->g, r->seqs[i]);
        r->seqs[i] = NULL;
        if ((rc = engine_seq_open(r->g, &r->seqs[i], e)))
            return rc;
        r->items[i] = (struct step_item){ r->seqs[i], r->prompts + (size_t)i * prompt, prompt, STEP_LAST,
                                          r->logits + (size_t)i * r->m->params.n_vocab };
    }
    r->filled = true;
    start = clock_ns();
    rc = prompt ? engine_prefill(r->g, r->items, batch, e) : 0;
    *ns = clock_ns() - start;
    return rc;
}

/* n tokens more for every sequence, from the end of the prompts on. */
static int decode(struct run *r, uint32_t n, uint64_t *ns, struct err *e)
{
    uint32_t batch = (uint32_t)r->row.batch, prompt = (uint32_t)r->row.prompt_tokens;
    uint64_t start;
    int rc = 0;

    for (uint32_t i = 0; i < batch; i++) {
        engine_seq_truncate(r->g, r->seqs[i], prompt);
        r->items[i] = (struct step_item){ r->seqs[i], r->next + i, 1, STEP_LAST, r->logits + (size_t)i * r->m->params.n_vocab };
    }
    start = clock_ns();
    for (uint32_t k = 0; !rc && k < n; k++) {
        for (uint32_t i = 0; i < batch; i++)
            r->next[i] = random_token(r, i, (uint64_t)prompt + k);
        rc = engine_decode(r->g, r->items, batch, e);
    }
    *ns = clock_ns() - start;
    return rc;
}

static void rate_of_work(struct run *r, const struct bench_work *w, enum kv_type kv)
{
    struct bench_row *row = &r->row;
    const struct bench_limits *l = &r->limits;
    bool bf16_attention = kv == KV_BF16 && r->ops.bf16_dot;
    double tokens = (double)row->batch * (double)(row->generated_tokens ? row->generated_tokens : row->prompt_tokens);
    double seconds = tokens / row->tokens_per_second, linear = w->i8_ops + w->bf16_ops + w->f32_ops;
    double linear_seconds = w->i8_ops / l->i8_ops + w->bf16_ops / l->bf16_ops + w->f32_ops / l->f32_ops;

    row->ms_per_step = seconds * 1e3 / w->steps;
    row->weight_bytes_per_step = w->weight_bytes / w->steps;
    row->kv_bytes_per_step = w->kv_bytes / w->steps;
    row->gb_per_second = (w->weight_bytes + w->kv_bytes) / seconds * 1e-9;
    row->limit_gb_per_second = l->read_bytes * 1e-9;
    row->gop_per_second = linear / seconds * 1e-9;
    row->limit_gop_per_second = linear / linear_seconds * 1e-9;
    row->attention_gop_per_second = w->attention_ops / seconds * 1e-9;
    row->limit_attention_gop_per_second = (bf16_attention ? l->bf16_ops : l->f32_ops) * 1e-9;
    row->limit_ratio = bench_least_seconds(w, l, bf16_attention) / seconds;
}

/* One test: warm-up and repeats, then its row. n_gen 0: prefill. */
static int run_test(struct run *r, uint32_t n_gen, enum kv_type kv, struct err *e)
{
    const struct bench_plan *p = r->plan;
    struct bench_work w = { 0 };
    struct bench_row *row = &r->row;
    uint32_t batch = (uint32_t)row->batch, prompt = (uint32_t)row->prompt_tokens, n_runs = p->warmup + p->repeats;
    double tokens = (double)batch * (n_gen ? n_gen : prompt);
    uint64_t ns;
    int rc;

    row->test = n_gen ? "decode" : "prefill";
    row->generated_tokens = n_gen;
    if ((rc = bench_limits_measure(&r->limits, r->pool, r->isa, r->buf, r->buf_bytes, e)))
        return rc;
    for (uint32_t i = 0; i < n_runs; i++) {
        if (p->progress && !p->progress(p->arg, row, i, n_runs))
            return err_set(e, ERR_CANCELED, "stopped");
        rc = n_gen ? r->filled ? 0 : prefill(r, &ns, e) : prefill(r, &ns, e);
        if (!rc && n_gen)
            rc = decode(r, n_gen, &ns, e);
        if (rc)
            return rc;
        if (i >= p->warmup)
            r->rates[i - p->warmup] = tokens * 1e9 / (double)(ns ? ns : 1);
    }
    qsort(r->rates, p->repeats, sizeof *r->rates, compare_doubles);
    row->tokens_per_second = (r->rates[(p->repeats - 1) / 2] + r->rates[p->repeats / 2]) / 2;
    row->tokens_per_second_min = r->rates[0];
    row->tokens_per_second_max = r->rates[p->repeats - 1];
    if (!n_gen)
        bench_work_prefill(&w, r->m, &r->ops, p->exact, kv, batch, prompt, r->chunk);
    for (uint32_t k = 0; k < n_gen; k++)
        bench_work_decode(&w, r->m, &r->ops, p->exact, kv, batch, prompt + k);
    rate_of_work(r, &w, kv);
    return p->row(p->arg, row, e);
}

static int run_shape(struct run *r, uint32_t batch, uint32_t prompt, enum kv_type kv, struct err *e)
{
    int rc = open_shape(r, batch, prompt, kv, e);

    if (!rc && r->plan->prefill && prompt)
        rc = run_test(r, 0, kv, e);
    for (size_t i = 0; !rc && r->plan->decode && i < r->plan->n_gens; i++)
        if (r->plan->gens[i])
            rc = run_test(r, r->plan->gens[i], kv, e);
    close_shape(r);
    return rc;
}

static int run_isa(struct run *r, const char *isa, struct err *e)
{
    const struct bench_plan *p = r->plan;
    int rc = 0;

    r->isa = isa;
    memset(&r->limits, 0, sizeof r->limits);
    if (kern_ops_init(&r->ops, isa))
        return err_set(e, ERR_INVAL, "instruction set %s: unknown, or not on this machine", isa ? isa : "(best)");
    for (size_t k = 0; !rc && k < p->n_kv_types; k++)
        for (size_t b = 0; !rc && b < p->n_batches; b++)
            for (size_t i = 0; !rc && i < p->n_prompts; i++)
                rc = run_shape(r, p->batches[b], p->prompts[i], p->kv_types[k], e);
    return rc;
}

int bench_run(const struct bench_plan *plan, const struct model *m, struct err *e)
{
    struct run r = { .plan = plan, .m = m, .chunk = plan->chunk_tokens ? plan->chunk_tokens : DEFAULT_CHUNK };
    int rc = 0;

    if (!plan->repeats)
        return err_set(e, ERR_INVAL, "0 repeats: need at least 1");
    for (size_t i = 0; i < plan->n_gens; i++)
        r.max_gen = plan->gens[i] > r.max_gen ? plan->gens[i] : r.max_gen;
    r.buf_bytes = bench_buffer_bytes();
    r.buf = mem_map(r.buf_bytes);
    r.rates = malloc(plan->repeats * sizeof *r.rates);
    if (!r.buf || !r.rates) {
        rc = err_set(e, ERR_NOMEM, "%zu bytes to measure the memory with: out of memory", r.buf_bytes);
        goto done;
    }
    memset(r.buf, 1, r.buf_bytes); /* pages that were never written all share one page of zeros */
    for (size_t t = 0; !rc && t < plan->n_threads; t++) {
        rc = pool_open(&r.pool, plan->threads[t], true, e);
        for (size_t i = 0; !rc && i < plan->n_isas; i++)
            rc = run_isa(&r, plan->isas[i], e);
        pool_close(r.pool);
        r.pool = NULL;
    }
done:
    if (r.buf)
        mem_unmap(r.buf, r.buf_bytes);
    free(r.rates);
    return rc;
}
