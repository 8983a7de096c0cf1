/* Inside of the engine, shared by engine.c and step.c. */
#ifndef SLUICE_MODEL_ENGINE_PRIV_H
#define SLUICE_MODEL_ENGINE_PRIV_H

#include "lib/model/engine.h"
#include "lib/model/graph.h"

#define ENGINE_CTX_MAX (1u << 24)
/* Without --ctx or --kv-memory the pool is sized for one context: a model trained for 128k tokens gets this much. */
#define ENGINE_CTX_DEFAULT_MAX 8192u

struct seq {
    struct kv_seq kv;
    int32_t *tokens;        /* [kv.n_tokens], room for cap */
    uint32_t cap;
    struct seq *prev, *next; /* all sequences of the engine */
};

struct engine {
    const struct model *m;
    struct pool *pool;
    struct kern_ops ops;
    bool exact, no_prefix_cache;
    uint32_t ctx, chunk;
    unsigned kinds_embd, kinds_attn, kinds_ff; /* activation kinds that layers of that input width read */
    struct kv_pool *kv;
    struct seq *seqs;

    void *memory; /* one mapping that holds all arrays below */
    size_t memory_bytes;
    struct graph shared;
    struct graph *members; /* [pool size] */
    uint32_t *pos, *rows;
    int32_t *tokens;
    struct attend_run *runs;
    atomic_uint *tickets;

    float *logits; /* for rows whose destinations are not evenly spaced */
    size_t logits_cap;
};

/* Copies n tokens behind the kv.n_tokens that s has; does not change kv.n_tokens. */
int seq_push_tokens(struct seq *s, const int32_t *tokens, uint32_t n, struct err *e);

#endif
