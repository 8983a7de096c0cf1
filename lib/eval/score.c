/* Log-softmax, largest logits and divergence of rows of logits. */
#include <math.h>
#include <stdlib.h>

#include "lib/eval/eval_priv.h"

/* Below this the mass of all tokens outside the kept ones is rounding noise of the float logits. */
#define REST_MIN 1e-12

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

double eval_kl(const int32_t *ids, const float *ref_logits, uint32_t k, double ref_lse, const float *row,
               uint32_t n_vocab, double lse)
{
    double kl = 0, p_sum = 0, q_sum = 0;

    for (uint32_t i = 0; i < k; i++) {
        double log_p = (double)ref_logits[i] - ref_lse, log_q = (double)row[ids[i]] - lse;
        double p = exp(log_p);

        kl += p > 0 ? p * (log_p - log_q) : 0;
        p_sum += p;
        q_sum += exp(log_q);
    }
    if (k < n_vocab) {
        double p = 1 - p_sum, q = 1 - q_sum;

        if (p > REST_MIN)
            kl += p * log(p / (q > REST_MIN ? q : REST_MIN));
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

static void score_row(const struct eval_score_job *j, uint32_t r)
{
    const float *x = j->logits + (size_t)r * j->n_vocab;
    struct eval_score *s = &j->scores[r];
    float max;

    s->top1 = j->ops->argmax(x, j->n_vocab);
    max = x[s->top1];
    s->lse = (double)max + log(j->ops->sum_exp(x, j->n_vocab, max));
    s->target_logp = (double)x[j->targets[r]] - s->lse;
    s->kl = 0;
    if (j->ref) {
        const struct eval_ref_rows *f = j->ref;

        s->kl = eval_kl(f->ids + (size_t)r * f->k, f->logits + (size_t)r * f->k, f->k, f->lse[r], x, j->n_vocab, s->lse);
    }
    if (j->top_k)
        eval_top_k(x, j->n_vocab, j->top_k, j->top_ids + (size_t)r * j->top_k, j->top_logits + (size_t)r * j->top_k);
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
        score_row(p->j, r);
}

void eval_score_rows(const struct eval_score_job *j, struct pool *pool)
{
    struct pool_job p = { j, pool };

    pool_run(pool, score_member, &p);
}
