/* Requirements, the work of a step, limits and printing, without a model file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/isa.h"
#include "lib/bench/bench.h"
#include "lib/core/mem.h"

static struct bench_row sample(const char *test, uint64_t batch, double rate)
{
    struct bench_row r = { .test = test, .prompt_tokens = 512, .generated_tokens = 128, .batch = batch, .threads = 2,
                           .isa = "avx2", .kv_type = "bf16", .tokens_per_second = rate, .limit_ratio = 0.25 };
    return r;
}

static void test_require_forms(void **state)
{
    static const char *const good[] = { "decode>=100", "prefill@p512>1e3", "decode@b16,t2,n128,isa=avx2,kv=bf16<=7",
                                        "decode:limit_ratio>=.5", "prefill@p2048:ms_per_step<12" };
    static const char *const bad[] = { "", "decode", "decode>=", "decode>=x", "decode>=1x", "decod>=1", "decode@>=1", "decode@b>=1",
                                       "decode@x4>=1", "decode@b1,>=1", "decode:none>=1", "decode:isa>=1", "decode=1", "decode>=inf",
                                       "decode>=nan", "decode@b99999999999>=1", "decode@isa=>=1",
                                       "decode@isa=abcdefghijklmnopqrstuvw>=1", "prefill@b1:exact>=1" };
    struct bench_require r;
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(bench_require_parse(&r, good[i], &e), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bench_require_parse(&r, bad[i], &e), ERR_INVAL);
}

static void count(void *arg, const char *msg)
{
    assert_non_null(strstr(msg, "missed"));
    ++*(int *)arg;
}

static void test_require_rows(void **state)
{
    struct bench_requires s = { 0 };
    struct bench_row one = sample("decode", 1, 100), many = sample("decode", 16, 500), pre = sample("prefill", 1, 1000);
    struct err e;
    int misses = 0;

    (void)state;
    assert_int_equal(bench_requires_add(&s, "decode>=100", &e), 0);
    assert_int_equal(bench_requires_add(&s, "decode@b16>500", &e), 0);      /* missed: equal */
    assert_int_equal(bench_requires_add(&s, "prefill:limit_ratio<0.2", &e), 0); /* missed */
    assert_int_equal(bench_requires_add(&s, "decode@b8>=1", &e), 0);        /* matches nothing */
    assert_int_equal(bench_requires_add(&s, "decode@isa=avx2,kv=bf16,t2,p512,n128:batch<=16", &e), 0);
    bench_requires_row(&s, &one, count, &misses);
    assert_int_equal(misses, 0);
    bench_requires_row(&s, &many, count, &misses);
    assert_int_equal(misses, 1);
    bench_requires_row(&s, &pre, count, &misses);
    assert_int_equal(misses, 2);
    bench_requires_end(&s, count, &misses);
    assert_int_equal(misses, 3);
    assert_true(s.missed);
}

static void test_plan(void **state)
{
    struct bench_plan p = { 0 };
    struct err e;

    (void)state;
    assert_int_equal(bench_plan_isas(&p, "ref", &e), 0);
    assert_int_equal(bench_plan_isas(&p, "ref,none", &e), ERR_INVAL);
    assert_int_equal(bench_plan_isas(&p, "", &e), ERR_INVAL);
    assert_int_equal(bench_plan_isas(&p, "ref,", &e), ERR_INVAL);
    assert_int_equal(bench_plan_kv_types(&p, "f32,bf16", &e), 0);
    assert_int_equal(p.n_kv_types, 2);
    assert_int_equal(p.kv_types[0], KV_F32);
    assert_int_equal(bench_plan_kv_types(&p, "f32,f32,f32", &e), ERR_INVAL);
    assert_int_equal(bench_plan_tests(&p, "decode", &e), 0);
    assert_true(p.decode && !p.prefill);
    bench_plan_defaults(&p);
    assert_int_equal(p.prompts[0], 512);
    assert_true(p.decode && !p.prefill);
}

/* A model of two layers, one with a window of 8, whose matrices are 64 x 32 (head 128 x 32). */
static void make_model(struct model *m, struct model_layer layers[2])
{
    memset(m, 0, sizeof *m);
    memset(layers, 0, 2 * sizeof *layers);
    m->params.n_layers = 2;
    m->params.n_heads = 4;
    m->params.n_kv_heads = 2;
    m->params.head_dim = 16;
    m->params.window = 8;
    m->layers = layers;
    layers[1].local = true;
    for (int i = 0; i < 2; i++) {
        struct wmat *mats[] = { &layers[i].q, &layers[i].k, &layers[i].v, &layers[i].o, &layers[i].gate, &layers[i].up,
                                &layers[i].down };
        for (int j = 0; j < 7; j++)
            assert_true(wmat_init(mats[j], DT_Q8_0, 64, 32));
    }
    assert_true(wmat_init(&m->head, DT_F32, 128, 32));
}

