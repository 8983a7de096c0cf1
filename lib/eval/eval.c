/* The run over the windows: prefill in pieces, score their logits, feed the files. */
#include "lib/eval/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/clock.h"
#include "lib/core/mem.h"
#include "lib/eval/eval_priv.h"
#include "lib/model/digest.h"
#include "lib/token/digest.h"

struct run {
    struct engine *g;
    struct pool *pool;
    const struct eval_windows *w;
    const struct eval_opts *o;
    const struct kern_ops *ops;
    uint32_t n_vocab, ctx, skip, n_scored; /* n_scored: rows of one window, ctx - skip */
    uint32_t piece;                        /* logits rows at once */
    float *logits;                         /* [piece][n_vocab] */
    struct eval_score *scores;             /* [n_scored] */
    float *scratch;                        /* [pool_size][n_vocab], when saving */

    struct eval_part save, ref_part;       /* one window of the file being written, and of the reference */
    int32_t *ref_tokens;

    struct eval_ref_writer *writer;
    struct eval_ref *ref;
    struct eval_dump *dump;

    double nll_sum, nll_square_sum, ref_nll_sum;
    double *kl;                            /* [n_windows * n_scored], with a reference */
    uint64_t n, agree;
    struct eval_progress progress;
};

static void *array(size_t n, size_t size, int *failed)
{
    size_t bytes;
    void *p = mem_mul(n, size, &bytes) ? malloc(bytes ? bytes : 1) : NULL;

    if (!p)
        *failed = 1;
    return p;
}

static int part_open(struct eval_part *p, size_t n)
{
    int failed = 0;

    p->top_ids = array(n * p->k, sizeof *p->top_ids, &failed);
    p->top_logits = array(n * p->k, sizeof *p->top_logits, &failed);
    p->tail_ids = array(n * p->m, sizeof *p->tail_ids, &failed);
    p->tail_logits = array(n * p->m, sizeof *p->tail_logits, &failed);
    p->lse = array(n, sizeof *p->lse, &failed);
    p->target_logp = array(n, sizeof *p->target_logp, &failed);
    return failed;
}

static void part_close(struct eval_part *p)
{
    free(p->top_ids);
    free(p->top_logits);
    free(p->tail_ids);
    free(p->tail_logits);
    free(p->lse);
    free(p->target_logp);
}

/* What begins at position `at` of p. */
static struct eval_part part_from(const struct eval_part *p, size_t at)
{
    return (struct eval_part){ p->k, p->m, p->top_ids + at * p->k, p->top_logits + at * p->k, p->tail_ids + at * p->m,
                               p->tail_logits + at * p->m, p->lse + at, p->target_logp + at };
}

static int allocate(struct run *r, struct err *e)
{
    int failed = 0;

    r->logits = mem_alloc((size_t)r->piece * r->n_vocab * sizeof *r->logits);
    r->scores = array(r->n_scored, sizeof *r->scores, &failed);
    if (r->o->save) {
        failed |= part_open(&r->save, r->n_scored);
        r->scratch = array((size_t)pool_size(r->pool) * r->n_vocab, sizeof *r->scratch, &failed);
    }
    if (r->ref) {
        failed |= part_open(&r->ref_part, r->n_scored);
        r->ref_tokens = array(r->ctx, sizeof *r->ref_tokens, &failed);
        r->kl = array((size_t)r->n_scored * r->w->n_windows, sizeof *r->kl, &failed);
    }
    if (!r->logits || failed)
        return err_set(e, ERR_NOMEM, "buffers for %u logits of %u tokens: out of memory", r->piece, r->n_vocab);
    return 0;
}

static void release(struct run *r)
{
    eval_ref_abort(r->writer);
    eval_dump_abort(r->dump);
    eval_ref_close(r->ref);
    part_close(&r->save);
    part_close(&r->ref_part);
    free(r->logits);
    free(r->scores);
    free(r->scratch);
    free(r->ref_tokens);
    free(r->kl);
}

