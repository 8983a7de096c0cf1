/* The batch scheduler: which sequences run, which wait, and what the engine computes next. A pure state machine: events
 * come in as calls, one decision comes out of batch_next; it does no I/O, keeps no clock and touches no engine.
 *
 * Sequences wait in order of arrival and are admitted while there is a place in the batch and room for their tokens.
 * Prompts are computed in chunks (several short ones share a chunk), and while sequences are decoding every chunk is
 * followed by a decode step, so neither kind of work starves. Admission is optimistic: when the KV pool runs out, the
 * sequence admitted last gives its blocks back and waits at its old place in the queue; its tokens are computed again
 * later, with the same result.
 *
 *     queued --ADMIT--> prefill --(all tokens cached)--> decode --batch_finished--> gone
 *        ^-------------------PREEMPT-------------------------'
 *
 * A group is the set of sequences of one request: they share their prompt, so while one of them computes it the others
 * wait.
 *
 * Threads: one at a time. */
#ifndef SLUICE_GEN_BATCH_H
#define SLUICE_GEN_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"

struct batch_params {
    uint32_t max_seqs;     /* places in the batch, at least 1 */
    uint32_t chunk_tokens; /* most prompt tokens of one prefill step, at least 1 */
    uint32_t block_tokens; /* of the KV pool */
};

enum batch_kind {
    BATCH_IDLE,    /* nothing can be done until a sequence is added */
    BATCH_ADMIT,   /* give `seq` a place in the cache, then call batch_admitted */
    BATCH_PREEMPT, /* take `seq` out of the cache; it is queued again */
    BATCH_PREFILL, /* compute items[i].n_tokens more tokens of each, then call batch_computed */
    BATCH_DECODE,  /* compute the newest token of each, then call batch_computed */
    BATCH_TOO_BIG  /* `seq` is alone and does not fit: end it with batch_finished */
};

struct batch_item {
    uint32_t seq;
    uint32_t n_tokens;
    bool last; /* all known tokens are cached afterwards: the logits of the last one choose the next */
};

struct batch_action {
    enum batch_kind kind;
    uint32_t seq;
    const struct batch_item *items; /* [n_items], valid until the next call */
    uint32_t n_items;
};

struct batch_stats {
    uint32_t n_queued, n_prefill, n_decode;
    uint64_t admissions, preemptions, prefill_steps, decode_steps, prefill_tokens, decode_tokens;
};

struct batch;

int batch_open(struct batch **out, const struct batch_params *p, struct err *e);
void batch_close(struct batch *b); /* NULL is legal */

/* A new sequence of n_tokens known tokens (>= 1) joins the queue. *seq: a small number, reused after batch_finished. */
int batch_add(struct batch *b, uint64_t group, uint32_t n_tokens, uint32_t *seq, struct err *e);

/* What to do now, given the number of blocks that could be allocated. */
void batch_next(struct batch *b, uint32_t blocks_available, struct batch_action *out);

/* The answer to ADMIT: n_cached of its tokens (less than all) were found in the cache already. shared: with another
 * sequence, down to a partly filled block that is copied when one of them writes to it. */
void batch_admitted(struct batch *b, uint32_t seq, uint32_t n_cached, bool shared);
/* The last PREFILL or DECODE was carried out. */
void batch_computed(struct batch *b);
/* Instead: the pool had no room for it. The next batch_next preempts, or gives up on a sequence that is alone. */
void batch_pool_full(struct batch *b);
/* The sequence got one more token, to be computed next. */
void batch_token(struct batch *b, uint32_t seq);
/* The sequence is over, in whatever state; its blocks have been given back. */
void batch_finished(struct batch *b, uint32_t seq);

void batch_stats(const struct batch *b, struct batch_stats *out);

#endif
