/* The batch scheduler, driven by a model of an engine: a pool of blocks with sharing, no tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/rng.h"
#include "lib/gen/batch.h"

#define N_MAX 600

/* What the model knows of one sequence. */
struct one {
    uint32_t prompt, want, generated, cached, blocks;
    uint64_t group;
    bool admitted_once, live, decode, done;
    uint32_t handle;
};

struct world {
    struct batch *b;
    struct batch_params p;
    struct one s[N_MAX];
    uint32_t n, pool, used, by_handle[N_MAX];
    uint32_t steps;
    bool last_was_prefill;
};

static uint32_t blocks(const struct world *w, uint32_t tokens)
{
    return (tokens + w->p.block_tokens - 1) / w->p.block_tokens;
}

static void world_open(struct world *w, uint32_t seqs, uint32_t chunk, uint32_t pool)
{
    memset(w, 0, sizeof *w);
    w->p = (struct batch_params){ seqs, chunk, 16 };
    w->pool = pool;
    assert_int_equal(batch_open(&w->b, &w->p, NULL), 0);
}

static void add(struct world *w, uint64_t group, uint32_t prompt, uint32_t want)
{
    struct one *o = &w->s[w->n];

    o->group = group;
    o->prompt = prompt;
    o->want = want;
    assert_int_equal(batch_add(w->b, group, prompt, &o->handle, NULL), 0);
    assert_true(o->handle < N_MAX);
    w->by_handle[o->handle] = w->n++;
}

static void set_cached(struct world *w, struct one *o, uint32_t cached)
{
    uint32_t n = blocks(w, cached);

    w->used += n - o->blocks; /* unsigned wrap is fine */
    o->blocks = n;
    o->cached = cached;
    assert_true(w->used <= w->pool);
}

static bool decoding(const struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->s[i].decode)
            return true;
    return false;
}

static void compute(struct world *w, const struct batch_action *a)
{
    struct batch_item items[64];
    uint32_t total = 0, n = a->n_items;
    bool prefill = a->kind == BATCH_PREFILL;

    assert_true(n > 0 && n <= w->p.max_seqs);
    memcpy(items, a->items, n * sizeof *items);
    if (prefill && w->last_was_prefill)
        assert_false(decoding(w)); /* decode steps come in between */
    w->last_was_prefill = prefill;
    for (uint32_t i = 0; i < n; i++) {
        struct one *o = &w->s[w->by_handle[items[i].seq]];

        assert_true(o->live && !o->done);
        total += items[i].n_tokens;
        if (!prefill)
            assert_int_equal(items[i].n_tokens, 1);
        set_cached(w, o, o->cached + items[i].n_tokens);
        assert_int_equal(items[i].last, o->cached == o->prompt + o->generated);
        assert_true(o->cached <= o->prompt + o->generated);
    }
    if (prefill)
        assert_true(total <= w->p.chunk_tokens);
    batch_computed(w->b);
    for (uint32_t i = 0; i < n; i++) {
        struct one *o = &w->s[w->by_handle[items[i].seq]];

        if (!items[i].last)
            continue;
        if (++o->generated == o->want) {
            set_cached(w, o, 0);
            o->live = o->decode = false;
            o->done = true;
            batch_finished(w->b, items[i].seq);
        } else {
            o->decode = true;
            batch_token(w->b, items[i].seq);
        }
    }
}

static bool step(struct world *w)
{
    struct batch_action a;

    batch_next(w->b, w->pool - w->used, &a);
    w->steps++;
    switch (a.kind) {
    case BATCH_IDLE: return false;
    case BATCH_ADMIT: {
        struct one *o = &w->s[w->by_handle[a.seq]];

        assert_true(!o->live && !o->done);
        if (!o->admitted_once) { /* first come, first served, siblings of groups below 1000 aside */
            for (struct one *q = w->s; q < o; q++)
                assert_true(q->admitted_once || q->group == o->group || q->group < 1000);
        }
        o->admitted_once = o->live = true;
        batch_admitted(w->b, a.seq, 0, false);
        break;
    }
    case BATCH_PREEMPT: {
        struct one *o = &w->s[w->by_handle[a.seq]];

        assert_true(o->live);
        set_cached(w, o, 0);
        o->live = o->decode = false;
        break;
    }
    case BATCH_PREFILL:
    case BATCH_DECODE: compute(w, &a); break;
    case BATCH_TOO_BIG: {
        struct one *o = &w->s[w->by_handle[a.seq]];

        assert_true(blocks(w, o->prompt + o->want) > w->pool);
        set_cached(w, o, 0);
        o->live = o->decode = false;
        o->done = true;
        batch_finished(w->b, a.seq);
    }
    }
    return true;
}

