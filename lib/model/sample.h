/* Choosing the next token from logits.
 *
 * Order of operations: logit bias, repetition penalty, frequency and presence penalties, temperature, top-k, top-p (over
 * what top-k left), min-p (relative to the best token), then one draw from what is left, renormalised. Ties go to the lower
 * token id. Nothing sorts the vocabulary: the few candidates above a threshold are gathered and selected among.
 *
 * Draws are counter-based: they depend on (seed, stream, position) only, so what is drawn for a sequence does not depend
 * on the batch it runs in.
 *
 * Threads: a sampler is scratch memory for one thread at a time; sample_counts belong to one sequence. */
#ifndef SLUICE_MODEL_SAMPLE_H
#define SLUICE_MODEL_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "lib/core/err.h"

#define SAMPLE_TOP_MAX 100u /* most alternatives that sampler_logprobs reports */

struct sample_bias {
    int32_t token;
    float bias;
};

struct sample_params {
    float temperature;         /* >= 0; 0 takes the most likely token */
    uint32_t top_k;            /* keep the k most likely; 0: all */
    float top_p;               /* keep the fewest tokens whose probabilities reach top_p, 0..1; 1: all */
    float min_p;               /* keep tokens of at least min_p times the best one's probability, 0..1; 0: all */
    float repetition_penalty;  /* > 0; divides positive and multiplies negative logits of tokens seen; 1: off */
    float presence_penalty;    /* subtracted from logits of generated tokens; 0: off */
    float frequency_penalty;   /* the same times how often they were generated; 0: off */
    const struct sample_bias *bias; /* [n_bias], added to logits; borrowed */
    uint32_t n_bias;
    uint64_t seed;
};

/* Greedy, nothing penalised or filtered, seed 0. */
void sample_params_init(struct sample_params *p);
/* ERR_INVAL with a message that starts with the field's name when a value is out of range. */
int sample_params_check(const struct sample_params *p, uint32_t n_vocab, struct err *e);

/* How often each token occurs in a sequence. Zero-initialise; free with sample_counts_clear. Only the penalties read it. */
struct sample_counts {
    struct sample_slot {
        int32_t token;      /* + 1; 0: empty */
        uint32_t generated; /* the prompt counts as seen, not as generated */
    } *slots;
    uint32_t n, cap; /* cap: a power of two */
};
int sample_counts_add(struct sample_counts *c, int32_t token, bool generated, struct err *e);
void sample_counts_clear(struct sample_counts *c);
/* True when p makes use of counts. */
bool sample_params_counts(const struct sample_params *p);

struct sampler;

/* ops must outlive the sampler. */
int sampler_open(struct sampler **out, const struct kern_ops *ops, uint32_t n_vocab, struct err *e);
void sampler_close(struct sampler *s); /* NULL is legal */

/* Chooses a token from logits[n_vocab], which are left as they are. counts may be NULL. stream: the sequence's number among
 * those of its request; position: number of tokens generated before. Logits that are NaN are never chosen; ERR_INVAL when
 * no logit is a number above -infinity, ERR_NOMEM. */
int sampler_pick(struct sampler *s, const struct sample_params *p, const struct sample_counts *counts,
                 const float *logits, uint64_t stream, uint64_t position, int32_t *token, struct err *e);

struct sample_logprob {
    int32_t token;
    float logprob; /* natural logarithm */
};

/* Log-probabilities under the distribution of logits[n_vocab] itself (no penalty, temperature or filter): of token, and
 * of the n most likely ones (n <= SAMPLE_TOP_MAX, at most n_vocab), most likely first. Returns how many were written to
 * top. */
uint32_t sampler_logprobs(struct sampler *s, const float *logits, int32_t token, float *logprob, uint32_t n,
                          struct sample_logprob *top);

#endif
