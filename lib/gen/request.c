/* Lines of text and of JSON to requests. */
#include "lib/gen/request.h"

#include <stdlib.h>
#include <string.h>

#include "lib/core/rng.h"

#define SHOWN_CHARS 40 /* of a wrong value in a message */

/* What one JSON line says besides parameters. Borrowed from the parsed object. */
struct spoken {
    const json_t *prompt, *messages;
};

enum field_type { FIELD_F32, FIELD_U32, FIELD_SEED, FIELD_LOGPROBS, FIELD_BOOL, FIELD_STOP, FIELD_STOP_IDS, FIELD_BIAS };

struct field {
    const char *name;
    enum field_type type;
    size_t offset; /* in struct gen_params */
    double min, max;
};

#define PARAM(member) offsetof(struct gen_params, member)
static const struct field fields[] = {
    { "max_tokens", FIELD_U32, PARAM(max_tokens), 1, GEN_TOKENS_MAX },
    { "temperature", FIELD_F32, PARAM(sample.temperature), 0, 1e6 },
    { "top_k", FIELD_U32, PARAM(sample.top_k), 0, 2147483647 },
    { "top_p", FIELD_F32, PARAM(sample.top_p), 0, 1 },
    { "min_p", FIELD_F32, PARAM(sample.min_p), 0, 1 },
    { "repetition_penalty", FIELD_F32, PARAM(sample.repetition_penalty), 1e-6, 1e6 },
    { "presence_penalty", FIELD_F32, PARAM(sample.presence_penalty), -1e6, 1e6 },
    { "frequency_penalty", FIELD_F32, PARAM(sample.frequency_penalty), -1e6, 1e6 },
    { "seed", FIELD_SEED, 0, 0, 0 },
    { "stop", FIELD_STOP, 0, 0, 0 },
    { "stop_token_ids", FIELD_STOP_IDS, 0, 0, 0 },
    { "logprobs", FIELD_LOGPROBS, 0, 0, SAMPLE_TOP_MAX },
    { "n", FIELD_U32, PARAM(n), 1, GEN_N_MAX },
    { "ignore_eos", FIELD_BOOL, PARAM(ignore_eos), 0, 0 },
    { "logit_bias", FIELD_BIAS, 0, 0, 0 },
};
#undef PARAM

const char *const *gen_request_fields(void)
{
    static const char *const names[] = {
        "id", "prompt", "messages", "max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
        "presence_penalty", "frequency_penalty", "seed", "stop", "stop_token_ids", "logprobs", "n", "ignore_eos",
        "logit_bias", NULL
    };

    return names;
}

/* "NAME: VALUE is not WANT", with the value as JSON, shortened. */
static int bad_value(const char *name, const json_t *v, const char *want, struct err *e)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    bool cut = text && strlen(text) > SHOWN_CHARS;

    err_set(e, ERR_INVAL, "%s: %.*s%s is not %s", name, SHOWN_CHARS, text ? text : "?", cut ? "..." : "", want);
    free(text);
    return ERR_INVAL;
}

static int set_number(struct gen_params *p, const struct field *f, const json_t *v, struct err *e)
{
    char want[96], *at = (char *)p + f->offset;

    if (f->type == FIELD_F32) {
        double x = json_number_value(v);

        snprintf(want, sizeof want, "a number from %.10g to %.10g", f->min, f->max);
        if (!json_is_number(v) || !(x >= f->min && x <= f->max))
            return bad_value(f->name, v, want, e);
        *(float *)(void *)at = (float)x;
    } else {
        json_int_t x = json_integer_value(v);

        snprintf(want, sizeof want, "a whole number from %.0f to %.0f", f->min, f->max);
        if (!json_is_integer(v) || x < (json_int_t)f->min || x > (json_int_t)f->max)
            return bad_value(f->name, v, want, e);
        if (f->type == FIELD_LOGPROBS)
            p->logprobs = (int32_t)x;
        else
            *(uint32_t *)(void *)at = (uint32_t)x;
    }
    return 0;
}

