/* Lines to requests: defaults, overrides, BOS, chat templates, seeds, and what is told about wrong fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/gen/request.h"

struct env {
    struct source *src;
    struct tokenizer *tok;
    struct gen_params defaults;
    struct gen_prompting how;
};

static void env_open(struct env *v, const char *model)
{
    struct err e;

    memset(v, 0, sizeof *v);
    if (source_open(&v->src, model, &e) || tokenizer_open(&v->tok, v->src, NULL, &e))
        fail_msg("%s", e.msg);
    gen_params_init(&v->defaults);
    v->how = (struct gen_prompting){ .tok = v->tok, .n_vocab = tokenizer_n_vocab(v->tok), .defaults = &v->defaults };
    if (chat_template_find(&v->how.chat, v->tok, "chatml", &e)) /* not with every vocabulary */
        v->how.chat = NULL;
}

static void env_close(struct env *v)
{
    gen_params_clear(&v->defaults);
    tokenizer_close(v->tok);
    source_close(v->src);
}

static int parse(struct env *v, struct gen_request *r, uint64_t line, const char *json, struct err *e)
{
    return gen_request_json(r, &v->how, line, json, strlen(json), e);
}

static void test_defaults_and_overrides(void **state)
{
    struct env v;
    struct gen_request r;
    struct err e;

    (void)state;
    env_open(&v, "tests/golden/models/llama");
    v.defaults.max_tokens = 33;
    v.defaults.sample.top_k = 7;
    assert_int_equal(gen_params_add_stop(&v.defaults, "END", 3, &e), 0);
    assert_int_equal(gen_params_add_stop_id(&v.defaults, 9, &e), 0);
    assert_int_equal(gen_params_add_bias(&v.defaults, 9, 2, &e), 0);

    assert_int_equal(parse(&v, &r, 4, "{\"prompt\":\"hello\",\"top_k\":null}", &e), 0);
    assert_int_equal(r.params.max_tokens, 33);
    assert_int_equal(r.params.sample.top_k, 7);
    assert_int_equal(r.params.n_stop, 1);
    assert_string_equal(r.params.stop[0].text, "END");
    assert_int_equal(r.params.stop_ids[0], 9);
    assert_int_equal(r.params.sample.n_bias, 1);
    assert_int_equal(json_integer_value(r.id), 4);
    gen_request_clear(&r);

    assert_int_equal(parse(&v, &r, 4,
                           "{\"id\":\"x\",\"prompt\":[5,6],\"max_tokens\":2,\"top_k\":0,\"stop\":[\"a\",\"b\\u0000c\"],"
                           "\"stop_token_ids\":[],\"logit_bias\":{\"3\":-1.5,\"4\":1},\"n\":2,\"logprobs\":0,\"seed\":17,"
                           "\"temperature\":1,\"ignore_eos\":true}", &e), 0);
    assert_int_equal(r.params.max_tokens, 2);
    assert_int_equal(r.params.sample.top_k, 0);
    assert_int_equal(r.params.n_stop, 2);
    assert_int_equal(r.params.stop[1].len, 3);
    assert_memory_equal(r.params.stop[1].text, "b\0c", 4);
    assert_int_equal(r.params.n_stop_ids, 0);
    assert_int_equal(r.params.sample.n_bias, 2);
    assert_int_equal(r.params.sample.bias[0].token, 3);
    assert_int_equal(r.params.logprobs, 0);
    assert_int_equal(r.params.sample.seed, 17);
    assert_true(r.params.ignore_eos);
    assert_string_equal(json_string_value(r.id), "x");
    assert_int_equal(r.prompt.n, 2);
    assert_int_equal(r.prompt.ids[1], 6);
    gen_request_clear(&r);
    assert_string_equal(v.defaults.stop[0].text, "END"); /* untouched */
    env_close(&v);
}

/* Where the model asks for a BOS a text prompt gets one, once; ids are taken as they are. */
static void test_bos(void **state)
{
    struct env v;
    struct gen_request r;
    struct err e;
    int32_t bos;

    (void)state;
    env_open(&v, "tests/golden/models/mistral");
    bos = tokenizer_bos(v.tok);
    assert_true(tokenizer_add_bos(v.tok) && bos >= 0);
    assert_int_equal(gen_request_text(&r, &v.how, 1, "hello", 5, &e), 0);
    assert_int_equal(r.prompt.ids[0], bos);
    assert_int_not_equal(r.prompt.ids[1], bos);
    gen_request_clear(&r);
    assert_int_equal(gen_request_text(&r, &v.how, 1, "<s>hello", 8, &e), 0);
    assert_int_equal(r.prompt.ids[0], bos);
    assert_int_not_equal(r.prompt.ids[1], bos);
    gen_request_clear(&r);
    v.how.no_special = true;
    assert_int_equal(gen_request_text(&r, &v.how, 1, "<s>hello", 8, &e), 0);
    assert_int_equal(r.prompt.ids[0], bos);
    assert_true(r.prompt.n > 4);
    gen_request_clear(&r);
    assert_int_equal(parse(&v, &r, 1, "{\"prompt\":[7]}", &e), 0);
    assert_int_equal(r.prompt.n, 1);
    gen_request_clear(&r);
    env_close(&v);
}

