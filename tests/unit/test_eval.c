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
    double lse, lb, exact, last = 0;
    struct eval_part p = { .top_ids = ids, .top_logits = v, .lse = &lse };

    (void)state;
    fill(a, N, 2, 12);
    fill(b, N, 3, 1);
    for (int i = 0; i < N; i++)
        b[i] += a[i];
    lse = log(plain_sum_exp(a, N, 0));
    lb = log(plain_sum_exp(b, N, 0));
    exact = exact_kl(a, b, N);
    for (p.k = 1; p.k <= N; p.k++) {
        double kl;

        eval_top_k(a, N, p.k, ids, v);
        kl = eval_kl(&p, 0, b, N, lb);
        assert_true(kl >= last - 1e-12 && kl <= exact + 1e-9); /* a lower bound that only grows with k */
        close_to(eval_kl(&p, 0, a, N, lse), 0, 1e-15);
        last = kl;
    }
    close_to(last, exact, 1e-9);
    /* Two tokens, by hand: p = 3/4, 1/4; q = 1/2, 1/2. */
    a[0] = logf(3);
    a[1] = b[0] = b[1] = 0;
    lse = log(4);
    p.k = 1;
    eval_top_k(a, 2, 1, ids, v);
    close_to(eval_kl(&p, 0, b, 2, log(2)), 0.75 * log(1.5) + 0.25 * log(0.5), 1e-6);
}

/* Draws fall on tokens in proportion to their probabilities, never on the top ones. */
static void test_tail_sample(void **state)
{
    enum { N = 1000, K = 10, M = 40, RUNS = 500 };
    static float x[N], scratch[N];
    static double count[N];
    float v[M], top[K];
    int32_t ids[M], top_ids[K];
    double total = 0, worst = 0;

    (void)state;
    fill(x, N, 5, 8);
    x[3] = -INFINITY;
    eval_top_k(x, N, K, top_ids, top);
    for (int r = 0; r < RUNS; r++) {
        eval_tail_sample(&plain_ops, x, N, top_ids, K, (r + 0.5) / RUNS, M, scratch, ids, v);
        for (int i = 0; i < M; i++) {
            assert_true(v[i] == x[ids[i]] && (i == 0 || ids[i] >= ids[i - 1]));
            count[ids[i]]++;
        }
    }
    for (int i = 0; i < K; i++)
        assert_true(count[top_ids[i]] == 0);
    for (int i = 0; i < N; i++)
        total += x[i] < top[K - 1] ? exp(x[i]) : 0;
    for (int i = 0; i < N; i++) {
        double want = x[i] < top[K - 1] ? exp(x[i]) / total * RUNS * M : 0;

        worst = fabs(count[i] - want) > worst ? fabs(count[i] - want) : worst;
    }
    assert_true(worst < 2.5); /* all starts together are nearly exact */
    for (int i = 0; i < N; i++)
        x[i] = i ? -INFINITY : 0; /* nothing is left outside the top */
    eval_top_k(x, N, K, top_ids, top);
    eval_tail_sample(&plain_ops, x, N, top_ids, K, 0.5, M, scratch, ids, v);
    for (int i = 0; i < M; i++)
        assert_true(ids[i] >= 0 && ids[i] < N);
}

/* With drawn tokens the mean over positions is close to the exact divergence, where the top alone is far below. */
static void test_kl_estimate(void **state)
{
    enum { N = 2000, K = 16, M = 16, ROWS = 200 };
    static float a[N], b[N], scratch[N];
    float v[K], tv[M];
    int32_t ids[K], tids[M];
    double lse, exact = 0, part = 0, bound = 0;
    struct eval_part p = { K, M, ids, v, tids, tv, &lse, NULL };

    (void)state;
    for (uint64_t r = 0; r < ROWS; r++) {
        double lb;

        fill(a, N, 100 + r, 10);
        fill(b, N, 1000 + r, 1.5);
        for (int i = 0; i < N; i++)
            b[i] += a[i];
        lse = log(plain_sum_exp(a, N, 0));
        lb = log(plain_sum_exp(b, N, 0));
        eval_top_k(a, N, K, ids, v);
        eval_tail_sample(&plain_ops, a, N, ids, K, rng_uniform(1, r, 0), M, scratch, tids, tv);
        exact += exact_kl(a, b, N);
        p.m = M;
        part += eval_kl(&p, 0, b, N, lb);
        p.m = 0;
        bound += eval_kl(&p, 0, b, N, lb);
    }
    assert_true(bound < 0.5 * exact);
    close_to(part / exact, 1, 0.03);
}

