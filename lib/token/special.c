/* Added tokens: a trie over their texts, matched leftmost and then longest. */
#include <stdlib.h>

#include "lib/token/token_priv.h"

static uint32_t new_node(struct trie *t, unsigned char byte)
{
    if (t->n == t->cap || t->cap == 0) {
        uint32_t cap = t->cap ? 2 * t->cap : 256;
        struct trie_node *p = cap > t->cap ? realloc(t->nodes, cap * sizeof *p) : NULL;

        if (!p)
            return 0;
        t->nodes = p;
        t->cap = cap;
        if (t->n == 0)
            t->n = 1; /* number 0 means none */
    }
    t->nodes[t->n] = (struct trie_node){ 0, 0, -1, byte };
    return t->n++;
}

static uint32_t find_child(const struct trie *t, uint32_t node, unsigned char byte)
{
    uint32_t c = t->nodes[node].child;

    while (c && t->nodes[c].byte != byte)
        c = t->nodes[c].next;
    return c;
}

int trie_add(struct trie *t, const char *text, size_t len, int32_t id, struct err *e)
{
    uint32_t at;

    if (len == 0)
        return 0;
    at = t->root[(unsigned char)text[0]];
    if (!at) {
        at = new_node(t, (unsigned char)text[0]);
        if (!at)
            goto fail;
        t->root[(unsigned char)text[0]] = at;
    }
    for (size_t i = 1; i < len; i++) {
        uint32_t c = find_child(t, at, (unsigned char)text[i]);

        if (!c) {
            c = new_node(t, (unsigned char)text[i]);
            if (!c)
                goto fail;
            t->nodes[c].next = t->nodes[at].child;
            t->nodes[at].child = c;
        }
        at = c;
    }
    if (t->nodes[at].id < 0) {
        t->nodes[at].id = id;
        t->n_tokens++;
    }
    return 0;
fail:
    return err_set(e, ERR_NOMEM, "index of added tokens");
}

void trie_fini(struct trie *t)
{
    free(t->nodes);
    memset(t, 0, sizeof *t);
}

bool trie_next(const struct trie *t, const char *s, size_t n, size_t from, struct token_span *at, int32_t *id)
{
    if (t->n_tokens == 0)
        return false;
    for (size_t i = from; i < n; i++) {
        uint32_t node = t->root[(unsigned char)s[i]];
        size_t len = 0;

        for (size_t k = i + 1; node; k++) {
            if (t->nodes[node].id >= 0) {
                *id = t->nodes[node].id;
                len = k - i;
            }
            if (k >= n)
                break;
            node = find_child(t, node, (unsigned char)s[k]);
        }
        if (len) {
            *at = (struct token_span){ i, len };
            return true;
        }
    }
    return false;
}
