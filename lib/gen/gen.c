#include "lib/gen/gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/clock.h"
#include "lib/core/mem.h"
#include "lib/gen/text.h"

/* One sequence from submission to its end. */
struct live {
    struct gen_request *req;  /* shared by the sequences of the request, counted in req->refs */
    uint32_t index, handle;
    struct seq *seq;          /* NULL while queued */
    int32_t *tokens;          /* [n_tokens of cap] prompt, then what was generated; NULL before the first admission */
    uint32_t n_tokens, cap;
    struct sample_counts counts;
    struct token_decoder decoder;
    struct gen_text text;
    size_t shown;             /* bytes of text given to the text hook */
    float *chosen;            /* [n generated] log-probabilities */
    struct sample_logprob *top; /* [n generated][logprobs] */
    uint32_t *n_top;          /* [n generated] */
    uint32_t lp_cap;
    double submitted_ms, admitted_ms, first_ms;
};

/* One sampling of a step. */
struct draw {
    struct live *live;
    const float *logits;
    int32_t token;
    int rc;
    char message[160];
};

struct gen {
    struct engine *engine;
    struct pool *pool;
    const struct tokenizer *tok;
    struct gen_hooks hooks;
    struct batch *batch;
    uint32_t n_places, n_active;
    struct live **active;      /* [n_places] */
    struct live **by_handle;   /* [handle_cap] */
    uint32_t handle_cap;
    size_t row;                /* floats between rows of logits */
    float *logits;             /* [n_places][row] */
    struct step_item *items;   /* [n_places] */
    struct draw *draws;        /* [n_places] */
    uint32_t n_draws;
    struct sampler **samplers; /* one a thread */
    uint64_t groups, generated;
};

const char *gen_finish_name(enum gen_finish f)
{
    static const char *const names[] = { "stop", "length", "error" };

    return names[f];
}

/* --- life cycle ------------------------------------------------------------------------------------------------------ */

