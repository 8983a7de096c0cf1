#include "lib/model/engine.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/isa.h"
#include "lib/core/mem.h"
#include "lib/model/engine_priv.h"

static const char *const isa_advice = "see --version for the ones this machine has";

static int check_opts(const struct engine_opts *o, struct err *e)
{
    if (o->block_tokens % 16 || o->block_tokens > 1024)
        return err_set(e, ERR_INVAL, "KV blocks of %u tokens: need a multiple of 16, at most 1024", o->block_tokens);
    if (o->chunk_tokens > 65536)
        return err_set(e, ERR_INVAL, "chunks of %u tokens: at most 65536", o->chunk_tokens);
    if (o->ctx_tokens > ENGINE_CTX_MAX)
        return err_set(e, ERR_INVAL, "context of %u tokens: at most %u", o->ctx_tokens, ENGINE_CTX_MAX);
    return 0;
}

/* Context and pool size from each other: what is given wins; the context defaults to the model's. */
static int open_kv(struct engine *g, const struct engine_opts *o, struct err *e)
{
    const struct model_params *p = &g->m->params;
    uint32_t bt = o->block_tokens ? o->block_tokens : 16, per_seq;
    uint64_t n_blocks;
    struct kv_layout layout;

    if (!kv_layout_init(&layout, o->kv_type, p->n_layers, p->n_kv_heads, p->head_dim, bt))
        return err_set(e, ERR_UNSUPPORTED, "no KV layout for %u KV heads of %u", p->n_kv_heads, p->head_dim);
    g->ctx = o->ctx_tokens ? o->ctx_tokens : p->n_ctx_train ? p->n_ctx_train : 2048;
    if (!o->ctx_tokens && g->ctx > ENGINE_CTX_DEFAULT_MAX && !o->kv_bytes)
        g->ctx = ENGINE_CTX_DEFAULT_MAX;
    if (g->ctx > ENGINE_CTX_MAX)
        g->ctx = ENGINE_CTX_MAX;
    per_seq = (g->ctx + bt - 1) / bt;
    n_blocks = o->kv_bytes ? o->kv_bytes / layout.block_bytes : (uint64_t)per_seq * (o->n_seqs ? o->n_seqs : 1);
    if (!n_blocks)
        return err_set(e, ERR_INVAL, "KV memory of %zu bytes holds no block of %zu bytes", o->kv_bytes,
                       layout.block_bytes);
    if (n_blocks > UINT32_MAX / 8)
        return err_set(e, ERR_INVAL, "KV memory of %llu blocks: too many", (unsigned long long)n_blocks);
    if (n_blocks < per_seq) {
        if (o->ctx_tokens)
            return err_set(e, ERR_INVAL, "KV memory holds %llu tokens, fewer than the context of %u: raise --kv-memory or lower --ctx",
                           (unsigned long long)n_blocks * bt, g->ctx);
        g->ctx = (uint32_t)n_blocks * bt;
    }
    return kv_pool_open(&g->kv, &layout, (uint32_t)n_blocks, e);
}

static unsigned kinds_of(const struct engine *g, const struct wmat *w)
{
    return kern_act_kind(&g->ops, w, g->exact);
}

struct carver { /* places arrays one after another; base NULL only counts */
    unsigned char *base;
    size_t at;
};

static void *carve(struct carver *c, size_t bytes)
{
    void *p = c->base ? c->base + c->at : NULL;

    c->at += mem_round_up(bytes, 64);
    return p;
}

static void carve_act(struct carver *c, struct act *a, unsigned kinds, uint32_t n_tokens, uint32_t n_cols)
{
    c->at += act_place(a, kinds, n_tokens, n_cols, c->base ? c->base + c->at : NULL);
}

