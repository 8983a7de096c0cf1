/* The sampler against a naive reference (sort everything), its draws against the distribution, and its independence. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/isa.h"
#include "lib/core/rng.h"
#include "lib/model/sample.h"

#define MAX_VOCAB 3000

static float gauss(uint64_t stream, uint64_t i)
{
    double u = rng_uniform(11, stream, 2 * i), v = rng_uniform(11, stream, 2 * i + 1);

    return (float)(sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
}

static double key_value[MAX_VOCAB];

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (key_value[x] != key_value[y])
        return key_value[x] > key_value[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Probabilities of every token under p, by sorting. */
static void naive(const struct sample_params *p, const uint32_t *seen, const uint32_t *generated, const float *logits,
                  uint32_t n, double *prob)
{
    static uint32_t order[MAX_VOCAB];
    double sum = 0, acc = 0, total = 0;
    uint32_t k = p->top_k ? p->top_k : n;

    for (uint32_t i = 0; i < n; i++) {
        double v = logits[i];

        for (uint32_t b = 0; b < p->n_bias; b++)
            if (p->bias[b].token == (int32_t)i)
                v += p->bias[b].bias;
        if (seen && seen[i])
            v = v > 0 ? v / p->repetition_penalty : v * p->repetition_penalty;
        if (generated)
            v -= p->frequency_penalty * generated[i] + (generated[i] ? p->presence_penalty : 0);
        key_value[i] = v;
        order[i] = i;
        prob[i] = 0;
    }
    qsort(order, n, sizeof *order, by_value);
    if (p->temperature == 0) {
        prob[order[0]] = 1;
        return;
    }
    for (uint32_t i = 0; i < n && i < k; i++)
        sum += exp((key_value[order[i]] - key_value[order[0]]) / p->temperature);
    for (uint32_t i = 0; i < n && i < k; i++) {
        double w = exp((key_value[order[i]] - key_value[order[0]]) / p->temperature);

        if (i && (acc >= p->top_p * sum || w < p->min_p))
            break;
        acc += w;
        prob[order[i]] = w;
        total += w;
    }
    for (uint32_t i = 0; i < n; i++)
        prob[i] /= total;
}

static struct sampler *open_sampler(struct kern_ops *ops, const char *isa, uint32_t n)
{
    struct sampler *s;

    assert_int_equal(kern_ops_init(ops, isa), 0);
    assert_int_equal(sampler_open(&s, ops, n, NULL), 0);
    return s;
}

/* Every draw must be a token that the reference keeps, and the frequencies must be the reference's (chi-square). */
static void check_case(const struct sample_params *p, uint32_t n, const float *logits, const struct sample_counts *counts,
                       const uint32_t *seen, const uint32_t *generated, unsigned draws)
{
    static double prob[MAX_VOCAB];
    static uint32_t hits[MAX_VOCAB];
    struct kern_ops ops;
    struct sampler *s = open_sampler(&ops, NULL, n);
    double chi = 0, rest_p = 0;
    uint32_t rest = 0, cells = 0;
    int32_t t = -1;

    naive(p, seen, generated, logits, n, prob);
    memset(hits, 0, sizeof hits);
    for (unsigned i = 0; i < draws; i++) {
        assert_int_equal(sampler_pick(s, p, counts, logits, 3, i, &t, NULL), 0);
        assert_true(t >= 0 && (uint32_t)t < n);
        assert_true(prob[t] > 0);
        hits[t]++;
    }
    for (uint32_t i = 0; i < n; i++) {
        double want = prob[i] * draws;

        if (want < 8) { /* rare ones together */
            rest_p += prob[i];
            rest += hits[i];
        } else {
            chi += (hits[i] - want) * (hits[i] - want) / want;
            cells++;
        }
    }
    if (rest_p * draws >= 8) {
        chi += (rest - rest_p * draws) * (rest - rest_p * draws) / (rest_p * draws);
        cells++;
    }
    if (cells > 1) /* mean cells - 1, variance 2 (cells - 1): five sigmas */
        assert_true(chi < cells - 1 + 5 * sqrt(2.0 * (cells - 1)) + 3);
    else if (cells == 1)
        assert_true(chi < 1e-6 || rest_p > 0);
    sampler_close(s);
}

