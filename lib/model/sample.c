#include "lib/model/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/mem.h"
#include "lib/core/rng.h"

#define SUM_BLOCK 512u /* logits whose weights are summed at once when everything is kept */

/* A token that may be chosen. */
struct cand {
    float y;     /* (logit - largest) / temperature: the logarithm of its weight */
    float w;     /* exp(y) */
    uint32_t id;
};

struct sampler {
    const struct kern_ops *ops;
    uint32_t n_vocab;
    float *y;                  /* [n_vocab] */
    struct cand *cand, *work;  /* [cap] */
    size_t cap;
    double *sums;              /* [ceil(n_vocab / SUM_BLOCK)] */
};

void sample_params_init(struct sample_params *p)
{
    memset(p, 0, sizeof *p);
    p->top_p = 1;
    p->repetition_penalty = 1;
}

int sample_params_check(const struct sample_params *p, uint32_t n_vocab, struct err *e)
{
    if (!(p->temperature >= 0 && p->temperature <= 1e6f))
        return err_set(e, ERR_INVAL, "temperature: %g is not a number from 0 on", (double)p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1))
        return err_set(e, ERR_INVAL, "top_p: %g is not from 0 to 1", (double)p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return err_set(e, ERR_INVAL, "min_p: %g is not from 0 to 1", (double)p->min_p);
    if (!(p->repetition_penalty > 0 && p->repetition_penalty <= 1e6f))
        return err_set(e, ERR_INVAL, "repetition_penalty: %g is not above 0", (double)p->repetition_penalty);
    if (!(fabsf(p->presence_penalty) <= 1e6f))
        return err_set(e, ERR_INVAL, "presence_penalty: %g is out of range", (double)p->presence_penalty);
    if (!(fabsf(p->frequency_penalty) <= 1e6f))
        return err_set(e, ERR_INVAL, "frequency_penalty: %g is out of range", (double)p->frequency_penalty);
    for (uint32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].token < 0 || (uint32_t)p->bias[i].token >= n_vocab)
            return err_set(e, ERR_INVAL, "logit_bias: token %d is not in the vocabulary of %u", (int)p->bias[i].token,
                           (unsigned)n_vocab);
        if (!(fabsf(p->bias[i].bias) <= 1e6f))
            return err_set(e, ERR_INVAL, "logit_bias: %g is out of range", (double)p->bias[i].bias);
    }
    return 0;
}