/* Refuses a reference that was made from something else. */
static int check_reference(const struct run *r, const struct eval_file_info *have, const char *text_sha256,
                           const char *tokenizer_sha256, struct err *e)
{
    const char *path = r->o->against;

    if (have->n_vocab != r->n_vocab || strcmp(have->tokenizer_sha256, tokenizer_sha256))
        return err_set(e, ERR_INVAL, "%s was made with another vocabulary (%u tokens, digest %.12s; this model has %u, %.12s): "
                       "logits cannot be compared", path, have->n_vocab, have->tokenizer_sha256, r->n_vocab, tokenizer_sha256);
    if (strcmp(have->text_sha256, text_sha256))
        return err_set(e, ERR_INVAL, "%s was made from another text (SHA-256 %.12s, this one has %.12s): give the same --data",
                       path, have->text_sha256, text_sha256);
    if (have->ctx != r->ctx || have->skip != r->skip)
        return err_set(e, ERR_INVAL, "%s was made with --ctx %u --skip %u, this run has --ctx %u --skip %u: give the same",
                       path, have->ctx, have->skip, r->ctx, r->skip);
    if (have->n_windows < r->w->n_windows)
        return err_set(e, ERR_INVAL, "%s holds %u windows, this run has %u: give --windows %u", path, have->n_windows,
                       r->w->n_windows, have->n_windows);
    return 0;
}

static int open_files(struct run *r, const struct tokenizer *t, struct err *e)
{
    struct eval_file_info info = { .n_windows = r->w->n_windows, .ctx = r->ctx, .skip = r->skip, .n_vocab = r->n_vocab,
                                   .k = r->save.k, .m = r->save.m, .isa = r->ops->isa, .model_path = r->o->model_path,
                                   .command = r->o->command, .exact = r->o->exact };
    unsigned char digest[SHA256_BYTES];
    int rc;

    if (!r->o->save && !r->o->against && !r->o->dump)
        return 0;
    sha256_hex(r->w->text_sha256, info.text_sha256);
    tokenizer_digest(t, digest);
    sha256_hex(digest, info.tokenizer_sha256);
    if (r->o->against) {
        if ((rc = eval_ref_open(&r->ref, r->o->against, e)) ||
            (rc = check_reference(r, eval_ref_info(r->ref), info.text_sha256, info.tokenizer_sha256, e)))
            return rc;
        r->ref_part.k = eval_ref_info(r->ref)->k;
        r->ref_part.m = eval_ref_info(r->ref)->m;
    }
    if (!r->o->save && !r->o->dump)
        return 0;
    rc = model_digest(engine_model(r->g)->source, r->pool, digest, e);
    if (rc)
        return rc;
    sha256_hex(digest, info.model_sha256);
    if (r->o->save && (rc = eval_ref_create(&r->writer, r->o->save, &info, e)))
        return rc;
    return r->o->dump ? eval_dump_create(&r->dump, r->o->dump, &info, e) : 0;
}

static int setup(struct run *r, const struct tokenizer *t, struct err *e)
{
    const struct model_params *p = &engine_model(r->g)->params;
    size_t budget = r->o->logits_bytes ? r->o->logits_bytes : EVAL_LOGITS_BYTES;
    size_t rows = budget / ((size_t)p->n_vocab * sizeof(float));
    int rc;

    r->n_vocab = p->n_vocab;
    r->ops = engine_ops(r->g);
    r->ctx = r->w->ctx;
    r->skip = r->o->skip;
    if (r->skip < 1 || r->skip >= r->ctx)
        return err_set(e, ERR_INVAL, "--skip %u: give a number from 1 to %u, the window less one", r->skip, r->ctx - 1);
    if (r->ctx > engine_ctx(r->g))
        return err_set(e, ERR_LIMIT, "a window of %u tokens does not fit the engine's context of %u", r->ctx, engine_ctx(r->g));
    r->n_scored = r->ctx - r->skip;
    rows = rows > 16 ? rows & ~(size_t)15 : rows < 1 ? 1 : rows;
    r->piece = rows < r->ctx ? (uint32_t)rows : r->ctx;
    r->save.k = r->o->top_k ? r->o->top_k : EVAL_TOP_K;
    if (r->save.k > r->n_vocab)
        r->save.k = r->n_vocab;
    r->save.m = r->save.k < r->n_vocab ? r->save.k : 0;
    r->progress.total_tokens = (uint64_t)r->w->n_windows * (r->o->dump ? r->ctx : r->ctx - 1);
    rc = open_files(r, t, e);
    return rc ? rc : allocate(r, e);
}