static void test_distribution(void **state)
{
    static const struct {
        float temperature;
        uint32_t top_k;
        float top_p, min_p;
    } cases[] = { { 0, 0, 1, 0 },        { 1, 0, 1, 0 },      { 0.5f, 0, 1, 0 },   { 1, 1, 1, 0 },      { 1, 5, 1, 0 },
                  { 1.5f, 40, 1, 0 },    { 1, 0, 0.9f, 0 },   { 1, 0, 0.5f, 0 },   { 1, 0, 0.01f, 0 },  { 1, 0, 0, 0 },
                  { 1, 0, 0.999f, 0 },   { 1, 0, 1, 0.1f },   { 1, 0, 1, 1 },      { 0.8f, 50, 0.9f, 0.05f },
                  { 1, 100, 0.3f, 0 },   { 2, 0, 0.95f, 0.02f }, { 1e-6f, 0, 1, 0 }, { 100, 0, 0.5f, 0 }, { 3, 2000, 1, 0 } };
    static float logits[MAX_VOCAB];

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (uint32_t n = 1; n <= 2500; n = n * 7 + 3) {
            struct sample_params p;

            for (uint32_t i = 0; i < n; i++)
                logits[i] = 3 * gauss(n, i);
            sample_params_init(&p);
            p.temperature = cases[c].temperature;
            p.top_k = cases[c].top_k;
            p.top_p = cases[c].top_p;
            p.min_p = cases[c].min_p;
            p.seed = 5 + c;
            check_case(&p, n, logits, NULL, NULL, NULL, 2000);
        }
}

static void test_penalties(void **state)
{
    static float logits[200];
    static uint32_t seen[200], generated[200];
    static const struct sample_bias bias[] = { { 7, 4 }, { 9, -100 }, { 11, 2.5f } };
    struct sample_counts counts = { 0 };
    struct sample_params p;

    (void)state;
    for (uint32_t i = 0; i < 200; i++)
        logits[i] = 2 * gauss(1, i);
    for (uint32_t i = 0; i < 300; i++) {
        int32_t t = (int32_t)(rng_uniform(1, 2, i) * rng_uniform(1, 3, i) * 200);
        bool gen = i >= 100;

        assert_int_equal(sample_counts_add(&counts, t, gen, NULL), 0);
        seen[t] = 1;
        generated[t] += gen;
    }
    for (int c = 0; c < 16; c++) {
        sample_params_init(&p);
        p.temperature = c & 8 ? 0 : 1;
        p.repetition_penalty = c & 1 ? 1.3f : 1;
        p.frequency_penalty = c & 2 ? 0.4f : 0;
        p.presence_penalty = c & 2 ? 0.7f : 0;
        p.bias = bias;
        p.n_bias = c & 4 ? 3 : 0;
        p.top_p = 0.97f;
        check_case(&p, 200, logits, &counts, seen, generated, 4000);
    }
    sample_counts_clear(&counts);
}

static void test_ties_and_flat(void **state)
{
    static float logits[1000];
    struct kern_ops ops;
    struct sampler *s = open_sampler(&ops, NULL, 1000);
    struct sample_params p;
    int32_t t;

    (void)state;
    sample_params_init(&p);
    p.temperature = 1;
    p.top_k = 3; /* all equal: the three lowest ids */
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(sampler_pick(s, &p, NULL, logits, 0, i, &t, NULL), 0);
        assert_true(t < 3);
    }
    p.top_k = 0;
    p.top_p = 0.25f;
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(sampler_pick(s, &p, NULL, logits, 0, i, &t, NULL), 0);
        assert_true(t < 250);
    }
    sampler_close(s);
    check_case(&p, 1000, logits, NULL, NULL, NULL, 20000);
}

