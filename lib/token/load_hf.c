/* Tokenizers in Hugging Face folders: tokenizer.json, with what tokenizer_config.json and generation_config.json say
 * about the first and last tokens. */
#include <stdlib.h>

#include "lib/core/mem.h"
#include "lib/token/hf_priv.h"

struct entry { /* a token by id; text is borrowed from the JSON */
    const char *text;
    size_t len;
    uint8_t attr;
};

static int set_entry(struct entry *v, size_t n, json_int_t id, const char *text, size_t len, unsigned attr, struct err *e)
{
    if (id < 0 || (size_t)id >= n)
        return err_set(e, ERR_FORMAT, "tokenizer.json: token \"%.60s\" has the id %lld", text, (long long)id);
    if (v[id].text && (v[id].len != len || memcmp(v[id].text, text, len) != 0))
        return err_set(e, ERR_FORMAT, "tokenizer.json: tokens \"%.60s\" and \"%.60s\" share the id %lld", v[id].text, text,
                       (long long)id);
    v[id].text = text;
    v[id].len = len;
    v[id].attr = (uint8_t)attr;
    return 0;
}

static json_int_t largest_id(const json_t *vocab, const json_t *added)
{
    json_int_t most = -1, id;
    const char *text;
    json_t *value;

    json_object_foreach((json_t *)vocab, text, value) {
        id = json_integer_value(value);
        most = id > most ? id : most;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        id = json_integer_value(json_object_get(json_array_get(added, i), "id"));
        most = id > most ? id : most;
    }
    return most;
}

static int add_added(struct entry *v, size_t n, const json_t *vocab, const json_t *added, struct err *e)
{
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *a = json_array_get(added, i), *id = json_object_get(a, "id"), *text = json_object_get(a, "content");
        const json_t *known = json_is_string(text) ? json_object_get(vocab, json_string_value(text)) : NULL;
        unsigned attr = ATTR_ADDED;
        int rc;

        if (!json_is_integer(id) || !json_is_string(text))
            return err_set(e, ERR_FORMAT, "tokenizer.json: added token %zu needs an id and a content", i);
        if (known && json_integer_value(known) != json_integer_value(id))
            return err_set(e, ERR_FORMAT, "tokenizer.json: added token \"%.60s\" has the id %lld, in the vocabulary %lld",
                           json_string_value(text), (long long)json_integer_value(id), (long long)json_integer_value(known));
        attr |= hf_flag(a, "special", false) ? ATTR_SPECIAL : 0;
        attr |= hf_flag(a, "normalized", true) ? ATTR_NORMALIZED : 0;
        attr |= hf_flag(a, "lstrip", false) ? ATTR_LSTRIP : 0;
        attr |= hf_flag(a, "rstrip", false) ? ATTR_RSTRIP : 0;
        attr |= hf_flag(a, "single_word", false) ? ATTR_WORD : 0;
        rc = set_entry(v, n, json_integer_value(id), json_string_value(text), json_string_length(text), attr, e);
        if (rc)
            return rc;
    }
    return 0;
}

static bool is_byte_text(const char *s, size_t n)
{
    return n == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>' && strspn(s + 3, "0123456789ABCDEF") == 2;
}

static int fill_vocab(struct tokenizer *t, const struct entry *v, size_t n, struct err *e)
{
    size_t bytes = 0;
    int rc;

    for (size_t i = 0; i < n; i++)
        bytes += v[i].len;
    rc = vocab_init(&t->v, n, bytes, e);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        vocab_set(&t->v, i, v[i].text ? v[i].text : "", v[i].len);
        t->v.attr[i] = v[i].text ? v[i].attr : ATTR_SPECIAL; /* ids that no token has: nothing to show */
        if (t->spm && !(v[i].attr & ATTR_ADDED) && v[i].text && is_byte_text(v[i].text, v[i].len))
            t->v.attr[i] |= ATTR_BYTE;
        if (v[i].text)
            vocab_index(&t->v, i);
    }
    return rc;
}

