/* infer-run -p and --chat: text that appears as it is generated. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/infer-run/run.h"
#include "lib/core/clock.h"
#include "lib/gen/record.h"
#include "lib/io/outfile.h"

/* What the generator's callbacks write to. */
struct stream {
    const struct run_args *a;
    const struct record_opts *record; /* records instead of text */
    FILE *f;
    bool live;          /* show text as it comes */
    char *answer;       /* the text so far, NUL bytes aside */
    size_t len, cap;
    int why;            /* errno of a failed write */
    int failed;         /* sequences that ended with an error */
    uint32_t n_tokens, n_prompt;
    double prefill_ms, decode_ms;
};

static void on_text(void *arg, const struct gen_request *r, uint32_t index, const char *text, size_t len)
{
    struct stream *s = arg;

    (void)r;
    (void)index;
    if (!s->live)
        return;
    errno = 0;
    fwrite(text, 1, len, s->f);
    if (fflush(s->f))
        s->why = errno;
    if (s->len + len + 1 > s->cap) {
        size_t cap = 2 * (s->len + len + 1);
        char *v = realloc(s->answer, cap);

        if (!v)
            return;
        s->answer = v;
        s->cap = cap;
    }
    for (size_t i = 0; i < len; i++)
        if (text[i])
            s->answer[s->len++] = text[i];
    s->answer[s->len] = 0;
}

static int on_done(void *arg, const struct gen_result *res, struct err *e)
{
    struct stream *s = arg;

    s->n_prompt = (uint32_t)res->request->prompt.n;
    s->n_tokens += res->n_tokens;
    s->prefill_ms = res->prefill_ms;
    s->decode_ms = res->decode_ms;
    if (res->finish == GEN_ERROR) {
        s->failed++;
        if (!s->record)
            common_error(&s->a->common, "%s", res->error);
    }
    errno = 0;
    if (s->record) {
        char *line = record_result(s->record, res);

        if (!line)
            return err_set(e, ERR_NOMEM, "record");
        fputs(line, s->f);
        free(line);
    } else if (!s->live) { /* several sequences: one after another */
        fwrite(res->text, 1, res->text_len, s->f);
        fputc('\n', s->f);
    }
    if (fflush(s->f) || ferror(s->f)) {
        s->why = errno ? errno : s->why;
        return err_set(e, ERR_IO, "writing the text: %s", strerror(s->why));
    }
    return 0;
}

/* Runs one request to its end, or to a signal (ERR_CANCELED, what is unfinished dropped). */
static int generate(struct gen *g, struct gen_request *r, const struct stream *s, struct err *e)
{
    int rc = gen_submit(g, r, e);

    while (!rc && !common_signal && !ferror(s->f)) {
        rc = gen_step(g, e);
        if (rc == 0)
            return 0;
        rc = rc > 0 ? 0 : rc;
    }
    if (!rc)
        rc = ferror(s->f) ? err_set(e, ERR_IO, "writing the text: %s", strerror(s->why))
                          : err_set(e, ERR_CANCELED, "interrupted");
    gen_cancel(g);
    return rc;
}

static void say_rates(const struct run_args *a, const struct stream *s)
{
    common_verbose(&a->common, "%u prompt tokens in %.1f ms (%.1f tokens/s), %u generated at %.1f tokens/s",
                   (unsigned)s->n_prompt, s->prefill_ms, s->n_prompt / (s->prefill_ms + 1e-9) * 1e3,
                   (unsigned)s->n_tokens, s->n_tokens > 1 ? (s->n_tokens - 1) / (s->decode_ms + 1e-9) * 1e3 : 0);
}

int run_prompt(const struct run_args *a)
{
    struct run_session ses = { 0 };
    struct stream s = { .a = a, .f = stdout };
    const struct gen_hooks hooks = { on_text, on_done, &s };
    const uint32_t places = a->params.n < a->batch ? a->params.n : a->batch;
    const struct gen_opts go = { places, a->chunk_tokens };
    struct record_opts record = { NULL, a->token_ids, a->no_timings, NULL };
    json_t *row = NULL;
    struct gen *g = NULL;
    struct gen_request r;
    struct outfile out = { 0 };
    struct err e;
    int rc = run_session_open(&ses, a, places, &e);

    memset(&r, 0, sizeof r);
    s.live = !a->common.json && a->params.n == 1 && a->params.logprobs < 0;
    if (!rc)
        rc = outfile_open(&out, a->common.output, &e);
    if (!rc)
        s.f = out.f;
    if (a->common.json || a->params.logprobs >= 0 || a->token_ids) {
        row = a->common.json ? common_row(&a->common, &ses.rt) : NULL;
        record.tok = ses.rt.tok;
        record.row = row;
        s.record = &record;
        s.live = false;
    }
    if (!rc)
        rc = gen_open(&g, ses.rt.engine, ses.rt.pool, ses.rt.tok, &go, &hooks, &e);
    if (!rc)
        rc = gen_request_text(&r, &ses.how, 1, a->prompt, strlen(a->prompt), &e);
    if (!rc)
        rc = generate(g, &r, &s, &e);
    if (s.live && (!rc || rc == ERR_CANCELED))
        fputc('\n', s.f);
    say_rates(a, &s);
    if (rc && rc != ERR_CANCELED && !(rc == ERR_IO && s.why == EPIPE))
        common_fail(&a->common, &e);
    if (ferror(stdout) && !freopen("/dev/null", "w", stdout)) /* said already */
        rc = ERR_IO;
    if (s.f != stdout && (!rc || rc == ERR_CANCELED) && outfile_commit(&out, &e))
        rc = common_fail(&a->common, &e);
    outfile_abort(&out);
    gen_request_clear(&r);
    gen_close(g);
    json_decref(row);
    free(s.answer);
    run_session_close(&ses);
    return rc == ERR_CANCELED ? common_signal_status() : rc || s.failed ? EXIT_FAILED : EXIT_GOOD;
}

