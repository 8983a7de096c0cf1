/* Log-softmax, largest logits and divergence of rows of logits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/rng.h"
#include "lib/eval/eval_priv.h"

/* Below this the mass of all tokens outside the kept ones is rounding noise of the float logits. */
#define REST_MIN 1e-12

#define TAIL_BLOCK 256u /* logits whose weights are summed at once to find where draws fall */

/* True when (a, i) ranks after (b, j): smaller, or equal with a higher index. NaN ranks last. */
static bool ranks_after(float a, int32_t i, float b, int32_t j)
{
    bool nan_a = isnan(a), nan_b = isnan(b);

    if (nan_a || nan_b)
        return nan_a && nan_b ? i > j : nan_a;
    return a < b || (a == b && i > j);
}

/* Moves entry `at` of a heap whose root ranks last down to its place. */
static void sift_down(int32_t *ids, float *v, uint32_t n, uint32_t at)
{
    int32_t id = ids[at];
    float x = v[at];

    for (;;) {
        uint32_t c = 2 * at + 1;

        if (c >= n)
            break;
        if (c + 1 < n && ranks_after(v[c + 1], ids[c + 1], v[c], ids[c]))
            c++;
        if (!ranks_after(v[c], ids[c], x, id))
            break;
        ids[at] = ids[c];
        v[at] = v[c];
        at = c;
    }
    ids[at] = id;
    v[at] = x;
}

void eval_top_k(const float *x, uint32_t n, uint32_t k, int32_t *ids, float *values)
{
    if (k == 0)
        return;
    for (uint32_t i = 0; i < k; i++) {
        ids[i] = (int32_t)i;
        values[i] = x[i];
    }
    for (uint32_t i = k / 2; i-- > 0;)
        sift_down(ids, values, k, i);
    for (uint32_t i = k; i < n; i++) {
        if (x[i] <= values[0] || ranks_after(x[i], (int32_t)i, values[0], ids[0]))
            continue;
        ids[0] = (int32_t)i;
        values[0] = x[i];
        sift_down(ids, values, k, 0);
    }
    for (uint32_t m = k; m-- > 1;) { /* heap sort: the last in rank goes to the end */
        int32_t id = ids[0];
        float v = values[0];

        ids[0] = ids[m];
        values[0] = values[m];
        ids[m] = id;
        values[m] = v;
        sift_down(ids, values, m, 0);
    }
}

/* The point where the running sum of exp(x[i] - shift) over a block reaches `at`; the last one with any weight at most. */
static uint32_t find_in_block(const float *x, uint32_t n, float shift, double at)
{
    uint32_t last = 0;
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        double w = exp((double)x[i] - shift);

        if (!(w > 0))
            continue;
        last = i;
        sum += w;
        if (sum > at)
            break;
    }
    return last;
}

void eval_tail_sample(const struct kern_ops *ops, const float *x, uint32_t n, const int32_t *top_ids, uint32_t k, double u,
                      uint32_t m, float *scratch, int32_t *ids, float *values)
{
    float shift = x[top_ids[k - 1]]; /* no other is larger */
    double total = 0, before = 0;
    uint32_t done = 0;

    memcpy(scratch, x, n * sizeof *x);
    for (uint32_t i = 0; i < k; i++)
        scratch[top_ids[i]] = -INFINITY;
    for (uint32_t b = 0; b < n; b += TAIL_BLOCK)
        total += ops->sum_exp(scratch + b, n - b < TAIL_BLOCK ? n - b : TAIL_BLOCK, shift);
    for (uint32_t b = 0; b < n && done < m; b += TAIL_BLOCK) {
        uint32_t len = n - b < TAIL_BLOCK ? n - b : TAIL_BLOCK;
        double sum = ops->sum_exp(scratch + b, len, shift), at;

        for (; done < m && (at = (done + u) / m * total) < before + sum; done++)
            ids[done] = (int32_t)(b + find_in_block(scratch + b, len, shift, at - before));
        before += sum;
    }
    for (; done < m; done++) /* no weight left, or rounding at the end */
        ids[done] = done ? ids[done - 1] : top_ids[k - 1];
    for (uint32_t i = 0; i < m; i++)
        values[i] = x[ids[i]];
}

