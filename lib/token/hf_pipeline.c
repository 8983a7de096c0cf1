/* The parts of tokenizer.json that shape text: normalizer, pre_tokenizer, decoder. What is not known is refused by name. */
#include <stdlib.h>

#include "lib/token/hf_priv.h"

#define DEPTH_MAX 8

const char *hf_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

bool hf_flag(const json_t *object, const char *key, bool missing)
{
    const json_t *v = json_object_get(object, key);

    return json_is_boolean(v) ? json_is_true(v) : missing;
}

static bool equals(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

/* What a pattern object {"String": s} holds; NULL: something else. */
static const char *pattern_string(const json_t *step)
{
    return hf_string(json_object_get(step, "pattern"), "String");
}

static int load_normalizer(struct tokenizer *t, const json_t *n, int depth, struct err *e)
{
    const char *type = hf_string(n, "type"), *content = hf_string(n, "content");

    if (!n || json_is_null(n))
        return 0;
    if (equals(type, "Sequence") && depth < DEPTH_MAX) {
        const json_t *list = json_object_get(n, "normalizers");

        for (size_t i = 0; i < json_array_size(list); i++) {
            int rc = load_normalizer(t, json_array_get(list, i), depth + 1, e);

            if (rc)
                return rc;
        }
        return 0;
    }
    if (equals(type, "NFC") && !t->norm.spaces && !t->norm.prepend) {
        t->norm.nfc = true;
        return 0;
    }
    if (!t->norm.nfc && equals(type, "Prepend") && equals(hf_string(n, "prepend"), TOKEN_MARK)) {
        t->norm.prepend = true;
        return 0;
    }
    if (!t->norm.nfc && equals(type, "Replace") && equals(pattern_string(n), " ") && equals(content, TOKEN_MARK)) {
        t->norm.spaces = true;
        return 0;
    }
    return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: normalizer \"%.60s\" with these parameters is not handled",
                   type ? type : "(no type)");
}

/* A literal as a regular expression. */
static int add_literal(struct pretok *p, const char *s, struct err *e)
{
    char *re = malloc(2 * strlen(s) + 1);
    size_t n = 0;
    int rc;

    if (!re)
        return err_set(e, ERR_NOMEM, "pre-tokenizer");
    for (; *s; s++) {
        if (strchr("\\^$.[]|()?*+{}-#&~", *s))
            re[n++] = '\\';
        re[n++] = *s;
    }
    re[n] = 0;
    rc = pretok_add_regex(p, re, e);
    free(re);
    return rc;
}

static int load_split(struct tokenizer *t, const json_t *step, struct err *e)
{
    const char *regex = hf_string(json_object_get(step, "pattern"), "Regex"), *literal = pattern_string(step);
    const char *behavior = hf_string(step, "behavior");

    if (equals(behavior, "MergedWithPrevious") && equals(literal, " ") && t->norm.spaces)
        return 0; /* no space is left to split at: Gemma's files say so all the same */
    if (!equals(behavior, "Isolated") || hf_flag(step, "invert", false) || (!regex && !literal) || t->spm)
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: a Split with behavior \"%.40s\"%s is not handled",
                       behavior ? behavior : "", t->spm ? " before a SentencePiece model" : "");
    return regex ? pretok_add_regex(&t->pretok, regex, e) : add_literal(&t->pretok, literal, e);
}

static int load_metaspace(struct tokenizer *t, const json_t *step, struct err *e)
{
    const char *scheme = hf_string(step, "prepend_scheme");

    if (!t->spm || !equals(hf_string(step, "replacement"), TOKEN_MARK) || t->norm.prepend || t->norm.spaces)
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: a Metaspace with these parameters is not handled");
    if (!scheme)
        scheme = hf_flag(step, "add_prefix_space", true) ? "always" : "never";
    t->norm.spaces = true;
    t->norm.metaspace = equals(scheme, "first") ? META_FIRST : equals(scheme, "never") ? META_NONE : META_ALWAYS;
    t->split_every_mark = hf_flag(step, "split", true);
    return 0;
}

/* *closed: ByteLevel has been seen, after which nothing may follow. */
static int load_pre(struct tokenizer *t, const json_t *step, int depth, bool *closed, struct err *e)
{
    const char *type = hf_string(step, "type");

    if (!step || json_is_null(step))
        return 0;
    if (*closed)
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: a pre-tokenizer after ByteLevel is not handled");
    if (equals(type, "Sequence") && depth < DEPTH_MAX) {
        const json_t *list = json_object_get(step, "pretokenizers");

        for (size_t i = 0; i < json_array_size(list); i++) {
            int rc = load_pre(t, json_array_get(list, i), depth + 1, closed, e);

            if (rc)
                return rc;
        }
        return 0;
    }
    if (equals(type, "Split"))
        return load_split(t, step, e);
    if (equals(type, "Metaspace"))
        return load_metaspace(t, step, e);
    if (equals(type, "Digits") && !t->spm)
        return pretok_add_regex(&t->pretok, hf_flag(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", e);
    if (equals(type, "ByteLevel") && !t->spm) {
        *closed = true;
        if (hf_flag(step, "add_prefix_space", true)) {
            if (t->pretok.n)
                return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: ByteLevel that adds spaces between words is not handled");
            t->byte_prefix = true;
        }
        return hf_flag(step, "use_regex", true) ? pretok_add_gpt2(&t->pretok, e) : 0;
    }
    return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: pre-tokenizer \"%.60s\" is not handled; --pre-tokenizer chooses a known one",
                   type ? type : "(no type)");
}

/* Whether decoding drops the space that encoding put first. */
static bool decoder_strips(const json_t *d, int depth)
{
    const char *type = hf_string(d, "type");
    const json_t *list = json_object_get(d, "decoders");

    if (equals(type, "Strip"))
        return equals(hf_string(d, "content"), " ") && json_integer_value(json_object_get(d, "start")) == 1;
    if (equals(type, "Metaspace")) {
        const char *scheme = hf_string(d, "prepend_scheme");

        return scheme ? !equals(scheme, "never") : hf_flag(d, "add_prefix_space", true);
    }
    for (size_t i = 0; depth < DEPTH_MAX && i < json_array_size(list); i++) {
        if (decoder_strips(json_array_get(list, i), depth + 1))
            return true;
    }
    return false;
}

int hf_load_pipeline(struct tokenizer *t, const json_t *root, const char *pre, struct err *e)
{
    bool closed = false;
    int rc = load_normalizer(t, json_object_get(root, "normalizer"), 0, e);

    if (rc)
        return rc;
    t->strip_space = decoder_strips(json_object_get(root, "decoder"), 0);
    if (pre && !t->spm)
        return pretok_init(&t->pretok, pre, e);
    rc = load_pre(t, json_object_get(root, "pre_tokenizer"), 0, &closed, e);
    if (rc)
        return rc;
    if (!t->spm && !closed)
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: BPE with neither ByteLevel nor byte_fallback is not handled");
    pretok_recognise(&t->pretok);
    return 0;
}
