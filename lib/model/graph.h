/* The forward pass of one chunk, as every member of the team runs it. */
#ifndef SLUICE_MODEL_GRAPH_H
#define SLUICE_MODEL_GRAPH_H

#include "kernels/backend.h"
#include "lib/model/model.h"

struct graph {
    struct exec ex;
    const struct model *m;
    uint32_t n_tokens;
    const int32_t *tokens;         /* [n_tokens] */
    const struct attend_run *runs; /* [n_runs], covering the tokens in order */
    uint32_t n_runs;
    const struct kv_layout *kv;
    unsigned char *kv_base;

    /* Rows whose logits are wanted, and where they go: row i to logits + i * ld_logits. */
    const uint32_t *rows;
    uint32_t n_rows;
    float *logits;
    size_t ld_logits;

    /* Common to the team, one row a token. */
    float *x;          /* [n_tokens][n_embd] residual stream */
    float *q, *o;      /* [n_tokens][n_heads * head_dim] */
    float *k, *v;      /* [n_tokens][n_kv_heads * head_dim] */
    float *y;          /* [n_tokens][n_embd] outputs that a post-norm follows */
    const uint32_t *pos; /* [n_tokens] */
    float *cs, *cs_local; /* [n_tokens][head_dim / 2][2] cos, sin */

    struct act_buf a_embd, a_attn, a_ff; /* activations of width n_embd, n_heads * head_dim, n_ff */
};

/* The whole pass: embedding, layers, head. Called by every member with its own graph. */
void graph_run(struct graph *g);

/* Pieces for lib/model/arch_*.c. Optional tensors of a layer are NULL and skipped. */
void graph_attention(struct graph *g, const struct model_layer *l, uint32_t index);
void graph_ffn(struct graph *g, const struct model_layer *l);
/* Attention, then feed-forward: the layer of every dense model here. */
void graph_layer(struct graph *g, const struct model_layer *l, uint32_t index);

#endif
