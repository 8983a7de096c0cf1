/* Files of logits (sluice-logits(5)): the reference of --save and --against, and the full dump. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/eval/eval_priv.h"
#include "lib/io/artifact.h"

#define REF_FORMAT "sluice-logits"
#define DUMP_FORMAT "sluice-logits-full"
#define FILE_VERSION 1

static int write_info(struct artifact *a, const struct eval_file_info *i, struct err *e)
{
    int rc;

    if ((rc = artifact_set_u64(a, "n_windows", i->n_windows, e)) || (rc = artifact_set_u64(a, "ctx", i->ctx, e)) ||
        (rc = artifact_set_u64(a, "skip", i->skip, e)) || (rc = artifact_set_u64(a, "n_vocab", i->n_vocab, e)) ||
        (rc = artifact_set_str(a, "text_sha256", i->text_sha256, e)) ||
        (rc = artifact_set_str(a, "tokenizer_sha256", i->tokenizer_sha256, e)) ||
        (rc = artifact_set_str(a, "model_sha256", i->model_sha256, e)) ||
        (rc = artifact_set_u64(a, "exact", i->exact, e)))
        return rc;
    if ((i->isa && (rc = artifact_set_str(a, "isa", i->isa, e))) ||
        (i->model_path && (rc = artifact_set_str(a, "model", i->model_path, e))) ||
        (i->command && (rc = artifact_set_str(a, "command", i->command, e))))
        return rc;
    return 0;
}

static int write_tokens(struct artifact *a, uint32_t window, uint32_t ctx, const int32_t *tokens, struct err *e)
{
    return artifact_array_write(a, "tokens", ARTIFACT_I32, (uint64_t[]){ window, 0 }, (uint64_t[]){ 1, ctx }, tokens, e);
}

/* Writing a reference -------------------------------------------------------------------------------------------------- */

struct eval_ref_writer {
    struct artifact *a;
    struct eval_file_info info;
};

int eval_ref_create(struct eval_ref_writer **out, const char *path, const struct eval_file_info *info, struct err *e)
{
    struct eval_ref_writer *w = calloc(1, sizeof *w);
    uint64_t nw = info->n_windows, n = info->ctx - info->skip, k = info->k, m = info->m;
    int rc;

    *out = NULL;
    if (!w)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    w->info = *info;
    if ((rc = artifact_create(&w->a, path, REF_FORMAT, FILE_VERSION, e)) || (rc = write_info(w->a, info, e)) ||
        (rc = artifact_set_u64(w->a, "top_k", k, e)) || (rc = artifact_set_u64(w->a, "tail_samples", m, e)) ||
        (rc = artifact_array_create(w->a, "tokens", ARTIFACT_I32, 2, (uint64_t[]){ nw, info->ctx },
                                    (uint64_t[]){ 1, info->ctx }, "token ids of the windows", e)) ||
        (rc = artifact_array_create(w->a, "top_ids", ARTIFACT_I32, 3, (uint64_t[]){ nw, n, k }, (uint64_t[]){ 1, n, k },
                                    "most likely next tokens of each scored position, most likely first", e)) ||
        (rc = artifact_array_create(w->a, "top_logits", ARTIFACT_F32, 3, (uint64_t[]){ nw, n, k },
                                    (uint64_t[]){ 1, n, k }, "their logits", e)) ||
        (m && ((rc = artifact_array_create(w->a, "tail_ids", ARTIFACT_I32, 3, (uint64_t[]){ nw, n, m },
                                           (uint64_t[]){ 1, n, m }, "tokens drawn from all others by probability", e)) ||
               (rc = artifact_array_create(w->a, "tail_logits", ARTIFACT_F32, 3, (uint64_t[]){ nw, n, m },
                                           (uint64_t[]){ 1, n, m }, "their logits", e)))) ||
        (rc = artifact_array_create(w->a, "log_sum_exp", ARTIFACT_F64, 2, (uint64_t[]){ nw, n }, (uint64_t[]){ 1, n },
                                    "log of the sum of exp over all logits: log p = logit - log_sum_exp", e)) ||
        (rc = artifact_array_create(w->a, "target_log_prob", ARTIFACT_F64, 2, (uint64_t[]){ nw, n },
                                    (uint64_t[]){ 1, n }, "log p of the token that is there", e))) {
        eval_ref_abort(w);
        return rc;
    }
    *out = w;
    return 0;
}

int eval_ref_write(struct eval_ref_writer *w, uint32_t window, const int32_t *tokens, const struct eval_part *p,
                   struct err *e)
{
    uint64_t n = w->info.ctx - w->info.skip;
    uint64_t at[3] = { window, 0, 0 }, flat[2] = { 1, n }, top[3] = { 1, n, p->k }, tail[3] = { 1, n, p->m };
    int rc = write_tokens(w->a, window, w->info.ctx, tokens, e);