static int report(struct run *r, uint32_t n_tokens, struct err *e)
{
    r->progress.done_tokens += n_tokens;
    r->progress.nll_mean = r->n ? r->nll_sum / (double)r->n : 0;
    if (r->o->progress && !r->o->progress(r->o->progress_arg, &r->progress))
        return err_set(e, ERR_CANCELED, "stopped after %u of %u windows", r->progress.windows_done, r->w->n_windows);
    return 0;
}

/* Scores logits rows [row, row + n) of a window; row i predicts token i + 1. Rows outside the scored ones are left out. */
static void score_piece(struct run *r, uint32_t window, const int32_t *tokens, uint32_t row, uint32_t n)
{
    uint32_t first = row + 1 < r->skip ? r->skip - 1 : row, last = row + n < r->ctx - 1 ? row + n : r->ctx - 1;
    uint32_t at = first + 1 - r->skip; /* index among the window's scored positions */
    struct eval_part ref, save;
    struct eval_score_job j = { .ops = r->ops, .n_vocab = r->n_vocab, .window = window };

    if (first >= last)
        return;
    j.logits = r->logits + (size_t)(first - row) * r->n_vocab;
    j.n_rows = last - first;
    j.targets = tokens + first + 1;
    j.scores = r->scores + at;
    j.position = first + 1;
    if (r->writer) {
        save = part_from(&r->save, at);
        j.save = &save;
        j.scratch = r->scratch;
    }
    if (r->ref) {
        ref = part_from(&r->ref_part, at);
        j.ref = &ref;
    }
    eval_score_rows(&j, r->pool);
}

/* Adds the window's scores to the sums, in order. */
static int collect(struct run *r, uint32_t window, struct err *e)
{
    for (uint32_t i = 0; i < r->n_scored; i++) {
        const struct eval_score *s = &r->scores[i];
        double nll = -s->target_logp;

        if (!isfinite(s->lse) || !isfinite(nll))
            return err_set(e, ERR_FORMAT, "window %u, token %u: the model's logits are not finite", window, r->skip + i);
        r->nll_sum += nll;
        r->nll_square_sum += nll * nll;
        if (r->ref) {
            r->kl[r->n] = s->kl;
            r->agree += s->top1 == (uint32_t)r->ref_part.top_ids[(size_t)i * r->ref_part.k];
            r->ref_nll_sum -= r->ref_part.target_logp[i];
        }
        if (r->writer) {
            r->save.lse[i] = s->lse;
            r->save.target_logp[i] = s->target_logp;
        }
        r->n++;
    }
    return 0;
}

static int read_reference(struct run *r, uint32_t window, const int32_t *tokens, struct err *e)
{
    int rc = eval_ref_read(r->ref, window, r->ref_tokens, &r->ref_part, e);

    if (!rc && memcmp(r->ref_tokens, tokens, r->ctx * sizeof *tokens))
        return err_set(e, ERR_INVAL, "%s: window %u has other token ids than this run: the tokenizers differ", r->o->against,
                       window);
    return rc;
}

