#include "lib/model/graph.h"

#include <math.h>

#include "lib/model/arch.h"

static unsigned kind(const struct graph *g, const struct wmat *w)
{
    return kern_act_kind(g->ex.ops, w, g->ex.exact);
}

static void sync(struct graph *g)
{
    g->ex.be->sync(&g->ex);
}

/* cos and sin of every token's angles, in float as PyTorch computes them. The caller syncs before they are read. */
static void rope_table(struct graph *g, const float *freqs, float *cs)
{
    uint32_t half = g->m->params.head_dim / 2, b, e;

    pool_split(g->ex.pool, g->ex.member, g->n_tokens, 1, &b, &e);
    for (uint32_t t = b; t < e; t++)
        for (uint32_t i = 0; i < half; i++) {
            float angle = (float)g->pos[t] * freqs[i];

            cs[((size_t)t * half + i) * 2] = cosf(angle);
            cs[((size_t)t * half + i) * 2 + 1] = sinf(angle);
        }
}

/* x += norm(y) w, or nothing to do when the product was added to x already. */
static void post_norm(struct graph *g, const float *w)
{
    if (!w)
        return;
    g->ex.be->add_norm(&g->ex, g->x, g->y, w, g->m->params.rms_eps, g->n_tokens, g->m->params.n_embd);
    sync(g);
}

/* A product that ends a block: into the residual stream, or aside when a norm follows. */
static void project(struct graph *g, const struct wmat *w, struct act_buf *a, const float *norm)
{
    struct linear_job job = { w, norm ? g->y : g->x, g->m->params.n_embd, norm ? LINEAR_STORE : LINEAR_ADD };

    g->ex.be->linear(&g->ex, &job, 1, a, g->n_tokens);
    sync(g);
    post_norm(g, norm);
}

void graph_attention(struct graph *g, const struct model_layer *l, uint32_t index)
{
    const struct model_params *p = &g->m->params;
    size_t ldq = (size_t)p->n_heads * p->head_dim, ldkv = (size_t)p->n_kv_heads * p->head_dim;
    struct prepare_args in = { g->x, p->n_embd, NULL, g->n_tokens, p->n_embd, l->attn_norm, p->rms_eps,
                               kind(g, &l->q) | kind(g, &l->k) | kind(g, &l->v) };
    struct prepare_args out = { g->o, ldq, NULL, g->n_tokens, (uint32_t)ldq, NULL, 0, kind(g, &l->o) };
    struct linear_job qkv[] = { { &l->q, g->q, ldq, LINEAR_STORE },
                                { &l->k, g->k, ldkv, LINEAR_STORE },
                                { &l->v, g->v, ldkv, LINEAR_STORE } };
    struct attend_args a = {
        .q = g->q, .k = g->k, .v = g->v, .ldq = ldq, .ldkv = ldkv,
        .q_bias = l->q_bias, .k_bias = l->k_bias, .v_bias = l->v_bias,
        .q_norm = l->q_norm, .k_norm = l->k_norm, .eps = p->rms_eps,
        .cs = l->local ? g->cs_local : g->cs,
        .rope_interleaved = p->rope_interleaved,
        .kv = g->kv, .pool_base = g->kv_base, .layer = index,
        .n_heads = p->n_heads, .window = l->local ? p->window : 0, .scale = p->attn_scale,
        .runs = g->runs, .n_runs = g->n_runs, .n_tokens = g->n_tokens,
        .out = g->o,
    };

    g->ex.be->prepare(&g->ex, &in, &g->a_embd);
    g->ex.be->linear(&g->ex, qkv, 3, &g->a_embd, g->n_tokens);
    sync(g);
    g->ex.be->attend(&g->ex, &a);
    sync(g);
    g->ex.be->prepare(&g->ex, &out, &g->a_attn);
    project(g, &l->o, &g->a_attn, l->attn_post_norm);
}

void graph_ffn(struct graph *g, const struct model_layer *l)
{
    const struct model_params *p = &g->m->params;
    struct prepare_args in = { g->x, p->n_embd, NULL, g->n_tokens, p->n_embd, l->ffn_norm, p->rms_eps,
                               kind(g, &l->gate) | kind(g, &l->up) };

    g->ex.be->prepare(&g->ex, &in, &g->a_embd);
    g->ex.be->glu(&g->ex, &l->gate, &l->up, p->act == MODEL_SILU ? GLU_SILU : GLU_GELU_TANH, &g->a_embd, g->n_tokens,
                  kind(g, &l->down), &g->a_ff);
    sync(g);
    project(g, &l->down, &g->a_ff, l->ffn_post_norm);
}

void graph_layer(struct graph *g, const struct model_layer *l, uint32_t index)
{
    graph_attention(g, l, index);
    graph_ffn(g, l);
}

void graph_run(struct graph *g)
{
    const struct model *m = g->m;
    const struct arch *arch = arch_by_name(m->params.arch);
    struct embed_table table = { m->embed.tiles ? &m->embed : NULL, DT_F32, NULL, 0, m->params.n_embd };
    struct prepare_args last = { g->x, m->params.n_embd, g->rows, g->n_rows, m->params.n_embd, m->final_norm,
                                 m->params.rms_eps, kind(g, &m->head) };
    struct linear_job head = { &m->head, g->logits, g->ld_logits, LINEAR_STORE };

    if (!table.packed) {
        table.type = m->embed_rows->type;
        table.rows = m->embed_rows->data;
        table.row_bytes = m->embed_rows->bytes / m->params.n_vocab;
    }
    g->ex.be->embed(&g->ex, &table, g->tokens, g->n_tokens, m->params.embed_scale, g->x);
    rope_table(g, m->rope_freqs, g->cs);
    if (m->params.window)
        rope_table(g, m->rope_freqs_local, g->cs_local);
    sync(g);
    for (uint32_t i = 0; i < m->params.n_layers; i++)
        arch->layer(g, &m->layers[i], i);
    if (!g->n_rows)
        return;
    g->ex.be->prepare(&g->ex, &last, &g->a_embd);
    g->ex.be->linear(&g->ex, &head, 1, &g->a_embd, g->n_rows);
}
