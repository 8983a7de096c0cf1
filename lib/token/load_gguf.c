/* Tokenizers in GGUF metadata (tokenizer.ggml.*). */
#include <stdlib.h>

#include "lib/core/mem.h"
#include "lib/token/token_priv.h"

#define KEY(name) "tokenizer.ggml." name

enum gguf_type { GGUF_NORMAL = 1, GGUF_UNKNOWN, GGUF_CONTROL, GGUF_USER, GGUF_UNUSED, GGUF_BYTE };

static int get_array(struct source *s, const char *key, const struct source_str **out, size_t *n, struct err *e)
{
    int rc = source_get_str_array(s, key, out, n, e);

    if (rc == ERR_NOTFOUND)
        return err_set(e, ERR_FORMAT, "%s is missing", key);
    return rc;
}

/* An optional boolean. */
static int get_flag(struct source *s, const char *key, bool *value, struct err *e)
{
    int rc = source_get_bool(s, key, value, e);

    return rc == ERR_NOTFOUND ? 0 : rc;
}

static int get_id(struct source *s, const char *key, uint32_t n, int32_t *id, struct err *e)
{
    uint64_t v;
    int rc = source_get_u64(s, key, &v, e);

    if (rc == ERR_NOTFOUND)
        return 0;
    if (rc)
        return rc;
    if (v == UINT32_MAX) /* some converters write -1 for none */
        return 0;
    if (v >= n)
        return err_set(e, ERR_FORMAT, "%s = %llu: the vocabulary has %u tokens", key, (unsigned long long)v, n);
    *id = (int32_t)v;
    return 0;
}

/* Converters write a run of U+2581 that the vocabulary defines as a run of spaces. */
static bool is_space_run(struct source_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] != ' ')
            return false;
    }
    return s.len > 0;
}

static int load_vocab(struct tokenizer *t, struct source *s, struct err *e)
{
    const struct source_str *text;
    const int32_t *type = NULL;
    size_t n, n_types = 0, bytes = 0;
    int rc = get_array(s, KEY("tokens"), &text, &n, e);

    if (rc)
        return rc;
    rc = source_get_i32_array(s, KEY("token_type"), &type, &n_types, e);
    if (rc && rc != ERR_NOTFOUND)
        return rc;
    if (rc == 0 && n_types != n)
        return err_set(e, ERR_FORMAT, "%zu tokens but %zu token types", n, n_types);
    if (rc == ERR_NOTFOUND)
        type = NULL;
    for (size_t i = 0; i < n; i++)
        bytes += text[i].len + (type && type[i] == GGUF_USER && t->spm ? 2 * text[i].len : 0);
    rc = vocab_init(&t->v, n, bytes, e);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        int kind = type ? type[i] : GGUF_NORMAL;

        if (t->spm && kind == GGUF_USER && is_space_run(text[i])) {
            char *marks = malloc(TOKEN_MARK_LEN * text[i].len);

            if (!marks)
                return err_set(e, ERR_NOMEM, "vocabulary");
            for (size_t k = 0; k < text[i].len; k++)
                memcpy(marks + TOKEN_MARK_LEN * k, TOKEN_MARK, TOKEN_MARK_LEN);
            vocab_set(&t->v, i, marks, TOKEN_MARK_LEN * text[i].len);
            free(marks);
        } else {
            vocab_set(&t->v, i, text[i].ptr, text[i].len);
        }
        if (kind == GGUF_CONTROL || kind == GGUF_UNKNOWN)
            t->v.attr[i] = ATTR_SPECIAL | ATTR_ADDED;
        else if (kind == GGUF_USER)
            t->v.attr[i] = ATTR_ADDED;
        else if (kind == GGUF_UNUSED)
            t->v.attr[i] = ATTR_SPECIAL;
        else if (kind == GGUF_BYTE && t->spm && text[i].len == 6 && memcmp(text[i].ptr, "<0x", 3) == 0)
            t->v.attr[i] = ATTR_BYTE;
        vocab_index(&t->v, i);
    }
    return 0;
}

static bool is_token(const struct vocab *v, uint32_t id, const char *a, size_t n)
{
    size_t len;
    const char *s = id < v->n ? vocab_text(v, id, &len) : NULL;

    return s && len == n && memcmp(s, a, n) == 0;
}

static int load_merges(struct tokenizer *t, struct source *s, struct err *e)
{
    const struct source_str *m;
    size_t n;
    char *both = malloc(2 * t->v.longest + 1);
    uint32_t guess = 0;
    int rc = both ? get_array(s, KEY("merges"), &m, &n, e) : err_set(e, ERR_NOMEM, "merges");

    if (rc == 0)
        rc = merge_table_init(&t->merges, n, e);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *space = m[i].len > 1 ? memchr(m[i].ptr + 1, ' ', m[i].len - 1) : NULL;
        size_t ll = space ? (size_t)(space - m[i].ptr) : 0, rl = space ? m[i].len - ll - 1 : 0;
        int32_t l, r, id;

        if (!space || rl == 0 || ll > t->v.longest || rl > t->v.longest) {
            rc = err_set(e, ERR_FORMAT, "merge %zu is not two tokens with a space between them", i);
            break;
        }
        memcpy(both, m[i].ptr, ll);
        memcpy(both + ll, space + 1, rl);
        l = vocab_find(&t->v, m[i].ptr, ll);
        r = vocab_find(&t->v, space + 1, rl);
        if (is_token(&t->v, guess, both, ll + rl)) /* results mostly stand in the order of the merges */
            id = (int32_t)guess;
        else
            id = vocab_find(&t->v, both, ll + rl);
        if (l < 0 || r < 0 || id < 0) {
            rc = err_set(e, ERR_FORMAT, "merge %zu (\"%.*s\") names a token that is not in the vocabulary", i,
                         (int)(m[i].len < 80 ? m[i].len : 80), m[i].ptr);
            break;
        }
        guess = (uint32_t)id + 1;
        merge_table_put(&t->merges, l, r, (uint32_t)i, id);
    }
    free(both);
    return rc;
}

