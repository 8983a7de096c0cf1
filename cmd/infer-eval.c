/* infer-eval: perplexity of a model on a text, and comparison with another model's logits. */
#include <stdlib.h>
#include <string.h>

#include "cmd/common.h"
#include "lib/core/clock.h"
#include "lib/eval/eval.h"
#include "lib/io/text.h"
#include "lib/model/digest.h"

enum { KEY_WINDOWS = 0x200, KEY_SKIP, KEY_SAVE, KEY_AGAINST, KEY_TOP_K, KEY_DUMP, KEY_PRE };

struct args {
    struct common common;
    struct eval_opts eval;
    const char *pre_tokenizer;
    uint32_t windows;
    struct progress progress;
    double start_ms;
    char command[1024];
};

static const struct argp_option options[] = {
    { "windows", KEY_WINDOWS, "N", 0, "Take the first N windows only", 0 },
    { "skip", KEY_SKIP, "K", 0, "Score token K of a window and those after it (default: 1)", 0 },
    { "save", KEY_SAVE, "REF.h5", 0, "Write reference logits: the most likely tokens of every position", 0 },
    { "top-k", KEY_TOP_K, "K", 0, "Most likely tokens that --save keeps per position (default: 64)", 0 },
    { "against", KEY_AGAINST, "REF.h5", 0, "Compare with reference logits of another model", 0 },
    { "dump-logits", KEY_DUMP, "FILE.h5", 0, "Write every logit of every position (large)", 0 },
    { "pre-tokenizer", KEY_PRE, "NAME", 0, "Pre-tokenizer to use instead of the one the model names", 0 },
    { 0 }
};

