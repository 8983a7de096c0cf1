/* Text generation: requests in, finished sequences out. It joins the engine, the batch scheduler, the sampler and the
 * detokeniser; it reads and writes nothing.
 *
 * What a sequence says depends on its request only, bit for bit: not on the batch, on the number of threads, on preemption
 * or on sharing its prompt.
 *
 * Threads: one at a time; gen_step uses the pool's threads inside. */
#ifndef SLUICE_GEN_GEN_H
#define SLUICE_GEN_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/pool.h"
#include "lib/gen/batch.h"
#include "lib/gen/request.h"
#include "lib/model/engine.h"

enum gen_finish { GEN_STOP, GEN_LENGTH, GEN_ERROR };
const char *gen_finish_name(enum gen_finish f); /* "stop", "length", "error" */

struct gen_logprob {
    struct sample_logprob chosen;
    const struct sample_logprob *top; /* [n_top], most likely first */
    uint32_t n_top;
};

/* One finished sequence. Borrowed; valid during the callback only. */
struct gen_result {
    const struct gen_request *request;
    uint32_t index;              /* 0..n-1 */
    enum gen_finish finish;
    const char *error;           /* with GEN_ERROR */
    const char *text;            /* any bytes */
    size_t text_len;
    const int32_t *tokens;       /* [n_tokens] generated, a stop token at the end included */
    uint32_t n_tokens;
    const struct gen_logprob *logprobs; /* [n_tokens], NULL unless asked for */
    double queue_ms, prefill_ms, decode_ms;
};

struct gen_hooks {
    /* More text of a sequence, whole characters, never any of a stop string. May be NULL. */
    void (*text)(void *arg, const struct gen_request *r, uint32_t index, const char *text, size_t len);
    /* A sequence is finished. 0, or a negative code that ends gen_step with it (e filled). */
    int (*done)(void *arg, const struct gen_result *res, struct err *e);
    void *arg;
};

struct gen_opts {
    uint32_t batch;        /* sequences at once; 0: 1 */
    uint32_t chunk_tokens; /* prompt tokens of one step; 0: 512 */
};

struct gen;

/* engine, pool and tok must outlive the generator, which is the only user of the engine's sequences. */
int gen_open(struct gen **out, struct engine *engine, struct pool *pool, const struct tokenizer *tok,
             const struct gen_opts *o, const struct gen_hooks *hooks, struct err *e);
void gen_close(struct gen *g); /* NULL is legal; drops what is unfinished without a callback */

/* Queues a request and takes over what r holds (r is left empty). ERR_LIMIT, with r untouched, when the context does not
 * hold the prompt and one token more. */
int gen_submit(struct gen *g, struct gen_request *r, struct err *e);
/* Does one step of work. 1: there is more to do; 0: idle; negative: failed, also when done said so. */
int gen_step(struct gen *g, struct err *e);
/* Drops everything that is unfinished, without a callback. */
void gen_cancel(struct gen *g);

uint32_t gen_queued(const struct gen *g); /* sequences that wait for a place */
uint32_t gen_active(const struct gen *g);
void gen_stats(const struct gen *g, struct batch_stats *out);
uint64_t gen_tokens(const struct gen *g); /* generated so far */

#endif
