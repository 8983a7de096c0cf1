/* Steps: a batch of (sequence, new tokens) is cut into chunks and each chunk is one pass of the graph. */
#include <stdlib.h>
#include <string.h>

#include "lib/model/engine_priv.h"

static int check_items(const struct engine *g, const struct step_item *items, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct step_item *it = &items[i];

        if (!it->n_tokens)
            return err_set(e, ERR_INVAL, "step item %u has no tokens", i);
        if (it->n_tokens > g->ctx || it->seq->kv.n_tokens > g->ctx - it->n_tokens)
            return err_set(e, ERR_LIMIT, "%u tokens after %u exceed the context of %u tokens: raise --ctx", it->n_tokens,
                           it->seq->kv.n_tokens, g->ctx);
        for (uint32_t t = 0; t < it->n_tokens; t++)
            if (it->tokens[t] < 0 || (uint32_t)it->tokens[t] >= g->m->params.n_vocab)
                return err_set(e, ERR_INVAL, "token %d is outside the vocabulary of %u", it->tokens[t],
                               g->m->params.n_vocab);
    }
    return 0;
}

/* All or nothing: on failure the sequences are as before. */
static int reserve_items(struct engine *g, const struct step_item *items, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        struct seq *s = items[i].seq;
        int rc;

        if ((rc = seq_push_tokens(s, items[i].tokens, items[i].n_tokens, e)) ||
            (rc = kv_seq_reserve(g->kv, &s->kv, s->kv.n_tokens + items[i].n_tokens, e))) {
            for (uint32_t k = 0; k < i; k++)
                kv_seq_truncate(g->kv, &items[k].seq->kv, items[k].seq->kv.n_tokens);
            return rc;
        }
    }
    return 0;
}

static void step_member(void *arg, unsigned member)
{
    struct engine *g = arg;
    struct graph *s = &g->members[member];

    s->ex.be = &backend_cpu;
    s->ex.ops = &g->ops;
    s->ex.pool = g->pool;
    s->ex.member = member;
    s->ex.size = pool_size(g->pool);
    s->ex.exact = g->exact;
    s->ex.ticket = g->tickets;
    s->m = g->m;
    s->kv = kv_pool_layout(g->kv);
    s->kv_base = kv_pool_base(g->kv);
    s->tokens = g->tokens;
    s->pos = g->pos;
    s->runs = g->runs;
    s->rows = g->rows;
    s->n_tokens = g->shared.n_tokens;
    s->n_runs = g->shared.n_runs;
    s->n_rows = g->shared.n_rows;
    s->logits = g->shared.logits;
    s->ld_logits = g->shared.ld_logits;
    graph_run(s);
}

struct cursor { /* where the next chunk begins */
    uint32_t item, token;
};

/* Lays out up to chunk tokens from the cursor on; dst[i] is where row i's logits belong. */
static void fill_chunk(struct engine *g, const struct step_item *items, uint32_t n_items, struct cursor *c, float **dst)
{
    struct graph *s = &g->shared;
    size_t n_vocab = g->m->params.n_vocab;

    s->n_tokens = s->n_runs = s->n_rows = 0;
    while (c->item < n_items && s->n_tokens < g->chunk) {
        const struct step_item *it = &items[c->item];
        uint32_t left = it->n_tokens - c->token, room = g->chunk - s->n_tokens, n = left < room ? left : room;

        g->runs[s->n_runs++] = (struct attend_run){ s->n_tokens, n, it->seq->kv.n_tokens + c->token,
                                                    it->seq->kv.blocks };
        for (uint32_t t = 0; t < n; t++) {
            uint32_t at = c->token + t;

            g->tokens[s->n_tokens + t] = it->tokens[at];
            g->pos[s->n_tokens + t] = it->seq->kv.n_tokens + at;
            if (it->want == STEP_ALL || (it->want == STEP_LAST && at == it->n_tokens - 1)) {
                dst[s->n_rows] = it->logits + (it->want == STEP_ALL ? at * n_vocab : 0);
                g->rows[s->n_rows++] = s->n_tokens + t;
            }
        }
        s->n_tokens += n;
        c->token += n;
        if (c->token == it->n_tokens) {
            c->item++;
            c->token = 0;
        }
    }
}

