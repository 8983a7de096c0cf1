#include <stdio.h>
#include <stdlib.h>

#include "lib/core/mem.h"
#include "lib/token/token_priv.h"
#include "lib/token/utf8.h"

/* --- opening and asking ---------------------------------------------------------------------------------------- */

void token_init(struct tokenizer *t)
{
    memset(t, 0, sizeof *t);
    t->bos = t->eos = t->unk = -1;
    memset(t->byte_id, 0xff, sizeof t->byte_id);
}

int tokenizer_open(struct tokenizer **out, struct source *s, const char *pre_tokenizer, struct err *e)
{
    struct tokenizer *t = malloc(sizeof *t);
    int rc;

    *out = NULL;
    if (!t)
        return err_set(e, ERR_NOMEM, "tokenizer");
    token_init(t);
    if (pre_tokenizer && !pretok_find(pre_tokenizer)) {
        rc = err_set(e, ERR_UNSUPPORTED, "unknown pre-tokenizer \"%.60s\": see --help for the names", pre_tokenizer);
        goto fail;
    }
    if (source_kind(s) == SOURCE_GGUF)
        rc = token_load_gguf(t, s, pre_tokenizer, e);
    else
        rc = token_load_hf(t, s, pre_tokenizer, e);
    if (rc)
        goto fail;
    *out = t;
    return 0;
fail:
    err_prefix(e, "tokenizer of %.300s", source_path(s));
    tokenizer_close(t);
    return rc;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    vocab_fini(&t->v);
    merge_table_fini(&t->merges);
    free(t->scores.order);
    trie_fini(&t->raw);
    trie_fini(&t->normal);
    pretok_fini(&t->pretok);
    free(t->chat_text);
    free(t);
}

const char *tokenizer_kind(const struct tokenizer *t)
{
    return t->spm ? "spm" : "bpe";
}

const char *tokenizer_pre(const struct tokenizer *t)
{
    return t->spm ? "" : t->pretok.name;
}