    if (!rc)
        rc = artifact_array_write(w->a, "top_ids", ARTIFACT_I32, at, top, p->top_ids, e);
    if (!rc)
        rc = artifact_array_write(w->a, "top_logits", ARTIFACT_F32, at, top, p->top_logits, e);
    if (!rc && p->m)
        rc = artifact_array_write(w->a, "tail_ids", ARTIFACT_I32, at, tail, p->tail_ids, e);
    if (!rc && p->m)
        rc = artifact_array_write(w->a, "tail_logits", ARTIFACT_F32, at, tail, p->tail_logits, e);
    if (!rc)
        rc = artifact_array_write(w->a, "log_sum_exp", ARTIFACT_F64, at, flat, p->lse, e);
    return rc ? rc : artifact_array_write(w->a, "target_log_prob", ARTIFACT_F64, at, flat, p->target_logp, e);
}

int eval_ref_finish(struct eval_ref_writer *w, struct err *e)
{
    int rc = artifact_finish(w->a, e);

    free(w);
    return rc;
}

void eval_ref_abort(struct eval_ref_writer *w)
{
    if (w)
        artifact_close(w->a);
    free(w);
}

/* Reading one ---------------------------------------------------------------------------------------------------------- */

struct eval_ref {
    struct artifact *a;
    struct eval_file_info info;
};

static int get_u32(struct artifact *a, const char *name, uint32_t min, uint32_t *out, struct err *e)
{
    uint64_t v;
    int rc = artifact_get_u64(a, name, &v, e);

    if (!rc && (v < min || v > INT32_MAX))
        rc = err_set(e, ERR_FORMAT, "%s: attribute %s is %llu", artifact_path(a), name, (unsigned long long)v);
    *out = rc ? 0 : (uint32_t)v;
    return rc;
}

static int read_info(struct artifact *a, struct eval_file_info *i, struct err *e)
{
    int rc;

    if ((rc = get_u32(a, "n_windows", 1, &i->n_windows, e)) || (rc = get_u32(a, "ctx", 2, &i->ctx, e)) ||
        (rc = get_u32(a, "skip", 1, &i->skip, e)) || (rc = get_u32(a, "n_vocab", 1, &i->n_vocab, e)) ||
        (rc = get_u32(a, "top_k", 1, &i->k, e)) || (rc = get_u32(a, "tail_samples", 0, &i->m, e)) ||
        (rc = artifact_get_str(a, "text_sha256", i->text_sha256, sizeof i->text_sha256, e)) ||
        (rc = artifact_get_str(a, "tokenizer_sha256", i->tokenizer_sha256, sizeof i->tokenizer_sha256, e)) ||
        (rc = artifact_get_str(a, "model_sha256", i->model_sha256, sizeof i->model_sha256, e)))
        return rc;
    if (i->skip >= i->ctx || i->k > i->n_vocab || i->m > i->n_vocab)
        return err_set(e, ERR_FORMAT, "%s: ctx %u, skip %u, top_k %u and n_vocab %u do not fit each other",
                       artifact_path(a), i->ctx, i->skip, i->k, i->n_vocab);
    return 0;
}

int eval_ref_open(struct eval_ref **out, const char *path, struct err *e)
{
    struct eval_ref *r = calloc(1, sizeof *r);
    uint64_t nw, n, m;
    int rc;

    *out = NULL;
    if (!r)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    if ((rc = artifact_open(&r->a, path, REF_FORMAT, FILE_VERSION, e)) || (rc = read_info(r->a, &r->info, e)))
        goto fail;
    nw = r->info.n_windows;
    n = r->info.ctx - r->info.skip;
    m = r->info.m;
    if ((rc = artifact_array_check(r->a, "tokens", ARTIFACT_I32, 2, (uint64_t[]){ nw, r->info.ctx }, e)) ||
        (rc = artifact_array_check(r->a, "top_ids", ARTIFACT_I32, 3, (uint64_t[]){ nw, n, r->info.k }, e)) ||
        (rc = artifact_array_check(r->a, "top_logits", ARTIFACT_F32, 3, (uint64_t[]){ nw, n, r->info.k }, e)) ||
        (m && ((rc = artifact_array_check(r->a, "tail_ids", ARTIFACT_I32, 3, (uint64_t[]){ nw, n, m }, e)) ||
               (rc = artifact_array_check(r->a, "tail_logits", ARTIFACT_F32, 3, (uint64_t[]){ nw, n, m }, e)))) ||
        (rc = artifact_array_check(r->a, "log_sum_exp", ARTIFACT_F64, 2, (uint64_t[]){ nw, n }, e)) ||
        (rc = artifact_array_check(r->a, "target_log_prob", ARTIFACT_F64, 2, (uint64_t[]){ nw, n }, e)))
        goto fail;
    *out = r;
    return 0;
fail:
    eval_ref_close(r);
    return rc;
}

void eval_ref_close(struct eval_ref *r)
{
    if (r)
        artifact_close(r->a);
    free(r);
}