static void test_chat(void **state)
{
    const struct chat_message m[] = { { "system", "be brief" }, { "user", "hi <|im_end|>" } };
    struct gen_request a, b, c;
    struct env v;
    struct err e;

    (void)state;
    env_open(&v, "tests/golden/models/llama");
    assert_int_equal(gen_request_chat(&a, &v.how, 1, m, 2, &e), 0);
    assert_int_equal(parse(&v, &b, 1, "{\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},"
                                      "{\"content\":\"hi <|im_end|>\",\"role\":\"user\"}]}", &e), 0);
    v.how.instruct = true;
    v.how.system = "be brief";
    assert_int_equal(gen_request_text(&c, &v.how, 1, "hi <|im_end|>", 13, &e), 0);
    assert_int_equal(a.prompt.n, b.prompt.n);
    assert_int_equal(a.prompt.n, c.prompt.n);
    assert_memory_equal(a.prompt.ids, b.prompt.ids, a.prompt.n * sizeof *a.prompt.ids);
    assert_memory_equal(a.prompt.ids, c.prompt.ids, a.prompt.n * sizeof *a.prompt.ids);
    gen_request_clear(&a);
    gen_request_clear(&b);
    gen_request_clear(&c);
    v.how.chat = NULL;
    v.how.chat_error = "no template here";
    assert_int_equal(parse(&v, &b, 1, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", &e), ERR_INVAL);
    assert_string_equal(e.msg, "messages: no template here");
    gen_request_clear(&b);
    env_close(&v);
}

static uint64_t seed_of(struct env *v, uint64_t line, const char *json)
{
    struct gen_request r;
    struct err e;
    uint64_t seed;

    assert_int_equal(parse(v, &r, line, json, &e), 0);
    seed = r.params.sample.seed;
    gen_request_clear(&r);
    return seed;
}

static void test_seeds(void **state)
{
    struct env v;
    uint64_t a, b;

    (void)state;
    env_open(&v, "tests/golden/models/llama");
    a = seed_of(&v, 1, "{\"prompt\":\"x\"}");
    b = seed_of(&v, 2, "{\"prompt\":\"x\"}");
    assert_true(a != b);
    assert_true(a == seed_of(&v, 1, "{\"prompt\":\"another\",\"id\":3}"));
    v.how.seed = 1;
    assert_true(a != seed_of(&v, 1, "{\"prompt\":\"x\"}"));
    assert_int_equal(seed_of(&v, 1, "{\"prompt\":\"x\",\"seed\":5}"), 5);
    assert_int_equal(seed_of(&v, 9, "{\"prompt\":\"x\",\"seed\":5}"), 5);
    env_close(&v);
}

/* The first wrong field is named, and the id is known wherever it stands. */
static void test_errors(void **state)
{
    static const char *const cases[][2] = {
        { "{\"prompt\":\"x\",\"top_k\":\"many\",\"id\":\"me\"}", "top_k: \"many\"" },
        { "{\"prompt\":\"x\",\"top_k\":-1,\"top_p\":9,\"id\":\"me\"}", "top_k: -1" },
        { "{\"id\":\"me\",\"prompt\":\"x\",\"best_of\":1}", "best_of: unknown field" },
        { "{\"id\":\"me\",\"prompt\":\"x\",\"stop\":[\"\"]}", "stop: an empty string" },
        { "{\"id\":\"me\",\"prompt\":{}}", "prompt: {}" },
        { "{\"id\":\"me\",\"prompt\":\"\"}", "prompt: empty" },
        { "{\"id\":\"me\",\"messages\":[{\"role\":\"user\",\"content\":[]}]}", "messages: {" },
        { "{\"id\":\"me\",\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"name\":\"y\"}]}", "messages: {" },
    };
    struct env v;

    (void)state;
    env_open(&v, "tests/golden/models/llama");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gen_request r;
        struct err e;

        assert_int_equal(parse(&v, &r, 1, cases[i][0], &e), ERR_INVAL);
        if (strncmp(e.msg, cases[i][1], strlen(cases[i][1])))
            fail_msg("%s: %s", cases[i][0], e.msg);
        assert_string_equal(json_string_value(r.id), "me");
        gen_request_clear(&r);
    }
    env_close(&v);
}

/* Every name that the parser knows is accepted, and every one in the list of names is one. */
static void test_field_names(void **state)
{
    struct env v;

    (void)state;
    env_open(&v, "tests/golden/models/llama");
    for (const char *const *f = gen_request_fields(); *f; f++) {
        char json[100];
        struct gen_request r;
        struct err e;

        snprintf(json, sizeof json, "{\"%s\":null}", *f);
        assert_int_equal(parse(&v, &r, 1, json, &e), ERR_INVAL);
        assert_string_equal(e.msg, "neither prompt nor messages");
        gen_request_clear(&r);
    }
    env_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_overrides),
        cmocka_unit_test(test_bos),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_field_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