static int set_stop(struct gen_params *p, const json_t *v, struct err *e)
{
    bool one = json_is_string(v);
    int rc = 0;

    if (!one && !json_is_array(v))
        return bad_value("stop", v, "a string or an array of strings", e);
    while (p->n_stop) /* the line's own replace the defaults */
        free(p->stop[--p->n_stop].text);
    for (size_t i = 0; !rc && i < (one ? 1 : json_array_size(v)); i++) {
        const json_t *s = one ? v : json_array_get(v, i);

        if (!json_is_string(s))
            return bad_value("stop", s, "a string", e);
        rc = gen_params_add_stop(p, json_string_value(s), json_string_length(s), e);
    }
    return rc;
}

static int token_id(const char *name, const json_t *v, uint32_t n_vocab, int32_t *out, struct err *e)
{
    json_int_t x = json_integer_value(v);
    char want[64];

    snprintf(want, sizeof want, "a token id from 0 to %u", (unsigned)(n_vocab - 1));
    if (!json_is_integer(v) || x < 0 || x >= (json_int_t)n_vocab)
        return bad_value(name, v, want, e);
    *out = (int32_t)x;
    return 0;
}

static int set_stop_ids(struct gen_params *p, const json_t *v, uint32_t n_vocab, struct err *e)
{
    int rc = 0;

    if (!json_is_array(v))
        return bad_value("stop_token_ids", v, "an array of token ids", e);
    p->n_stop_ids = 0;
    for (size_t i = 0; !rc && i < json_array_size(v); i++) {
        int32_t id = 0;

        rc = token_id("stop_token_ids", json_array_get(v, i), n_vocab, &id, e);
        if (!rc)
            rc = gen_params_add_stop_id(p, id, e);
    }
    return rc;
}

static int set_bias(struct gen_params *p, const json_t *v, uint32_t n_vocab, struct err *e)
{
    const char *key;
    json_t *b;
    int rc = 0;

    if (!json_is_object(v))
        return bad_value("logit_bias", v, "an object of token ids and numbers", e);
    p->sample.n_bias = 0;
    json_object_foreach((json_t *)(uintptr_t)v, key, b) {
        char *end;
        unsigned long id = strtoul(key, &end, 10);

        if (key[0] < '0' || key[0] > '9' || *end || id >= n_vocab)
            return err_set(e, ERR_INVAL, "logit_bias: key \"%.20s\" is not a token id from 0 to %u", key,
                           (unsigned)(n_vocab - 1));
        if (!json_is_number(b) || !(json_number_value(b) >= -1e6 && json_number_value(b) <= 1e6))
            return bad_value("logit_bias", b, "a number from -1000000 to 1000000", e);
        rc = gen_params_add_bias(p, (int32_t)id, (float)json_number_value(b), e);
        if (rc)
            return rc;
    }
    return 0;
}

static int set_field(struct gen_params *p, const struct field *f, const json_t *v, uint32_t n_vocab, struct err *e)
{
    switch (f->type) {
    case FIELD_F32:
    case FIELD_U32:
    case FIELD_LOGPROBS: return set_number(p, f, v, e);
    case FIELD_SEED:
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return bad_value(f->name, v, "a whole number from 0 to 9223372036854775807", e);
        p->sample.seed = (uint64_t)json_integer_value(v);
        p->seed_given = true;
        return 0;
    case FIELD_BOOL:
        if (!json_is_boolean(v))
            return bad_value(f->name, v, "true or false", e);
        p->ignore_eos = json_is_true(v);
        return 0;
    case FIELD_STOP: return set_stop(p, v, e);
    case FIELD_STOP_IDS: return set_stop_ids(p, v, n_vocab, e);
    case FIELD_BIAS: return set_bias(p, v, n_vocab, e);
    }
    return 0;
}

/* --- prompts --------------------------------------------------------------------------------------------------------- */

static int push_id(struct token_list *l, int32_t id, struct err *e)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        int32_t *v = realloc(l->ids, cap * sizeof *v);

        if (!v)
            return err_set(e, ERR_NOMEM, "prompt of %zu tokens", cap);
        l->ids = v;
        l->cap = cap;
    }
    l->ids[l->n++] = id;
    return 0;
}

static int need_chat(const struct gen_prompting *how, struct err *e)
{
    if (how->chat)
        return 0;
    return err_set(e, ERR_INVAL, "messages: %s", how->chat_error ? how->chat_error : "no chat template");
}