/* Divergence inside the rest, both renormalised by log_ratio = log of the rests' ratio: the mean over the drawn tokens of
 * log r - 1 + 1/r, r = p/q. Its expectation is that of log r, since 1/r has the mean 1, and no term is negative, so that it
 * varies little where the models are close. */
static double kl_in_tail(const struct eval_part *part, uint32_t i, const float *row, double lse, double log_ratio)
{
    const int32_t *ids = part->tail_ids + (size_t)i * part->m;
    const float *logits = part->tail_logits + (size_t)i * part->m;
    double sum = 0;

    for (uint32_t j = 0; j < part->m; j++) {
        double log_r = ((double)logits[j] - part->lse[i]) - ((double)row[ids[j]] - lse) - log_ratio;

        sum += log_r - 1 + exp(-log_r);
    }
    return part->m ? sum / part->m : 0;
}

double eval_kl(const struct eval_part *part, uint32_t i, const float *row, uint32_t n_vocab, double lse)
{
    const int32_t *ids = part->top_ids + (size_t)i * part->k;
    const float *logits = part->top_logits + (size_t)i * part->k;
    double kl = 0, p_sum = 0, q_sum = 0;

    for (uint32_t j = 0; j < part->k; j++) {
        double log_p = (double)logits[j] - part->lse[i], log_q = (double)row[ids[j]] - lse;
        double p = exp(log_p);

        kl += p > 0 ? p * (log_p - log_q) : 0;
        p_sum += p;
        q_sum += exp(log_q);
    }
    if (part->k < n_vocab && 1 - p_sum > REST_MIN) {
        double p = 1 - p_sum, q = 1 - q_sum > REST_MIN ? 1 - q_sum : REST_MIN, log_ratio = log(p / q);

        kl += p * (log_ratio + kl_in_tail(part, i, row, lse, log_ratio));
    }
    return kl > 0 ? kl : 0;
}

double eval_quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;

    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

static void save_row(const struct eval_score_job *j, uint32_t r, const float *x, float *scratch)
{
    const struct eval_part *p = j->save;
    int32_t *top_ids = p->top_ids + (size_t)r * p->k;

    eval_top_k(x, j->n_vocab, p->k, top_ids, p->top_logits + (size_t)r * p->k);
    if (p->m)
        eval_tail_sample(j->ops, x, j->n_vocab, top_ids, p->k, rng_uniform(j->window, j->position + r, 0), p->m, scratch,
                         p->tail_ids + (size_t)r * p->m, p->tail_logits + (size_t)r * p->m);
}

static void score_row(const struct eval_score_job *j, uint32_t r, float *scratch)
{
    const float *x = j->logits + (size_t)r * j->n_vocab;
    struct eval_score *s = &j->scores[r];
    float max;

    s->top1 = j->ops->argmax(x, j->n_vocab);
    max = x[s->top1];
    s->lse = (double)max + log(j->ops->sum_exp(x, j->n_vocab, max));
    s->target_logp = (double)x[j->targets[r]] - s->lse;
    s->kl = j->ref ? eval_kl(j->ref, r, x, j->n_vocab, s->lse) : 0;
    if (j->save)
        save_row(j, r, x, scratch);
}

struct pool_job {
    const struct eval_score_job *j;
    struct pool *pool;
};

static void score_member(void *arg, unsigned member)
{
    struct pool_job *p = arg;
    uint32_t begin, end;

    pool_split(p->pool, member, p->j->n_rows, 1, &begin, &end);
    for (uint32_t r = begin; r < end; r++)
        score_row(p->j, r, p->j->save ? p->j->scratch + (size_t)member * p->j->n_vocab : NULL);
}

void eval_score_rows(const struct eval_score_job *j, struct pool *pool)
{
    struct pool_job p = { j, pool };

    pool_run(pool, score_member, &p);
}