/* Scores order the merges. Control, byte and most user-defined tokens never come from a merge; runs of white space that
 * the vocabulary defines do, and go first: SentencePiece gives them score 0, converters write another. */
static int load_scores(struct tokenizer *t, struct source *s, struct err *e)
{
    const float *score;
    size_t n;
    float *own = NULL;
    uint8_t *mergeable = NULL;
    bool longest = false;
    int rc = source_get_f32_array(s, KEY("scores"), &score, &n, e);

    if (rc == ERR_NOTFOUND)
        return err_set(e, ERR_FORMAT, "%s is missing", KEY("scores"));
    if (rc == 0 && n != t->v.n)
        rc = err_set(e, ERR_FORMAT, "%u tokens but %zu scores", t->v.n, n);
    if (rc)
        return rc;
    own = mem_alloc(n * sizeof *own);
    mergeable = mem_zalloc(n);
    if (!own || !mergeable) {
        rc = err_set(e, ERR_NOMEM, "scores of %zu tokens", n);
        goto done;
    }
    for (uint32_t i = 0; i < n; i++) {
        size_t len;
        const char *text = vocab_text(&t->v, i, &len);
        bool blank = len > 0;

        own[i] = score[i];
        if (t->v.attr[i] & (ATTR_SPECIAL | ATTR_BYTE))
            continue;
        for (size_t k = 0; k < len && blank; k++)
            blank = strchr("\n\t" TOKEN_MARK, text[k]) && text[k];
        if (t->v.attr[i] & ATTR_ADDED) {
            own[i] = 0;
            longest = longest || (blank && len > 1);
        }
        mergeable[i] = !(t->v.attr[i] & ATTR_ADDED) || blank;
    }
    rc = merge_scores_init(&t->scores, own, mergeable, n, longest ? TIE_LONGEST : TIE_LOWEST_ID, e);
done:
    free(own);
    free(mergeable);
    return rc;
}

static int load_pre(struct tokenizer *t, struct source *s, const char *pre, struct err *e)
{
    const char *name = pre;
    int rc;

    if (!name) {
        rc = source_get_str(s, KEY("pre"), &name, NULL, e);
        if (rc == ERR_NOTFOUND)
            return err_set(e, ERR_UNSUPPORTED, "the file names no pre-tokenizer: choose one with --pre-tokenizer");
        if (rc)
            return rc;
    }
    rc = pretok_init(&t->pretok, name, e);
    if (rc)
        return rc;
    t->norm.nfc = pretok_traits(name).nfc;
    t->ignore_merges = pretok_traits(name).ignore_merges;
    t->add_bos = pretok_traits(name).add_bos;
    return 0;
}

static int load_ids(struct tokenizer *t, struct source *s, struct err *e)
{
    static const char *const ends[] = { KEY("eot_token_id"), KEY("eom_token_id") };
    int rc = get_id(s, KEY("bos_token_id"), t->v.n, &t->bos, e);

    if (rc == 0)
        rc = get_id(s, KEY("eos_token_id"), t->v.n, &t->eos, e);
    if (rc == 0)
        rc = get_id(s, KEY("unknown_token_id"), t->v.n, &t->unk, e);
    for (size_t i = 0; i < 2 && rc == 0; i++) {
        int32_t id = -1;

        rc = get_id(s, ends[i], t->v.n, &id, e);
        if (id >= 0)
            t->v.attr[id] |= ATTR_STOP;
    }
    if (rc == 0)
        rc = get_flag(s, KEY("add_bos_token"), &t->add_bos, e);
    if (rc == 0)
        rc = get_flag(s, KEY("add_eos_token"), &t->add_eos, e);
    return rc;
}

int token_load_gguf(struct tokenizer *t, struct source *s, const char *pre, struct err *e)
{
    const char *model, *chat;
    bool prefix = true;
    size_t len;
    int rc = source_get_str(s, KEY("model"), &model, NULL, e);

    if (rc == ERR_NOTFOUND)
        return err_set(e, ERR_FORMAT, "%s is missing: the file carries no tokenizer", KEY("model"));
    if (rc)
        return rc;
    t->spm = strcmp(model, "llama") == 0;
    if (!t->spm && strcmp(model, "gpt2") != 0)
        return err_set(e, ERR_UNSUPPORTED, "tokenizer model \"%.60s\": only \"gpt2\" and \"llama\" are handled", model);
    rc = load_vocab(t, s, e);
    if (rc)
        return rc;
    if (t->spm) {
        rc = get_flag(s, KEY("add_space_prefix"), &prefix, e);
        t->add_bos = true;
        t->norm = (struct normalizer){ .prepend = prefix, .spaces = true };
        t->strip_space = prefix;
        t->fuse_unk = true;
        if (rc == 0)
            rc = load_scores(t, s, e);
    } else {
        rc = load_pre(t, s, pre, e);
        if (rc == 0)
            rc = load_merges(t, s, e);
    }
    if (rc == 0)
        rc = load_ids(t, s, e);
    if (rc)
        return rc;
    rc = source_get_str(s, "tokenizer.chat_template", &chat, &len, e);
    if (rc && rc != ERR_NOTFOUND)
        return rc;
    if (rc == 0) {
        t->chat_text = strdup(chat);
        if (!t->chat_text)
            return err_set(e, ERR_NOMEM, "chat template of %zu bytes", len);
    }
    return token_finish(t, e);
}
