/* Reduces a Jinja chat template to what it can say, so that templates are compared by meaning rather than by bytes. */
#include <ctype.h>
#include <stdlib.h>

#include "lib/token/chat_priv.h"

#define NEWLINE '\1'
#define DEPTH_MAX 64

struct outline {
    char *s; /* as long as needed: an outline is never longer than 2 * the text + 16 */
    size_t n;
    bool tool[DEPTH_MAX]; /* per open block: only tools get here */
    int depth;
};

/* One expression or statement without white space outside strings; quotes become ', concatenated literals one, and
 * x['y'] becomes x.y. Returns the length. */
static size_t squeeze(const char *s, size_t n, char *out)
{
    size_t o = 0;
    char quote = 0;

    for (size_t i = 0; i < n; i++) {
        char c = s[i];

        if (!quote && isspace((unsigned char)c)) {
            continue;
        } else if (!quote && (c == '\'' || c == '"')) {
            quote = c;
            if (o >= 2 && out[o - 1] == '+' && out[o - 2] == '\'')
                o -= 2; /* 'a' + 'b' is 'ab' */
            else
                out[o++] = '\'';
        } else if (quote && c == quote) {
            quote = 0;
            out[o++] = '\'';
        } else if (quote && c == '\\' && i + 1 < n) {
            c = s[++i];
            out[o++] = c == 'n' ? NEWLINE : c;
        } else {
            out[o++] = quote && c == '\n' ? NEWLINE : c;
        }
    }
    return o;
}

/* x['y'] -> x.y, in place. */
static size_t dotted(char *s, size_t n)
{
    size_t o = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = i + 2;

        if (s[i] == '[' && i + 1 < n && s[i + 1] == '\'' && o > 0 && (isalnum((unsigned char)s[o - 1]) || s[o - 1] == ']')) {
            while (k < n && (isalnum((unsigned char)s[k]) || s[k] == '_'))
                k++;
            if (k > i + 2 && k + 1 < n && s[k] == '\'' && s[k + 1] == ']') {
                s[o++] = '.';
                memmove(s + o, s + i + 2, k - i - 2);
                o += k - i - 2;
                i = k + 1;
                continue;
            }
        }
        s[o++] = s[i];
    }
    return o;
}

static void erase(char *s, const char *what)
{
    size_t n = strlen(what);

    for (char *p; (p = strstr(s, what));)
        memmove(p, p + n, strlen(p + n) + 1);
}

/* Whether a condition (squeezed) holds only when there are tools. */
static bool needs_tools(char *cond)
{
    static const char *const positive[] = { "isnotnone", "nottoolsisnone", "andnottools_in_user_message" };

    for (size_t i = 0; i < sizeof positive / sizeof positive[0]; i++)
        erase(cond, positive[i]);
    return strstr(cond, "tool") && !strstr(cond, "not");
}

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static bool in_tools(const struct outline *o)
{
    for (int i = 0; i < o->depth; i++) {
        if (o->tool[i])
            return true;
    }
    return false;
}

static void add(struct outline *o, char kind, const char *s, size_t n)
{
    o->s[o->n++] = kind;
    o->s[o->n++] = ' ';
    memcpy(o->s + o->n, s, n);
    o->n += n;
    o->s[o->n++] = '\n';
}

/* A {% statement %}, squeezed and terminated. */
static void statement(struct outline *o, char *s)
{
    const char *cond = starts(s, "elif") ? s + 4 : starts(s, "if") ? s + 2 : NULL;
    bool told = cond && (strstr(cond, "loop") || strstr(cond, "add_generation_prompt"));

    if (told && !in_tools(o))
        add(o, 'I', cond, strlen(cond));
    if (starts(s, "if") || starts(s, "for") || starts(s, "macro")) {
        if (o->depth < DEPTH_MAX)
            o->tool[o->depth] = needs_tools(s);
        o->depth += o->depth < DEPTH_MAX;
    } else if (starts(s, "elif") && o->depth) {
        o->tool[o->depth - 1] = needs_tools(s);
    } else if (starts(s, "else") && o->depth) {
        o->tool[o->depth - 1] = false;
    } else if ((starts(s, "endif") || starts(s, "endfor") || starts(s, "endmacro")) && o->depth) {
        o->depth--;
    } else if (starts(s, "set") && strchr(s, '\'') && !in_tools(o)) {
        add(o, 'S', s + 3, strlen(s) - 3);
    }
}