static int run_window(struct run *r, uint32_t window, struct err *e)
{
    const int32_t *tokens = r->w->ids + (size_t)window * r->ctx;
    uint32_t first = r->dump ? 0 : r->skip - 1, last = r->dump ? r->ctx : r->ctx - 1;
    struct step_item item = { .tokens = tokens, .n_tokens = first, .want = STEP_NO_LOGITS };
    int rc;

    if (r->ref && (rc = read_reference(r, window, tokens, e)))
        return rc;
    if (r->dump && (rc = eval_dump_tokens(r->dump, window, tokens, e)))
        return rc;
    if ((rc = engine_seq_open(r->g, &item.seq, e)))
        return rc;
    if (first && ((rc = engine_prefill(r->g, &item, 1, e)) || (rc = report(r, first, e))))
        goto done;
    item.want = STEP_ALL;
    item.logits = r->logits;
    for (uint32_t row = first; row < last; row += item.n_tokens) {
        item.tokens = tokens + row;
        item.n_tokens = last - row < r->piece ? last - row : r->piece;
        if ((rc = engine_prefill(r->g, &item, 1, e)))
            goto done;
        score_piece(r, window, tokens, row, item.n_tokens);
        if (r->dump && (rc = eval_dump_rows(r->dump, window, row, item.n_tokens, r->logits, e)))
            goto done;
        if ((rc = report(r, item.n_tokens, e)))
            goto done;
    }
    rc = collect(r, window, e);
    if (!rc && r->writer)
        rc = eval_ref_write(r->writer, window, tokens, &r->save, e);
    r->progress.windows_done++;
done:
    engine_seq_close(r->g, item.seq);
    return rc;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void summarise(struct run *r, struct eval_result *out)
{
    double n = (double)r->n, variance;

    out->tokens_scored = r->n;
    out->windows = r->w->n_windows;
    out->nll_mean = r->nll_sum / n;
    out->perplexity = exp(out->nll_mean);
    variance = r->nll_square_sum / n - out->nll_mean * out->nll_mean;
    out->nll_stderr = r->n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0;
    if (!r->ref)
        return;
    out->compared = true;
    for (uint64_t i = 0; i < r->n; i++)
        out->kl_mean += r->kl[i] / n;
    qsort(r->kl, r->n, sizeof *r->kl, compare_doubles);
    out->kl_p50 = eval_quantile(r->kl, r->n, 0.50);
    out->kl_p95 = eval_quantile(r->kl, r->n, 0.95);
    out->kl_p99 = eval_quantile(r->kl, r->n, 0.99);
    out->top1_agreement = (double)r->agree / n;
    out->reference_perplexity = exp(r->ref_nll_sum / n);
    out->perplexity_ratio = exp((r->nll_sum - r->ref_nll_sum) / n);
}

static int finish_files(struct run *r, struct err *e)
{
    struct eval_ref_writer *w = r->writer;
    struct eval_dump *d = r->dump;
    int rc = 0;

    r->writer = NULL;
    r->dump = NULL;
    if (w)
        rc = eval_ref_finish(w, e);
    if (!rc && d)
        return eval_dump_finish(d, e);
    eval_dump_abort(d);
    return rc;
}

int eval_run(struct eval_result *out, struct engine *g, struct pool *pool, const struct tokenizer *t,
             const struct eval_windows *w, const struct eval_opts *opts, struct err *e)
{
    struct run r = { .g = g, .pool = pool, .w = w, .o = opts };
    uint64_t t0 = clock_ns();
    int rc;

    memset(out, 0, sizeof *out);
    rc = setup(&r, t, e);
    for (uint32_t i = 0; !rc && i < w->n_windows; i++)
        rc = run_window(&r, i, e);
    if (!rc)
        rc = finish_files(&r, e);
    if (!rc)
        summarise(&r, out);
    out->seconds = (double)(clock_ns() - t0) * 1e-9;
    release(&r);
    return rc;
}