const struct eval_file_info *eval_ref_info(const struct eval_ref *r)
{
    return &r->info;
}

/* ids and logits [n][k] of a window; sorted: in descending order within a position. */
static int check_logits(const struct eval_ref *r, uint32_t window, const int32_t *ids, const float *logits, uint64_t n,
                        uint32_t k, bool sorted, struct err *e)
{
    for (uint64_t i = 0; i < n * k; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= r->info.n_vocab || !isfinite(logits[i]) ||
            (sorted && i % k && logits[i] > logits[i - 1]))
            return err_set(e, ERR_FORMAT, "%s: window %u, token %llu: bad id or logit", artifact_path(r->a), window,
                           (unsigned long long)(i / k + r->info.skip));
    return 0;
}

int eval_ref_read(struct eval_ref *r, uint32_t window, int32_t *tokens, struct eval_part *p, struct err *e)
{
    uint64_t n = r->info.ctx - r->info.skip;
    uint64_t at[3] = { window, 0, 0 }, flat[2] = { 1, n }, top[3] = { 1, n, p->k }, tail[3] = { 1, n, p->m };
    int rc;

    if ((rc = artifact_array_read(r->a, "tokens", ARTIFACT_I32, at, (uint64_t[]){ 1, r->info.ctx }, tokens, e)) ||
        (rc = artifact_array_read(r->a, "top_ids", ARTIFACT_I32, at, top, p->top_ids, e)) ||
        (rc = artifact_array_read(r->a, "top_logits", ARTIFACT_F32, at, top, p->top_logits, e)) ||
        (p->m && ((rc = artifact_array_read(r->a, "tail_ids", ARTIFACT_I32, at, tail, p->tail_ids, e)) ||
                  (rc = artifact_array_read(r->a, "tail_logits", ARTIFACT_F32, at, tail, p->tail_logits, e)))) ||
        (rc = artifact_array_read(r->a, "log_sum_exp", ARTIFACT_F64, at, flat, p->lse, e)) ||
        (rc = artifact_array_read(r->a, "target_log_prob", ARTIFACT_F64, at, flat, p->target_logp, e)) ||
        (rc = check_logits(r, window, p->top_ids, p->top_logits, n, p->k, true, e)) ||
        (rc = check_logits(r, window, p->tail_ids, p->tail_logits, n, p->m, false, e)))
        return rc;
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(p->lse[i]) || p->lse[i] < (double)p->top_logits[i * p->k] - 1e-3 || !isfinite(p->target_logp[i]) ||
            p->target_logp[i] > 1e-3)
            return err_set(e, ERR_FORMAT, "%s: window %u, token %llu: bad log-sum-exp or log-probability",
                           artifact_path(r->a), window, (unsigned long long)(i + r->info.skip));
    return 0;
}

/* The full dump -------------------------------------------------------------------------------------------------------- */

struct eval_dump {
    struct artifact *a;
    struct eval_file_info info;
};

int eval_dump_create(struct eval_dump **out, const char *path, const struct eval_file_info *info, struct err *e)
{
    struct eval_dump *d = calloc(1, sizeof *d);
    uint64_t nw = info->n_windows, ctx = info->ctx, n_vocab = info->n_vocab;
    int rc;

    *out = NULL;
    if (!d)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    d->info = *info;
    if ((rc = artifact_create(&d->a, path, DUMP_FORMAT, FILE_VERSION, e)) || (rc = write_info(d->a, info, e)) ||
        (rc = artifact_array_create(d->a, "tokens", ARTIFACT_I32, 2, (uint64_t[]){ nw, ctx }, (uint64_t[]){ 1, ctx },
                                    "token ids of the windows", e)) ||
        (rc = artifact_array_create(d->a, "logits", ARTIFACT_F32, 3, (uint64_t[]){ nw, ctx, n_vocab },
                                    (uint64_t[]){ 1, 1, n_vocab }, "row i predicts token i + 1 of the window", e))) {
        eval_dump_abort(d);
        return rc;
    }
    *out = d;
    return 0;
}

int eval_dump_tokens(struct eval_dump *d, uint32_t window, const int32_t *tokens, struct err *e)
{
    return write_tokens(d->a, window, d->info.ctx, tokens, e);
}

int eval_dump_rows(struct eval_dump *d, uint32_t window, uint32_t row, uint32_t n_rows, const float *logits, struct err *e)
{
    return artifact_array_write(d->a, "logits", ARTIFACT_F32, (uint64_t[]){ window, row, 0 },
                                (uint64_t[]){ 1, n_rows, d->info.n_vocab }, logits, e);
}

int eval_dump_finish(struct eval_dump *d, struct err *e)
{
    int rc = artifact_finish(d->a, e);

    free(d);
    return rc;
}

void eval_dump_abort(struct eval_dump *d)
{
    if (d)
        artifact_close(d->a);
    free(d);
}
