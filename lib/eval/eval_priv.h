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

/* Part of a reference: the k largest logits of each position in descending order. */
struct eval_ref_rows {
    const int32_t *ids;  /* [n][k] */
    const float *logits; /* [n][k] */
    const double *lse;   /* [n] */
    uint32_t k;
};

struct eval_score_job {
    const struct kern_ops *ops;
    const float *logits;            /* [n_rows][n_vocab] */
    uint32_t n_rows, n_vocab;
    const int32_t *targets;         /* [n_rows] */
    struct eval_score *scores;      /* [n_rows] out */
    const struct eval_ref_rows *ref; /* NULL: no comparison */
    uint32_t top_k;                 /* 0: no top-k wanted */
    int32_t *top_ids;               /* [n_rows][top_k] out */
    float *top_logits;              /* [n_rows][top_k] out */
};

/* Fills scores (and top-k) of all rows with the pool's threads; results do not depend on their number. */
void eval_score_rows(const struct eval_score_job *j, struct pool *pool);

/* The k largest of x[n], k <= n, descending, lower index first among equals. NaN counts as lowest. */
void eval_top_k(const float *x, uint32_t n, uint32_t k, int32_t *ids, float *values);

/* KL(reference || row) where the reference is known by its k largest logits and its log-sum-exp: the exact terms of the k,
 * and one term for all other tokens together. A lower bound of the exact divergence (log-sum inequality). */
double eval_kl(const int32_t *ids, const float *ref_logits, uint32_t k, double ref_lse, const float *row, uint32_t n_vocab,
               double lse);

/* Quantile q of sorted[n] (ascending), linear between the two nearest ranks. */
double eval_quantile(const double *sorted, size_t n, double q);

/* --- files ---------------------------------------------------------------------------------------------------------- */

struct eval_file_info {
    uint32_t n_windows, ctx, skip, n_vocab, k;
    char text_sha256[SHA256_HEX_SIZE], tokenizer_sha256[SHA256_HEX_SIZE], model_sha256[SHA256_HEX_SIZE];
    const char *isa, *model_path, *command; /* provenance; written only, may be NULL */
    bool exact;
};

/* Rows of one window: the scored positions skip..ctx-1, in order. Rows of a window are written and read together. */
struct eval_ref_writer;
int eval_ref_create(struct eval_ref_writer **out, const char *path, const struct eval_file_info *info, struct err *e);
/* tokens[ctx]; ids, logits [n][k]; lse, target_logp [n], n = ctx - skip. Windows come in order. */
int eval_ref_write(struct eval_ref_writer *w, uint32_t window, const int32_t *tokens, const int32_t *ids,
                   const float *logits, const double *lse, const double *target_logp, struct err *e);
int eval_ref_finish(struct eval_ref_writer *w, struct err *e); /* completes the file; frees w in any case */
void eval_ref_abort(struct eval_ref_writer *w);                /* removes the unfinished file; NULL is legal */

struct eval_ref;
/* Validates everything but the rows. */
int eval_ref_open(struct eval_ref **out, const char *path, struct err *e);
void eval_ref_close(struct eval_ref *r); /* NULL is legal */
const struct eval_file_info *eval_ref_info(const struct eval_ref *r);
/* Buffers as in eval_ref_write; ERR_FORMAT for ids outside the vocabulary, unordered or non-finite values. */
int eval_ref_read(struct eval_ref *r, uint32_t window, int32_t *tokens, int32_t *ids, float *logits, double *lse,
                  double *target_logp, struct err *e);

/* Every logit: rows 0..ctx-1 of each window. */
struct eval_dump;
int eval_dump_create(struct eval_dump **out, const char *path, const struct eval_file_info *info, struct err *e);
int eval_dump_tokens(struct eval_dump *d, uint32_t window, const int32_t *tokens, struct err *e);
int eval_dump_rows(struct eval_dump *d, uint32_t window, uint32_t row, uint32_t n_rows, const float *logits,
                   struct err *e);
int eval_dump_finish(struct eval_dump *d, struct err *e); /* frees d in any case */
void eval_dump_abort(struct eval_dump *d);                /* NULL is legal */

#endif