/* The head writes straight to the callers' rows when these are evenly spaced, else to a buffer that is copied out. */
static int place_logits(struct engine *g, float **dst, bool *copy, struct err *e)
{
    struct graph *s = &g->shared;
    size_t n_vocab = g->m->params.n_vocab;
    ptrdiff_t stride = s->n_rows > 1 ? dst[1] - dst[0] : (ptrdiff_t)n_vocab;

    *copy = stride < (ptrdiff_t)n_vocab;
    for (uint32_t i = 1; i < s->n_rows && !*copy; i++)
        *copy = dst[i] - dst[i - 1] != stride;
    if (!s->n_rows)
        return 0;
    if (!*copy) {
        s->logits = dst[0];
        s->ld_logits = (size_t)stride;
        return 0;
    }
    if (g->logits_cap < s->n_rows * n_vocab) {
        free(g->logits);
        g->logits_cap = 0;
        g->logits = malloc(s->n_rows * n_vocab * sizeof *g->logits);
        if (!g->logits)
            return err_set(e, ERR_NOMEM, "no memory for %u rows of logits", s->n_rows);
        g->logits_cap = s->n_rows * n_vocab;
    }
    s->logits = g->logits;
    s->ld_logits = n_vocab;
    return 0;
}

static int step_chunks(struct engine *g, const struct step_item *items, uint32_t n_items, struct err *e)
{
    size_t n_vocab = g->m->params.n_vocab;
    struct cursor c = { 0, 0 };
    float **dst = malloc(g->chunk * sizeof *dst);
    int rc = dst ? 0 : err_set(e, ERR_NOMEM, "no memory for a step of %u tokens", g->chunk);

    while (!rc && c.item < n_items) {
        bool copy;

        fill_chunk(g, items, n_items, &c, dst);
        if ((rc = place_logits(g, dst, &copy, e)))
            break;
        for (uint32_t i = 0; i < g->m->params.n_layers; i++)
            atomic_store_explicit(&g->tickets[i], 0, memory_order_relaxed);
        pool_run(g->pool, step_member, g);
        for (uint32_t i = 0; copy && i < g->shared.n_rows; i++)
            memcpy(dst[i], g->logits + i * n_vocab, n_vocab * sizeof(float));
    }
    free(dst);
    return rc;
}

static int step(struct engine *g, const struct step_item *items, uint32_t n_items, struct err *e)
{
    int rc;

    if (!n_items)
        return 0;
    if ((rc = check_items(g, items, n_items, e)) || (rc = reserve_items(g, items, n_items, e)))
        return rc;
    rc = step_chunks(g, items, n_items, e);
    for (uint32_t i = 0; i < n_items; i++) {
        struct seq *s = items[i].seq;

        if (rc) {
            kv_seq_truncate(g->kv, &s->kv, s->kv.n_tokens);
            continue;
        }
        s->kv.n_tokens += items[i].n_tokens;
        if (!g->no_prefix_cache)
            kv_prefix_put(g->kv, &s->kv, s->tokens);
    }
    return rc;
}

int engine_prefill(struct engine *g, const struct step_item *items, uint32_t n_items, struct err *e)
{
    return step(g, items, n_items, e);
}

int engine_decode(struct engine *g, const struct step_item *items, uint32_t n_items, struct err *e)
{
    for (uint32_t i = 0; i < n_items; i++)
        if (items[i].n_tokens != 1)
            return err_set(e, ERR_INVAL, "decode takes one token a sequence, not %u", items[i].n_tokens);
    return step(g, items, n_items, e);
}
