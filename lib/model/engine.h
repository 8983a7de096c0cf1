/* The inference engine: runs a model over batches of sequences with a paged KV cache.
 *
 * Batch invariance: the logits of a position depend on the sequence's own tokens only, bit for bit, on one ISA: not on the
 * other sequences of a call, how the prompt was cut into calls or chunks, the number of threads, or shared prefixes.
 *
 * Threads: an engine belongs to one thread at a time (it uses the pool's threads inside its calls). */
#ifndef SLUICE_MODEL_ENGINE_H
#define SLUICE_MODEL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/model/model.h"

struct engine_opts {
    const char *isa;         /* NULL: the best this machine has */
    bool exact;              /* float activations */
    enum kv_type kv_type;
    uint32_t ctx_tokens;     /* longest sequence; 0: the model's, at most what kv_bytes holds */
    size_t kv_bytes;         /* size of the KV pool; 0: n_seqs * ctx_tokens */
    uint32_t n_seqs;         /* sequences to size the pool for when kv_bytes is 0; 0: 1 */
    uint32_t block_tokens;   /* 0: 16; multiple of 16 */
    uint32_t chunk_tokens;   /* most tokens computed at once; 0: 512 */
    bool no_prefix_cache;
};

struct engine;
struct seq; /* one sequence: its tokens and its place in the KV cache */

/* m and pool must outlive the engine. */
int engine_open(struct engine **out, const struct model *m, struct pool *pool, const struct engine_opts *o,
                struct err *e);
void engine_close(struct engine *g); /* NULL is legal; closes the sequences that are still open */

const struct model *engine_model(const struct engine *g);
const struct kern_ops *engine_ops(const struct engine *g);
struct kv_pool *engine_kv(struct engine *g);
uint32_t engine_ctx(const struct engine *g); /* longest sequence in tokens */

int engine_seq_open(struct engine *g, struct seq **out, struct err *e);
void engine_seq_close(struct engine *g, struct seq *s); /* NULL is legal */
/* A new sequence that shares the first n_tokens of s. */
int engine_seq_fork(struct engine *g, const struct seq *s, uint32_t n_tokens, struct seq **out, struct err *e);
uint32_t seq_length(const struct seq *s);        /* tokens in the cache */
const int32_t *seq_tokens(const struct seq *s);  /* [seq_length] */
void engine_seq_truncate(struct engine *g, struct seq *s, uint32_t n_tokens);
/* For an empty sequence: takes over cached blocks that hold the beginning of tokens[0..n), at most n - 1 tokens (so that
 * there is something left to compute logits from). Returns their number; prefill goes on from there. */
uint32_t engine_seq_take_prefix(struct engine *g, struct seq *s, const int32_t *tokens, uint32_t n);

enum step_logits { STEP_NO_LOGITS, STEP_LAST, STEP_ALL };

struct step_item {
    struct seq *seq;
    const int32_t *tokens;   /* appended to seq */
    uint32_t n_tokens;       /* >= 1 */
    enum step_logits want;
    float *logits;           /* [1 or n_tokens][n_vocab], caller's; NULL with STEP_NO_LOGITS */
};

/* Appends tokens to each sequence (a sequence appears once) and computes the wanted logits. Work is cut into chunks of at
 * most chunk_tokens. ERR_LIMIT when a sequence would exceed the context or the pool is full (nothing is appended then);
 * ERR_INVAL for a token outside the vocabulary. */
int engine_prefill(struct engine *g, const struct step_item *items, uint32_t n_items, struct err *e);
/* The same for exactly one token per sequence. */
int engine_decode(struct engine *g, const struct step_item *items, uint32_t n_items, struct err *e);

#endif
