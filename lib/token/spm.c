/* SentencePiece BPE: characters of the normalised text, characters without a token as bytes. */
#include "lib/token/token_priv.h"
#include "lib/token/utf8.h"

/* The tokens of bytes that are no character of the vocabulary. */
static int push_bytes(const struct tokenizer *t, struct token_work *w, const char *s, size_t at, unsigned n,
                      bool *was_unk, struct err *e)
{
    bool all = true;
    int rc = 0;

    for (unsigned i = 0; i < n; i++)
        all = all && t->byte_id[(unsigned char)s[at + i]] >= 0;
    if (all) {
        *was_unk = false;
        for (unsigned i = 0; i < n && rc == 0; i++)
            rc = merge_push(w->merge, t->byte_id[(unsigned char)s[at + i]], at + i + 1, e);
        return rc;
    }
    if (t->unk < 0 || (*was_unk && t->fuse_unk))
        return 0;
    *was_unk = true;
    return merge_push(w->merge, t->unk, at + n, e);
}

static int encode_piece(const struct tokenizer *t, struct token_work *w, const char *s, size_t n,
                        struct token_list *out, struct err *e)
{
    bool was_unk = false;

    merge_begin(w->merge);
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        unsigned k = utf8_decode(s + i, n - i, &cp);
        int32_t id = k ? vocab_find(&t->v, s + i, k) : -1;
        int rc;

        if (id >= 0 && !(t->v.attr[id] & ATTR_SPECIAL)) {
            was_unk = false;
            rc = merge_push(w->merge, id, i + k, e);
        } else {
            rc = push_bytes(t, w, s, i, k ? k : 1, &was_unk, e);
        }
        if (rc)
            return rc;
        i += k ? k : 1;
    }
    return merge_finish(t, w->merge, s, out, e);
}

static bool is_mark(const char *s, size_t n)
{
    return n >= TOKEN_MARK_LEN && memcmp(s, TOKEN_MARK, TOKEN_MARK_LEN) == 0;
}

/* Words begin where a mark follows a byte that no token has before a mark: nothing is ever merged across, so words are
 * merged one by one, which is faster than the whole text at once. */
int spm_encode(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, struct token_list *out,
               struct err *e)
{
    size_t begin = 0;

    for (size_t i = 1; i <= n; i++) {
        int rc;

        if (i < n && (s[i] != TOKEN_MARK[0] || !is_mark(s + i, n - i)))
            continue;
        if (i < n && !t->split_every_mark && t->joins_mark[(unsigned char)s[i - 1]])
            continue;
        rc = encode_piece(t, w, s + begin, i - begin, out, e);
        if (rc)
            return rc;
        begin = i;
    }
    return 0;
}
