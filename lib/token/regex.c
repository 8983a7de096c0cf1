#include "lib/token/regex.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Letters and numbers that Unicode 15 and 16 added. Tokenizers know them; PCRE2 before 10.43 does not. */
#define NEW_LETTERS                                                                                                   \
    "\\x{1c89}\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}"              \
    "\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}"         \
    "\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}"         \
    "\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}"                  \
    "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"                   \
    "\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define NEW_NUMBERS                                                                                                   \
    "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}\\x{16130}-\\x{16139}"       \
    "\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"

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

static void put_set(struct text *t, bool in_class, bool negated, const char *members)
{
    if (!in_class)
        put(t, negated ? "[^" : "[");
    put(t, members);
    if (!in_class)
        put(t, "]");
}

/* Classes whose members differ: NULL when c is none of them. */
static const char *class_members(char c)
{
    switch (c) {
    case 's': /* White_Space; PCRE2 leaves out U+0085 and takes U+180E */
        return "\\t-\\r\\x{85}\\p{Z}";
    case 'w':
        return "\\p{L}\\p{M}\\p{Nd}\\p{Pc}" NEW_LETTERS;
    default:
        return NULL;
    }
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
    more = n == 1 && *p == 'L' ? NEW_LETTERS : n == 1 && *p == 'N' ? NEW_NUMBERS : NULL;
    if (more && !(negated && in_class)) {
        char members[1600];

        strcpy(members, *p == 'L' ? "\\p{L}" : "\\p{N}");
        strcat(members, more);
        put_set(t, in_class, negated, members);
    } else {
        put(t, negated ? "\\P{" : "\\p{");
        if (n > 2)
            put(t, "sc:");
        put_n(t, p, n);
        put(t, "}");
    }
    *pp = end + 1;
    return 0;
}

/* What follows a backslash; *pp points at it and moves behind it. */
static int escape(struct text *t, const char **pp, bool in_class, struct err *e)
{
    const char *p = *pp, *members = class_members((char)tolower((unsigned char)*p));

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
    if (members && !(in_class && isupper((unsigned char)*p))) {
        put_set(t, in_class, isupper((unsigned char)*p), members);
        return 0;
    }
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
