/* Requirements such as "decode@b16>=400". */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/bench/bench.h"

static int bad(const char *text, const char *at, const char *what, struct err *e)
{
    return err_set(e, ERR_INVAL, "requirement '%s': %s at '%s'; the form is TEST[@FILTER,...][:FIELD]>=NUMBER, for example "
                   "decode@b16>=400", text, what, at);
}

/* "p512" and so on, or "isa=NAME", "kv=NAME". */
static bool parse_filter(struct bench_require *r, const char *s, size_t len)
{
    uint64_t *number = len < 2 ? NULL : *s == 'p' ? &r->prompt_tokens : *s == 'n' ? &r->generated_tokens
                       : *s == 'b' ? &r->batch : *s == 't' ? &r->threads : NULL;
    char *name = len > 4 && !strncmp(s, "isa=", 4) ? r->isa : len > 3 && !strncmp(s, "kv=", 3) ? r->kv_type : NULL;
    size_t skip = name == r->isa ? 4 : 3;

    if (name) {
        if (len - skip >= sizeof r->isa)
            return false;
        memcpy(name, s + skip, len - skip);
        name[len - skip] = 0;
        return true;
    }
    if (!number || len > 10)
        return false;
    *number = 0;
    for (size_t i = 1; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        *number = *number * 10 + (uint64_t)(s[i] - '0');
    }
    return true;
}

static const struct bench_field *find_field(const char *name, size_t len)
{
    for (const struct bench_field *f = bench_fields; f->name; f++)
        if (strlen(f->name) == len && !strncmp(f->name, name, len) && f->type >= BENCH_U64)
            return f;
    return NULL;
}

int bench_require_parse(struct bench_require *r, const char *text, struct err *e)
{
    const char *s = text;
    size_t len = strcspn(s, "@:<>");
    char *end;

    memset(r, 0, sizeof *r);
    r->text = text;
    r->prompt_tokens = r->generated_tokens = r->batch = r->threads = UINT64_MAX;
    r->decode = len == 6 && !strncmp(s, "decode", 6);
    if (!r->decode && !(len == 7 && !strncmp(s, "prefill", 7)))
        return bad(text, s, "expected prefill or decode", e);
    s += len;
    if (*s == '@') {
        do {
            s++;
            len = strcspn(s, ",:<>");
            if (!parse_filter(r, s, len))
                return bad(text, s, "expected a filter (pN, nN, bN, tN, isa=NAME, kv=NAME)", e);
            s += len;
        } while (*s == ',');
    }
    r->field = find_field("tokens_per_second", 17);
    if (*s == ':') {
        s++;
        len = strcspn(s, "<>");
        r->field = find_field(s, len);
        if (!r->field)
            return bad(text, s, "expected a numeric field of the JSON output", e);
        s += len;
    }
    if (*s != '<' && *s != '>')
        return bad(text, s, "expected >=, >, <= or <", e);
    r->op[0] = *s++;
    if (*s == '=')
        r->op[1] = *s++;
    errno = 0;
    r->value = strtod(s, &end);
    if (end == s || *end || errno || !isfinite(r->value))
        return bad(text, s, "expected a number", e);
    return 0;
}

bool bench_require_applies(const struct bench_require *r, const struct bench_row *row)
{
    return r->decode == !strcmp(row->test, "decode") &&
           (r->prompt_tokens == UINT64_MAX || r->prompt_tokens == row->prompt_tokens) &&
           (r->generated_tokens == UINT64_MAX || r->generated_tokens == row->generated_tokens) &&
           (r->batch == UINT64_MAX || r->batch == row->batch) && (r->threads == UINT64_MAX || r->threads == row->threads) &&
           (!r->isa[0] || !strcmp(r->isa, row->isa)) && (!r->kv_type[0] || !strcmp(r->kv_type, row->kv_type));
}

static double field_value(const struct bench_require *r, const struct bench_row *row)
{
    const void *at = (const char *)row + r->field->offset;

    return r->field->type == BENCH_U64 ? (double)*(const uint64_t *)at : *(const double *)at;
}

bool bench_require_holds(const struct bench_require *r, const struct bench_row *row)
{
    double v = field_value(r, row);

    if (!bench_require_applies(r, row))
        return true;
    if (r->op[0] == '>')
        return r->op[1] ? v >= r->value : v > r->value;
    return r->op[1] ? v <= r->value : v < r->value;
}

int bench_requires_add(struct bench_requires *s, const char *text, struct err *e)
{
    if (s->n == BENCH_MAX_REQUIRES)
        return err_set(e, ERR_LIMIT, "more than %d requirements", BENCH_MAX_REQUIRES);
    return bench_require_parse(&s->list[s->n++], text, e);
}

void bench_requires_row(struct bench_requires *s, const struct bench_row *row, void (*miss)(void *arg, const char *msg), void *arg)
{
    char msg[256];

    for (size_t i = 0; i < s->n; i++) {
        const struct bench_require *r = &s->list[i];

        s->seen[i] |= bench_require_applies(r, row);
        if (bench_require_holds(r, row))
            continue;
        s->missed = true;
        snprintf(msg, sizeof msg, "requirement %s missed: %s is %.6g", r->text, r->field->name, field_value(r, row));
        miss(arg, msg);
    }
}

void bench_requires_end(struct bench_requires *s, void (*miss)(void *arg, const char *msg), void *arg)
{
    char msg[256];

    for (size_t i = 0; i < s->n; i++) {
        if (s->seen[i])
            continue;
        s->missed = true;
        snprintf(msg, sizeof msg, "requirement %s missed: no test matches it", s->list[i].text);
        miss(arg, msg);
    }
}