bool sample_params_counts(const struct sample_params *p)
{
    return p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

/* --- counts ---------------------------------------------------------------------------------------------------------- */

static struct sample_slot *counts_slot(struct sample_slot *slots, uint32_t cap, int32_t token)
{
    uint32_t i = (uint32_t)token * 2654435769u >> 7;

    for (;; i++) {
        struct sample_slot *s = &slots[i & (cap - 1)];

        if (!s->token || s->token == token + 1)
            return s;
    }
}

int sample_counts_add(struct sample_counts *c, int32_t token, bool generated, struct err *e)
{
    struct sample_slot *s;

    if (2 * (c->n + 1) > c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 64;
        struct sample_slot *slots = calloc(cap, sizeof *slots);

        if (!slots)
            return err_set(e, ERR_NOMEM, "token counts of a sequence");
        for (uint32_t i = 0; i < c->cap; i++)
            if (c->slots[i].token)
                *counts_slot(slots, cap, c->slots[i].token - 1) = c->slots[i];
        free(c->slots);
        c->slots = slots;
        c->cap = cap;
    }
    s = counts_slot(c->slots, c->cap, token);
    if (!s->token)
        c->n++;
    s->token = token + 1;
    s->generated += generated;
    return 0;
}

void sample_counts_clear(struct sample_counts *c)
{
    free(c->slots);
    memset(c, 0, sizeof *c);
}

/* --- sampler --------------------------------------------------------------------------------------------------------- */

int sampler_open(struct sampler **out, const struct kern_ops *ops, uint32_t n_vocab, struct err *e)
{
    struct sampler *s = calloc(1, sizeof *s);

    *out = NULL;
    if (s) {
        s->ops = ops;
        s->n_vocab = n_vocab;
        s->y = mem_alloc((size_t)n_vocab * sizeof *s->y);
        s->sums = mem_alloc(((size_t)n_vocab / SUM_BLOCK + 1) * sizeof *s->sums);
    }
    if (!s || !s->y || !s->sums) {
        sampler_close(s);
        return err_set(e, ERR_NOMEM, "sampler for a vocabulary of %u", (unsigned)n_vocab);
    }
    *out = s;
    return 0;
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    free(s->y);
    free(s->sums);
    free(s->cand);
    free(s->work);
    free(s);
}

/* Copies logits to s->y with bias and penalties applied. */
static void adjust(struct sampler *s, const struct sample_params *p, const struct sample_counts *counts,
                   const float *logits)
{
    float *y = s->y;

    memcpy(y, logits, (size_t)s->n_vocab * sizeof *y);
    for (uint32_t i = 0; i < p->n_bias; i++)
        y[p->bias[i].token] += p->bias[i].bias;
    if (!counts || !sample_params_counts(p))
        return;
    for (uint32_t i = 0; i < counts->cap; i++) {
        const struct sample_slot *c = &counts->slots[i];
        float *v;

        if (!c->token || (uint32_t)c->token > s->n_vocab)
            continue;
        v = &y[c->token - 1];
        *v = *v > 0 ? *v / p->repetition_penalty : *v * p->repetition_penalty;
        *v -= p->frequency_penalty * (float)c->generated;
        if (c->generated)
            *v -= p->presence_penalty;
    }
}

/* Draws among the whole vocabulary: weights are summed block by block, then one block is walked. */
static uint32_t draw_all(const struct sampler *s, double u)
{
    double total = 0, acc = 0;
    uint32_t last = 0, begin, end;
    size_t b = 0, n_blocks = (s->n_vocab + SUM_BLOCK - 1) / SUM_BLOCK;

    for (size_t i = 0; i < n_blocks; i++) {
        uint32_t at = (uint32_t)i * SUM_BLOCK, n = s->n_vocab - at < SUM_BLOCK ? s->n_vocab - at : SUM_BLOCK;

        s->sums[i] = s->ops->sum_exp(s->y + at, n, 0);
        total += s->sums[i];
    }
    u *= total;
    while (b + 1 < n_blocks && acc + s->sums[b] <= u)
        acc += s->sums[b++];
    begin = (uint32_t)b * SUM_BLOCK;
    end = s->n_vocab - begin < SUM_BLOCK ? s->n_vocab : begin + SUM_BLOCK;
    last = s->n_vocab; /* the walk's own sums may end a rounding error short of u */
    for (uint32_t i = begin; i < end; i++) {
        double w = exp((double)s->y[i]);

        if (w > 0)
            last = i;
        acc += w;
        if (w > 0 && acc > u)
            return i;
    }
    if (last == s->n_vocab)
        last = s->ops->argmax(s->y, s->n_vocab);
    return last;
}

static bool before(const struct cand *a, const struct cand *b)
{
    return a->y > b->y || (a->y == b->y && a->id < b->id);
}

/* Gathers into s->cand, in order of id, the tokens whose y is at least t. Their number, or SIZE_MAX without memory. */
static size_t gather(struct sampler *s, float t, double *mass)
{
    size_t n = 0;
    double sum = 0;

    for (uint32_t i = 0; i < s->n_vocab; i++) {
        if (!(s->y[i] >= t) || s->y[i] == -INFINITY)
            continue;
        if (n == s->cap) {
            size_t cap = s->cap ? 2 * s->cap : 1024;
            struct cand *a = realloc(s->cand, cap * sizeof *a), *b;

            if (a)
                s->cand = a;
            b = a ? realloc(s->work, cap * sizeof *b) : NULL;
            if (!b)
                return SIZE_MAX;
            s->work = b;
            s->cap = cap;
        }
        s->cand[n].y = s->y[i];
        s->cand[n].w = expf(s->y[i]);
        s->cand[n].id = i;
        sum += (double)s->cand[n++].w;
    }
    *mass = sum;
    return n;
}

/* Moves what comes before the pivot (a median of three) to the front of v[lo, hi); returns the pivot's place. */
static size_t partition(struct cand *v, size_t lo, size_t hi)
{
    size_t a = lo, b = lo + (hi - lo) / 2, c = hi - 1, at = lo;
    size_t m = before(&v[a], &v[b]) ? (before(&v[b], &v[c]) ? b : before(&v[a], &v[c]) ? c : a)
                                    : (before(&v[a], &v[c]) ? a : before(&v[b], &v[c]) ? c : b);
    struct cand pivot = v[m], t;

    v[m] = v[hi - 1];
    v[hi - 1] = pivot;
    for (size_t i = lo; i + 1 < hi; i++)
        if (before(&v[i], &pivot)) {
            t = v[at];
            v[at++] = v[i];
            v[i] = t;
        }
    v[hi - 1] = v[at];
    v[at] = pivot;
    return at;
}

/* Keeps, of cand[0..n), the shortest run from the best token on that has k tokens or at least `mass` weight, whichever is
 * reached first. Returns the number kept; their order by id stays. */
static size_t keep_best(struct sampler *s, size_t n, size_t k, double mass)
{
    size_t lo = 0, hi = n, kept = 0;
    double acc = 0;
    struct cand last;

    if (n < 2)
        return n;
    memcpy(s->work, s->cand, n * sizeof *s->work);
    while (hi - lo > 1) {
        size_t m = partition(s->work, lo, hi);
        double w = acc;

        for (size_t i = lo; i < m; i++)
            w += (double)s->work[i].w;
        if (m > lo && (m >= k || w >= mass)) {
            hi = m;
        } else if (m + 1 >= k || w + (double)s->work[m].w >= mass) {
            lo = m;
            hi = m + 1;
        } else {
            acc = w + (double)s->work[m].w;
            lo = m + 1;
        }
    }
    last = s->work[lo < n ? lo : n - 1];
    if (lo >= n)
        return n;
    for (size_t i = 0; i < n; i++)
        if (!before(&last, &s->cand[i]))
            s->cand[kept++] = s->cand[i];
    return kept;
}

static size_t count(const struct sampler *s, float t)
{
    size_t n = 0;

    for (uint32_t i = 0; i < s->n_vocab; i++)
        n += s->y[i] >= t;
    return n;
}

/* Draws under top-k, top-p and min-p. */
static int draw_filtered(struct sampler *s, const struct sample_params *p, double u, uint32_t *id, struct err *e)
{
    /* Thresholds to gather from: few tokens where the model is sure, all of them in the end. */
    static const float steps[] = { -3, -5, -7, -9, -11, -14, -20, -40, -INFINITY };
    size_t n, k = p->top_k && p->top_k < s->n_vocab ? p->top_k : s->n_vocab;
    bool use_k = k < s->n_vocab, use_p = p->top_p < 1;
    double mass = 0, want = 0, sum = 0;
    size_t step = 0;

    if (use_p && !use_k)
        want = (double)p->top_p * s->ops->sum_exp(s->y, s->n_vocab, 0);
    if (use_k)
        while (steps[step] > -INFINITY && count(s, steps[step]) < k)
            step++;
    do {
        n = gather(s, use_k || use_p ? steps[step] : logf(p->min_p), &mass);
        if (n == SIZE_MAX)
            return err_set(e, ERR_NOMEM, "sampling from a vocabulary of %u", (unsigned)s->n_vocab);
    } while (use_p && !use_k && mass < want && steps[step++] > -INFINITY);
    if (use_k) {
        n = keep_best(s, n, k, INFINITY);
        for (size_t i = 0; i < n; i++)
            sum += (double)s->cand[i].w;
        want = (double)p->top_p * sum;
    }
    if (use_p)
        n = keep_best(s, n, SIZE_MAX, want);
    sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (s->cand[i].y < 0 && s->cand[i].w < p->min_p)
            s->cand[i].w = 0;
        sum += (double)s->cand[i].w;
    }
    u *= sum;
    sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)s->cand[i].w;
        if (s->cand[i].w > 0) {
            *id = s->cand[i].id;
            if (sum > u)
                break;
        }
    }
    return 0;
}

