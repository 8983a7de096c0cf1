/* Windows, scoring, divergence and the reference file, without a model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/core/rng.h"
#include "lib/eval/eval_priv.h"

static void close_to(double got, double want, double tol)
{
    if (!(fabs(got - want) <= tol))
        fail_msg("got %.17g, want %.17g within %g", got, want, tol);
}

static uint32_t plain_argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static double plain_sum_exp(const float *x, uint32_t n, float shift)
{
    double s = 0;

    for (uint32_t i = 0; i < n; i++)
        s += exp((double)x[i] - shift);
    return s;
}

static const struct kern_ops plain_ops = { .isa = "plain", .argmax = plain_argmax, .sum_exp = plain_sum_exp };

static void fill(float *x, size_t n, uint64_t stream, double scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(scale * (rng_uniform(7, stream, i) - 0.5));
}

static void test_windows(void **state)
{
    int32_t ids[11] = { 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 };
    struct eval_windows w;
    struct err e;

    (void)state;
    assert_int_equal(eval_windows_cut(&w, ids, 11, -1, 3, 0, &e), 0);
    assert_int_equal(w.n_windows, 3); /* the last two tokens are dropped */
    assert_memory_equal(w.ids, ids, 9 * sizeof *ids);
    eval_windows_free(&w);
    assert_int_equal(eval_windows_cut(&w, ids, 11, 2, 4, 0, &e), 0);
    assert_int_equal(w.n_windows, 2);
    assert_memory_equal(w.ids, ((int32_t[]){ 2, 11, 12, 13, 2, 15, 16, 17 }), 8 * sizeof *ids);
    eval_windows_free(&w);
    assert_int_equal(eval_windows_cut(&w, ids, 11, -1, 4, 1, &e), 0);
    assert_int_equal(w.n_windows, 1);
    eval_windows_free(&w);
    assert_int_equal(eval_windows_cut(&w, ids, 11, -1, 12, 0, &e), ERR_INVAL);
    assert_int_equal(eval_windows_cut(&w, ids, 11, -1, 1, 0, &e), ERR_INVAL);
    eval_windows_free(&w);
}

static void test_top_k(void **state)
{
    enum { N = 1000 };
    float x[N], v[N];
    int32_t ids[N];

    (void)state;
    fill(x, N, 1, 20);
    for (int i = 0; i < N; i += 3)
        x[i] = floorf(x[i]); /* many equal values */
    x[17] = NAN;
    x[18] = -INFINITY;
    for (uint32_t k = 1; k <= N; k = k < 40 ? k + 1 : k * 2 < N ? k * 2 : k == N ? N + 1 : N) {
        bool used[N] = { 0 };

        eval_top_k(x, N, k, ids, v);
        for (uint32_t i = 0; i < k; i++) {
            assert_false(used[ids[i]]);
            used[ids[i]] = true;
            assert_memory_equal(&v[i], &x[ids[i]], sizeof *v);
            if (i && !isnan(v[i]))
                assert_true(v[i] < v[i - 1] || (v[i] == v[i - 1] && ids[i] > ids[i - 1]));
        }
        for (int j = 0; j < N; j++) /* nothing that is left out ranks before the last one kept */
            assert_true(used[j] || isnan(x[j]) || x[j] < v[k - 1] || (x[j] == v[k - 1] && j > ids[k - 1]));
    }
    assert_int_equal(ids[N - 1], 17);
}

static double exact_kl(const float *a, const float *b, uint32_t n)
{
    double la = log(plain_sum_exp(a, n, 0)), lb = log(plain_sum_exp(b, n, 0)), kl = 0;

    for (uint32_t i = 0; i < n; i++)
        kl += exp(a[i] - la) * ((a[i] - la) - (b[i] - lb));
    return kl;
}

static void test_kl(void **state)
{
    enum { N = 300 };
    float a[N], b[N], v[N];
    int32_t ids[N];
    double la, lb, exact, last = 0;

    (void)state;
    fill(a, N, 2, 12);
    fill(b, N, 3, 1);
    for (int i = 0; i < N; i++)
        b[i] += a[i];
    la = log(plain_sum_exp(a, N, 0));
    lb = log(plain_sum_exp(b, N, 0));
    exact = exact_kl(a, b, N);
    for (uint32_t k = 1; k <= N; k++) {
        double kl;

        eval_top_k(a, N, k, ids, v);
        kl = eval_kl(ids, v, k, la, b, N, lb);
        assert_true(kl >= last - 1e-12 && kl <= exact + 1e-9); /* a lower bound that only grows with k */
        assert_true(eval_kl(ids, v, k, la, a, N, la) == 0);
        last = kl;
    }
    close_to(last, exact, 1e-9);
    /* Two tokens, by hand: p = 3/4, 1/4; q = 1/2, 1/2. */
    a[0] = logf(3);
    a[1] = b[0] = b[1] = 0;
    eval_top_k(a, 2, 1, ids, v);
    close_to(eval_kl(ids, v, 1, log(4), b, 2, log(2)), 0.75 * log(1.5) + 0.25 * log(0.5), 1e-6);
}