static void finish(struct world *w)
{
    struct batch_stats st;

    while (step(w))
        assert_true(w->steps < 2000000);
    for (uint32_t i = 0; i < w->n; i++)
        assert_true(w->s[i].done);
    assert_int_equal(w->used, 0);
    batch_stats(w->b, &st);
    assert_int_equal(st.n_queued + st.n_prefill + st.n_decode, 0);
    assert_int_equal(st.admissions, w->n + st.preemptions);
    batch_close(w->b);
}

static uint32_t pick(uint64_t seed, uint64_t i, uint32_t lo, uint32_t hi)
{
    return lo + (uint32_t)(rng_uniform(seed, 0, i) * (hi - lo + 1));
}

static void test_random_loads(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        static struct world w;
        uint32_t n = pick(seed, 0, 1, 60), max_prompt = pick(seed, 1, 1, 300), max_new = pick(seed, 2, 1, 120);
        uint32_t least = (max_prompt + max_new + 15) / 16;

        world_open(&w, pick(seed, 3, 1, 16), pick(seed, 4, 1, 200), least + pick(seed, 5, 0, 3 * least));
        for (uint32_t i = 0; i < n; i++) {
            add(&w, pick(seed, 100 + 4 * i, 0, 3) ? 1000 + i : i / 5, pick(seed, 101 + 4 * i, 1, max_prompt),
                pick(seed, 102 + 4 * i, 1, max_new));
            for (uint32_t k = pick(seed, 103 + 4 * i, 0, 20); k-- > 0;) /* arrivals during the run */
                step(&w);
        }
        finish(&w);
    }
}

static void test_batch_fills(void **state)
{
    static struct world w;
    struct batch_stats st;

    (void)state;
    world_open(&w, 8, 512, 1000);
    for (int i = 0; i < 80; i++)
        add(&w, (uint64_t)i, 20, 50);
    for (int i = 0; i < 12; i++)
        step(&w);
    batch_stats(w.b, &st);
    assert_int_equal(st.n_decode, 8); /* one chunk held all eight prompts */
    assert_int_equal(st.prefill_steps, 1);
    while (step(&w))
        ;
    batch_stats(w.b, &st);
    assert_true(st.decode_steps <= 80 * 49 / 8 + 60); /* places are filled as soon as they are free */
    assert_int_equal(st.preemptions, 0);
    finish(&w);
}

static void test_decode_does_not_starve(void **state)
{
    static struct world w;
    uint32_t before;

    (void)state;
    world_open(&w, 4, 64, 10000);
    add(&w, 0, 10, 200);
    for (int i = 0; i < 4; i++)
        step(&w);
    before = w.s[0].generated;
    add(&w, 1, 6400, 5); /* a hundred chunks */
    for (int i = 0; i < 101; i++)
        step(&w);
    assert_true(w.s[0].generated >= before + 50);
    finish(&w);
}

static void test_preemption_and_too_big(void **state)
{
    static struct world w;
    struct batch_stats st;

    (void)state;
    world_open(&w, 4, 64, 12);
    for (int i = 0; i < 4; i++)
        add(&w, (uint64_t)i, 16, 100); /* eight blocks each in the end, twelve in all */
    add(&w, 9, 16, 300);               /* never fits */
    while (step(&w))
        ;
    batch_stats(w.b, &st);
    assert_true(st.preemptions > 0);
    finish(&w);
}

