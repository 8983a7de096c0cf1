/* Opening a model: shapes are checked for every tensor first, then one arena takes all packed weights and float vectors, and
 * the pool's threads fill it slice by slice while the source's pages are given back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/mem.h"
#include "lib/model/arch.h"

#define PACK_SLICE_BYTES ((size_t)4 << 20) /* mapped source bytes that are resident at once while packing */

struct pack_item {
    struct wmat *w;
    const struct source_tensor *t;
    size_t at; /* offset in the arena */
};

struct vec_item { /* a norm gain or bias, converted to floats */
    const float **where;
    const struct source_tensor *t;
    size_t at;
    float add;
};

struct loader {
    struct model *m;
    const struct arch *arch;
    struct pack_item *mats;
    struct vec_item *vecs;
    size_t n_mats, n_vecs, bytes;
    struct pool *pool;
};

static int missing(const struct loader *l, const char *name, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s: tensor '%s' is missing", source_path(l->m->source), name);
}

static int bad_shape(const struct source_tensor *t, uint64_t rows, uint64_t cols, struct err *e)
{
    char have[96] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < t->n_dims && n < sizeof have; i++)
        n += (size_t)snprintf(have + n, sizeof have - n, "%s%llu", i ? " x " : "", (unsigned long long)t->dims[i]);
    if (!cols)
        return err_set(e, ERR_FORMAT, "%s: tensor '%s' has shape [%s], expected [%llu]", t->file, t->name, have,
                       (unsigned long long)rows);
    return err_set(e, ERR_FORMAT, "%s: tensor '%s' has shape [%s], expected [%llu x %llu]", t->file, t->name, have,
                   (unsigned long long)rows, (unsigned long long)cols);
}

static int plan_bytes(struct loader *l, size_t bytes, size_t *at, struct err *e)
{
    *at = l->bytes;
    if (!mem_add(l->bytes, mem_round_up(bytes, 64), &l->bytes))
        return err_set(e, ERR_FORMAT, "%s: weights are larger than memory can be", source_path(l->m->source));
    return 0;
}

static int plan_mat(struct loader *l, struct wmat *w, const char *name, uint32_t rows, uint32_t cols, struct err *e)
{
    const struct source_tensor *t = arch_tensor(l->arch, l->m->source, name);
    struct pack_item *it = &l->mats[l->n_mats];

    if (!t)
        return missing(l, name, e);
    if (t->n_dims != 2 || t->dims[0] != rows || t->dims[1] != cols)
        return bad_shape(t, rows, cols, e);
    if (!wmat_init(w, t->type, rows, cols))
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor '%s': no packed layout for %u x %u of this type", t->file, t->name,
                       rows, cols);
    it->w = w;
    it->t = t;
    l->n_mats++;
    return plan_bytes(l, w->n_tiles * w->tile_bytes, &it->at, e);
}

static int plan_vec(struct loader *l, const float **where, const char *name, uint32_t n, float add, struct err *e)
{
    const struct source_tensor *t = arch_tensor(l->arch, l->m->source, name);
    struct vec_item *it = &l->vecs[l->n_vecs];

    if (!t)
        return missing(l, name, e);
    if (t->n_dims != 1 || t->dims[0] != n)
        return bad_shape(t, n, 0, e);
    if (dtype_info(t->type)->quantised)
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor '%s' is a quantised vector", t->file, t->name);
    it->where = where;
    it->t = t;
    it->add = add;
    l->n_vecs++;
    return plan_bytes(l, n * sizeof(float), &it->at, e);
}

struct layer_vec {
    const char *suffix;
    const float **where;
    uint32_t n;
    bool present, gain;
};

static int plan_layer_vecs(struct loader *l, struct model_layer *y, uint32_t i, struct err *e)
{
    const struct model_params *p = &l->m->params;
    uint32_t nq = p->n_heads * p->head_dim, nkv = p->n_kv_heads * p->head_dim;
    const struct layer_vec vecs[] = {
        { "attn_norm.weight", &y->attn_norm, p->n_embd, true, true },
        { "ffn_norm.weight", &y->ffn_norm, p->n_embd, true, true },
        { "attn_q.bias", &y->q_bias, nq, p->qkv_bias, false },
        { "attn_k.bias", &y->k_bias, nkv, p->qkv_bias, false },
        { "attn_v.bias", &y->v_bias, nkv, p->qkv_bias, false },
        { "attn_q_norm.weight", &y->q_norm, p->head_dim, p->qk_norm, true },
        { "attn_k_norm.weight", &y->k_norm, p->head_dim, p->qk_norm, true },
        { "post_attention_norm.weight", &y->attn_post_norm, p->n_embd, p->post_norms, true },
        { "post_ffw_norm.weight", &y->ffn_post_norm, p->n_embd, p->post_norms, true },
    };

    for (size_t k = 0; k < sizeof vecs / sizeof vecs[0]; k++) {
        char name[64];
        int rc;

        if (!vecs[k].present)
            continue;
        snprintf(name, sizeof name, "blk.%u.%s", i, vecs[k].suffix);
        if ((rc = plan_vec(l, vecs[k].where, name, vecs[k].n, vecs[k].gain && p->norm_plus_one ? 1.0f : 0.0f, e)))
            return rc;
    }
    return 0;
}

