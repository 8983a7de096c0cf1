/* Inside lib/eval: scoring of logits rows, and the files of logits. */
#ifndef SLUICE_EVAL_PRIV_H
#define SLUICE_EVAL_PRIV_H

#include "lib/eval/eval.h"

/* --- scoring --------------------------------------------------------------------------------------------------------
 * One row is the logits of one position, [n_vocab]. */
struct eval_score {
    double lse;          /* log sum exp of the row */
    double target_logp;  /* log-softmax of the target */
    double kl;           /* KL(reference || row); 0 without a reference */
    uint32_t top1;       /* most likely token, the lowest id among equals */
};

/* Part of a reference: per position the k largest logits in descending order, and m tokens drawn from all others in
 * proportion to their probabilities. */
struct eval_part {
    uint32_t k, m;
    int32_t *top_ids;      /* [n][k] */
    float *top_logits;     /* [n][k] */
    int32_t *tail_ids;     /* [n][m] */
    float *tail_logits;    /* [n][m] */
    double *lse;           /* [n] log sum exp of all logits */
    double *target_logp;   /* [n] */
};

struct eval_score_job {
    const struct kern_ops *ops;
    const float *logits;            /* [n_rows][n_vocab] */
    uint32_t n_rows, n_vocab;
    const int32_t *targets;         /* [n_rows] */
    struct eval_score *scores;      /* [n_rows] out */
    const struct eval_part *ref;    /* NULL: no comparison; else of n_rows positions */
    struct eval_part *save;         /* NULL: not wanted; else all but target_logp and lse are filled */
    float *scratch;                 /* [pool_size][n_vocab], with save */
    uint64_t window, position;      /* of the first row: the key of the tail's random draws */
};

/* Fills scores (and top-k) of all rows with the pool's threads; results do not depend on their number. */
void eval_score_rows(const struct eval_score_job *j, struct pool *pool);

/* The k largest of x[n], k <= n, descending, lower index first among equals. NaN counts as lowest. */
void eval_top_k(const float *x, uint32_t n, uint32_t k, int32_t *ids, float *values);

/* Draws m tokens from x[n] without the k in top_ids, in proportion to exp(x), by systematic sampling from the start u in
 * [0, 1). scratch[n]. */
void eval_tail_sample(const struct kern_ops *ops, const float *x, uint32_t n, const int32_t *top_ids, uint32_t k, double u,
                      uint32_t m, float *scratch, int32_t *ids, float *values);

/* KL(reference || row) where position i of part is the reference: exact over its k largest logits and over the rest as a
 * whole, and an unbiased estimate from the m drawn tokens of the divergence inside the rest. m 0: a lower bound. */
double eval_kl(const struct eval_part *part, uint32_t i, const float *row, uint32_t n_vocab, double lse);

/* Quantile q of sorted[n] (ascending), linear between the two nearest ranks. */
double eval_quantile(const double *sorted, size_t n, double q);

/* --- files ---------------------------------------------------------------------------------------------------------- */

struct eval_file_info {
    uint32_t n_windows, ctx, skip, n_vocab, k, m;
    char text_sha256[SHA256_HEX_SIZE], tokenizer_sha256[SHA256_HEX_SIZE], model_sha256[SHA256_HEX_SIZE];
    const char *isa, *model_path, *command; /* provenance; written only, may be NULL */
    bool exact;
};

/* Rows of one window: the scored positions skip..ctx-1, in order. Rows of a window are written and read together. */
struct eval_ref_writer;
int eval_ref_create(struct eval_ref_writer **out, const char *path, const struct eval_file_info *info, struct err *e);
/* tokens[ctx]; part of n = ctx - skip positions. Windows come in order. */
int eval_ref_write(struct eval_ref_writer *w, uint32_t window, const int32_t *tokens, const struct eval_part *part,
                   struct err *e);
int eval_ref_finish(struct eval_ref_writer *w, struct err *e); /* completes the file; frees w in any case */
void eval_ref_abort(struct eval_ref_writer *w);                /* removes the unfinished file; NULL is legal */

struct eval_ref;
/* Validates everything but the rows. */
int eval_ref_open(struct eval_ref **out, const char *path, struct err *e);
void eval_ref_close(struct eval_ref *r); /* NULL is legal */
const struct eval_file_info *eval_ref_info(const struct eval_ref *r);
/* Fills tokens[ctx] and part, whose k and m are those of the file and whose arrays the caller gives. ERR_FORMAT for ids
 * outside the vocabulary, unordered or non-finite values. */
int eval_ref_read(struct eval_ref *r, uint32_t window, int32_t *tokens, struct eval_part *part, struct err *e);

/* Every logit: rows 0..ctx-1 of each window. */
struct eval_dump;
int eval_dump_create(struct eval_dump **out, const char *path, const struct eval_file_info *info, struct err *e);
int eval_dump_tokens(struct eval_dump *d, uint32_t window, const int32_t *tokens, struct err *e);
int eval_dump_rows(struct eval_dump *d, uint32_t window, uint32_t row, uint32_t n_rows, const float *logits,
                   struct err *e);
int eval_dump_finish(struct eval_dump *d, struct err *e); /* frees d in any case */
void eval_dump_abort(struct eval_dump *d);                /* NULL is legal */

#endif