static void test_score(void **state)
{
    enum { ROWS = 37, VOCAB = 101, K = 5 };
    static float x[ROWS * VOCAB], top[ROWS * K], top1[ROWS * K];
    int32_t targets[ROWS], ids[ROWS * K], ids1[ROWS * K];
    struct eval_score one[ROWS], many[ROWS];
    struct eval_score_job j = { &plain_ops, x, ROWS, VOCAB, targets, one, NULL, K, ids1, top1 };
    struct pool *pool;
    struct err e;

    (void)state;
    fill(x, ROWS * VOCAB, 4, 200);
    for (int i = 0; i < ROWS; i++)
        targets[i] = (i * 7) % VOCAB;
    assert_int_equal(pool_open(&pool, 1, false, &e), 0);
    eval_score_rows(&j, pool);
    pool_close(pool);
    assert_int_equal(pool_open(&pool, 3, false, &e), 0);
    j.scores = many;
    j.top_ids = ids;
    j.top_logits = top;
    eval_score_rows(&j, pool);
    pool_close(pool);
    assert_memory_equal(top, top1, sizeof top);
    for (int i = 0; i < ROWS; i++) {
        const float *row = x + i * VOCAB;
        double sum = 0;

        for (int c = 0; c < VOCAB; c++)
            sum += exp((double)row[c] - row[targets[i]]);
        close_to(one[i].target_logp, -log(sum), 1e-9 * (1 + log(sum)));
        assert_int_equal(one[i].top1, ids[i * K]);
        assert_true(one[i].lse == many[i].lse && one[i].target_logp == many[i].target_logp && one[i].top1 == many[i].top1);
    }
}

static void test_quantile(void **state)
{
    double v[5] = { 1, 2, 4, 8, 16 };

    (void)state;
    assert_true(eval_quantile(v, 5, 0) == 1);
    assert_true(eval_quantile(v, 5, 0.5) == 4);
    assert_true(eval_quantile(v, 5, 0.9) == 8 + 0.6 * 8);
    assert_true(eval_quantile(v, 5, 1) == 16);
    assert_true(eval_quantile(v, 1, 0.95) == 1);
}

static void test_ref_file(void **state)
{
    enum { WINDOWS = 3, CTX = 6, SKIP = 2, N = CTX - SKIP, K = 4, VOCAB = 50 };
    char path[] = "/tmp/test-eval-XXXXXX";
    struct eval_file_info info = { WINDOWS, CTX, SKIP, VOCAB, K, "text", "tokenizer", "model", "ref", "m.gguf", "cmd", true };
    struct eval_ref_writer *w;
    struct eval_ref *r;
    int32_t tokens[CTX], ids[N * K], tokens2[CTX], ids2[N * K];
    float logits[N * K], logits2[N * K];
    double lse[N], logp[N], lse2[N], logp2[N];
    struct err e;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < CTX; i++)
        tokens[i] = i;
    for (int i = 0; i < N * K; i++) {
        ids[i] = i;
        logits[i] = (float)(-i % K);
    }
    for (int i = 0; i < N; i++) {
        lse[i] = 2 + i;
        logp[i] = -1.5 * i;
    }
    assert_int_equal(eval_ref_create(&w, path, &info, &e), 0);
    for (uint32_t i = 0; i < WINDOWS; i++) {
        tokens[0] = (int32_t)i;
        ids[1] = i == 1 ? VOCAB : 1;        /* outside the vocabulary */
        logits[5] = i == 2 ? 9 : -1;        /* out of order */
        assert_int_equal(eval_ref_write(w, i, tokens, ids, logits, lse, logp, &e), 0);
    }
    assert_int_equal(eval_ref_finish(w, &e), 0);
    assert_int_equal(eval_ref_open(&r, path, &e), 0);
    assert_int_equal(eval_ref_info(r)->k, K);
    assert_string_equal(eval_ref_info(r)->text_sha256, "text");
    assert_int_equal(eval_ref_read(r, 0, tokens2, ids2, logits2, lse2, logp2, &e), 0);
    tokens[0] = 0;
    ids[1] = 1;
    logits[5] = -1;
    assert_memory_equal(tokens2, tokens, sizeof tokens);
    assert_memory_equal(ids2, ids, sizeof ids);
    assert_memory_equal(logits2, logits, sizeof logits);
    assert_memory_equal(lse2, lse, sizeof lse);
    assert_memory_equal(logp2, logp, sizeof logp);
    assert_int_equal(eval_ref_read(r, 1, tokens2, ids2, logits2, lse2, logp2, &e), ERR_FORMAT);
    assert_int_equal(eval_ref_read(r, 2, tokens2, ids2, logits2, lse2, logp2, &e), ERR_FORMAT);
    assert_int_equal(eval_ref_read(r, 3, tokens2, ids2, logits2, lse2, logp2, &e), ERR_FORMAT);
    eval_ref_close(r);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_windows), cmocka_unit_test(test_top_k), cmocka_unit_test(test_kl),
                                        cmocka_unit_test(test_score), cmocka_unit_test(test_quantile),
                                        cmocka_unit_test(test_ref_file) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