static int plan_layer(struct loader *l, struct model_layer *y, uint32_t i, struct err *e)
{
    const struct model_params *p = &l->m->params;
    uint32_t nq = p->n_heads * p->head_dim, nkv = p->n_kv_heads * p->head_dim;
    const struct {
        const char *suffix;
        struct wmat *w;
        uint32_t rows, cols;
    } mats[] = {
        { "attn_q.weight", &y->q, nq, p->n_embd },      { "attn_k.weight", &y->k, nkv, p->n_embd },
        { "attn_v.weight", &y->v, nkv, p->n_embd },     { "attn_output.weight", &y->o, p->n_embd, nq },
        { "ffn_gate.weight", &y->gate, p->n_ff, p->n_embd }, { "ffn_up.weight", &y->up, p->n_ff, p->n_embd },
        { "ffn_down.weight", &y->down, p->n_embd, p->n_ff },
    };

    for (size_t k = 0; k < sizeof mats / sizeof mats[0]; k++) {
        char name[64];
        int rc;

        snprintf(name, sizeof name, "blk.%u.%s", i, mats[k].suffix);
        if ((rc = plan_mat(l, mats[k].w, name, mats[k].rows, mats[k].cols, e)))
            return rc;
    }
    y->local = p->window && i >= p->window_first && (!p->window_pattern || (i + 1) % p->window_pattern);
    return plan_layer_vecs(l, y, i, e);
}

/* The head: a matrix of its own, else the embedding serves. An untied embedding stays mapped and is only looked up. */
static int plan_ends(struct loader *l, struct err *e)
{
    struct model *m = l->m;
    struct model_params *p = &m->params;
    const struct source_tensor *embed = arch_tensor(l->arch, m->source, "token_embd.weight");
    bool tie = false;
    int rc;

    if (!embed)
        return missing(l, "token_embd.weight", e);
    if (embed->n_dims != 2 || embed->dims[1] != p->n_embd || !embed->dims[0] || embed->dims[0] > 1u << 24)
        return bad_shape(embed, embed->n_dims ? embed->dims[0] : 0, p->n_embd, e);
    p->n_vocab = (uint32_t)embed->dims[0];
    if (source_kind(m->source) == SOURCE_HF && !source_get_bool(m->source, "tie_word_embeddings", &tie, NULL) && tie)
        p->tied = true;
    else
        p->tied = !arch_tensor(l->arch, m->source, "output.weight");
    if ((rc = plan_mat(l, p->tied ? &m->embed : &m->head, p->tied ? "token_embd.weight" : "output.weight", p->n_vocab,
                       p->n_embd, e)))
        return rc;
    if (!p->tied)
        m->embed_rows = embed;
    return plan_vec(l, &m->final_norm, "output_norm.weight", p->n_embd, p->norm_plus_one ? 1.0f : 0.0f, e);
}

static void pack_member(void *arg, unsigned member)
{
    struct loader *l = arg;

    for (size_t i = 0; i < l->n_mats; i++) {
        struct pack_item *it = &l->mats[i];
        unsigned char *dst = (unsigned char *)l->m->arena + it->at;
        uint32_t step = (uint32_t)(PACK_SLICE_BYTES / (it->w->tile_bytes + 1)) + 1;

        for (uint32_t t = 0; t < it->w->n_tiles; t += step) {
            uint32_t n = it->w->n_tiles - t < step ? it->w->n_tiles - t : step, b = 0, e = n;

            if (l->pool)
                pool_split(l->pool, member, n, 1, &b, &e);
            wmat_pack(it->w, it->t->data, dst, t + b, t + e);
            if (l->pool)
                pool_barrier(l->pool);
            if (member == 0)
                source_tensor_release(l->m->source, it->t);
        }
    }
}

