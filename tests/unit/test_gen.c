/* Generation on tiny models: every batch size, thread count, chunk and cache size gives the same text, tokens and
 * log-probabilities. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/rng.h"
#include "lib/gen/gen.h"
#include "lib/gen/record.h"

#define N_LINES 14

struct setup {
    struct pool *pool;
    struct model *model;
    struct tokenizer *tok;
    struct engine *engine;
};

static const char *const models[] = { "tests/golden/models/llama/model.gguf", "tests/golden/models/quants-32/model.gguf",
                                      "tests/golden/models/gemma3" };

static void open_all(struct setup *s, const char *path, unsigned threads, uint32_t ctx, size_t kv_tokens)
{
    struct engine_opts eo = { .ctx_tokens = ctx, .n_seqs = 16, .chunk_tokens = 64 };
    struct err e;

    memset(s, 0, sizeof *s);
    if (pool_open(&s->pool, threads, false, &e) || model_open(&s->model, path, s->pool, &e) ||
        tokenizer_open(&s->tok, s->model->source, NULL, &e))
        fail_msg("%s", e.msg);
    if (kv_tokens) {
        const struct model_params *p = &s->model->params;

        eo.kv_bytes = kv_tokens * 4 * p->n_layers * p->n_kv_heads * p->head_dim; /* bf16 keys and values */
    }
    if (engine_open(&s->engine, s->model, s->pool, &eo, &e))
        fail_msg("%s", e.msg);
}

static void close_all(struct setup *s)
{
    engine_close(s->engine);
    tokenizer_close(s->tok);
    model_close(s->model);
    pool_close(s->pool);
}

/* Records and streamed text of a run, by line and index. */
struct outcome {
    struct record_opts ro;
    char *record[N_LINES][8];
    char streamed[N_LINES][8][2048];
    size_t n_streamed[N_LINES][8];
    unsigned n_done, errors;
};

static void on_text(void *arg, const struct gen_request *r, uint32_t index, const char *text, size_t len)
{
    struct outcome *o = arg;
    size_t *n = &o->n_streamed[r->line][index];

    assert_true(*n + len <= sizeof o->streamed[0][0]);
    memcpy(o->streamed[r->line][index] + *n, text, len);
    *n += len;
}

static int on_done(void *arg, const struct gen_result *res, struct err *e)
{
    struct outcome *o = arg;

    (void)e;
    assert_null(o->record[res->request->line][res->index]);
    assert_int_equal(o->n_streamed[res->request->line][res->index], res->text_len);
    assert_memory_equal(o->streamed[res->request->line][res->index], res->text, res->text_len);
    for (uint32_t i = 0; i < res->request->params.n_stop; i++) /* no stop string is ever shown */
        assert_null(memmem(res->text, res->text_len, res->request->params.stop[i].text, res->request->params.stop[i].len));
    if (res->finish == GEN_LENGTH)
        assert_true(res->n_tokens == res->request->params.max_tokens || res->n_tokens > 0);
    o->record[res->request->line][res->index] = record_result(&o->ro, res);
    o->n_done++;
    o->errors += res->finish == GEN_ERROR;
    return 0;
}

/* A mixture: greedy and drawn, short and long prompts, several sequences, stop strings, penalties, log-probabilities. */
static void make_request(struct gen_request *r, const struct setup *s, uint32_t line)
{
    struct gen_params def;
    struct gen_prompting how = { .tok = s->tok, .n_vocab = s->model->params.n_vocab, .defaults = &def, .seed = 3 };
    char text[400] = "";
    struct err e;

    gen_params_init(&def);
    def.max_tokens = line % 2 ? 5 + line * 7 % 20 : 80;
    def.n = line % 5 == 2 ? 3 : 1;
    def.sample.temperature = line % 3 ? 0.9f : 0;
    def.sample.top_k = line % 4 == 1 ? 20 : 0;
    def.sample.top_p = line % 4 == 2 ? 0.8f : 1;
    def.sample.repetition_penalty = line % 6 == 3 ? 1.2f : 1;
    def.sample.presence_penalty = line % 6 == 3 ? 0.3f : 0;
    def.logprobs = line % 7 == 1 ? 3 : -1;
    def.ignore_eos = line % 2;
    if (line % 3 == 1)
        assert_int_equal(gen_params_add_stop(&def, "e", 1, &e) | gen_params_add_stop(&def, "th", 2, &e), 0);
    for (uint32_t i = 0; i < 1 + line * 5 % 7; i++)
        sprintf(text + strlen(text), "%s word%u", i % 3 ? "the" : "A", (unsigned)(i * line % 7));
    if (line % 8 == 5)
        strcpy(text, "the same prompt for several lines of this file, long enough to fill blocks");
    assert_int_equal(gen_request_text(r, &how, line, text, strlen(text), &e), 0);
    gen_params_clear(&def);
}

static void run(struct outcome *o, struct setup *s, uint32_t batch, uint32_t chunk, struct batch_stats *st)
{
    const struct gen_hooks hooks = { on_text, on_done, o };
    const struct gen_opts go = { batch, chunk };
    struct gen_request r;
    struct gen *g;
    struct err e;
    int rc;

    memset(o, 0, sizeof *o);
    o->ro = (struct record_opts){ s->tok, true, true, NULL };
    assert_int_equal(gen_open(&g, s->engine, s->pool, s->tok, &go, &hooks, &e), 0);
    for (uint32_t line = 1; line < N_LINES; line++) {
        make_request(&r, s, line);
        assert_int_equal(gen_submit(g, &r, &e), 0);
        for (uint32_t k = line % 3; k-- > 0;)
            assert_true(gen_step(g, &e) >= 0);
    }
    while ((rc = gen_step(g, &e)) > 0)
        ;
    assert_int_equal(rc, 0);
    assert_int_equal(gen_queued(g) + gen_active(g), 0);
    if (st)
        gen_stats(g, st);
    gen_close(g);
}