uint32_t tokenizer_n_vocab(const struct tokenizer *t)
{
    return t->v.n;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

bool tokenizer_add_bos(const struct tokenizer *t)
{
    return t->add_bos;
}

bool tokenizer_add_eos(const struct tokenizer *t)
{
    return t->add_eos;
}

static bool has_attr(const struct tokenizer *t, int32_t id, unsigned attr)
{
    return id >= 0 && (uint32_t)id < t->v.n && (t->v.attr[id] & attr);
}

bool tokenizer_is_stop(const struct tokenizer *t, int32_t id)
{
    return has_attr(t, id, ATTR_STOP);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return has_attr(t, id, ATTR_SPECIAL);
}

bool tokenizer_has_byte(const struct tokenizer *t, unsigned char byte)
{
    return t->byte_id[byte] >= 0;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len)
{
    return vocab_find(&t->v, text, len);
}

/* --- finishing touches of the loaders -------------------------------------------------------------------------- */

void token_mark_stops(struct tokenizer *t)
{
    static const char *const names[] = {
        "<|im_end|>",     "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",           "<|end_of_text|>",
        "<end_of_turn>",  "<eos>",         "</s>",       "<|end|>",              "<｜end▁of▁sentence｜>",
        "<|EOT|>",        "<EOT>",         "_<EOT>",     "<|end_of_sentence|>",  "<turn|>",
        "<|return|>",     "<|eot|>",       "<|im_sep_end|>",
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t id = vocab_find(&t->v, names[i], strlen(names[i]));

        if (has_attr(t, id, ATTR_SPECIAL))
            t->v.attr[id] |= ATTR_STOP;
    }
    if (t->eos >= 0)
        t->v.attr[t->eos] |= ATTR_STOP;
}

static void find_bytes(struct tokenizer *t)
{
    for (unsigned b = 0; b < 256; b++) {
        char c[8];
        int32_t id;

        t->level_len[b] = (uint8_t)byte_level_char((unsigned char)b, t->level[b]);
        if (t->spm)
            id = vocab_find(&t->v, c, (size_t)snprintf(c, sizeof c, "<0x%02X>", b));
        else
            id = vocab_find(&t->v, t->level[b], t->level_len[b]);
        if (id >= 0 && (t->spm ? !(t->v.attr[id] & ATTR_BYTE) : t->v.attr[id] & (ATTR_SPECIAL | ATTR_ADDED)))
            id = -1;
        t->byte_id[b] = id;
    }
}

static int index_added(struct tokenizer *t, struct token_work *w, struct err *e)
{
    for (uint32_t id = 0; id < t->v.n; id++) {
        size_t n;
        const char *s = vocab_text(&t->v, id, &n);
        int rc;

        if (!(t->v.attr[id] & ATTR_ADDED))
            continue;
        if (t->v.attr[id] & ATTR_NORMALIZED) {
            rc = token_normalize(t, w, s, n, false, &s, &n, e);
            if (rc == 0)
                rc = trie_add(&t->normal, s, n, (int32_t)id, e);
        } else {
            rc = trie_add(&t->raw, s, n, (int32_t)id, e);
        }
        if (rc)
            return rc;
    }
    return 0;
}

/* Finds the bytes that stand before a mark inside some token that merging could make. */
static void find_joins(struct tokenizer *t)
{
    for (uint32_t id = 0; id < t->v.n; id++) {
        size_t n;
        const char *s = vocab_text(&t->v, id, &n), *end = s + n, *p = s;

        if (t->v.attr[id] & (ATTR_SPECIAL | ATTR_BYTE))
            continue;
        while ((p = memchr(p, TOKEN_MARK[0], (size_t)(end - p)))) {
            if (p > s && end - p >= TOKEN_MARK_LEN && memcmp(p, TOKEN_MARK, TOKEN_MARK_LEN) == 0)
                t->joins_mark[(unsigned char)p[-1]] = true;
            p++;
        }
    }
}

int token_finish(struct tokenizer *t, struct err *e)
{
    struct token_work w = { 0 };
    int rc;

    token_mark_stops(t);
    find_bytes(t);
    if (t->spm)
        find_joins(t);
    rc = vocab_make_bytes(&t->v, t->spm, e);
    if (rc == 0)
        rc = index_added(t, &w, e);
    free(w.norm);
    return rc;
}

/* --- encoding -------------------------------------------------------------------------------------------------- */

int token_list_grow(struct token_list *l, size_t more, struct err *e)
{
    size_t cap = l->cap ? l->cap : 64;
    int32_t *p;

    if (more <= l->cap - l->n)
        return 0;
    while (cap - l->n < more) {
        if (cap > SIZE_MAX / 16)
            return err_set(e, ERR_NOMEM, "%zu tokens", cap);
        cap *= 2;
    }
    p = realloc(l->ids, cap * sizeof *p);
    if (!p)
        return err_set(e, ERR_NOMEM, "%zu tokens", cap);
    l->ids = p;
    l->cap = cap;
    return 0;
}

int token_list_push(struct token_list *l, int32_t id, struct err *e)
{
    int rc = token_list_grow(l, 1, e);

    if (rc == 0)
        l->ids[l->n++] = id;
    return rc;
}

static int work_open(const struct tokenizer *t, struct token_work *w, struct err *e)
{
    int rc = merge_work_open(&w->merge, e);

    w->word = rc ? NULL : malloc(t->v.longest + 2);
    if (rc == 0 && !w->word)
        rc = err_set(e, ERR_NOMEM, "scratch memory for encoding");
    return rc ? rc : pretok_work_open(&w->pretok, e);
}

static void work_close(struct token_work *w)
{
    merge_work_close(w->merge);
    pretok_work_close(w->pretok);
    free(w->words.at);
    free(w->norm);
    free(w->prefixed);
    free(w->word);
}

/* A piece of normalised text without added tokens. */
static int encode_model(const struct tokenizer *t, struct token_work *w, const char *s, size_t n,
                        struct token_list *out, struct err *e)
{
    int rc = 0;

    if (n == 0)
        return 0;
    if (t->spm)
        return spm_encode(t, w, s, n, out, e);
    if (t->byte_prefix && s[0] != ' ') {
        char *p = realloc(w->prefixed, n + 1);

        if (!p)
            return err_set(e, ERR_NOMEM, "text of %zu bytes", n);
        w->prefixed = p;
        p[0] = ' ';
        memcpy(p + 1, s, n);
        s = p;
        n++;
    }
    rc = pretok_split(&t->pretok, w->pretok, s, n, &w->words, e);
    for (size_t i = 0; i < w->words.n && rc == 0; i++)
        rc = bpe_encode_word(t, w, s + w->words.at[i].off, w->words.at[i].len, out, e);
    return rc;
}

static bool word_before(const char *s, size_t n)
{
    uint32_t cp;

    return n && utf8_decode_last(s, n, &cp) && utf8_is_word(cp);
}

static bool word_after(const char *s, size_t n)
{
    uint32_t cp;

    return n && utf8_decode(s, n, &cp) && utf8_is_word(cp);
}

/* Widens a match over the white space that the token swallows, on the left not below `from`. */
static struct token_span widen(unsigned attr, const char *s, size_t n, size_t from, struct token_span at)
{
    size_t end = at.off + at.len;
    uint32_t cp;
    unsigned k;

    while ((attr & ATTR_LSTRIP) && at.off > from && (k = utf8_decode_last(s + from, at.off - from, &cp)) &&
           utf8_is_space(cp))
        at.off -= k;
    while ((attr & ATTR_RSTRIP) && end < n && (k = utf8_decode(s + end, n - end, &cp)) && utf8_is_space(cp))
        end += k;
    at.len = end - at.off;
    return at;
}

struct trust {
    const struct token_span *spans;
    size_t n;
};

static bool is_trusted(const struct trust *u, struct token_span at)
{
    size_t lo = 0, hi = u->n;

    while (lo < hi) { /* the first span that ends at the end of `at` or later */
        size_t mid = lo + (hi - lo) / 2;

        if (u->spans[mid].off + u->spans[mid].len < at.off + at.len)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < u->n && u->spans[lo].off <= at.off;
}

/* The next added token at or after *scan that counts. Tokens that do not count are skipped whole. */
static bool next_added(const struct tokenizer *t, const struct trie *trie, const struct trust *u, const char *s, size_t n,
                       size_t *scan, struct token_span *at, int32_t *id)
{
    while (trie_next(trie, s, n, *scan, at, id)) {
        unsigned attr = t->v.attr[*id];
        bool ok = true;

        *scan = at->off + at->len;
        if (attr & ATTR_SPECIAL)
            ok = u && is_trusted(u, *at);
        if (ok && (attr & ATTR_WORD))
            ok = !word_before(s, at->off) && !word_after(s + *scan, n - *scan);
        if (ok)
            return true;
    }
    return false;
}

static int encode_normalized(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, bool special,
                             struct token_list *out, struct err *e)
{
    const struct token_span whole = { 0, n };
    const struct trust u = { &whole, 1 };
    struct token_span at;
    size_t done = 0, scan = 0;
    int32_t id;
    int rc;

    while (next_added(t, &t->normal, special ? &u : NULL, s, n, &scan, &at, &id)) {
        at = widen(t->v.attr[id], s, n, done, at);
        rc = encode_model(t, w, s + done, at.off - done, out, e);
        if (rc == 0)
            rc = token_list_push(out, id, e);
        if (rc)
            return rc;
        done = at.off + at.len;
        scan = scan > done ? scan : done;
    }
    return encode_model(t, w, s + done, n - done, out, e);
}

static int encode_segment(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, bool first,
                          bool special, struct token_list *out, struct err *e)
{
    const char *text;
    size_t len;
    int rc;

    if (n == 0)
        return 0;
    rc = token_normalize(t, w, s, n, first, &text, &len, e);
    return rc ? rc : encode_normalized(t, w, text, len, special, out, e);
}

int token_encode_trusted(const struct tokenizer *t, const char *s, size_t n, const struct token_span *trusted,
                         size_t n_trusted, struct token_list *out, struct err *e)
{
    struct token_work w = { 0 };
    const struct trust u = { trusted, n_trusted };
    struct token_span at;
    size_t done = 0, scan = 0, n_before = out->n;
    int32_t id;
    int rc;

    if (n >= UINT32_MAX / 4)
        return err_set(e, ERR_LIMIT, "a text of %zu bytes: encode less than 1 GiB at a time", n);
    rc = work_open(t, &w, e);
    while (rc == 0 && next_added(t, &t->raw, &u, s, n, &scan, &at, &id)) {
        at = widen(t->v.attr[id], s, n, done, at);
        rc = encode_segment(t, &w, s + done, at.off - done, done == 0,
                            is_trusted(&u, (struct token_span){ done, at.off - done }), out, e);
        if (rc == 0)
            rc = token_list_push(out, id, e);
        done = at.off + at.len;
        scan = scan > done ? scan : done;
    }
    if (rc == 0)
        rc = encode_segment(t, &w, s + done, n - done, done == 0,
                            is_trusted(&u, (struct token_span){ done, n - done }), out, e);
    work_close(&w);
    if (rc)
        out->n = n_before;
    return rc;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags, struct token_list *out,
                     struct err *e)
{
    const struct token_span whole = { 0, len };
    size_t n_before = out->n;
    int rc = 0;

    if ((flags & TOKEN_ADD_BOS) && t->add_bos && t->bos >= 0)
        rc = token_list_push(out, t->bos, e);
    if (rc == 0)
        rc = token_encode_trusted(t, text, len, &whole, flags & TOKEN_PARSE_SPECIAL ? 1 : 0, out, e);
    if (rc == 0 && (flags & TOKEN_ADD_BOS) && t->add_eos && t->eos >= 0)
        rc = token_list_push(out, t->eos, e);
    if (rc)
        out->n = n_before;
    return rc;
}