static void fill_arena(struct loader *l)
{
    struct model *m = l->m;

    if (l->pool)
        pool_run(l->pool, pack_member, l);
    else
        pack_member(l, 0);
    for (size_t i = 0; i < l->n_mats; i++) {
        l->mats[i].w->tiles = (unsigned char *)m->arena + l->mats[i].at;
        m->step_bytes += l->mats[i].t->bytes;
        m->weight_bytes += l->mats[i].w->n_tiles * l->mats[i].w->tile_bytes;
    }
    for (size_t i = 0; i < l->n_vecs; i++) {
        struct vec_item *it = &l->vecs[i];
        float *v = (float *)(void *)((unsigned char *)m->arena + it->at);

        dtype_row_f32(it->t->type, it->t->data, (size_t)it->t->dims[0], v);
        for (uint64_t k = 0; it->add != 0 && k < it->t->dims[0]; k++)
            v[k] += it->add;
        *it->where = v;
    }
    if (m->params.tied)
        m->head = m->embed;
}

static int load_rope(struct loader *l, float *freqs, struct err *e)
{
    struct model *m = l->m;
    uint32_t half = m->params.head_dim / 2;
    const struct source_tensor *t = source_kind(m->source) == SOURCE_GGUF ? source_tensor(m->source, "rope_freqs.weight")
                                                                         : NULL;
    float *factors = NULL;

    if (t) {
        if (t->type != DT_F32 || t->n_dims != 1 || t->dims[0] != half)
            return bad_shape(t, half, 0, e);
        if (!(factors = malloc(half * sizeof *factors)))
            return err_set(e, ERR_NOMEM, "no memory for RoPE factors");
        memcpy(factors, t->data, half * sizeof *factors);
        m->params.rope_scaling = ROPE_FACTORS;
    }
    arch_rope_freqs(&m->params, false, factors, freqs);
    arch_rope_freqs(&m->params, true, NULL, freqs + half);
    m->rope_freqs = freqs;
    m->rope_freqs_local = freqs + half;
    free(factors);
    return 0;
}

static int load(struct loader *l, struct err *e)
{
    struct model *m = l->m;
    size_t rope_at;
    int rc;

    if (!(l->arch = arch_find(m->source, e)))
        return e ? e->code : ERR_UNSUPPORTED;
    if ((rc = model_params_read(&m->params, m->source, e)))
        return rc;
    m->layers = calloc(m->params.n_layers, sizeof *m->layers);
    l->mats = calloc((size_t)m->params.n_layers * 7 + 1, sizeof *l->mats);
    l->vecs = calloc((size_t)m->params.n_layers * 9 + 1, sizeof *l->vecs);
    if (!m->layers || !l->mats || !l->vecs)
        return err_set(e, ERR_NOMEM, "no memory for %u layers", m->params.n_layers);
    for (uint32_t i = 0; i < m->params.n_layers; i++)
        if ((rc = plan_layer(l, &m->layers[i], i, e)))
            return rc;
    if ((rc = plan_ends(l, e)) || (rc = plan_bytes(l, m->params.head_dim * sizeof(float), &rope_at, e)))
        return rc;
    m->arena_bytes = l->bytes;
    if (!(m->arena = mem_map(m->arena_bytes)))
        return err_set(e, ERR_NOMEM, "no memory for %zu bytes of weights of %s", m->arena_bytes, source_path(m->source));
    fill_arena(l);
    return load_rope(l, (float *)(void *)((unsigned char *)m->arena + rope_at), e);
}

int model_open_source(struct model **out, struct source *s, struct pool *pool, struct err *e)
{
    struct loader l = { .pool = pool };
    int rc;

    *out = NULL;
    l.m = calloc(1, sizeof *l.m);
    if (!l.m) {
        source_close(s);
        return err_set(e, ERR_NOMEM, "no memory for a model");
    }
    l.m->source = s;
    rc = load(&l, e);
    free(l.mats);
    free(l.vecs);
    if (rc)
        model_close(l.m);
    else
        *out = l.m;
    return rc;
}

int model_open(struct model **out, const char *path, struct pool *pool, struct err *e)
{
    struct source *s;
    int rc = source_open(&s, path, e);

    *out = NULL;
    return rc ? rc : model_open_source(out, s, pool, e);
}

void model_close(struct model *m)
{
    if (!m)
        return;
    mem_unmap(m->arena, m->arena_bytes);
    free(m->layers);
    source_close(m->source);
    free(m);
}
