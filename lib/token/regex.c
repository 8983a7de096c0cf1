#include "lib/token/regex.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What Unicode 15 and 16 added to the general categories. Tokenizers know these characters; PCRE2 before 10.43 does not,
 * and to one that does the lists are no news. */
static const struct {
    const char *name, *members;
} added[] = {
    { "L",
      "\\x{1c89}\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}"
      "\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}"
      "\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}"
      "\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}"
      "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"
      "\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}" },
    { "Lu",
      "\\x{1c89}\\x{a7cb}\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}" },
    { "Ll",
      "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}" },
    { "Lm",
      "\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}\\x{16d6c}\\x{1e030}-\\x{1e06d}\\x{1e4eb}" },
    { "Lo",
      "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}\\x{1123f}\\x{11240}"
      "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}"
      "\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}"
      "\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d43}-\\x{16d6a}\\x{18cff}\\x{1b132}\\x{1b155}"
      "\\x{1e4d0}-\\x{1e4ea}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}" },
    { "M",
      "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-\\x{113c0}"
      "\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}\\x{113e2}\\x{11f00}"
      "\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}"
      "\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}\\x{1e5ef}" },
    { "N",
      "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"
      "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}"
      "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}" },
    { "P",
      "\\x{1b4e}\\x{1b4f}\\x{1b7f}\\x{10d6e}\\x{113d4}\\x{113d5}\\x{113d7}\\x{113d8}\\x{11b00}-\\x{11b09}"
      "\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}" },
    { "S",
      "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}\\x{31e5}\\x{31ef}\\x{10d8e}\\x{10d8f}"
      "\\x{1cc00}-\\x{1ccef}\\x{1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}\\x{1f7d9}"
      "\\x{1f8b2}-\\x{1f8bb}\\x{1f8c0}\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}"
      "\\x{1faad}-\\x{1faaf}\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}"
      "\\x{1fae8}\\x{1fae9}\\x{1faf7}\\x{1faf8}\\x{1fbcb}-\\x{1fbef}" },
};

static const char *added_members(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        if (strlen(added[i].name) == n && memcmp(added[i].name, name, n) == 0)
            return added[i].members;
    }
    return "";
}

struct text {
    char *s;
    size_t n, cap;
    bool failed;
};

static void put_n(struct text *t, const char *s, size_t n)
{
    if (t->n + n + 1 > t->cap) {
        size_t cap = 2 * (t->n + n + 1);
        char *p = realloc(t->s, cap);

        if (!p) {
            t->failed = true;
            return;
        }
        t->s = p;
        t->cap = cap;
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

static void put(struct text *t, const char *s)
{
    put_n(t, s, strlen(s));
}

/* Classes whose members differ: White_Space (PCRE2 leaves out U+0085 and takes U+180E), and what is a word character. */
static bool put_class(struct text *t, char c, bool in_class)
{
    char small = (char)tolower((unsigned char)c);

    if (small != 's' && small != 'w')
        return false;
    if (!in_class)
        put(t, c == small ? "[" : "[^");
    put(t, small == 's' ? "\\t-\\r\\x{85}\\p{Z}" : "\\p{L}\\p{M}\\p{Nd}\\p{Pc}");
    if (small == 'w') {
        put(t, added_members("L", 1));
        put(t, added_members("M", 1));
    }
    if (!in_class)
        put(t, "]");
    return true;
}

/* \p{NAME} and \P{NAME}: general categories as they are, anything else as a script. p points behind the brace. */
static int property(struct text *t, const char **pp, bool in_class, bool negated, struct err *e)
{
    const char *p = *pp, *end = strchr(p, '}');
    size_t n;
    const char *more;

    if (end && *p == '^') {
        negated = !negated;
        p++;
    }
    n = end ? (size_t)(end - p) : 0;
    if (n == 0 || n > 40)
        return err_set(e, ERR_FORMAT, "broken \\p{...}");
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)p[i]) && p[i] != '_')
            return err_set(e, ERR_UNSUPPORTED, "\\p{%.*s}", (int)n, p);
    }
    more = added_members(p, n);
    if (*more && negated && in_class)
        return err_set(e, ERR_UNSUPPORTED, "\\P{%.*s} inside [...]", (int)n, p);
    if (*more && !in_class)
        put(t, negated ? "[^" : "[");
    put(t, negated && !*more ? "\\P{" : "\\p{");
    if (n > 2)
        put(t, "sc:");
    put_n(t, p, n);
    put(t, "}");
    put(t, more);
    if (*more && !in_class)
        put(t, "]");
    *pp = end + 1;
    return 0;
}