static int load_vocab(struct tokenizer *t, const json_t *root, const json_t *model, struct err *e)
{
    const json_t *vocab = json_object_get(model, "vocab"), *added = json_object_get(root, "added_tokens");
    json_int_t most = largest_id(vocab, added);
    size_t count = json_object_size(vocab) + json_array_size(added), n = (size_t)most + 1;
    struct entry *v;
    const char *text;
    json_t *value;
    int rc = 0;

    if (!json_is_object(vocab) || count == 0)
        return err_set(e, ERR_FORMAT, "tokenizer.json: model.vocab is not a map of tokens");
    if (n > TOKEN_VOCAB_MAX || n > 2 * count + 65536)
        return err_set(e, ERR_FORMAT, "tokenizer.json: %zu tokens with ids up to %lld", count, (long long)most);
    v = calloc(n, sizeof *v);
    if (!v)
        return err_set(e, ERR_NOMEM, "vocabulary of %zu tokens", n);
    json_object_foreach((json_t *)vocab, text, value) {
        if (!json_is_integer(value))
            rc = err_set(e, ERR_FORMAT, "tokenizer.json: the id of \"%.60s\" is not an integer", text);
        else
            rc = set_entry(v, n, json_integer_value(value), text, strlen(text), 0, e);
        if (rc)
            break;
    }
    if (rc == 0)
        rc = add_added(v, n, vocab, added, e);
    if (rc == 0)
        rc = fill_vocab(t, v, n, e);
    free(v);
    return rc;
}

/* The two parts of a merge: "a b", or ["a", "b"]. */
static bool merge_parts(const json_t *m, const char *part[2], size_t len[2])
{
    if (json_is_array(m)) {
        for (size_t k = 0; k < 2; k++) {
            const json_t *p = json_array_get(m, k);

            if (!json_is_string(p))
                return false;
            part[k] = json_string_value(p);
            len[k] = json_string_length(p);
        }
        return json_array_size(m) == 2 && len[0] && len[1];
    }
    part[0] = json_string_value(m);
    if (part[0]) {
        size_t n = json_string_length(m);
        const char *space = memchr(part[0], ' ', n);

        if (space == NULL || space == part[0])
            return false;
        len[0] = (size_t)(space - part[0]);
        part[1] = space + 1;
        len[1] = n - len[0] - 1;
        return len[1] && !memchr(part[1], ' ', len[1]);
    }
    return false;
}

static int load_merges(struct tokenizer *t, const json_t *model, struct err *e)
{
    const json_t *list = json_object_get(model, "merges");
    size_t n = json_array_size(list);
    char *both = malloc(2 * (size_t)t->v.longest + 1);
    int rc = both ? merge_table_init(&t->merges, n, e) : err_set(e, ERR_NOMEM, "merges");

    if (rc == 0 && !json_is_array(list))
        rc = err_set(e, ERR_FORMAT, "tokenizer.json: model.merges is not a list");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *part[2];
        size_t len[2];
        int32_t l, r, id;

        if (!merge_parts(json_array_get(list, i), part, len)) {
            rc = err_set(e, ERR_FORMAT, "tokenizer.json: merge %zu is not a pair of tokens", i);
            break;
        }
        l = vocab_find(&t->v, part[0], len[0]);
        r = vocab_find(&t->v, part[1], len[1]);
        id = -1;
        if (l >= 0 && r >= 0) {
            memcpy(both, part[0], len[0]);
            memcpy(both + len[0], part[1], len[1]);
            id = vocab_find(&t->v, both, len[0] + len[1]);
        }
        if (id < 0)
            rc = err_set(e, ERR_FORMAT, "tokenizer.json: merge %zu (\"%.40s\" + \"%.40s\") names a token that is not in the vocabulary",
                         i, part[0], part[1]);
        else
            merge_table_put(&t->merges, l, r, (uint32_t)i, id);
    }
    free(both);
    return rc;
}

static int load_model(struct tokenizer *t, const json_t *root, struct err *e)
{
    const json_t *model = json_object_get(root, "model"), *unk = json_object_get(model, "unk_token");
    const char *type = hf_string(model, "type"), *mark[2];
    int rc;

    if (!json_is_object(model))
        return err_set(e, ERR_FORMAT, "tokenizer.json: no model");
    if (type ? strcmp(type, "BPE") != 0 : !json_object_get(model, "merges"))
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: model type \"%.60s\": only BPE is handled", type ? type : "(none)");
    mark[0] = hf_string(model, "continuing_subword_prefix");
    mark[1] = hf_string(model, "end_of_word_suffix");
    if ((mark[0] && *mark[0]) || (mark[1] && *mark[1]))
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: BPE with marks at subwords is not handled");
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: BPE with dropout is not handled");
    t->spm = hf_flag(model, "byte_fallback", false);
    t->fuse_unk = hf_flag(model, "fuse_unk", false);
    t->ignore_merges = hf_flag(model, "ignore_merges", false);
    if (t->spm && t->ignore_merges)
        return err_set(e, ERR_UNSUPPORTED, "tokenizer.json: byte_fallback with ignore_merges is not handled");
    rc = load_vocab(t, root, model, e);
    if (rc == 0 && json_is_string(unk))
        t->unk = vocab_find(&t->v, json_string_value(unk), json_string_length(unk));
    return rc ? rc : load_merges(t, model, e);
}