/* The tags around a stretch of text decide how much of its white space is printed. */
struct edge {
    bool dash;  /* {%- or -%}: strips all white space */
    bool block; /* a statement or comment, not an expression: as Hugging Face sets Jinja up, the line end behind it and
                 * the blanks before it on its line go */
};

/* Text between tags, as far as it is printed. line_start: it begins a line of the template. */
static void raw(struct outline *o, const char *s, size_t n, struct edge before, struct edge after, bool line_start)
{
    bool printed = false;

    if (before.dash) {
        for (; n && isspace((unsigned char)*s); n--)
            s++;
    } else if (before.block && n && *s == '\n') {
        s++;
        n--;
        line_start = true;
    }
    if (after.dash) {
        while (n && isspace((unsigned char)s[n - 1]))
            n--;
    } else if (after.block) {
        size_t k = n;

        while (k && (s[k - 1] == ' ' || s[k - 1] == '\t'))
            k--;
        if (k ? s[k - 1] == '\n' : line_start)
            n = k;
    }
    if (n && !in_tools(o)) {
        add(o, 'R', s, n);
        printed = true;
    }
    for (size_t i = o->n - 1 - n; printed && i < o->n - 1; i++)
        o->s[i] = o->s[i] == '\n' ? NEWLINE : o->s[i];
}

/* The end of a tag that starts at s (its opening two characters); quotes hide closing marks. NULL: none. */
static const char *tag_end(const char *s)
{
    char quote = 0, close = s[1] == '{' ? '}' : s[1];

    for (const char *p = s + 2; *p; p++) {
        if (close == '#') {
            if (p[0] == '#' && p[1] == '}')
                return p;
        } else if (quote) {
            if (*p == '\\' && p[1])
                p++;
            else if (*p == quote)
                quote = 0;
        } else if (*p == '\'' || *p == '"') {
            quote = *p;
        } else if (p[0] == close && p[1] == '}') {
            return p;
        }
    }
    return NULL;
}

/* One tag at p, up to its closing characters at end. */
static void tag(struct outline *o, const char *p, const char *end, char *tmp)
{
    const char *a = p + 2, *b = end;
    size_t n;

    a += *a == '-' || *a == '+';
    b -= b > a && (b[-1] == '-' || b[-1] == '+');
    n = dotted(tmp, squeeze(a, (size_t)(b - a), tmp));
    tmp[n] = 0;
    if (p[1] == '%')
        statement(o, tmp);
    else if (p[1] == '{' && n && !in_tools(o) && !starts(tmp, "raise_exception("))
        add(o, 'E', tmp, n);
}

char *chat_outline(const char *text)
{
    size_t len = strlen(text);
    struct outline o = { .s = malloc(4 * len + 16) };
    char *tmp = malloc(len + 1);
    const char *p = text, *from = text;
    struct edge before = { false, false };

    if (!o.s || !tmp) {
        free(o.s);
        free(tmp);
        return NULL;
    }
    while (*p) {
        const char *end;

        if (*p != '{' || (p[1] != '{' && p[1] != '%' && p[1] != '#') || !(end = tag_end(p))) {
            p++;
            continue;
        }
        raw(&o, from, (size_t)(p - from), before, (struct edge){ p[2] == '-', p[1] != '{' && p[2] != '+' },
            from == text || from[-1] == '\n');
        tag(&o, p, end, tmp);
        before = (struct edge){ end > p + 2 && end[-1] == '-', p[1] != '{' && !(end > p + 2 && end[-1] == '+') };
        p = from = end + 2;
    }
    if (p > from && p[-1] == '\n') /* Jinja drops the last line end */
        p--;
    raw(&o, from, (size_t)(p - from), before, (struct edge){ false, false }, false);
    free(tmp);
    o.s[o.n] = 0;
    return o.s;
}