static double mat_bytes(const struct wmat *w)
{
    return (double)w->n_tiles * (double)w->tile_bytes;
}

static void test_work(void **state)
{
    struct model_layer layers[2];
    struct model m;
    struct kern_ops ops;
    struct bench_work w = { 0 }, two = { 0 };
    struct bench_limits l = { .read_bytes = 1e9, .i8_ops = 1e9, .bf16_ops = 1e9, .f32_ops = 1e9 };
    double q8, head, per_key = 2 * 2 * 16 * 2;

    (void)state;
    make_model(&m, layers);
    q8 = mat_bytes(&layers[0].q);
    head = mat_bytes(&m.head);
    assert_int_equal(kern_ops_init(&ops, "ref"), 0);
    bench_work_decode(&w, &m, &ops, false, KV_BF16, 3, 20);
    assert_true(w.steps == 1 && w.weight_bytes == 14 * q8 + head);
    assert_true(w.i8_ops == 14.0 * 2 * 64 * 32 * 3 && w.f32_ops == 2.0 * 128 * 32 * 3 && w.bf16_ops == 0);
    assert_true(w.kv_bytes == 3 * per_key * (21 + 8));
    assert_true(w.attention_ops == 4.0 * 4 * 16 * 3 * (21 + 8));
    bench_work_decode(&two, &m, &ops, true, KV_F32, 1, 2);
    assert_true(two.i8_ops == 0 && two.f32_ops == 14.0 * 2 * 64 * 32 + 2.0 * 128 * 32);
    assert_true(two.kv_bytes == 2 * per_key * (3 + 3));
    /* Prefill of 10 tokens in chunks of 4: positions 0-3, 4-7, 8-9. */
    memset(&two, 0, sizeof two);
    bench_work_prefill(&two, &m, &ops, false, KV_BF16, 1, 10, 4);
    assert_true(two.steps == 3 && two.weight_bytes == 3 * 14 * q8 + head);
    assert_true(two.i8_ops == 14.0 * 2 * 64 * 32 * 10 && two.f32_ops == 2.0 * 128 * 32);
    assert_true(two.attention_ops == 4.0 * 4 * 16 * (55 + 55 - 1 - 2));
    assert_true(two.kv_bytes == per_key * ((4 + 8 + 10) + (4 + 8 + 9)));
    /* The longer of reading and computing. */
    l.read_bytes = 1;
    assert_true(bench_least_seconds(&w, &l, false) == w.weight_bytes + w.kv_bytes);
    l.read_bytes = 1e30;
    assert_true(fabs(bench_least_seconds(&w, &l, true) * 1e9 - (w.i8_ops + w.f32_ops + w.attention_ops)) < 1);
}

static void test_limits(void **state)
{
    struct bench_limits l = { 0 };
    struct pool *pool;
    struct err e;
    size_t bytes = 8 << 20;
    void *buf = mem_map(bytes);

    (void)state;
    assert_non_null(buf);
    memset(buf, 1, bytes);
    assert_true(bench_buffer_bytes() >= (256u << 20));
    assert_int_equal(pool_open(&pool, 2, false, &e), 0);
    assert_int_equal(bench_limits_measure(&l, pool, "ref", buf, bytes, &e), 0);
    assert_true(l.read_bytes > 0 && l.i8_ops > 0 && l.bf16_ops > 0 && l.f32_ops > 0);
    assert_int_equal(bench_limits_measure(&l, pool, NULL, buf, bytes, &e), 0);
    assert_int_equal(bench_limits_measure(&l, pool, "none", buf, bytes, &e), ERR_INVAL);
    pool_close(pool);
    mem_unmap(buf, bytes);
}

static void test_print(void **state)
{
    struct bench_row r = sample("decode", 16, 123.456);
    char head[512], line[512];
    json_t *j = json_object();

    (void)state;
    bench_row_text(NULL, head, sizeof head);
    bench_row_text(&r, line, sizeof line);
    assert_int_equal(head[0], '#');
    assert_int_equal(strlen(head), strlen(line));
    assert_non_null(strstr(line, " 123.5"));
    assert_int_equal(bench_row_json(&r, j), 0);
    assert_int_equal(json_integer_value(json_object_get(j, "batch")), 16);
    assert_string_equal(json_string_value(json_object_get(j, "test")), "decode");
    assert_true(json_real_value(json_object_get(j, "tokens_per_second")) == 123.456);
    assert_true(json_is_false(json_object_get(j, "exact")));
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_require_forms), cmocka_unit_test(test_require_rows),
                                        cmocka_unit_test(test_plan), cmocka_unit_test(test_work), cmocka_unit_test(test_limits),
                                        cmocka_unit_test(test_print) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
