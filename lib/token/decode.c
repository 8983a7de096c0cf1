#include <stdlib.h>

#include "lib/token/token_priv.h"
#include "lib/token/utf8.h"

void tokenizer_piece(const struct tokenizer *t, int32_t id, bool special, const char **out, size_t *len)
{
    *out = "";
    *len = 0;
    if (id < 0 || (uint32_t)id >= t->v.n || (!special && (t->v.attr[id] & ATTR_SPECIAL)))
        return;
    *out = t->v.bytes + t->v.bytes_off[id];
    *len = t->v.bytes_off[id + 1] - t->v.bytes_off[id];
}

static int reserve(char **buf, size_t len, size_t *cap, size_t more, struct err *e)
{
    size_t want = *cap ? *cap : 256;
    char *p;

    if (more <= *cap - len)
        return 0;
    while (want - len < more) {
        if (want > SIZE_MAX / 4)
            return err_set(e, ERR_NOMEM, "text of %zu bytes", want);
        want *= 2;
    }
    p = realloc(*buf, want);
    if (!p)
        return err_set(e, ERR_NOMEM, "text of %zu bytes", want);
    *buf = p;
    *cap = want;
    return 0;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool special, char **buf, size_t *len,
                     struct err *e)
{
    size_t total = *len, at = *len;
    const char *s;
    size_t k;
    char *p;

    for (size_t i = 0; i < n; i++) {
        tokenizer_piece(t, ids[i], special, &s, &k);
        if (k > SIZE_MAX - total - 1)
            return err_set(e, ERR_NOMEM, "text of %zu tokens", n);
        total += k;
    }
    p = realloc(*buf, total + 1);
    if (!p)
        return err_set(e, ERR_NOMEM, "text of %zu bytes", total);
    *buf = p;
    for (size_t i = 0; i < n; i++) {
        tokenizer_piece(t, ids[i], special, &s, &k);
        memcpy(p + at, s, k);
        at += k;
    }
    if (t->strip_space && at > *len && p[*len] == ' ') {
        memmove(p + *len, p + *len + 1, at - *len - 1);
        at--;
    }
    *len = at;
    return 0;
}

void token_decoder_init(struct token_decoder *d, const struct tokenizer *t, bool special)
{
    memset(d, 0, sizeof *d);
    d->t = t;
    d->special = special;
}

int token_decoder_push(struct token_decoder *d, int32_t id, char **buf, size_t *len, size_t *cap, struct err *e)
{
    const char *s;
    size_t n;
    unsigned tail;
    char *at;
    int rc;

    tokenizer_piece(d->t, id, d->special, &s, &n);
    if (n == 0)
        return 0;
    rc = reserve(buf, *len, cap, d->n_held + n, e);
    if (rc)
        return rc;
    if (!d->started && d->t->strip_space && s[0] == ' ') {
        s++;
        n--;
    }
    d->started = true;
    at = *buf + *len;
    memcpy(at, d->held, d->n_held);
    memcpy(at + d->n_held, s, n);
    n += d->n_held;
    tail = utf8_incomplete_tail(at, n);
    memcpy(d->held, at + n - tail, tail);
    d->n_held = (uint8_t)tail;
    *len += n - tail;
    return 0;
}

int token_decoder_finish(struct token_decoder *d, char **buf, size_t *len, size_t *cap, struct err *e)
{
    int rc = reserve(buf, *len, cap, d->n_held, e);

    if (rc)
        return rc;
    if (d->n_held)
        memcpy(*buf + *len, d->held, d->n_held);
    *len += d->n_held;
    d->n_held = 0;
    return 0;
}
