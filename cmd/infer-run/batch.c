/* infer-run PROMPTS: a batch of prompts to records. */
#include <string.h>
#include <unistd.h>

#include "cmd/infer-run/run.h"
#include "lib/core/clock.h"

#define PROBLEMS_SHOWN 20u

struct watcher {
    const struct run_args *a;
    struct progress progress;
    double begin_ms;
    unsigned problems;
};

static void format_time(char *buf, size_t size, double seconds)
{
    if (seconds < 90)
        snprintf(buf, size, "%.0f s", seconds);
    else if (seconds < 5400)
        snprintf(buf, size, "%.0f min", seconds / 60);
    else
        snprintf(buf, size, "%.1f h", seconds / 3600);
}

static void on_progress(void *arg, const struct job_progress *p)
{
    struct watcher *w = arg;
    double seconds = (clock_ms() - w->begin_ms) * 1e-3, done;
    char left[64] = "";

    if (!progress_due(&w->progress))
        return;
    done = p->fraction - p->fraction_begin;
    if (p->fraction >= 0 && done > 0 && seconds > 1) {
        char t[32];

        format_time(t, sizeof t, seconds * (1 - p->fraction) / done);
        snprintf(left, sizeof left, ", %.0f%%, %s left", 100 * p->fraction, t);
    }
    progress_show(&w->progress, "%llu records, %u running, %.1f tokens/s%s", (unsigned long long)p->records,
                  (unsigned)p->active, (double)p->tokens / (seconds > 0 ? seconds : 1), left);
}

static const char *input_name(const struct run_args *a)
{
    return a->input && strcmp(a->input, "-") ? a->input : "standard input";
}

static void on_problem(void *arg, uint64_t line, const char *message)
{
    struct watcher *w = arg;

    if (w->problems++ >= PROBLEMS_SHOWN)
        return;
    progress_clear(&w->progress);
    common_error(&w->a->common, "%s:%llu: %s", input_name(w->a), (unsigned long long)line, message);
}

static enum job_format format_of(const struct run_args *a)
{
    const char *dot = a->input ? strrchr(a->input, '.') : NULL;

    if (a->format == JOB_AUTO && dot && (!strcmp(dot, ".jsonl") || !strcmp(dot, ".ndjson")))
        return JOB_JSONL;
    return a->format;
}

static void say_what_was_kept(const struct run_args *a, const struct sink *out)
{
    struct sink_stats st;

    sink_stats(out, &st);
    if (st.torn_bytes)
        common_warn(&a->common, "%s: dropped %llu bytes of a record that was cut off", a->resume,
                    (unsigned long long)st.torn_bytes);
    if (st.kept)
        common_verbose(&a->common, "%s: %llu records are there already", a->resume, (unsigned long long)st.kept);
}

/* Messages about how a run ended; its exit status. */
static int conclude(const struct run_args *a, const struct sink *out, const struct job_stats *js, const struct watcher *w,
                    int rc, const struct err *e)
{
    struct sink_stats st;

    sink_stats(out, &st);
    if (w->problems > PROBLEMS_SHOWN)
        common_error(&a->common, "%u more records failed", w->problems - PROBLEMS_SHOWN);
    common_verbose(&a->common,
                   "%llu records (%llu failed), %llu tokens in %.2f s: %.1f tokens/s; %llu prompt tokens computed, "
                   "%llu decode steps, %llu preemptions",
                   (unsigned long long)js->done.records, (unsigned long long)js->done.failed,
                   (unsigned long long)js->done.tokens, js->seconds,
                   js->seconds > 0 ? (double)js->done.tokens / js->seconds : 0,
                   (unsigned long long)js->batch.prefill_tokens, (unsigned long long)js->batch.decode_steps,
                   (unsigned long long)js->batch.preemptions);
    if (!rc && st.foreign)
        common_warn(&a->common, "%s: %llu records are of lines that %s does not have", a->resume,
                    (unsigned long long)st.foreign, input_name(a));
    if (rc && rc != ERR_CANCELED && !st.closed)
        common_error(&a->common, "%s", e->msg);
    if (rc && sink_journal(out) && (rc == ERR_CANCELED || st.written))
        common_warn(&a->common, "%s holds the %llu records finished so far; go on with --resume %s", sink_journal(out),
                    (unsigned long long)(st.kept + st.written), a->resume ? a->resume : a->common.output);
    if (rc == ERR_CANCELED)
        return common_signal_status();
    return rc || js->done.failed ? EXIT_FAILED : EXIT_GOOD;
}

static int run(const struct run_args *a, struct run_session *s, struct input *in, struct sink *out)
{
    struct watcher w = { .a = a, .begin_ms = clock_ms() };
    json_t *row = a->common.json ? common_row(&a->common, &s->rt) : NULL;
    const struct record_opts record = { s->rt.tok, a->token_ids, a->no_timings, row };
    const struct job_opts o = {
        .engine = s->rt.engine, .pool = s->rt.pool, .how = &s->how, .record = &record,
        .gen = { a->batch, a->chunk_tokens }, .format = format_of(a), .interrupted = &common_signal,
        .hooks = { on_progress, on_problem, &w },
    };
    struct job_stats js = { .seconds = 0 };
    struct err e;
    int rc;

    progress_init(&w.progress, &a->common);
    w.progress.on = w.progress.on && !(sink_journal(out) == NULL && isatty(STDOUT_FILENO)); /* records show progress */
    say_what_was_kept(a, out);
    rc = job_run(&o, in, out, &js, &e);
    progress_clear(&w.progress);
    if (!rc)
        rc = sink_finish(out, true, &e);
    else
        sink_finish(out, false, NULL);
    rc = conclude(a, out, &js, &w, rc, &e);
    json_decref(row);
    return rc;
}

int run_batch(const struct run_args *a)
{
    const struct sink_opts so = { a->resume ? a->resume : a->common.output, a->resume != NULL, a->unordered };
    struct run_session s = { 0 };
    struct input *in = NULL;
    struct sink *out = NULL;
    struct err e;
    int rc;

    if (!a->input && isatty(STDIN_FILENO)) {
        common_error(&a->common, "no prompts: give a file, - for this terminal, -p TEXT or --chat");
        return EXIT_USAGE;
    }
    rc = input_open(&in, a->input ? a->input : "-", &e);
    if (!rc)
        rc = run_session_open(&s, a, a->batch, &e);
    if (!rc)
        rc = sink_open(&out, &so, &e);
    rc = rc ? common_fail(&a->common, &e) : run(a, &s, in, out);
    sink_close(out);
    input_close(in);
    run_session_close(&s);
    return rc;
}