static void carve_shared(struct engine *g, struct carver *c)
{
    const struct model_params *p = &g->m->params;
    struct graph *s = &g->shared;
    size_t n = g->chunk, nq = (size_t)p->n_heads * p->head_dim, nkv = (size_t)p->n_kv_heads * p->head_dim;

    s->x = carve(c, n * p->n_embd * sizeof(float));
    s->q = carve(c, n * nq * sizeof(float));
    s->o = carve(c, n * nq * sizeof(float));
    s->k = carve(c, n * nkv * sizeof(float));
    s->v = carve(c, n * nkv * sizeof(float));
    s->y = p->post_norms ? carve(c, n * p->n_embd * sizeof(float)) : NULL;
    s->cs = carve(c, n * p->head_dim * sizeof(float));
    s->cs_local = p->window ? carve(c, n * p->head_dim * sizeof(float)) : NULL;
    g->pos = carve(c, n * sizeof(uint32_t));
    g->tokens = carve(c, n * sizeof(int32_t));
    g->rows = carve(c, n * sizeof(uint32_t));
    g->runs = carve(c, n * sizeof(struct attend_run));
    g->tickets = carve(c, p->n_layers * sizeof(atomic_uint));
    carve_act(c, &s->a_embd.shared, g->kinds_embd, g->chunk, p->n_embd);
    carve_act(c, &s->a_attn.shared, g->kinds_attn, g->chunk, (uint32_t)nq);
    carve_act(c, &s->a_ff.shared, g->kinds_ff, g->chunk, p->n_ff);
}

static void carve_member(struct engine *g, struct carver *c, struct graph *s)
{
    const struct model_params *p = &g->m->params;
    uint32_t nq = p->n_heads * p->head_dim, cols = p->n_embd;
    size_t lin, attn, tmp = backend_tmp_floats(g->chunk, p->n_ff, pool_size(g->pool));

    cols = nq > cols ? nq : cols;
    cols = p->n_ff > cols ? p->n_ff : cols;
    lin = kern_linear_scratch(cols);
    attn = kern_attn_scratch(p->n_heads / p->n_kv_heads, p->head_dim);
    s->ex.scratch = carve(c, lin > attn ? lin : attn);
    s->ex.tmp = carve(c, (tmp > cols ? tmp : cols) * sizeof(float));
    s->a_embd.has_own = s->a_attn.has_own = true;
    carve_act(c, &s->a_embd.own, g->kinds_embd, ACT_OWN_TOKENS, p->n_embd);
    carve_act(c, &s->a_attn.own, g->kinds_attn, ACT_OWN_TOKENS, nq);
    carve(c, 4096); /* members' private memory does not share cache lines or pages' prefetch streams */
}

static int open_memory(struct engine *g, struct err *e)
{
    unsigned size = pool_size(g->pool);

    for (uint32_t i = 0; i < g->m->params.n_layers; i++) {
        const struct model_layer *l = &g->m->layers[i];

        g->kinds_embd |= kinds_of(g, &l->q) | kinds_of(g, &l->k) | kinds_of(g, &l->v) | kinds_of(g, &l->gate) |
                         kinds_of(g, &l->up);
        g->kinds_attn |= kinds_of(g, &l->o);
        g->kinds_ff |= kinds_of(g, &l->down);
    }
    g->kinds_embd |= kinds_of(g, &g->m->head);
    if (!(g->members = calloc(size, sizeof *g->members)))
        return err_set(e, ERR_NOMEM, "no memory for %u threads", size);
    for (int pass = 0; pass < 2; pass++) {
        struct carver c = { pass ? g->memory : NULL, 0 };

        carve_shared(g, &c);
        for (unsigned i = 0; i < size; i++) {
            g->members[i] = g->shared;
            carve_member(g, &c, &g->members[i]);
        }
        if (!pass) {
            g->memory_bytes = c.at;
            if (!(g->memory = mem_map(c.at)))
                return err_set(e, ERR_NOMEM, "no memory for %zu bytes of activations: lower the chunk size", c.at);
        }
    }
    return 0;
}

