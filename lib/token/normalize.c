/* Normalisers: what happens to a segment before it is cut into words. */
#include <stdlib.h>
#include <utf8proc.h>

#include "lib/core/mem.h"
#include "lib/token/token_priv.h"
#include "lib/token/utf8.h"

/* Ranges in which every character is in form C, whatever stands beside it, and has combining class 0. */
static bool is_plain(uint32_t cp)
{
    static const uint32_t plain[][2] = {
        { 0x0000, 0x02ff }, { 0x0390, 0x0482 }, { 0x048a, 0x0590 }, { 0x2010, 0x2027 }, { 0x2030, 0x205e },
        { 0x2500, 0x2775 }, { 0x3000, 0x3029 }, { 0x3030, 0x3098 }, { 0x309b, 0x3400 }, { 0x3400, 0xa66e },
        { 0xac00, 0xd7a3 }, { 0xe000, 0xf8ff }, { 0xff01, 0xffef }, { 0x1f000, 0x1faff }, { 0x20000, 0x2f7ff },
        { 0x30000, 0x3ffff },
    };

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (cp <= plain[i][1])
            return cp >= plain[i][0];
    }
    return false;
}

bool nfc_is_plain(const char *s, size_t n)
{
    uint32_t cp;

    for (size_t i = 0; i < n;) {
        unsigned k = utf8_decode(s + i, n - i, &cp);

        if (k && !is_plain(cp))
            return false;
        i += k ? k : 1;
    }
    return true;
}

static unsigned combining_class(int32_t cp)
{
    return (unsigned)utf8proc_get_property(cp)->combining_class;
}

/* Puts a run of combining marks in the order of their classes, equal ones as they were: by insertion when it is short,
 * else by counting, so that a text of marks alone costs no more than another. */
static int order_marks(int32_t *cp, size_t n, struct err *e)
{
    size_t count[257] = { 0 };
    int32_t *copy;

    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            int32_t x = cp[i];
            size_t k = i;

            for (; k > 0 && combining_class(cp[k - 1]) > combining_class(x); k--)
                cp[k] = cp[k - 1];
            cp[k] = x;
        }
        return 0;
    }
    copy = mem_alloc(n * sizeof *copy);
    if (!copy)
        return err_set(e, ERR_NOMEM, "normalising %zu marks", n);
    memcpy(copy, cp, n * sizeof *cp);
    for (size_t i = 0; i < n; i++)
        count[combining_class(copy[i]) + 1]++;
    for (size_t c = 0; c < 256; c++)
        count[c + 1] += count[c];
    for (size_t i = 0; i < n; i++)
        cp[count[combining_class(copy[i])]++] = copy[i];
    free(copy);
    return 0;
}

static int order_all(int32_t *cp, size_t n, struct err *e)
{
    for (size_t i = 0; i < n;) {
        size_t k = i;

        while (k < n && combining_class(cp[k]) != 0)
            k++;
        if (k - i > 1) {
            int rc = order_marks(cp + i, k - i, e);

            if (rc)
                return rc;
        }
        i = k + (k < n);
    }
    return 0;
}

int nfc_normalize(const char *s, size_t n, char **out, size_t *out_len, struct err *e)
{
    const utf8proc_option_t form = UTF8PROC_COMPOSE | UTF8PROC_STABLE;
    int32_t *cps = mem_alloc((4 * n + 8) * sizeof *cps); /* no character decomposes into more than 4 */
    char *buf = NULL;
    size_t n_cps = 0, o = 0;
    utf8proc_ssize_t composed;
    int rc = 0, boundary = 0;

    *out = NULL;
    if (!cps)
        return err_set(e, ERR_NOMEM, "normalising %zu bytes", n);
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        utf8proc_ssize_t k;
        unsigned len = utf8_decode(s + i, n - i, &cp);

        k = utf8proc_decompose_char((int32_t)cp, cps + n_cps, (utf8proc_ssize_t)(4 * n + 8 - n_cps),
                                    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
        if (len == 0 || k < 0) {
            rc = err_set(e, ERR_INVAL, "text to normalise is not UTF-8 at byte %zu", i);
            goto done;
        }
        n_cps += (size_t)k;
        i += len;
    }
    rc = order_all(cps, n_cps, e);
    if (rc)
        goto done;
    composed = utf8proc_normalize_utf32(cps, (utf8proc_ssize_t)n_cps, form);
    buf = composed < 0 ? NULL : malloc(4 * (size_t)composed + 1);
    if (!buf) {
        rc = err_set(e, ERR_NOMEM, "normalising %zu bytes", n);
        goto done;
    }
    for (utf8proc_ssize_t i = 0; i < composed; i++)
        o += utf8_encode((uint32_t)cps[i], buf + o);
    *out = buf;
    *out_len = o;
done:
    free(cps);
    return rc;
}

static int reserve(struct token_work *w, size_t n, struct err *e)
{
    char *p;

    if (n <= w->norm_cap)
        return 0;
    p = realloc(w->norm, n);
    if (!p)
        return err_set(e, ERR_NOMEM, "normalising %zu bytes", n);
    w->norm = p;
    w->norm_cap = n;
    return 0;
}

/* Form C of the valid stretches; other bytes stay. */
static int normalize_nfc(struct token_work *w, const char *s, size_t n, size_t *out_len, struct err *e)
{
    size_t o = 0;

    for (size_t i = 0; i < n;) {
        size_t good = utf8_valid_prefix(s + i, n - i), len = 0;
        char *form = NULL;
        int rc = good ? nfc_normalize(s + i, good, &form, &len, e) : 0;

        if (rc == 0)
            rc = reserve(w, o + len + 1, e);
        if (rc) {
            free(form);
            return rc;
        }
        if (len)
            memcpy(w->norm + o, form, len);
        free(form);
        o += len;
        i += good;
        if (i < n)
            w->norm[o++] = s[i++];
    }
    *out_len = o;
    return 0;
}

static bool starts_with_mark(const char *s, size_t n)
{
    return (n >= 1 && s[0] == ' ') || (n >= TOKEN_MARK_LEN && memcmp(s, TOKEN_MARK, TOKEN_MARK_LEN) == 0);
}

int token_normalize(const struct tokenizer *t, struct token_work *w, const char *s, size_t n, bool first,
                    const char **out, size_t *out_len, struct err *e)
{
    const struct normalizer *z = &t->norm;
    bool prepend = z->prepend;
    size_t o = 0, marks = 0;
    int rc;

    *out = s;
    *out_len = n;
    if (z->nfc) {
        if (nfc_is_plain(s, n))
            return 0;
        rc = normalize_nfc(w, s, n, out_len, e);
        *out = w->norm;
        return rc;
    }
    if (z->metaspace != META_NONE)
        prepend = (z->metaspace == META_ALWAYS || first) && !starts_with_mark(s, n);
    if (!prepend && !z->spaces)
        return 0;
    for (size_t i = 0; i < n; i++)
        marks += s[i] == ' ';
    rc = reserve(w, n + (TOKEN_MARK_LEN - 1) * marks + TOKEN_MARK_LEN + 1, e);
    if (rc)
        return rc;
    if (prepend && n) {
        memcpy(w->norm, TOKEN_MARK, TOKEN_MARK_LEN);
        o = TOKEN_MARK_LEN;
    }
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ' ' && z->spaces) {
            memcpy(w->norm + o, TOKEN_MARK, TOKEN_MARK_LEN);
            o += TOKEN_MARK_LEN;
        } else {
            w->norm[o++] = s[i];
        }
    }
    *out = w->norm;
    *out_len = o;
    return 0;
}