int gen_open(struct gen **out, struct engine *engine, struct pool *pool, const struct tokenizer *tok,
             const struct gen_opts *o, const struct gen_hooks *hooks, struct err *e)
{
    const struct batch_params bp = { o->batch ? o->batch : 1, o->chunk_tokens ? o->chunk_tokens : 512,
                                     kv_pool_layout(engine_kv(engine))->block_tokens };
    const struct model *m = engine_model(engine);
    struct gen *g = calloc(1, sizeof *g);
    int rc;

    *out = NULL;
    if (!g)
        return err_set(e, ERR_NOMEM, "generator");
    g->engine = engine;
    g->pool = pool;
    g->tok = tok;
    g->hooks = *hooks;
    g->n_places = bp.max_seqs;
    g->row = m->params.n_vocab;
    g->active = calloc(g->n_places, sizeof *g->active);
    g->items = calloc(g->n_places, sizeof *g->items);
    g->draws = calloc(g->n_places, sizeof *g->draws);
    g->samplers = calloc(pool_size(pool), sizeof *g->samplers);
    g->logits = mem_map(g->n_places * g->row * sizeof *g->logits);
    if (!g->active || !g->items || !g->draws || !g->samplers || !g->logits)
        rc = err_set(e, ERR_NOMEM, "logits of %u sequences: lower --batch", (unsigned)g->n_places);
    else
        rc = batch_open(&g->batch, &bp, e);
    for (unsigned i = 0; !rc && i < pool_size(pool); i++)
        rc = sampler_open(&g->samplers[i], engine_ops(engine), m->params.n_vocab, e);
    if (rc) {
        gen_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

static void live_close(struct gen *g, struct live *l)
{
    for (uint32_t i = 0; i < g->n_active; i++)
        if (g->active[i] == l)
            g->active[i--] = g->active[--g->n_active];
    engine_seq_close(g->engine, l->seq);
    if (!--l->req->refs) {
        gen_request_clear(l->req);
        free(l->req);
    }
    free(l->tokens);
    sample_counts_clear(&l->counts);
    gen_text_clear(&l->text);
    free(l->chosen);
    free(l->top);
    free(l->n_top);
    g->by_handle[l->handle] = NULL;
    batch_finished(g->batch, l->handle);
    free(l);
}

void gen_cancel(struct gen *g)
{
    for (uint32_t i = 0; i < g->handle_cap; i++)
        if (g->by_handle[i])
            live_close(g, g->by_handle[i]);
}

void gen_close(struct gen *g)
{
    if (!g)
        return;
    gen_cancel(g);
    for (unsigned i = 0; g->samplers && i < pool_size(g->pool); i++)
        sampler_close(g->samplers[i]);
    free(g->samplers);
    batch_close(g->batch);
    mem_unmap(g->logits, g->n_places * g->row * sizeof *g->logits);
    free(g->active);
    free(g->by_handle);
    free(g->items);
    free(g->draws);
    free(g);
}

static int add_sequence(struct gen *g, struct gen_request *req, uint32_t index, struct err *e)
{
    struct live *l = calloc(1, sizeof *l);
    int rc = l ? batch_add(g->batch, g->groups, (uint32_t)req->prompt.n, &l->handle, e)
               : err_set(e, ERR_NOMEM, "sequence of line %llu", (unsigned long long)req->line);

    if (!rc && l->handle >= g->handle_cap) {
        uint32_t cap = l->handle + 64;
        struct live **v = realloc(g->by_handle, cap * sizeof *v);

        if (v) {
            memset(v + g->handle_cap, 0, (cap - g->handle_cap) * sizeof *v);
            g->by_handle = v;
            g->handle_cap = cap;
        } else {
            batch_finished(g->batch, l->handle);
            rc = err_set(e, ERR_NOMEM, "table of %u sequences", (unsigned)cap);
        }
    }
    if (rc) {
        free(l);
        return rc;
    }
    l->req = req;
    l->index = index;
    l->submitted_ms = clock_ms();
    token_decoder_init(&l->decoder, g->tok, false);
    g->by_handle[l->handle] = l;
    req->refs++;
    return 0;
}

int gen_submit(struct gen *g, struct gen_request *r, struct err *e)
{
    struct gen_request *req;
    int rc = 0;

    if (r->prompt.n >= engine_ctx(g->engine))
        return err_set(e, ERR_LIMIT, "prompt of %zu tokens: the context holds %u, one of them to generate (see --ctx)",
                       r->prompt.n, (unsigned)engine_ctx(g->engine));
    req = malloc(sizeof *req);
    if (!req)
        return err_set(e, ERR_NOMEM, "request of line %llu", (unsigned long long)r->line);
    *req = *r;
    memset(r, 0, sizeof *r);
    req->refs = 1;
    g->groups++;
    for (uint32_t i = 0; !rc && i < req->params.n; i++)
        rc = add_sequence(g, req, i, e);
    if (!--req->refs) {
        gen_request_clear(req);
        free(req);
    }
    return rc;
}

/* --- the end of a sequence ------------------------------------------------------------------------------------------- */

static void show(struct gen *g, struct live *l)
{
    if (g->hooks.text && l->text.safe > l->shown)
        g->hooks.text(g->hooks.arg, l->req, l->index, l->text.text + l->shown, l->text.safe - l->shown);
    l->shown = l->text.safe;
}

static int end(struct gen *g, struct live *l, enum gen_finish finish, const char *error, struct err *e)
{
    const uint32_t n = l->tokens ? l->n_tokens - (uint32_t)l->req->prompt.n : 0;
    const double now = clock_ms(), admitted = l->admitted_ms > 0 ? l->admitted_ms : now;
    const double first = l->first_ms > 0 ? l->first_ms : now;
    struct gen_result res = { .request = l->req, .index = l->index, .finish = finish, .error = error, .n_tokens = n };
    struct gen_logprob *lp = NULL;
    int rc = 0;

    gen_text_end(&l->text);
    show(g, l);
    res.text = l->text.text ? l->text.text : "";
    res.text_len = l->text.len;
    res.tokens = l->tokens ? l->tokens + l->req->prompt.n : NULL;
    res.queue_ms = admitted - l->submitted_ms;
    res.prefill_ms = first - admitted;
    res.decode_ms = now - first;
    if (l->req->params.logprobs >= 0 && n) {
        lp = calloc(n, sizeof *lp);
        for (uint32_t i = 0; lp && i < n; i++) {
            lp[i].chosen = (struct sample_logprob){ res.tokens[i], l->chosen[i] };
            lp[i].top = l->top + (size_t)i * (size_t)l->req->params.logprobs;
            lp[i].n_top = l->n_top[i];
        }
        res.logprobs = lp;
        if (!lp)
            rc = err_set(e, ERR_NOMEM, "log-probabilities of %u tokens", (unsigned)n);
    }
    if (!rc)
        rc = g->hooks.done(g->hooks.arg, &res, e);
    free(lp);
    live_close(g, l);
    return rc;
}

/* --- sampling -------------------------------------------------------------------------------------------------------- */

/* p with room for `bytes`; p itself, and *ok false, when there is no memory. */
static void *grown(void *p, size_t bytes, bool *ok)
{
    void *v = realloc(p, bytes ? bytes : 1);

    *ok = *ok && v;
    return v ? v : p;
}

static int room_for_logprobs(struct live *l, uint32_t n)
{
    uint32_t cap = l->lp_cap ? 2 * l->lp_cap : 64;
    bool ok = true;

    if (n < l->lp_cap)
        return 0;
    l->chosen = grown(l->chosen, cap * sizeof *l->chosen, &ok);
    l->n_top = grown(l->n_top, cap * sizeof *l->n_top, &ok);
    l->top = grown(l->top, (size_t)cap * (size_t)l->req->params.logprobs * sizeof *l->top, &ok);
    if (ok)
        l->lp_cap = cap;
    return ok ? 0 : ERR_NOMEM;
}

static void draw_one(struct sampler *s, struct draw *d)
{
    struct live *l = d->live;
    const struct gen_params *p = &l->req->params;
    uint32_t n = l->n_tokens - (uint32_t)l->req->prompt.n;
    struct err e;

    d->rc = sampler_pick(s, &p->sample, sample_params_counts(&p->sample) ? &l->counts : NULL, d->logits, l->index, n,
                         &d->token, &e);
    if (!d->rc && p->logprobs >= 0) {
        d->rc = room_for_logprobs(l, n);
        if (d->rc)
            err_set(&e, d->rc, "log-probabilities of %u tokens", (unsigned)n + 1);
        else
            l->n_top[n] = sampler_logprobs(s, d->logits, d->token, &l->chosen[n], (uint32_t)p->logprobs,
                                           l->top + (size_t)n * (size_t)p->logprobs);
    }
    if (d->rc)
        snprintf(d->message, sizeof d->message, "%.*s", (int)sizeof d->message - 1, e.msg);
}

static void draw_member(void *arg, unsigned member)
{
    struct gen *g = arg;

    for (uint32_t i = member; i < g->n_draws; i += pool_size(g->pool))
        draw_one(g->samplers[member], &g->draws[i]);
}

static bool is_stop(const struct gen *g, const struct gen_params *p, int32_t token)
{
    if (!p->ignore_eos && tokenizer_is_stop(g->tok, token))
        return true;
    for (uint32_t i = 0; i < p->n_stop_ids; i++)
        if (p->stop_ids[i] == token)
            return true;
    return false;
}

/* Appends a sampled token; ends the sequence or hands it back to the scheduler. */
static int accept_token(struct gen *g, struct live *l, int32_t token, struct err *e)
{
    const struct gen_params *p = &l->req->params;
    struct gen_text *t = &l->text;
    uint32_t n;
    int rc = 0;

    if (l->n_tokens == l->cap) {
        uint32_t cap = l->cap + l->cap / 2 + 64;
        bool ok = true;

        l->tokens = grown(l->tokens, cap * sizeof *l->tokens, &ok);
        if (!ok)
            return err_set(e, ERR_NOMEM, "sequence of %u tokens", (unsigned)cap);
        l->cap = cap;
    }
    l->tokens[l->n_tokens++] = token;
    g->generated++;
    n = l->n_tokens - (uint32_t)l->req->prompt.n;
    if (n == 1)
        l->first_ms = clock_ms();
    if (sample_params_counts(&p->sample))
        rc = sample_counts_add(&l->counts, token, true, e);
    if (!rc && is_stop(g, p, token)) {
        rc = token_decoder_finish(&l->decoder, &t->text, &t->len, &t->cap, e);
        gen_text_scan(t, p->stop, p->n_stop);
        return rc ? rc : end(g, l, GEN_STOP, NULL, e);
    }
    if (!rc)
        rc = token_decoder_push(&l->decoder, token, &t->text, &t->len, &t->cap, e);
    if (rc)
        return rc;
    gen_text_scan(t, p->stop, p->n_stop);
    if (!t->stopped && (n >= p->max_tokens || l->n_tokens >= engine_ctx(g->engine))) {
        rc = token_decoder_finish(&l->decoder, &t->text, &t->len, &t->cap, e);
        gen_text_scan(t, p->stop, p->n_stop);
        return rc ? rc : end(g, l, t->stopped ? GEN_STOP : GEN_LENGTH, NULL, e);
    }
    if (t->stopped)
        return end(g, l, GEN_STOP, NULL, e);
    show(g, l);
    batch_token(g->batch, l->handle);
    return 0;
}

static int sample(struct gen *g, struct err *e)
{
    int rc = 0;

    if (g->n_draws == 1)
        draw_one(g->samplers[0], &g->draws[0]);
    else if (g->n_draws)
        pool_run(g->pool, draw_member, g);
    for (uint32_t i = 0; !rc && i < g->n_draws; i++) {
        struct draw *d = &g->draws[i];

        rc = d->rc ? end(g, d->live, GEN_ERROR, d->message, e) : accept_token(g, d->live, d->token, e);
    }
    g->n_draws = 0;
    return rc;
}

/* --- steps ----------------------------------------------------------------------------------------------------------- */

/* A running sequence of the same request that has the first n tokens of the prompt cached. */
static struct live *sibling(const struct gen *g, const struct live *l, uint32_t n)
{
    for (uint32_t i = 0; i < g->n_active; i++)
        if (g->active[i]->req == l->req && g->active[i] != l && seq_length(g->active[i]->seq) >= n)
            return g->active[i];
    return NULL;
}

static int admit(struct gen *g, struct live *l, struct err *e)
{
    const struct token_list *prompt = &l->req->prompt;
    struct live *other;
    uint32_t share, cached;
    int rc;

    if (!l->tokens) {
        l->cap = (uint32_t)prompt->n + (l->req->params.max_tokens < 64 ? l->req->params.max_tokens : 64);
        l->tokens = malloc(l->cap * sizeof *l->tokens);
        if (!l->tokens)
            return err_set(e, ERR_NOMEM, "sequence of %u tokens", (unsigned)l->cap);
        memcpy(l->tokens, prompt->ids, prompt->n * sizeof *l->tokens);
        l->n_tokens = (uint32_t)prompt->n;
        for (uint32_t i = 0; i < l->n_tokens && sample_params_counts(&l->req->params.sample); i++)
            if ((rc = sample_counts_add(&l->counts, l->tokens[i], false, e)))
                return rc;
        l->admitted_ms = clock_ms();
    }
    share = (uint32_t)prompt->n < l->n_tokens ? (uint32_t)prompt->n : l->n_tokens - 1;
    other = share ? sibling(g, l, share) : NULL;
    rc = other ? engine_seq_fork(g->engine, other->seq, share, &l->seq, e) : engine_seq_open(g->engine, &l->seq, e);
    if (rc)
        return rc;
    cached = other ? share : engine_seq_take_prefix(g->engine, l->seq, l->tokens, l->n_tokens);
    g->active[g->n_active++] = l;
    batch_admitted(g->batch, l->handle, cached, other != NULL);
    return 0;
}

static void preempt(struct gen *g, struct live *l)
{
    engine_seq_close(g->engine, l->seq);
    l->seq = NULL;
    for (uint32_t i = 0; i < g->n_active; i++)
        if (g->active[i] == l)
            g->active[i--] = g->active[--g->n_active];
}

static int compute(struct gen *g, const struct batch_action *a, struct err *e)
{
    int rc;

    g->n_draws = 0;
    for (uint32_t i = 0; i < a->n_items; i++) {
        const struct batch_item *it = &a->items[i];
        struct live *l = g->by_handle[it->seq];
        struct step_item *s = &g->items[i];

        s->seq = l->seq;
        s->tokens = l->tokens + seq_length(l->seq);
        s->n_tokens = it->n_tokens;
        s->want = it->last ? STEP_LAST : STEP_NO_LOGITS;
        s->logits = it->last ? g->logits + g->n_draws * g->row : NULL;
        if (it->last)
            g->draws[g->n_draws++] = (struct draw){ .live = l, .logits = s->logits };
    }
    rc = a->kind == BATCH_DECODE ? engine_decode(g->engine, g->items, a->n_items, e)
                                 : engine_prefill(g->engine, g->items, a->n_items, e);
    if (rc == ERR_LIMIT) {
        g->n_draws = 0;
        batch_pool_full(g->batch);
        return 0;
    }
    if (rc)
        return rc;
    batch_computed(g->batch);
    return sample(g, e);
}

int gen_step(struct gen *g, struct err *e)
{
    struct batch_action a;
    int rc = 0;

    do {
        batch_next(g->batch, kv_pool_available(engine_kv(g->engine)), &a);
        switch (a.kind) {
        case BATCH_IDLE: return 0;
        case BATCH_ADMIT: rc = admit(g, g->by_handle[a.seq], e); break;
        case BATCH_PREEMPT: preempt(g, g->by_handle[a.seq]); break;
        case BATCH_PREFILL:
        case BATCH_DECODE: rc = compute(g, &a, e); break;
        case BATCH_TOO_BIG:
            rc = end(g, g->by_handle[a.seq], GEN_ERROR, "the KV cache does not hold the sequence: raise --kv-memory", e);
            break;
        }
    } while (!rc && (a.kind == BATCH_ADMIT || a.kind == BATCH_PREEMPT));
    return rc ? rc : 1;
}

uint32_t gen_queued(const struct gen *g)
{
    struct batch_stats st;

    batch_stats(g->batch, &st);
    return st.n_queued;
}

uint32_t gen_active(const struct gen *g)
{
    return g->n_active;
}

void gen_stats(const struct gen *g, struct batch_stats *out)
{
    batch_stats(g->batch, out);
}

uint64_t gen_tokens(const struct gen *g)
{
    return g->generated;
}
