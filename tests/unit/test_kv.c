/* The KV pool against a naive model: random operations on many sequences; after each, every sequence's contents are what the
 * model says, and counts add up. A block's "contents" here are its tokens, written as a kernel would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/rng.h"
#include "lib/kv/kv.h"

#define BT 16u
#define N_SEQS 12
#define MAX_LEN 200u

struct model_seq {
    struct kv_seq kv;
    int32_t tokens[MAX_LEN];
};

static struct kv_layout tiny_layout(void)
{
    struct kv_layout l = { .type = KV_F32, .n_layers = 1, .n_kv_heads = 1, .head_dim = 16, .block_tokens = BT };

    l.part_bytes = BT * sizeof(int32_t);
    l.block_bytes = 2 * l.part_bytes;
    return l;
}

static int32_t *slot(struct kv_pool *p, const struct kv_seq *s, uint32_t pos)
{
    unsigned char *block = kv_pool_base(p) + (size_t)s->blocks[pos / BT] * kv_pool_layout(p)->block_bytes;

    return (int32_t *)(void *)block + pos % BT;
}

static uint32_t draw(uint64_t *at, uint32_t n)
{
    return (uint32_t)(rng_uniform(7, 0, (*at)++) * n);
}

static void check(struct kv_pool *p, const struct model_seq *all)
{
    struct kv_stats st;

    for (int i = 0; i < N_SEQS; i++)
        for (uint32_t t = 0; t < all[i].kv.n_tokens; t++)
            assert_int_equal(*slot(p, &all[i].kv, t), all[i].tokens[t]);
    kv_pool_stats(p, &st);
    assert_int_equal(st.n_free + st.n_used + st.n_cached, st.n_blocks);
    assert_int_equal(kv_pool_available(p), st.n_free + st.n_cached);
}

/* Appends n tokens of a small alphabet, so that sequences often share prefixes. */
static void append(struct kv_pool *p, struct model_seq *s, uint32_t n, uint64_t *rng)
{
    uint32_t from = s->kv.n_tokens;

    if (from + n > MAX_LEN)
        n = MAX_LEN - from;
    if (kv_seq_reserve(p, &s->kv, from + n, NULL))
        return;
    for (uint32_t t = from; t < from + n; t++) {
        s->tokens[t] = t % BT ? (int32_t)(t * 3) : (int32_t)draw(rng, 2);
        *slot(p, &s->kv, t) = s->tokens[t];
    }
    s->kv.n_tokens = from + n;
    if (draw(rng, 2))
        kv_prefix_put(p, &s->kv, s->tokens);
}

static void step(struct kv_pool *p, struct model_seq *all, uint64_t *rng)
{
    struct model_seq *s = &all[draw(rng, N_SEQS)], *o = &all[draw(rng, N_SEQS)];
    uint32_t n;

    switch (draw(rng, 8)) {
    case 0:
        kv_seq_clear(p, &s->kv);
        break;
    case 1:
        n = draw(rng, s->kv.n_tokens + 1);
        kv_seq_truncate(p, &s->kv, n);
        break;
    case 2:
        if (s != o) {
            kv_seq_clear(p, &s->kv);
            n = draw(rng, o->kv.n_tokens + 1);
            assert_int_equal(kv_seq_fork(p, &o->kv, n, &s->kv, NULL), 0);
            memcpy(s->tokens, o->tokens, sizeof s->tokens);
        }
        break;
    case 3:
        if (s != o && !s->kv.n_blocks) {
            memcpy(s->tokens, o->tokens, sizeof s->tokens);
            kv_seq_clear(p, &s->kv);
            n = kv_prefix_take(p, &s->kv, s->tokens, o->kv.n_tokens, o->kv.n_tokens);
            assert_int_equal(n, s->kv.n_tokens);
            assert_int_equal(n % BT, 0);
        }
        break;
    default:
        append(p, s, 1 + draw(rng, 40), rng);
    }
}

static void random_operations_agree_with_the_model(void **state)
{
    static struct model_seq all[N_SEQS];
    struct kv_layout l = tiny_layout();
    struct kv_pool *p;
    uint64_t rng = 0;
    struct kv_stats st;

    (void)state;
    assert_int_equal(kv_pool_open(&p, &l, 60, NULL), 0);
    for (int i = 0; i < 30000; i++) {
        step(p, all, &rng);
        if (i % 8 == 0)
            check(p, all);
    }
    kv_pool_stats(p, &st);
    assert_true(st.prefix_hit_tokens > 0 && st.evictions > 0 && st.copies > 0);
    for (int i = 0; i < N_SEQS; i++)
        kv_seq_clear(p, &all[i].kv);
    kv_pool_stats(p, &st);
    assert_int_equal(st.n_used, 0);
    kv_pool_close(p);
}

static void a_full_pool_changes_nothing(void **state)
{
    struct kv_layout l = tiny_layout();
    struct kv_seq a = { 0 }, b = { 0 };
    struct kv_pool *p;
    struct err e;

    (void)state;
    assert_int_equal(kv_pool_open(&p, &l, 4, NULL), 0);
    assert_int_equal(kv_seq_reserve(p, &a, 3 * BT, &e), 0);
    a.n_tokens = 3 * BT;
    assert_int_equal(kv_seq_reserve(p, &b, 2 * BT, &e), ERR_LIMIT);
    assert_int_equal(b.n_blocks, 0);
    assert_int_equal(kv_pool_available(p), 1);
    kv_seq_clear(p, &a);
    assert_int_equal(kv_seq_reserve(p, &b, 4 * BT, &e), 0);
    kv_seq_clear(p, &b);
    kv_pool_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_model),
        cmocka_unit_test(a_full_pool_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
