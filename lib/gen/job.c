#include "lib/gen/job.h"

#include <stdlib.h>
#include <string.h>

#include "lib/core/clock.h"

#define WINDOW_PER_PLACE 32u /* records that may wait for an earlier one, for each place in the batch */
#define WINDOW_MIN 256u

/* Ids seen, as 128-bit hashes: an open-addressing set. */
struct id_set {
    struct id_hash {
        uint64_t a, b; /* both 0: empty */
    } *v;
    uint64_t n, cap;
};

/* Requests that are running: slot of their first record. */
struct ticket {
    uint64_t line, slot;
    uint32_t open; /* sequences not finished */
};

struct job {
    const struct job_opts *o;
    struct sink *out;
    struct input *in;
    struct gen *gen;
    struct id_set ids;
    struct ticket *tickets;
    uint32_t n_tickets, cap_tickets;
    struct job_progress p;
    enum job_format format;
    bool eof;
};

static uint64_t fnv(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h ^ h >> 29;
}

static struct id_hash *id_slot(const struct id_set *s, struct id_hash h)
{
    for (uint64_t i = h.a;; i++) {
        struct id_hash *at = &s->v[i & (s->cap - 1)];

        if ((!at->a && !at->b) || (at->a == h.a && at->b == h.b))
            return at;
    }
}

/* 1: seen before; 0: new; ERR_NOMEM. */
static int id_seen(struct id_set *s, const json_t *id, struct err *e)
{
    char *text = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
    struct id_hash h, *at;

    if (text && 2 * (s->n + 1) > s->cap) {
        struct id_set bigger = { calloc(s->cap ? 2 * s->cap : 256, sizeof *s->v), s->n, s->cap ? 2 * s->cap : 256 };

        for (uint64_t i = 0; bigger.v && i < s->cap; i++)
            if (s->v[i].a || s->v[i].b)
                *id_slot(&bigger, s->v[i]) = s->v[i];
        if (bigger.v) {
            free(s->v);
            *s = bigger;
        } else {
            free(text);
            text = NULL;
        }
    }
    if (!text)
        return err_set(e, ERR_NOMEM, "table of ids");
    h = (struct id_hash){ fnv(0xcbf29ce484222325u, text), fnv(0x9ae16a3b2f90404fu, text) | 1 };
    free(text);
    at = id_slot(s, h);
    if (at->a == h.a && at->b == h.b)
        return 1;
    *at = h;
    s->n++;
    return 0;
}

/* --- finished sequences ---------------------------------------------------------------------------------------------- */

static void failed(struct job *j, uint64_t line, const char *message)
{
    j->p.failed++;
    if (j->o->hooks.problem)
        j->o->hooks.problem(j->o->hooks.arg, line, message);
}

static int on_done(void *arg, const struct gen_result *res, struct err *e)
{
    struct job *j = arg;
    struct ticket *t = j->tickets;
    uint64_t slot;

    while (t->line != res->request->line)
        t++;
    slot = t->slot + res->index;
    if (!--t->open)
        *t = j->tickets[--j->n_tickets];
    j->p.records++;
    if (res->finish == GEN_ERROR)
        failed(j, res->request->line, res->error);
    return sink_put(j->out, slot, record_result(j->o->record, res), e);
}

/* --- input lines ----------------------------------------------------------------------------------------------------- */

static int bad_line(struct job *j, uint64_t line, const json_t *id, const char *message, struct err *e)
{
    json_t *number = id ? NULL : json_integer((json_int_t)line);
    uint64_t slot;
    bool done;
    int rc = sink_expect(j->out, line, 0, id ? id : number, &slot, &done, e);

    json_decref(number);
    if (rc)
        return rc;
    j->p.records++;
    if (done)
        return 0;
    failed(j, line, message);
    return sink_put(j->out, slot, record_error(j->o->record, line, id, message), e);
}

static int submit(struct job *j, struct gen_request *r, struct err *e)
{
    uint64_t line = r->line, first = 0, slot;
    uint32_t n = r->params.n, n_done = 0;
    struct err why;
    int rc = 0;

    if (r->prompt.n >= engine_ctx(j->o->engine)) { /* gen_submit's own check, before slots are handed out */
        rc = gen_submit(j->gen, r, &why);
        return rc == ERR_LIMIT ? bad_line(j, line, r->id, why.msg, e) : err_set(e, ERR_INVAL, "%s", why.msg);
    }
    for (uint32_t i = 0; !rc && i < n; i++) {
        bool done;

        rc = sink_expect(j->out, line, i, r->id, &slot, &done, e);
        first = i ? first : slot;
        n_done += done;
    }
    if (rc || n_done == n) {
        j->p.records += n_done;
        return rc;
    }
    if (j->n_tickets == j->cap_tickets) {
        uint32_t cap = j->cap_tickets ? 2 * j->cap_tickets : 64;
        struct ticket *t = realloc(j->tickets, cap * sizeof *t);

        if (!t)
            return err_set(e, ERR_NOMEM, "table of requests");
        j->tickets = t;
        j->cap_tickets = cap;
    }
    j->tickets[j->n_tickets++] = (struct ticket){ line, first, n };
    return gen_submit(j->gen, r, e);
}