/* What follows a backslash; *pp points at it and moves behind it. */
static int escape(struct text *t, const char **pp, bool in_class, struct err *e)
{
    const char *p = *pp;

    *pp = p + 1;
    if (*p == 'v') { /* one character here, a class to PCRE2 */
        put(t, "\\x0b");
        return 0;
    }
    if (*p == 'u') {
        for (int i = 1; i <= 4; i++) {
            if (!isxdigit((unsigned char)p[i]))
                return err_set(e, ERR_FORMAT, "broken \\u escape");
        }
        put(t, "\\x{");
        put_n(t, p + 1, 4);
        put(t, "}");
        *pp = p + 5;
        return 0;
    }
    if ((*p == 'p' || *p == 'P') && p[1] == '{') {
        *pp = p + 2;
        return property(t, pp, in_class, *p == 'P', e);
    }
    if (!(in_class && isupper((unsigned char)*p)) && put_class(t, *p, in_class))
        return 0;
    if (*p == 'x' && p[1] != '{')
        return err_set(e, ERR_UNSUPPORTED, "\\x without braces");
    if (*p == 0)
        return err_set(e, ERR_FORMAT, "a backslash ends the pattern");
    if (isalnum((unsigned char)*p) && !strchr("dDrntfaex", *p))
        return err_set(e, ERR_UNSUPPORTED, "\\%c", *p);
    put_n(t, p - 1, 2);
    return 0;
}

/* Groups and quantifiers that read alike and mean something else. */
static int check_special(char before, const char *p, struct err *e)
{
    static const char *const good[] = { "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:" };

    if (*p == '+' && before == '}') /* {1,3}+ repeats here; to PCRE2 it is possessive */
        return err_set(e, ERR_UNSUPPORTED, "'}+'");
    if (*p == '(' && p[1] == '*')
        return err_set(e, ERR_UNSUPPORTED, "'(*'");
    if (*p != '(' || p[1] != '?')
        return 0;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (strncmp(p, good[i], strlen(good[i])) == 0)
            return 0;
    }
    return err_set(e, ERR_UNSUPPORTED, "the group '%.4s'", p);
}

int regex_translate(const char *onig, char **out, struct err *e)
{
    struct text t = { 0 };
    bool in_class = false;
    const char *p = onig, *class_start = NULL;
    char before = 0; /* the character before p, unless an escape ended there */
    int rc = 0;

    *out = NULL;
    put(&t, "");
    while (*p && rc == 0) {
        if (*p == '\\') {
            p++;
            rc = escape(&t, &p, in_class, e);
            before = 0;
            continue;
        }
        if (in_class) {
            if (*p == '[' || (*p == '&' && p[1] == '&'))
                rc = err_set(e, ERR_UNSUPPORTED, "sets inside [...]");
            else if (*p == ']' && p == class_start)
                rc = err_set(e, ERR_UNSUPPORTED, "']' at the start of [...]");
            in_class = *p != ']';
        } else if (*p == '[') {
            in_class = true;
            class_start = p + 1 + (p[1] == '^');
        } else {
            rc = check_special(before, p, e);
        }
        before = *p;
        put_n(&t, p++, 1);
    }
    if (rc == 0 && in_class)
        rc = err_set(e, ERR_FORMAT, "'[' without ']'");
    if (rc == 0 && t.failed)
        rc = err_set(e, ERR_NOMEM, "a pattern of %zu bytes", t.n);
    if (rc) {
        free(t.s);
        return rc;
    }
    *out = t.s;
    return 0;
}