/* The token that a configuration names: a string, or an object with a content. */
static int32_t named_token(const struct tokenizer *t, const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);

    if (json_is_object(v))
        v = json_object_get(v, "content");
    return json_is_string(v) ? vocab_find(&t->v, json_string_value(v), json_string_length(v)) : -1;
}

/* The special token before (end false) or after the text in a TemplateProcessing; -1: none. */
static int32_t template_token(const struct tokenizer *t, const json_t *p, bool end, int depth)
{
    const json_t *list = json_object_get(p, "processors"), *single = json_object_get(p, "single");
    size_t n = json_array_size(single);
    int32_t id = -1;

    for (size_t i = 0; depth < 8 && i < json_array_size(list) && id < 0; i++)
        id = template_token(t, json_array_get(list, i), end, depth + 1);
    if (n > 1) {
        const char *text = hf_string(json_object_get(json_array_get(single, end ? n - 1 : 0), "SpecialToken"), "id");

        if (text)
            id = vocab_find(&t->v, text, strlen(text));
    }
    return id;
}

static void stop_on(struct tokenizer *t, const json_t *id)
{
    json_int_t v = json_integer_value(id);

    if (json_is_integer(id) && v >= 0 && v < (json_int_t)t->v.n)
        t->v.attr[v] |= ATTR_STOP;
}

static void load_ids(struct tokenizer *t, const struct hf_files *f)
{
    const json_t *post = json_object_get(f->tokenizer, "post_processor");
    const json_t *ends = json_object_get(f->generation_config, "eos_token_id");
    int32_t first = template_token(t, post, false, 0), last = template_token(t, post, true, 0);

    t->bos = named_token(t, f->tokenizer_config, "bos_token");
    t->eos = named_token(t, f->tokenizer_config, "eos_token");
    if (t->bos < 0)
        t->bos = first;
    if (t->eos < 0)
        t->eos = last;
    t->add_bos = hf_flag(f->tokenizer_config, "add_bos_token", first >= 0 && first == t->bos);
    t->add_eos = hf_flag(f->tokenizer_config, "add_eos_token", last >= 0 && last == t->eos);
    stop_on(t, ends);
    for (size_t i = 0; i < json_array_size(ends); i++)
        stop_on(t, json_array_get(ends, i));
    if (t->eos < 0 && json_is_integer(json_is_array(ends) ? json_array_get(ends, 0) : ends)) {
        json_int_t id = json_integer_value(json_is_array(ends) ? json_array_get(ends, 0) : ends);

        t->eos = id >= 0 && id < (json_int_t)t->v.n ? (int32_t)id : -1;
    }
}

int hf_load(struct tokenizer *t, const struct hf_files *f, const char *pre, struct err *e)
{
    int rc = load_model(t, f->tokenizer, e);

    if (rc == 0)
        rc = hf_load_pipeline(t, f->tokenizer, pre, e);
    if (rc)
        return rc;
    load_ids(t, f);
    return token_finish(t, e);
}

/* The template is a text, or a list of named ones. */
static const char *template_text(const json_t *config)
{
    const json_t *v = json_object_get(config, "chat_template");

    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = hf_string(json_array_get(v, i), "name");

        if (name && strcmp(name, "default") == 0)
            return hf_string(json_array_get(v, i), "template");
    }
    return json_string_value(v);
}

static int load_chat(struct tokenizer *t, struct source *s, const json_t *config, struct err *e)
{
    const char *text = NULL;
    size_t len = 0;
    int rc = source_text(s, "chat_template.jinja", &text, &len, e);

    if (rc && rc != ERR_NOTFOUND)
        return rc;
    if (rc == ERR_NOTFOUND) {
        text = template_text(config);
        len = text ? strlen(text) : 0;
    }
    t->chat_text = text ? strndup(text, len) : NULL;
    return text && !t->chat_text ? err_set(e, ERR_NOMEM, "chat template of %zu bytes", len) : 0;
}

int token_load_hf(struct tokenizer *t, struct source *s, const char *pre, struct err *e)
{
    struct hf_files f = { NULL, NULL, NULL };
    int rc = source_json(s, "tokenizer.json", &f.tokenizer, e);

    if (rc == ERR_NOTFOUND)
        return err_set(e, ERR_NOTFOUND, "the folder has no tokenizer.json; a tokenizer.model alone is not read");
    if (rc)
        return rc;
    rc = source_json(s, "tokenizer_config.json", &f.tokenizer_config, e);
    if (rc && rc != ERR_NOTFOUND)
        return rc;
    rc = source_json(s, "generation_config.json", &f.generation_config, e);
    if (rc && rc != ERR_NOTFOUND)
        return rc;
    rc = hf_load(t, &f, pre, e);
    return rc ? rc : load_chat(t, s, f.tokenizer_config, e);
}