static uint32_t number(const struct args *a, struct argp_state *state, const char *option, const char *arg, uint64_t max)
{
    uint64_t v = 0;

    if (!common_u64(arg, 1, max, &v))
        common_bad_value(&a->common, state, option, arg, "not a number, 1 or more");
    return (uint32_t)v;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->common; break;
    case KEY_WINDOWS: a->windows = number(a, state, "--windows", arg, UINT32_MAX); break;
    case KEY_SKIP: a->eval.skip = number(a, state, "--skip", arg, 1u << 30); break;
    case KEY_TOP_K: a->eval.top_k = number(a, state, "--top-k", arg, 1u << 30); break;
    case KEY_SAVE: a->eval.save = arg; break;
    case KEY_AGAINST: a->eval.against = arg; break;
    case KEY_DUMP: a->eval.dump = arg; break;
    case KEY_PRE: a->pre_tokenizer = arg; break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument %s: the text is given with -d", arg); break;
    case ARGP_KEY_END:
        if (!a->common.model || !a->common.data)
            argp_error(state, "give a model with -m and a text with -d");
        if (!a->common.ctx_tokens)
            a->common.ctx_tokens = 2048;
        if (a->eval.skip >= a->common.ctx_tokens)
            argp_error(state, "--skip=%u: must be below --ctx, %u", a->eval.skip, a->common.ctx_tokens);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool on_progress(void *arg, const struct eval_progress *p)
{
    struct args *a = arg;

    if (progress_due(&a->progress)) {
        double s = (clock_ms() - a->start_ms) * 1e-3, rate = (double)p->done_tokens / (s > 0 ? s : 1);
        unsigned left = (unsigned)((double)(p->total_tokens - p->done_tokens) / (rate > 0 ? rate : 1));

        progress_show(&a->progress, "%u windows, %.0f%%, nll %.4f, %.0f tokens/s, %u:%02u:%02u left", p->windows_done,
                      100.0 * (double)p->done_tokens / (double)p->total_tokens, p->nll_mean, rate, left / 3600,
                      left / 60 % 60, left % 60);
    }
    return !common_signal;
}

static int print_json(const struct args *a, const struct runtime *r, const struct eval_result *v, const struct model_bits *b)
{
    const struct common *c = &a->common;
    json_t *row = common_row(c, r);
    json_t *more = json_pack("{ss ss si si sb ss sf sf sf sI si sf sf sf}", "model", c->model, "data", c->data, "ctx",
                             (int)c->ctx_tokens, "skip", (int)a->eval.skip, "exact", (int)c->exact, "kv_type",
                             c->kv_type == KV_F32 ? "f32" : "bf16", "perplexity", v->perplexity, "nll_mean", v->nll_mean,
                             "nll_stderr", v->nll_stderr, "tokens_scored", (json_int_t)v->tokens_scored, "windows",
                             (int)v->windows, "bits_per_weight", b->bits_per_weight, "bits_per_weight_linear",
                             b->bits_per_weight_linear, "seconds", v->seconds);
    json_t *cmp = v->compared ? json_pack("{ss sf sf sf sf sf sf sf}", "against", a->eval.against, "kl_mean", v->kl_mean,
                                          "kl_p50", v->kl_p50, "kl_p95", v->kl_p95, "kl_p99", v->kl_p99, "top1_agreement",
                                          v->top1_agreement, "perplexity_ratio", v->perplexity_ratio,
                                          "reference_perplexity", v->reference_perplexity)
                              : json_object();
    int bad = !row || json_object_update(row, more) || json_object_update(row, cmp);

    json_decref(more);
    json_decref(cmp);
    if (bad) {
        json_decref(row);
        row = NULL;
    }
    return common_row_print(stdout, row);
}

static void print_text(const struct args *a, const struct eval_result *v, const struct model_bits *b)
{
    printf("# %10s %9s %10s %13s %7s %6s %6s %15s %22s %8s\n", "perplexity", "nll_mean", "nll_stderr", "tokens_scored",
           "windows", "ctx", "skip", "bits_per_weight", "bits_per_weight_linear", "seconds");
    printf("  %10.4f %9.5f %10.5f %13llu %7u %6u %6u %15.3f %22.3f %8.1f\n", v->perplexity, v->nll_mean, v->nll_stderr,
           (unsigned long long)v->tokens_scored, v->windows, a->common.ctx_tokens, a->eval.skip, b->bits_per_weight,
           b->bits_per_weight_linear, v->seconds);
    if (!v->compared)
        return;
    printf("# %9s %9s %9s %9s %14s %16s %20s\n", "kl_mean", "kl_p50", "kl_p95", "kl_p99", "top1_agreement",
           "perplexity_ratio", "reference_perplexity");
    printf("  %9.6f %9.6f %9.6f %9.6f %14.5f %16.5f %20.4f\n", v->kl_mean, v->kl_p50, v->kl_p95, v->kl_p99,
           v->top1_agreement, v->perplexity_ratio, v->reference_perplexity);
}

static int run(struct args *a, struct err *e)
{
    const struct runtime_opts o = { .tokenizer = true, .pre_tokenizer = a->pre_tokenizer, .no_prefix_cache = true };
    struct eval_windows w = { 0 };
    struct eval_result result;
    struct model_bits bits;
    struct runtime r = { 0 };
    char *text = NULL;
    size_t len;
    int rc;

    if ((rc = text_read(&text, &len, a->common.data, e)) || (rc = runtime_open(&r, &a->common, &o, e)) ||
        (rc = eval_windows_make(&w, r.tok, text, len, a->common.ctx_tokens, a->windows, e)))
        goto done;
    a->start_ms = clock_ms();
    progress_init(&a->progress, &a->common);
    rc = eval_run(&result, r.engine, r.pool, r.tok, &w, &a->eval, e);
    progress_clear(&a->progress);
    if (rc)
        goto done;
    model_bits_count(r.model, &bits);
    if (!a->common.json)
        print_text(a, &result, &bits);
    else if ((rc = print_json(a, &r, &result, &bits)))
        err_set(e, rc, "JSON row: out of memory");
done:
    eval_windows_free(&w);
    runtime_close(&r);
    free(text);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = { .eval = { .skip = 1, .progress = on_progress } };
    const struct argp argp = { options, parse, 0, "Perplexity of a model over windows of a text, and comparison with "
                               "another model's logits on the same text.",
                               common_init(&a.common, "infer-eval", COMMON_ENGINE | COMMON_DATA | COMMON_JSON), 0, 0 };
    struct err e;
    int rc;

    common_signals();
    for (int i = 0; i < argc; i++) {
        size_t n = strlen(a.command);
        snprintf(a.command + n, sizeof a.command - n, "%s%s", i ? " " : "", argv[i]);
    }
    common_parse(&a.common, &argp, argc, argv, &a);
    a.eval.progress_arg = &a;
    a.eval.exact = a.common.exact;
    a.eval.model_path = a.common.model;
    a.eval.command = a.command;
    rc = run(&a, &e);
    if (rc)
        common_fail(&a.common, &e);
    return common_exit(&a.common, rc == ERR_CANCELED ? EXIT_INTERRUPTED : rc ? EXIT_FAILED : EXIT_GOOD);
}