static void test_pool_full_event(void **state)
{
    struct batch_params p = { 4, 64, 16 };
    struct batch_action a;
    struct batch *b;
    uint32_t s0, s1;

    (void)state;
    assert_int_equal(batch_open(&b, &p, NULL), 0);
    assert_int_equal(batch_add(b, 0, 8, &s0, NULL), 0);
    assert_int_equal(batch_add(b, 1, 8, &s1, NULL), 0);
    for (int i = 0; i < 2; i++) {
        batch_next(b, 100, &a);
        assert_int_equal(a.kind, BATCH_ADMIT);
        batch_admitted(b, a.seq, 0, false);
    }
    batch_next(b, 100, &a);
    assert_int_equal(a.kind, BATCH_PREFILL);
    batch_pool_full(b);
    batch_next(b, 100, &a);
    assert_int_equal(a.kind, BATCH_PREEMPT);
    assert_int_equal(a.seq, s1);
    batch_pool_full(b);
    batch_next(b, 0, &a);
    assert_int_equal(a.kind, BATCH_TOO_BIG);
    assert_int_equal(a.seq, s0);
    batch_finished(b, s0);
    batch_finished(b, s1); /* while queued */
    batch_next(b, 100, &a);
    assert_int_equal(a.kind, BATCH_IDLE);
    batch_close(b);
}

static void test_group_shares_its_prompt(void **state)
{
    struct batch_params p = { 8, 64, 16 };
    struct batch_action a;
    struct batch *b;
    uint32_t s[3], other;

    (void)state;
    assert_int_equal(batch_open(&b, &p, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(batch_add(b, 7, 20, &s[i], NULL), 0);
    assert_int_equal(batch_add(b, 8, 20, &other, NULL), 0);
    batch_next(b, 100, &a);
    assert_int_equal(a.seq, s[0]);
    batch_admitted(b, s[0], 0, false);
    batch_next(b, 100, &a); /* siblings wait, others do not */
    assert_int_equal(a.kind, BATCH_ADMIT);
    assert_int_equal(a.seq, other);
    batch_admitted(b, other, 0, false);
    batch_next(b, 100, &a);
    assert_int_equal(a.kind, BATCH_PREFILL);
    assert_int_equal(a.n_items, 2);
    batch_computed(b);
    batch_token(b, s[0]);
    batch_token(b, other);
    for (int i = 1; i < 3; i++) {
        batch_next(b, 100, &a);
        assert_int_equal(a.kind, BATCH_ADMIT);
        assert_int_equal(a.seq, s[i]);
        batch_admitted(b, s[i], 19, true);
        if (i == 1) { /* its prefill comes first again */
            batch_next(b, 100, &a);
            assert_int_equal(a.kind, BATCH_DECODE);
            batch_computed(b);
            batch_token(b, s[0]);
            batch_token(b, other);
            batch_next(b, 100, &a);
            assert_int_equal(a.kind, BATCH_PREFILL);
            assert_int_equal(a.items[0].n_tokens, 1);
            batch_computed(b);
            batch_token(b, s[1]);
        }
    }
    /* the block that s[2] shares may have to be copied by s[0] and by s[1] */
    batch_next(b, 2, &a);
    assert_int_equal(a.kind, BATCH_DECODE);
    batch_next(b, 1, &a);
    assert_int_equal(a.kind, BATCH_PREEMPT);
    assert_int_equal(a.seq, s[2]);
    batch_close(b);
}

static void test_bad_arguments(void **state)
{
    struct batch_params p = { 0, 64, 16 };
    struct batch *b;
    uint32_t s;

    (void)state;
    assert_int_equal(batch_open(&b, &p, NULL), ERR_INVAL);
    p.max_seqs = 1;
    assert_int_equal(batch_open(&b, &p, NULL), 0);
    assert_int_equal(batch_add(b, 0, 0, &s, NULL), ERR_INVAL);
    batch_close(b);
    batch_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_loads),
        cmocka_unit_test(test_batch_fills),
        cmocka_unit_test(test_decode_does_not_starve),
        cmocka_unit_test(test_preemption_and_too_big),
        cmocka_unit_test(test_pool_full_event),
        cmocka_unit_test(test_group_shares_its_prompt),
        cmocka_unit_test(test_bad_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