int sampler_pick(struct sampler *s, const struct sample_params *p, const struct sample_counts *counts,
                 const float *logits, uint64_t stream, uint64_t position, int32_t *token, struct err *e)
{
    const float *y = logits;
    uint32_t best;
    double u;
    float max, inv;
    int rc = 0;

    if (p->n_bias || (counts && sample_params_counts(p))) {
        adjust(s, p, counts, logits);
        y = s->y;
    }
    best = s->ops->argmax(y, s->n_vocab);
    max = y[best];
    if (!(max > -INFINITY))
        return err_set(e, ERR_INVAL, "no logit of %u is a number above -infinity: the model's output is broken",
                       (unsigned)s->n_vocab);
    *token = (int32_t)best;
    if (p->temperature == 0 || max == INFINITY)
        return 0;
    inv = p->temperature < 1e-30f ? 1e30f : 1 / p->temperature;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        float v = (y[i] - max) * inv;

        s->y[i] = v > -INFINITY ? v : -INFINITY; /* NaN too */
    }
    u = rng_uniform(p->seed, stream, position);
    if ((p->top_k && p->top_k < s->n_vocab) || p->top_p < 1 || p->min_p > 0)
        rc = draw_filtered(s, p, u, &best, e);
    else
        best = draw_all(s, u);
    *token = (int32_t)best;
    return rc;
}