int engine_open(struct engine **out, const struct model *m, struct pool *pool, const struct engine_opts *o, struct err *e)
{
    struct engine *g;
    int rc = check_opts(o, e);

    *out = NULL;
    if (rc)
        return rc;
    g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, ERR_NOMEM, "no memory for an engine");
    g->m = m;
    g->pool = pool;
    g->exact = o->exact;
    g->chunk = o->chunk_tokens ? o->chunk_tokens : 512;
    g->no_prefix_cache = o->no_prefix_cache;
    rc = kern_ops_init(&g->ops, o->isa);
    if (rc)
        rc = err_set(e, ERR_UNSUPPORTED, rc == -1 ? "instruction set '%s' is unknown: %s" :
                     "this machine lacks instruction set '%s': %s", o->isa, isa_advice);
    if (rc || (rc = open_kv(g, o, e)) || (rc = open_memory(g, e))) {
        engine_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

void engine_close(struct engine *g)
{
    if (!g)
        return;
    while (g->seqs)
        engine_seq_close(g, g->seqs);
    kv_pool_close(g->kv);
    mem_unmap(g->memory, g->memory_bytes);
    free(g->members);
    free(g->logits);
    free(g);
}

const struct model *engine_model(const struct engine *g)
{
    return g->m;
}

const struct kern_ops *engine_ops(const struct engine *g)
{
    return &g->ops;
}

struct kv_pool *engine_kv(struct engine *g)
{
    return g->kv;
}

uint32_t engine_ctx(const struct engine *g)
{
    return g->ctx;
}

int engine_seq_open(struct engine *g, struct seq **out, struct err *e)
{
    struct seq *s = calloc(1, sizeof *s);

    *out = s;
    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for a sequence");
    s->next = g->seqs;
    if (s->next)
        s->next->prev = s;
    g->seqs = s;
    return 0;
}

void engine_seq_close(struct engine *g, struct seq *s)
{
    if (!s)
        return;
    if (s->next)
        s->next->prev = s->prev;
    *(s->prev ? &s->prev->next : &g->seqs) = s->next;
    kv_seq_clear(g->kv, &s->kv);
    free(s->tokens);
    free(s);
}

int seq_push_tokens(struct seq *s, const int32_t *tokens, uint32_t n, struct err *e)
{
    uint32_t len = s->kv.n_tokens;

    if (s->cap - len < n) {
        uint32_t cap = s->cap ? s->cap : 64;
        int32_t *t;

        while (cap - len < n)
            cap *= 2;
        if (!(t = realloc(s->tokens, (size_t)cap * sizeof *t)))
            return err_set(e, ERR_NOMEM, "no memory for %u tokens", cap);
        s->tokens = t;
        s->cap = cap;
    }
    if (n)
        memcpy(s->tokens + len, tokens, n * sizeof *tokens);
    return 0;
}

int engine_seq_fork(struct engine *g, const struct seq *s, uint32_t n_tokens, struct seq **out, struct err *e)
{
    struct seq *d;
    int rc = engine_seq_open(g, &d, e);

    *out = NULL;
    if (rc)
        return rc;
    if ((rc = seq_push_tokens(d, s->tokens, n_tokens, e)) || (rc = kv_seq_fork(g->kv, &s->kv, n_tokens, &d->kv, e))) {
        engine_seq_close(g, d);
        return rc;
    }
    *out = d;
    return 0;
}

uint32_t seq_length(const struct seq *s)
{
    return s->kv.n_tokens;
}

const int32_t *seq_tokens(const struct seq *s)
{
    return s->tokens;
}

void engine_seq_truncate(struct engine *g, struct seq *s, uint32_t n_tokens)
{
    kv_seq_truncate(g->kv, &s->kv, n_tokens);
}

uint32_t engine_seq_take_prefix(struct engine *g, struct seq *s, const int32_t *tokens, uint32_t n)
{
    uint32_t got;

    if (g->no_prefix_cache || !n || s->kv.n_tokens)
        return 0;
    if (seq_push_tokens(s, tokens, n, NULL))
        return 0;
    got = kv_prefix_take(g->kv, &s->kv, tokens, n, n - 1);
    return got;
}