static void test_broken_logits(void **state)
{
    static const char *const isas[] = { "ref", NULL };
    float logits[70];
    struct sample_params p;
    int32_t t;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kern_ops ops;
        struct sampler *s = open_sampler(&ops, isas[i], 70);
        float lp;
        struct sample_logprob top[70];

        for (int mode = 0; mode < 4; mode++) {
            struct err e;

            sample_params_init(&p);
            p.temperature = mode ? 1 : 0;
            p.top_k = mode == 2 ? 5 : 0;
            p.top_p = mode == 3 ? 0.8f : 1;
            for (int j = 0; j < 70; j++)
                logits[j] = j % 2 ? -INFINITY : NAN;
            assert_int_equal(sampler_pick(s, &p, NULL, logits, 0, 0, &t, &e), ERR_INVAL);
            logits[33] = -5;
            logits[44] = -5.5f;
            for (unsigned k = 0; k < 200; k++) {
                assert_int_equal(sampler_pick(s, &p, NULL, logits, 0, k, &t, &e), 0);
                assert_true(t == 33 || (mode && t == 44));
            }
            assert_int_equal(sampler_logprobs(s, logits, 33, &lp, 2, top), 2);
            assert_true(fabs(lp + log(1 + exp(-0.5))) < 1e-5);
            assert_int_equal(top[1].token, 44);
            logits[60] = INFINITY;
            assert_int_equal(sampler_pick(s, &p, NULL, logits, 0, 0, &t, &e), 0);
            assert_int_equal(t, 60);
        }
        sampler_close(s);
    }
}

static void test_logprobs(void **state)
{
    static float logits[2000];
    static uint32_t order[2000];
    struct sample_logprob top[SAMPLE_TOP_MAX];
    struct kern_ops ops;
    struct sampler *s = open_sampler(&ops, NULL, 2000);
    double sum = 0;
    float lp;

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        logits[i] = 30 + roundf(8 * gauss(9, i)) / 4; /* with ties */
        key_value[i] = logits[i];
        order[i] = i;
        sum += exp(logits[i] - 30.0);
    }
    qsort(order, 2000, sizeof *order, by_value);
    for (uint32_t n = 0; n <= 110; n += 11) {
        uint32_t got = sampler_logprobs(s, logits, 77, &lp, n, top);

        assert_int_equal(got, n < SAMPLE_TOP_MAX ? n : SAMPLE_TOP_MAX);
        assert_true(fabs(lp - (logits[77] - 30 - log(sum))) < 1e-4);
        for (uint32_t i = 0; i < got; i++) {
            assert_int_equal(top[i].token, order[i]);
            assert_true(fabs(top[i].logprob - (logits[order[i]] - 30 - log(sum))) < 1e-4);
        }
    }
    sampler_close(s);
}

static void test_draws_are_keyed(void **state)
{
    static float logits[500];
    struct kern_ops ops;
    struct sampler *a = open_sampler(&ops, NULL, 500), *b = open_sampler(&ops, NULL, 500);
    struct sample_params p;
    int32_t t[40], u;
    unsigned differ = 0;

    (void)state;
    for (uint32_t i = 0; i < 500; i++)
        logits[i] = gauss(2, i);
    sample_params_init(&p);
    p.temperature = 1;
    p.seed = UINT64_MAX;
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(sampler_pick(a, &p, NULL, logits, 1, i, &t[i], NULL), 0);
    for (unsigned i = 40; i-- > 0;) { /* any order, another sampler */
        assert_int_equal(sampler_pick(b, &p, NULL, logits, 1, i, &u, NULL), 0);
        assert_int_equal(u, t[i]);
        assert_int_equal(sampler_pick(b, &p, NULL, logits, 2, i, &u, NULL), 0);
        differ += u != t[i];
    }
    assert_true(differ > 30);
    sampler_close(a);
    sampler_close(b);
}

static void test_ranges(void **state)
{
    static const struct sample_bias bias = { 10, 1 };
    struct sample_params p;
    struct err e;
    float *const fields[] = { &p.temperature, &p.top_p, &p.min_p, &p.repetition_penalty };

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        for (int bad = 0; bad < 2; bad++) {
            sample_params_init(&p);
            assert_int_equal(sample_params_check(&p, 10, &e), 0);
            *fields[i] = bad ? NAN : -1;
            assert_int_equal(sample_params_check(&p, 10, &e), ERR_INVAL);
        }
    sample_params_init(&p);
    p.bias = &bias;
    p.n_bias = 1;
    assert_int_equal(sample_params_check(&p, 10, &e), ERR_INVAL);
    assert_int_equal(sample_params_check(&p, 11, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distribution),  cmocka_unit_test(test_penalties), cmocka_unit_test(test_ties_and_flat),
        cmocka_unit_test(test_broken_logits), cmocka_unit_test(test_logprobs),  cmocka_unit_test(test_draws_are_keyed),
        cmocka_unit_test(test_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