static int prompt_text(struct gen_request *r, const struct gen_prompting *how, const char *text, size_t len,
                       struct err *e)
{
    unsigned flags = TOKEN_ADD_BOS | (how->no_special ? 0 : TOKEN_PARSE_SPECIAL);
    int32_t bos = tokenizer_bos(how->tok);
    int rc;

    if (how->instruct) {
        struct chat_message m[2] = { { "system", how->system } };
        char *copy;
        size_t n = how->system ? 1 : 0;

        rc = need_chat(how, e);
        if (!rc && memchr(text, 0, len))
            rc = err_set(e, ERR_INVAL, "prompt: a NUL byte cannot be part of a chat message");
        copy = rc ? NULL : strndup(text, len);
        if (!rc && !copy)
            rc = err_set(e, ERR_NOMEM, "prompt of %zu bytes", len);
        m[n].role = "user";
        m[n].content = copy;
        if (!rc)
            rc = chat_encode(how->chat, how->tok, m, n + 1, true, &r->prompt, e);
        free(copy);
        return rc;
    }
    rc = tokenizer_encode(how->tok, text, len, flags, &r->prompt, e);
    /* A prompt rendered by someone else's template may bring its own BOS. */
    if (!rc && !how->no_special && tokenizer_add_bos(how->tok) && r->prompt.n > 1 && r->prompt.ids[0] == bos &&
        r->prompt.ids[1] == bos)
        memmove(r->prompt.ids, r->prompt.ids + 1, --r->prompt.n * sizeof *r->prompt.ids);
    return rc;
}

static int prompt_json(struct gen_request *r, const struct gen_prompting *how, const json_t *v, struct err *e)
{
    int rc = 0;

    if (json_is_string(v))
        return prompt_text(r, how, json_string_value(v), json_string_length(v), e);
    if (!json_is_array(v))
        return bad_value("prompt", v, "a string or an array of token ids", e);
    for (size_t i = 0; !rc && i < json_array_size(v); i++) {
        int32_t id = 0;

        rc = token_id("prompt", json_array_get(v, i), how->n_vocab, &id, e);
        if (!rc)
            rc = push_id(&r->prompt, id, e);
    }
    return rc;
}

/* NULL for what is no string, or holds U+0000. */
static const char *plain_string(const json_t *v)
{
    const char *s = json_string_value(v);

    return s && strlen(s) == json_string_length(v) ? s : NULL;
}

static int prompt_messages(struct gen_request *r, const struct gen_prompting *how, const json_t *v, struct err *e)
{
    size_t n = json_array_size(v);
    struct chat_message *m;
    int rc = need_chat(how, e);

    if (rc)
        return rc;
    if (!json_is_array(v) || !n)
        return bad_value("messages", v, "an array of messages", e);
    m = calloc(n, sizeof *m);
    if (!m)
        return err_set(e, ERR_NOMEM, "%zu messages", n);
    for (size_t i = 0; !rc && i < n; i++) {
        const json_t *one = json_array_get(v, i);

        m[i].role = plain_string(json_object_get(one, "role"));
        m[i].content = plain_string(json_object_get(one, "content"));
        if (!m[i].role || !m[i].content || json_object_size(one) != 2)
            rc = bad_value("messages", one, "an object with the strings role and content (without U+0000)", e);
    }
    if (!rc) {
        rc = chat_encode(how->chat, how->tok, m, n, true, &r->prompt, e);
        if (rc)
            err_prefix(e, "messages");
    }
    free(m);
    return rc;
}

/* --- lines ----------------------------------------------------------------------------------------------------------- */

static int begin(struct gen_request *r, const struct gen_prompting *how, uint64_t line, struct err *e)
{
    memset(r, 0, sizeof *r);
    r->line = line;
    return gen_params_copy(&r->params, how->defaults, e);
}

