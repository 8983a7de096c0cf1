/* Byte-level BPE (GPT-2 and its heirs). */
#include <stdlib.h>

#include "lib/token/token_priv.h"

/* The token that is the whole word, or -1. */
static int32_t whole_word(const struct tokenizer *t, struct token_work *w, const char *s, size_t n)
{
    int32_t id;
    size_t o = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)s[i];

        if (o + t->level_len[b] > t->v.longest)
            return -1;
        memcpy(w->word + o, t->level[b], 2);
        o += t->level_len[b];
    }
    id = vocab_find(&t->v, w->word, o);
    return id >= 0 && !(t->v.attr[id] & (ATTR_SPECIAL | ATTR_ADDED)) ? id : -1;
}

int bpe_encode_word(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, struct token_list *out,
                    struct err *e)
{
    if (t->ignore_merges) {
        int32_t id = whole_word(t, w, s, n);

        if (id >= 0)
            return token_list_push(out, id, e);
    }
    merge_begin(w->merge);
    for (size_t i = 0; i < n; i++) {
        int32_t id = t->byte_id[(unsigned char)s[i]];

        if (id >= 0) { /* some vocabularies have no token for bytes that no text has; nothing can stand for them */
            int rc = merge_push(w->merge, id, 0, e);

            if (rc)
                return rc;
        }
    }
    return merge_finish(t, w->merge, NULL, out, e);
}