static void test_score(void **state)
{
    enum { ROWS = 37, VOCAB = 101, K = 5 };
    static float x[ROWS * VOCAB], top[2][ROWS * K], tail[2][ROWS * K], scratch[3 * VOCAB];
    static int32_t targets[ROWS], ids[2][ROWS * K], tail_ids[2][ROWS * K];
    static struct eval_score scores[2][ROWS];

    (void)state;
    fill(x, ROWS * VOCAB, 4, 200);
    for (int i = 0; i < ROWS; i++)
        targets[i] = (i * 7) % VOCAB;
    for (int n = 0; n < 2; n++) { /* one thread, then three */
        struct eval_part part = { K, K, ids[n], top[n], tail_ids[n], tail[n], NULL, NULL };
        struct eval_score_job j = { .ops = &plain_ops, .logits = x, .n_rows = ROWS, .n_vocab = VOCAB, .targets = targets,
                                    .scores = scores[n], .save = &part, .scratch = scratch, .window = 3, .position = 9 };
        struct pool *pool;
        struct err e;

        assert_int_equal(pool_open(&pool, n ? 3 : 1, false, &e), 0);
        eval_score_rows(&j, pool);
        pool_close(pool);
    }
    assert_memory_equal(top[0], top[1], sizeof top[0]);
    assert_memory_equal(tail_ids[0], tail_ids[1], sizeof tail_ids[0]);
    for (int i = 0; i < ROWS; i++) {
        const float *row = x + i * VOCAB;
        const struct eval_score *s = &scores[0][i], *t = &scores[1][i];
        double sum = 0;

        for (int c = 0; c < VOCAB; c++)
            sum += exp((double)row[c] - row[targets[i]]);
        close_to(s->target_logp, -log(sum), 1e-9 * (1 + log(sum)));
        assert_int_equal(s->top1, ids[0][i * K]);
        assert_true(s->lse == t->lse && s->target_logp == t->target_logp && s->top1 == t->top1);
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

enum { WINDOWS = 4, CTX = 6, SKIP = 2, N_POS = CTX - SKIP, K = 4, M = 3, VOCAB = 50 };

struct buffers {
    int32_t tokens[CTX], top_ids[N_POS * K], tail_ids[N_POS * M];
    float top_logits[N_POS * K], tail_logits[N_POS * M];
    double lse[N_POS], logp[N_POS];
};

static struct eval_part part_of(struct buffers *b)
{
    return (struct eval_part){ K, M, b->top_ids, b->top_logits, b->tail_ids, b->tail_logits, b->lse, b->logp };
}

static void test_ref_file(void **state)
{
    char path[] = "/tmp/test-eval-XXXXXX";
    struct eval_file_info info = { WINDOWS, CTX, SKIP, VOCAB, K, M, "text", "tokenizer", "model", "ref", "m.gguf", "cmd", true };
    struct eval_ref_writer *w;
    struct eval_ref *r;
    static struct buffers a, b;
    struct eval_part pa = part_of(&a), pb = part_of(&b);
    struct err e;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < CTX; i++)
        a.tokens[i] = i;
    for (int i = 0; i < N_POS * K; i++) {
        a.top_ids[i] = i;
        a.top_logits[i] = (float)(-i % K);
    }
    for (int i = 0; i < N_POS * M; i++) {
        a.tail_ids[i] = i + 20;
        a.tail_logits[i] = (float)(-5 - i);
    }
    for (int i = 0; i < N_POS; i++) {
        a.lse[i] = 2 + i;
        a.logp[i] = -1.5 * i;
    }
    assert_int_equal(eval_ref_create(&w, path, &info, &e), 0);
    for (uint32_t i = 0; i < WINDOWS; i++) {
        a.top_ids[1] = i == 1 ? VOCAB : 1;       /* outside the vocabulary */
        a.top_logits[5] = i == 2 ? 9 : -1;       /* out of order */
        a.tail_logits[2] = i == 3 ? NAN : -7;
        assert_int_equal(eval_ref_write(w, i, a.tokens, &pa, &e), 0);
    }
    a.tail_logits[2] = -7;
    assert_int_equal(eval_ref_finish(w, &e), 0);
    assert_int_equal(eval_ref_open(&r, path, &e), 0);
    assert_true(eval_ref_info(r)->k == K && eval_ref_info(r)->m == M);
    assert_string_equal(eval_ref_info(r)->text_sha256, "text");
    assert_int_equal(eval_ref_read(r, 0, b.tokens, &pb, &e), 0);
    assert_memory_equal(&a, &b, sizeof a);
    for (uint32_t i = 1; i < WINDOWS; i++)
        assert_int_equal(eval_ref_read(r, i, b.tokens, &pb, &e), ERR_FORMAT);
    assert_int_equal(eval_ref_read(r, WINDOWS, b.tokens, &pb, &e), ERR_FORMAT);
    eval_ref_close(r);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_windows), cmocka_unit_test(test_top_k), cmocka_unit_test(test_kl), cmocka_unit_test(test_tail_sample),
                                        cmocka_unit_test(test_kl_estimate),
                                        cmocka_unit_test(test_score), cmocka_unit_test(test_quantile),
                                        cmocka_unit_test(test_ref_file) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
