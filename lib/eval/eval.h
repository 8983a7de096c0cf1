/* Quality of a model on a text: perplexity over windows, reference logits written to a file, and the comparison of a
 * model with such a file (Kullback-Leibler divergence, top-1 agreement, perplexity ratio).
 *
 * Windows of ctx tokens follow one another without overlap; the last partial one is dropped. Where the vocabulary asks for
 * a BOS, the text starts with it and it replaces the first token of every window. Token i of a window (0-based) is scored,
 * given the tokens before it in the window, when i >= skip.
 *
 * Threads: one caller; the work runs on the engine's pool. */
#ifndef SLUICE_EVAL_EVAL_H
#define SLUICE_EVAL_EVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/sha256.h"
#include "lib/model/engine.h"
#include "lib/token/token.h"

#define EVAL_TOP_K 64                /* largest logits that a reference keeps per position, and as many drawn from the rest */
#define EVAL_LOGITS_BYTES (64u << 20) /* logits in memory at once */

/* A text cut into windows. */
struct eval_windows {
    int32_t *ids;      /* [n_windows][ctx], owned */
    uint32_t n_windows, ctx;
    uint64_t n_tokens; /* of the whole text, its BOS included */
    unsigned char text_sha256[SHA256_BYTES];
};

/* Tokenises text[0..len) as one text (special tokens written in it are plain text) and cuts it. max_windows 0: all.
 * ERR_INVAL when the text does not fill one window. eval_windows_free(w) in any case but the failed one. */
int eval_windows_make(struct eval_windows *w, const struct tokenizer *t, const char *text, size_t len, uint32_t ctx,
                      uint32_t max_windows, struct err *e);
/* The cutting alone. bos < 0: none. text_sha256 is left zero. */
int eval_windows_cut(struct eval_windows *w, const int32_t *ids, size_t n, int32_t bos, uint32_t ctx,
                     uint32_t max_windows, struct err *e);
void eval_windows_free(struct eval_windows *w); /* a zeroed one is legal */

/* What a progress function is told; false stops the run with ERR_CANCELED. */
struct eval_progress {
    uint64_t done_tokens, total_tokens;   /* tokens through the model */
    uint32_t windows_done;
    double nll_mean;                      /* so far; 0 when nothing is scored yet */
};

struct eval_opts {
    uint32_t skip;         /* first scored token of a window, 1..ctx-1 */
    size_t logits_bytes;   /* bound of the logits buffer (at least one row is kept); 0: EVAL_LOGITS_BYTES */
    const char *save;      /* reference file to write, or NULL */
    uint32_t top_k;        /* largest logits kept per position in it; 0: EVAL_TOP_K */
    const char *against;   /* reference file to compare with, or NULL */
    const char *dump;      /* file for every logit of every window position, or NULL */
    const char *model_path, *command; /* provenance, for written files; may be NULL */
    bool exact;            /* the same: how the engine was opened */
    bool (*progress)(void *arg, const struct eval_progress *p);
    void *progress_arg;
};

struct eval_result {
    uint64_t tokens_scored;
    uint32_t windows;
    double nll_mean, nll_stderr; /* nats per token; standard error as if tokens were independent */
    double perplexity;           /* exp(nll_mean) */
    double seconds;
    bool compared;               /* the fields below are set */
    double kl_mean, kl_p50, kl_p95, kl_p99; /* nats per token, KL(reference || model) */
    double top1_agreement;       /* share of positions where both have the same most likely token */
    double perplexity_ratio;     /* model / reference */
    double reference_perplexity; /* on the same tokens */
};

/* Runs g over the windows. t is the tokenizer that made them (its digest goes into files and is compared with them).
 * ERR_LIMIT when ctx exceeds the engine's; ERR_INVAL, saying what differs, when the file of opts->against was made from another
 * text, vocabulary, ctx or skip. Written files appear under their names only when complete. */
int eval_run(struct eval_result *out, struct engine *g, struct pool *pool, const struct tokenizer *t,
             const struct eval_windows *w, const struct eval_opts *opts, struct err *e);

#endif
