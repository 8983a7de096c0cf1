/* Batch invariance: a sequence's logits are the same bits whatever else is in the batch, however the prompt is cut, however
 * many threads run, and whether its prefix is shared; for quantised and float weights, on every instruction set here. The
 * scalar reference is slow: it takes every variation only when SLUICE_TEST_LONG is set.
 * Usage: test_invariance [MODEL...]: these models, with a longer sequence, instead of the golden ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/isa.h"
#include "lib/core/rng.h"
#include "lib/model/engine.h"

#define MAX_LEN 300u
#define MAX_BATCH 16u

static const char *const golden[] = {
    "tests/golden/models/quants-256/model.gguf", "tests/golden/models/quants-32/model.gguf",
    "tests/golden/models/gemma3/model.gguf",     "tests/golden/models/qwen3",
    "tests/golden/models/qwen2",
    NULL,
};

static uint32_t seq_len = 75; /* tokens of the sequence */
static const char *const *models = golden;

struct setup {
    const char *model, *isa;
    bool exact;
    enum kv_type kv_type;
    unsigned threads;
    uint32_t chunk, batch, piece; /* piece: tokens per call */
    bool shared_prefix;
};

static int32_t token(uint32_t seq, uint32_t pos, uint32_t n_vocab)
{
    return (int32_t)(rng_uniform(11, seq, pos) * n_vocab);
}

/* Other sequences of the batch have their own lengths and tokens; all lengths stay within the context. */
static uint32_t batch_items(struct step_item *it, struct seq **seqs, const struct setup *c, int32_t (*toks)[MAX_LEN],
                            uint32_t at, uint32_t n, float *out, uint32_t n_vocab)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < c->batch; i++) {
        uint32_t mine = i == c->batch / 2 ? n : 1 + (i * 5 + at) % n;

        if (i != c->batch / 2 && seq_length(seqs[i]) + mine > seq_len)
            continue;
        it[k] = (struct step_item){ seqs[i], toks[i] + seq_length(seqs[i]), mine, STEP_NO_LOGITS, NULL };
        if (i == c->batch / 2) {
            it[k].want = STEP_ALL;
            it[k].logits = out + (size_t)at * n_vocab;
        }
        k++;
    }
    return k;
}

/* Logits of all seq_len positions of sequence 0, which stands in the middle of the batch. */
static float *run(const struct model *m, const struct setup *c)
{
    struct engine_opts o = { .isa = c->isa, .exact = c->exact, .kv_type = c->kv_type, .ctx_tokens = MAX_LEN, .n_seqs = 20,
                             .chunk_tokens = c->chunk };
    uint32_t n_vocab = m->params.n_vocab, mid = c->batch / 2, at = 0;
    float *out = calloc((size_t)seq_len * n_vocab, sizeof *out);
    static int32_t toks[MAX_BATCH][MAX_LEN];
    struct seq *seqs[MAX_BATCH], *first = NULL;
    struct step_item it[MAX_BATCH];
    struct engine *g;
    struct pool *pool;
    struct err e;

    assert_non_null(out);
    assert_int_equal(pool_open(&pool, c->threads, false, &e), 0);
    if (engine_open(&g, m, pool, &o, &e))
        fail_msg("%s", e.msg);
    for (uint32_t i = 0; i < c->batch; i++) {
        assert_int_equal(engine_seq_open(g, &seqs[i], &e), 0);
        for (uint32_t t = 0; t < seq_len; t++)
            toks[i][t] = token(i == mid ? 0 : i + 1, t, n_vocab);
    }
    if (c->shared_prefix) { /* somebody else computes the prefix and its logits; the sequence goes on from there */
        assert_int_equal(engine_seq_open(g, &first, &e), 0);
        it[0] = (struct step_item){ first, toks[mid], 40, STEP_ALL, out };
        assert_int_equal(engine_prefill(g, it, 1, &e), 0);
        at = engine_seq_take_prefix(g, seqs[mid], toks[mid], seq_len);
        assert_int_equal(at, 32);
    }
    while (at < seq_len) {
        uint32_t n = seq_len - at < c->piece ? seq_len - at : c->piece;
        uint32_t k = batch_items(it, seqs, c, toks, at, n, out, n_vocab);

        if (engine_prefill(g, it, k, &e))
            fail_msg("%s", e.msg);
        at += n;
    }
    engine_close(g);
    pool_close(pool);
    return out;
}

static void compare(const struct model *m, const struct setup *base, const float *want, struct setup c, const char *what)
{
    float *got;

    c.model = base->model;
    c.isa = base->isa;
    c.exact = base->exact;
    c.kv_type = base->kv_type;
    got = run(m, &c);
    if (memcmp(got, want, (size_t)seq_len * m->params.n_vocab * sizeof *got))
        fail_msg("%s, isa %s, exact %d: %s changes the logits", base->model, base->isa, base->exact, what);
    free(got);
}

static void check_setup(const struct model *m, const struct setup *base)
{
    float *want = run(m, base);

    compare(m, base, want, (struct setup){ .threads = 3, .chunk = 7, .batch = 1, .piece = seq_len }, "chunk 7");
    if (!strcmp(base->isa, "ref") && !getenv("SLUICE_TEST_LONG")) {
        free(want);
        return;
    }
    compare(m, base, want, (struct setup){ .threads = 2, .chunk = 512, .batch = 1, .piece = seq_len }, "a second thread");
    compare(m, base, want, (struct setup){ .threads = 2, .chunk = 1, .batch = 1, .piece = seq_len }, "chunk 1");
    compare(m, base, want, (struct setup){ .threads = 1, .chunk = 64, .batch = 1, .piece = 1 }, "decoding");
    compare(m, base, want, (struct setup){ .threads = 2, .chunk = 64, .batch = 3, .piece = 20 }, "batch 3");
    compare(m, base, want, (struct setup){ .threads = 2, .chunk = 512, .batch = 16, .piece = 31 }, "batch 16");
    compare(m, base, want, (struct setup){ .threads = 2, .chunk = 16, .batch = 16, .piece = 1 }, "decoding in batch 16");
    compare(m, base, want, (struct setup){ .threads = 1, .chunk = 64, .batch = 1, .piece = seq_len, .shared_prefix = true },
            "a shared prefix");
    free(want);
}

static void logits_do_not_depend_on_the_batch(void **state)
{
    struct kern_ops ops;

    (void)state;
    for (size_t i = 0; models[i]; i++) {
        struct model *m;
        struct err e;

        if (model_open(&m, models[i], NULL, &e))
            fail_msg("%s", e.msg);
        for (const struct isa *isa = isa_table; isa->name; isa++) {
            struct setup base = { models[i], isa->name, false, KV_BF16, 1, 512, 1, seq_len, false };

            if (kern_ops_init(&ops, isa->name))
                continue;
            check_setup(m, &base);
            base.exact = true;
            base.kv_type = KV_F32;
            check_setup(m, &base);
        }
        model_close(m);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(logits_do_not_depend_on_the_batch) };

    if (argc > 1) {
        models = (const char *const *)argv + 1;
        seq_len = MAX_LEN;
    }

    return cmocka_run_group_tests(tests, NULL, NULL);
}