static enum job_format guess_format(const char *text, size_t len)
{
    json_t *o = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    bool is = json_object_get(o, "prompt") || json_object_get(o, "messages");

    json_decref(o);
    return is ? JOB_JSONL : JOB_TEXT;
}

static int take_line(struct job *j, uint64_t line, const char *text, size_t len, struct err *e)
{
    struct gen_request r;
    struct err why;
    bool jsonl;
    int rc;

    if (!len || (j->format != JOB_TEXT && strspn(text, " \t\r") == len))
        return 0;
    if (j->format == JOB_AUTO)
        j->format = guess_format(text, len);
    jsonl = j->format == JOB_JSONL;
    rc = jsonl ? gen_request_json(&r, j->o->how, line, text, len, &why)
               : gen_request_text(&r, j->o->how, line, text, len, &why);
    if (jsonl && r.id && !(json_is_integer(r.id) && json_integer_value(r.id) == (json_int_t)line)) {
        int seen = id_seen(&j->ids, r.id, e);

        if (seen == 1 && !rc)
            rc = err_set(&why, ERR_INVAL, "id: another line has the same");
        if (seen < 0) {
            gen_request_clear(&r);
            return seen;
        }
    }
    if (rc == ERR_NOMEM)
        rc = err_set(e, rc, "line %llu: %s", (unsigned long long)line, why.msg);
    else if (rc)
        rc = bad_line(j, line, r.id, why.msg, e);
    else
        rc = submit(j, &r, e);
    gen_request_clear(&r);
    return rc;
}

/* Reads until the queue has enough, the window is full, or nothing more is there now. */
static int refill(struct job *j, struct err *e)
{
    const uint32_t places = j->o->gen.batch ? j->o->gen.batch : 1;
    const uint64_t window = places * WINDOW_PER_PLACE > WINDOW_MIN ? places * WINDOW_PER_PLACE : WINDOW_MIN;

    while (!j->eof && gen_queued(j->gen) < places && sink_open_slots(j->out) < window) {
        const char *text;
        uint64_t line;
        size_t len;
        bool idle = !gen_queued(j->gen) && !gen_active(j->gen);
        int rc = input_next(j->in, idle, &text, &len, &line, e);

        if (rc == INPUT_AGAIN)
            break;
        j->eof = rc == INPUT_END;
        if (rc == INPUT_LINE)
            rc = take_line(j, line, text, len, e);
        else if (rc == INPUT_LONG)
            rc = bad_line(j, line, NULL, "the line is longer than 64 MiB", e);
        if (rc < 0)
            return rc;
        if (j->o->interrupted && *j->o->interrupted)
            break;
    }
    return 0;
}

static void report(struct job *j)
{
    double read = input_fraction(j->in);
    uint64_t open = j->n_tickets;

    if (!j->o->hooks.progress)
        return;
    j->p.tokens = gen_tokens(j->gen);
    j->p.active = gen_active(j->gen);
    /* Lines read but not finished count as not done: with k done of k + open read, the share of the read part is known. */
    j->p.fraction = read < 0 || !(j->p.records + open) ? -1
                                                       : read * (double)j->p.records / (double)(j->p.records + open);
    if (j->p.fraction_begin < 0 && gen_active(j->gen))
        j->p.fraction_begin = j->p.fraction < 0 ? 0 : j->p.fraction;
    j->o->hooks.progress(j->o->hooks.arg, &j->p);
}

int job_run(const struct job_opts *o, struct input *in, struct sink *out, struct job_stats *stats, struct err *e)
{
    struct job j = { .o = o, .in = in, .out = out, .format = o->format };
    const struct gen_hooks hooks = { NULL, on_done, &j };
    struct sink_stats kept;
    double begin = clock_ms();
    int rc;

    memset(stats, 0, sizeof *stats);
    sink_stats(out, &kept);
    j.p.failed = kept.kept_failed;
    j.p.fraction_begin = -1;
    rc = gen_open(&j.gen, o->engine, o->pool, o->how->tok, &o->gen, &hooks, e);
    while (!rc) {
        if (o->interrupted && *o->interrupted) {
            rc = err_set(e, ERR_CANCELED, "interrupted");
            break;
        }
        rc = refill(&j, e);
        if (rc)
            break;
        rc = gen_step(j.gen, e);
        if (rc == 0 && j.eof)
            break;
        rc = rc > 0 ? 0 : rc;
        report(&j);
    }
    if (j.gen) {
        j.p.tokens = gen_tokens(j.gen);
        gen_stats(j.gen, &stats->batch);
    }
    stats->done = j.p;
    stats->seconds = (clock_ms() - begin) * 1e-3;
    gen_close(j.gen);
    free(j.ids.v);
    free(j.tickets);
    return rc;
}
