#include "lib/gen/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/gen/text.h"

#define DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(9))

static json_t *text_value(const char *text, size_t len)
{
    size_t n;
    char *clean = gen_utf8_clean(text, len, &n);
    json_t *v = clean ? json_stringn(clean, n) : NULL;

    free(clean);
    return v;
}

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* The line of o, which is dropped. */
static char *line_of(json_t *o, bool ok)
{
    char *s = ok ? json_dumps(o, DUMP_FLAGS) : NULL, *line = s ? realloc(s, strlen(s) + 2) : NULL;

    if (line)
        strcat(line, "\n");
    else
        free(s);
    json_decref(o);
    return line;
}

static json_t *start(const struct record_opts *o, uint64_t line, const json_t *id, uint32_t index, bool *ok)
{
    json_t *r = json_object();

    *ok = r && (!o->row || !json_object_update(r, (json_t *)(uintptr_t)o->row));
    *ok &= !json_object_set_new(r, "id", id ? json_deep_copy(id) : json_integer((json_int_t)line));
    *ok &= !json_object_set_new(r, "index", json_integer(index));
    *ok &= !json_object_set_new(r, "line", json_integer((json_int_t)line));
    return r;
}

static json_t *one_logprob(const struct tokenizer *tok, const struct sample_logprob *lp)
{
    const char *piece;
    json_t *o = json_object();
    size_t len;

    tokenizer_piece(tok, lp->token, true, &piece, &len);
    if (json_object_set_new(o, "token_id", json_integer(lp->token)) ||
        json_object_set_new(o, "token", text_value(piece, len)) ||
        json_object_set_new(o, "logprob", real_or_null((double)lp->logprob))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *logprobs(const struct tokenizer *tok, const struct gen_result *res)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < res->n_tokens; i++) {
        json_t *o = one_logprob(tok, &res->logprobs[i].chosen), *top = json_array();

        for (uint32_t k = 0; k < res->logprobs[i].n_top; k++)
            if (json_array_append_new(top, one_logprob(tok, &res->logprobs[i].top[k])))
                goto fail;
        if (json_object_set(o, "top", top) || json_array_append(all, o))
            goto fail;
        json_decref(o);
        json_decref(top);
        continue;
    fail:
        json_decref(o);
        json_decref(top);
        json_decref(all);
        return NULL;
    }
    return all;
}

static json_t *ms(double v)
{
    return json_real(round(v * 1000) / 1000);
}

char *record_result(const struct record_opts *o, const struct gen_result *res)
{
    bool ok;
    json_t *r = start(o, res->request->line, res->request->id, res->index, &ok), *t;

    ok &= !json_object_set_new(r, "text", text_value(res->text, res->text_len));
    if (o->token_ids) {
        json_t *ids = json_array();

        for (uint32_t i = 0; i < res->n_tokens; i++)
            ok &= !json_array_append_new(ids, json_integer(res->tokens[i]));
        ok &= !json_object_set_new(r, "token_ids", ids);
    }
    ok &= !json_object_set_new(r, "prompt_tokens", json_integer((json_int_t)res->request->prompt.n));
    ok &= !json_object_set_new(r, "completion_tokens", json_integer(res->n_tokens));
    ok &= !json_object_set_new(r, "finish_reason", json_string(gen_finish_name(res->finish)));
    if (res->logprobs)
        ok &= !json_object_set_new(r, "logprobs", logprobs(o->tok, res));
    if (res->error)
        ok &= !json_object_set_new(r, "error", text_value(res->error, strlen(res->error)));
    if (!o->no_timings) {
        t = json_object();
        ok &= !json_object_set_new(t, "queue_ms", ms(res->queue_ms));
        ok &= !json_object_set_new(t, "prefill_ms", ms(res->prefill_ms));
        ok &= !json_object_set_new(t, "decode_ms", ms(res->decode_ms));
        ok &= !json_object_set_new(r, "timings", t);
    }
    return line_of(r, ok);
}

char *record_error(const struct record_opts *o, uint64_t line, const json_t *id, const char *message)
{
    bool ok;
    json_t *r = start(o, line, id, 0, &ok);

    ok &= !json_object_set_new(r, "finish_reason", json_string("error"));
    ok &= !json_object_set_new(r, "error", text_value(message, strlen(message)));
    return line_of(r, ok);
}

uint64_t record_id_hash(const json_t *id)
{
    char *text = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (const char *p = text; p && *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    free(text);
    return h;
}

int record_read(struct record_key *k, const char *text, size_t len, struct err *e)
{
    const json_t *line, *index, *id;
    const char *finish;
    json_error_t why;
    json_t *r = json_loadb(text, len, JSON_ALLOW_NUL, &why); /* texts may hold any character */
    int rc = 0;

    if (!r)
        return err_set(e, ERR_FORMAT, "no record of infer-run: column %d: %s", why.column, why.text);
    line = json_object_get(r, "line");
    index = json_object_get(r, "index");
    id = json_object_get(r, "id");
    finish = json_string_value(json_object_get(r, "finish_reason"));
    if (!json_is_integer(line) || json_integer_value(line) < 1 || !json_is_integer(index) ||
        json_integer_value(index) < 0 || json_integer_value(index) >= GEN_N_MAX || !id || !finish) {
        rc = err_set(e, ERR_FORMAT, "no record of infer-run: line, index, id or finish_reason is missing");
    } else {
        k->line = (uint64_t)json_integer_value(line);
        k->index = (uint32_t)json_integer_value(index);
        k->id_hash = record_id_hash(id);
        k->failed = !strcmp(finish, "error");
    }
    json_decref(r);
    return rc;
}