/* --- log-probabilities ----------------------------------------------------------------------------------------------- */

static bool better(const struct sample_logprob *a, const struct sample_logprob *b)
{
    return a->logprob > b->logprob || (a->logprob == b->logprob && a->token < b->token);
}

/* Restores the heap order (worst at the root) of h[0..n) from node i down. */
static void sift(struct sample_logprob *h, uint32_t n, uint32_t i)
{
    struct sample_logprob x = h[i];

    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(&h[child], &h[child + 1]))
            child++;
        if (!better(&x, &h[child]))
            break;
        h[i] = h[child];
    }
    h[i] = x;
}

static uint32_t top_logits(const float *logits, uint32_t n_vocab, uint32_t n, struct sample_logprob *top)
{
    uint32_t have = 0;

    for (uint32_t i = 0; n && i < n_vocab; i++) {
        struct sample_logprob c = { (int32_t)i, logits[i] };

        if (have < n) {
            if (isnan(c.logprob))
                continue;
            top[have++] = c;
            if (have == n)
                for (uint32_t j = n / 2; j-- > 0;)
                    sift(top, n, j);
        } else if (c.logprob > top[0].logprob) {
            top[0] = c;
            sift(top, n, 0);
        }
    }
    if (have < n)
        for (uint32_t j = have / 2; j-- > 0;)
            sift(top, have, j);
    for (uint32_t m = have; m > 1; m--) { /* heap sort: the worst goes last */
        struct sample_logprob t = top[0];

        top[0] = top[m - 1];
        top[m - 1] = t;
        sift(top, m - 1, 0);
    }
    return have;
}

uint32_t sampler_logprobs(struct sampler *s, const float *logits, int32_t token, float *logprob, uint32_t n,
                          struct sample_logprob *top)
{
    float max = s->ops->max(logits, s->n_vocab);
    double sum = s->ops->sum_exp(logits, s->n_vocab, max);
    double lse;
    uint32_t have;

    if (isnan(sum)) { /* NaN among the logits: leave them out */
        sum = 0;
        for (uint32_t i = 0; i < s->n_vocab; i++)
            if (!isnan(logits[i]))
                sum += logits[i] == max ? 1 : exp((double)logits[i] - (double)max);
    }
    lse = (double)max + log(sum);
    *logprob = (float)((double)logits[token] - lse);
    have = top_logits(logits, s->n_vocab, n < SAMPLE_TOP_MAX ? n : SAMPLE_TOP_MAX, top);
    for (uint32_t i = 0; i < have; i++)
        top[i].logprob = (float)((double)top[i].logprob - lse);
    return have;
}