/* --- chat ------------------------------------------------------------------------------------------------------------ */

struct talk {
    struct chat_message *msgs; /* contents are owned, roles are not */
    size_t n, cap;
};

static bool say(struct talk *t, const char *role, const char *content)
{
    char *copy = strdup(content);

    if (copy && t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 16;
        struct chat_message *m = realloc(t->msgs, cap * sizeof *m);

        if (m) {
            t->msgs = m;
            t->cap = cap;
        } else {
            free(copy);
            copy = NULL;
        }
    }
    if (!copy)
        return false;
    t->msgs[t->n++] = (struct chat_message){ role, copy };
    return true;
}

static void forget(struct talk *t, size_t keep)
{
    while (t->n > keep)
        free((void *)(uintptr_t)t->msgs[--t->n].content);
}

/* One question and its answer. */
static int turn(struct gen *g, struct talk *t, const struct gen_prompting *how, struct stream *s, const char *question,
                uint64_t number, struct err *e)
{
    struct gen_request r;
    int rc;

    memset(&r, 0, sizeof r);
    s->len = 0;
    s->n_tokens = 0;
    if (!say(t, "user", question))
        return err_set(e, ERR_NOMEM, "message");
    rc = gen_request_chat(&r, how, number, t->msgs, t->n, e);
    if (!rc)
        rc = generate(g, &r, s, e);
    gen_request_clear(&r);
    if (rc && rc != ERR_CANCELED) { /* the question does not count */
        forget(t, t->n - 1);
        return rc;
    }
    fputs("\n", s->f);
    if (!say(t, "assistant", s->len ? s->answer : ""))
        return err_set(e, ERR_NOMEM, "message");
    say_rates(s->a, s);
    return rc;
}

static int converse(const struct run_args *a, struct run_session *ses, struct gen *g, struct stream *s)
{
    const bool person = isatty(STDIN_FILENO);
    struct talk t = { 0 };
    char *line = NULL;
    size_t cap = 0;
    uint64_t number = 0;
    struct err e;
    ssize_t n;
    int status = EXIT_GOOD;

    if (person)
        fputs("Ctrl-C stops an answer, Ctrl-D ends, /reset forgets the conversation.\n", stderr);
    if (a->system && !say(&t, "system", a->system))
        return EXIT_FAILED;
    for (;;) {
        int rc;

        if (person) {
            fputs("> ", stdout);
            fflush(stdout);
        }
        errno = 0;
        n = getline(&line, &cap, stdin);
        if (n <= 0)
            break;
        line[strcspn(line, "\r\n")] = 0;
        if (!line[strspn(line, " \t")])
            continue;
        if (!strcmp(line, "/reset")) {
            forget(&t, a->system ? 1 : 0);
            continue;
        }
        rc = turn(g, &t, &ses->how, s, line, ++number, &e);
        if (rc == ERR_LIMIT)
            common_error(&a->common, "%s; /reset forgets the conversation", e.msg);
        else if (rc && rc != ERR_CANCELED)
            common_fail(&a->common, &e);
        if (ferror(stdout) || (rc == ERR_CANCELED && common_signal != SIGINT))
            break;
        status = rc && rc != ERR_CANCELED ? EXIT_FAILED : status;
        common_signal = 0; /* Ctrl-C ended an answer, not the conversation */
        common_signals();
    }
    if (person)
        fputc('\n', stdout);
    forget(&t, 0);
    free(t.msgs);
    free(line);
    return common_signal ? common_signal_status() : status;
}

int run_chat(const struct run_args *a)
{
    struct run_session ses = { 0 };
    struct stream s = { .a = a, .f = stdout, .live = true };
    const struct gen_hooks hooks = { on_text, on_done, &s };
    const struct gen_opts go = { 1, a->chunk_tokens };
    struct gen_params params = a->params; /* borrowed, but for the number of tokens */
    struct gen *g = NULL;
    struct err e;
    int rc = run_session_open(&ses, a, 1, &e);

    if (!a->max_tokens_given)
        params.max_tokens = GEN_TOKENS_MAX;
    ses.how.defaults = &params;
    if (!rc)
        rc = gen_open(&g, ses.rt.engine, ses.rt.pool, ses.rt.tok, &go, &hooks, &e);
    rc = rc ? common_fail(&a->common, &e) : converse(a, &ses, g, &s);
    gen_close(g);
    free(s.answer);
    run_session_close(&ses);
    return rc;
}