/* Sets what is still open and checks the whole. */
static int finish(struct gen_request *r, const struct gen_prompting *how, struct err *e)
{
    if (!r->id)
        r->id = json_integer((json_int_t)r->line);
    if (!r->id)
        return err_set(e, ERR_NOMEM, "id of line %llu", (unsigned long long)r->line);
    if (!r->params.seed_given) {
        const uint32_t ctr[4] = { (uint32_t)r->line, (uint32_t)(r->line >> 32), 0, 0x6c696e65 };
        const uint32_t key[2] = { (uint32_t)how->seed, (uint32_t)(how->seed >> 32) };
        uint32_t out[4];

        rng_philox(ctr, key, out);
        r->params.sample.seed = (uint64_t)out[1] << 32 | out[0];
    }
    if (!r->prompt.n)
        return err_set(e, ERR_INVAL, "prompt: empty: at least one token is needed to go on from");
    return gen_params_check(&r->params, how->n_vocab, e);
}

int gen_request_text(struct gen_request *r, const struct gen_prompting *how, uint64_t line, const char *text, size_t len,
                     struct err *e)
{
    int rc = begin(r, how, line, e);

    if (!rc)
        rc = prompt_text(r, how, text, len, e);
    return rc ? rc : finish(r, how, e);
}

int gen_request_chat(struct gen_request *r, const struct gen_prompting *how, uint64_t line,
                     const struct chat_message *msgs, size_t n, struct err *e)
{
    int rc = begin(r, how, line, e);

    if (!rc)
        rc = need_chat(how, e);
    if (!rc)
        rc = chat_encode(how->chat, how->tok, msgs, n, true, &r->prompt, e);
    return rc ? rc : finish(r, how, e);
}

/* One member of the object. */
static int member(struct gen_request *r, const struct gen_prompting *how, struct spoken *said, const char *key, json_t *v,
                  struct err *e)
{
    if (!strcmp(key, "id")) {
        if (!json_is_string(v) && !json_is_integer(v) && !json_is_null(v))
            return bad_value("id", v, "a string or a whole number", e);
        if (!json_is_null(v))
            r->id = json_incref(v);
        return 0;
    }
    if (!strcmp(key, "prompt") || !strcmp(key, "messages")) {
        if (!json_is_null(v))
            *(key[0] == 'p' ? &said->prompt : &said->messages) = v;
        return 0;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!strcmp(key, fields[i].name))
            return json_is_null(v) ? 0 : set_field(&r->params, &fields[i], v, how->n_vocab, e);
    return err_set(e, ERR_INVAL, "%.60s: unknown field", key);
}

/* Like json_parse, but strings may hold U+0000, and messages name no line: the whole text is one. */
static int parse_line(json_t **object, const char *text, size_t len, struct err *e)
{
    json_error_t why;

    *object = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (*object)
        return 0;
    if (json_error_code(&why) == json_error_out_of_memory)
        return err_set(e, ERR_NOMEM, "JSON line of %zu bytes", len);
    return err_set(e, ERR_FORMAT, "JSON: column %d: %s", why.column, why.text);
}

int gen_request_json(struct gen_request *r, const struct gen_prompting *how, uint64_t line, const char *text, size_t len,
                     struct err *e)
{
    struct spoken said = { 0 };
    json_t *object = NULL, *v;
    const char *key;
    int rc = begin(r, how, line, e), first = 0;

    if (!rc)
        rc = parse_line(&object, text, len, e);
    if (rc)
        return rc;
    if (!json_is_object(object))
        rc = first = err_set(e, ERR_FORMAT, "a line must be one JSON object");
    json_object_foreach(object, key, v) {
        struct err other;

        rc = member(r, how, &said, key, v, first ? &other : e); /* go on after an error: the id may come later */
        if (rc && !first)
            first = rc;
    }
    rc = first;
    if (!rc && !said.prompt == !said.messages)
        rc = err_set(e, ERR_INVAL, said.prompt ? "both prompt and messages are given" : "neither prompt nor messages");
    if (!rc && said.prompt)
        rc = prompt_json(r, how, said.prompt, e);
    if (!rc && said.messages)
        rc = prompt_messages(r, how, said.messages, e);
    if (!rc)
        rc = finish(r, how, e);
    json_decref(object);
    return rc;
}

void gen_request_clear(struct gen_request *r)
{
    json_decref(r->id);
    free(r->prompt.ids);
    gen_params_clear(&r->params);
    memset(r, 0, sizeof *r);
}