static void outcome_clear(struct outcome *o)
{
    for (uint32_t i = 0; i < N_LINES; i++)
        for (uint32_t k = 0; k < 8; k++)
            free(o->record[i][k]);
}

static void same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->n_done, b->n_done);
    for (uint32_t i = 0; i < N_LINES; i++)
        for (uint32_t k = 0; k < 8; k++) {
            assert_int_equal(!a->record[i][k], !b->record[i][k]);
            if (a->record[i][k])
                assert_string_equal(a->record[i][k], b->record[i][k]);
        }
}

static void test_invariance(void **state)
{
    static const struct {
        unsigned threads;
        uint32_t batch, chunk;
        size_t kv_tokens;
    } runs[] = { { 1, 16, 64, 160 }, { 1, 5, 7, 0 }, { 1, 16, 33, 160 }, { 1, 7, 1, 0 }, { 2, 16, 64, 0 } };
    static struct outcome want, got;

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct setup s;
        uint64_t preempted = 0;

        open_all(&s, models[m], 1, 160, 0);
        run(&want, &s, 1, 64, NULL);
        close_all(&s);
        assert_int_equal(want.errors, 0);
        for (size_t i = 0; i < (m ? 1 : sizeof runs / sizeof runs[0]); i++) {
            struct batch_stats st;

            open_all(&s, models[m], runs[i].threads, 160, runs[i].kv_tokens);
            run(&got, &s, runs[i].batch, runs[i].chunk, &st);
            same(&want, &got);
            preempted += st.preemptions;
            outcome_clear(&got);
            close_all(&s);
        }
        assert_true(preempted > 0); /* the small caches really were too small */
        outcome_clear(&want);
    }
}

struct ends {
    uint32_t n, total[4];
    enum gen_finish finish[4];
};

static int on_end(void *arg, const struct gen_result *res, struct err *e)
{
    struct ends *o = arg;

    (void)e;
    o->total[o->n] = (uint32_t)res->request->prompt.n + res->n_tokens;
    o->finish[o->n++] = res->finish;
    return 0;
}

/* Prompt and text together fill the context and no more; a prompt that leaves no room is refused. */
static void test_context_limit(void **state)
{
    struct ends o = { 0 };
    const struct gen_hooks hooks = { NULL, on_end, &o };
    const struct gen_opts go = { 2, 16 };
    struct gen_params def;
    struct gen_prompting how = { .defaults = &def };
    struct gen_request r;
    struct setup s;
    struct gen *g;
    struct err e;

    (void)state;
    open_all(&s, models[0], 1, 64, 0);
    gen_params_init(&def);
    def.ignore_eos = true;
    def.max_tokens = 1000;
    how.tok = s.tok;
    how.n_vocab = s.model->params.n_vocab;
    assert_int_equal(gen_open(&g, s.engine, s.pool, s.tok, &go, &hooks, &e), 0);
    for (uint32_t n = 1; n < 66; n++) {
        char json[1000] = "{\"prompt\":[1";

        if (n > 1 && n < 63)
            continue;
        for (uint32_t i = 1; i < n; i++)
            strcat(json, ",2");
        strcat(json, "]}");
        assert_int_equal(gen_request_json(&r, &how, n, json, strlen(json), &e), 0);
        assert_int_equal(gen_submit(g, &r, &e), n < 64 ? 0 : ERR_LIMIT);
        gen_request_clear(&r);
    }
    while (gen_step(g, &e) > 0)
        ;
    assert_int_equal(o.n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(o.total[i], 64);
        assert_int_equal(o.finish[i], GEN_LENGTH);
    }
    gen_close(g);
    close_all(&s);
    gen_params_clear(&def);
}

/* Dropping unfinished work leaves a generator that still works. */
static void test_cancel(void **state)
{
    struct ends o = { 0 };
    const struct gen_hooks hooks = { NULL, on_end, &o };
    const struct gen_opts go = { 3, 16 };
    struct gen_request r;
    struct setup s;
    struct gen *g;
    struct err e;

    (void)state;
    open_all(&s, models[0], 1, 256, 0);
    assert_int_equal(gen_open(&g, s.engine, s.pool, s.tok, &go, &hooks, &e), 0);
    for (int round = 0; round < 3; round++) {
        for (uint32_t line = 3; line < 8; line++) {
            make_request(&r, &s, line);
            assert_int_equal(gen_submit(g, &r, &e), 0);
        }
        for (int k = 0; k < 3; k++)
            assert_int_equal(gen_step(g, &e), 1);
        gen_cancel(g);
        assert_int_equal(gen_queued(g) + gen_active(g), 0);
        assert_int_equal(gen_step(g, &e), 0);
    }
    o.n = 0;
    make_request(&r, &s, 4);
    assert_int_equal(gen_submit(g, &r, &e), 0);
    while (gen_step(g, &e) > 0)
        ;
    assert_int_equal(o.n, 1);
    gen_close(g);
    close_all(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_invariance),
        cmocka_unit_test(test_context_limit),
        cmocka_unit_test(test_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
