/* infer-bench: prefill and decode rates beside the machine's limits. */
#include <stdlib.h>

#include "cmd/common.h"
#include "lib/bench/bench.h"

enum { KEY_ISA = 0x200, KEY_KV_TYPE, KEY_REPEATS, KEY_WARMUP, KEY_REQUIRE, KEY_CHUNK, KEY_TESTS };

struct args {
    struct common common;
    struct bench_plan plan;
    struct bench_requires requires;
    uint32_t *lists[4]; /* prompts, gens, batches, threads: owned */
    bool header;        /* of the table, printed */
    struct progress progress;
};

static const struct argp_option options[] = {
    { "prompt", 'p', "LIST", 0, "Prompt lengths in tokens (default: 512)", 0 },
    { "generate", 'n', "LIST", 0, "Lengths to decode after the prompt (default: 128; 0: none)", 0 },
    { "batch", 'b', "LIST", 0, "Numbers of sequences at once (default: 1)", 0 },
    { "threads", 't', "LIST", 0, "Numbers of threads (default: the physical cores of the affinity mask)", 0 },
    { "isa", KEY_ISA, "LIST", 0, "Instruction sets (default: the best)", 0 },
    { "kv-type", KEY_KV_TYPE, "LIST", 0, "Types of cached keys and values: bf16, f32 (default: bf16)", 0 },
    { "tests", KEY_TESTS, "LIST", 0, "Tests to run (default: prefill,decode)", 0 },
    { "repeats", KEY_REPEATS, "N", 0, "Runs of each test that are counted (default: 5)", 0 },
    { "warmup", KEY_WARMUP, "N", 0, "Runs before that which are not (default: 1)", 0 },
    { "chunk", KEY_CHUNK, "TOKENS", 0, "Tokens that prefill computes at once (default: 512)", 0 },
    { "require", KEY_REQUIRE, "CHECK", 0, "Exit with 2 unless it holds, for example decode@b16>=400; may be repeated", 0 },
    { 0 }
};

static void take_list(struct args *a, struct argp_state *state, int slot, const char *option, const char *arg, uint32_t min)
{
    static const uint32_t max[4] = { 1u << 24, 1u << 24, 4096, 4096 };
    const uint32_t **lists[4] = { &a->plan.prompts, &a->plan.gens, &a->plan.batches, &a->plan.threads };
    size_t *ns[4] = { &a->plan.n_prompts, &a->plan.n_gens, &a->plan.n_batches, &a->plan.n_threads };

    free(a->lists[slot]);
    if (!common_u32_list(arg, min, max[slot], &a->lists[slot], ns[slot]))
        common_bad_value(&a->common, state, option, arg, "not a list of numbers such as 1,16");
    *lists[slot] = a->lists[slot];
}

static void take_names(struct args *a, struct argp_state *state, const char *option, const char *arg,
                       int (*take)(struct bench_plan *, const char *, struct err *))
{
    struct err e;

    if (take(&a->plan, arg, &e))
        common_bad_value(&a->common, state, option, arg, e.msg);
}

static uint32_t number(const struct args *a, struct argp_state *state, const char *option, const char *arg, uint64_t min)
{
    uint64_t v = 0;

    if (!common_u64(arg, min, 65536, &v))
        common_bad_value(&a->common, state, option, arg, "not a number in range");
    return (uint32_t)v;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    struct err e;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->common; break;
    case 'p': take_list(a, state, 0, "--prompt", arg, 0); break;
    case 'n': take_list(a, state, 1, "--generate", arg, 0); break;
    case 'b': take_list(a, state, 2, "--batch", arg, 1); break;
    case 't': take_list(a, state, 3, "--threads", arg, 1); break;
    case KEY_ISA: take_names(a, state, "--isa", arg, bench_plan_isas); break;
    case KEY_KV_TYPE: take_names(a, state, "--kv-type", arg, bench_plan_kv_types); break;
    case KEY_TESTS: take_names(a, state, "--tests", arg, bench_plan_tests); break;
    case KEY_REPEATS: a->plan.repeats = number(a, state, "--repeats", arg, 1); break;
    case KEY_WARMUP: a->plan.warmup = number(a, state, "--warmup", arg, 0); break;
    case KEY_CHUNK: a->plan.chunk_tokens = number(a, state, "--chunk", arg, 1); break;
    case KEY_REQUIRE:
        if (bench_requires_add(&a->requires, arg, &e))
            argp_error(state, "%s", e.msg);
        break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument %s", arg); break;
    case ARGP_KEY_END:
        if (!a->common.model)
            argp_error(state, "give a model with -m");
        a->plan.exact = a->common.exact;
        a->plan.seed = a->common.seed;
        bench_plan_defaults(&a->plan);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int print_row(struct args *a, const struct bench_row *row)
{
    char line[512];
    json_t *j;

    if (a->common.json) {
        j = common_row(&a->common, NULL);
        if (j && (json_object_set_new(j, "model", json_string(a->common.model)) || bench_row_json(row, j))) {
            json_decref(j);
            j = NULL;
        }
        return common_row_print(stdout, j);
    }
    if (!a->header) {
        bench_row_text(NULL, line, sizeof line);
        puts(line);
        a->header = true;
    }
    bench_row_text(row, line, sizeof line);
    puts(line);
    return 0;
}

static void on_miss(void *arg, const char *msg)
{
    common_error(arg, "%s", msg);
}

static int on_row(void *arg, const struct bench_row *row, struct err *e)
{
    struct args *a = arg;

    progress_clear(&a->progress);
    if (print_row(a, row))
        return err_set(e, ERR_NOMEM, "JSON row: out of memory");
    fflush(stdout);
    bench_requires_row(&a->requires, row, on_miss, &a->common);
    return ferror(stdout) ? err_set(e, ERR_IO, "standard output: write failed") : 0;
}

static bool on_progress(void *arg, const struct bench_row *row, uint32_t run, uint32_t n_runs)
{
    struct args *a = arg;

    progress_show(&a->progress, "%s p%llu n%llu b%llu t%llu %s: run %u of %u", row->test,
                  (unsigned long long)row->prompt_tokens, (unsigned long long)row->generated_tokens,
                  (unsigned long long)row->batch, (unsigned long long)row->threads, row->isa, run + 1, n_runs);
    return !common_signal;
}

static int run(struct args *a, struct err *e)
{
    struct pool *pool = NULL;
    struct model *m = NULL;
    int rc;

    rc = pool_open(&pool, 0, true, e);
    if (!rc)
        rc = model_open(&m, a->common.model, pool, e);
    pool_close(pool);
    progress_init(&a->progress, &a->common);
    a->plan.row = on_row;
    a->plan.progress = on_progress;
    a->plan.arg = a;
    if (!rc)
        rc = bench_run(&a->plan, m, e);
    progress_clear(&a->progress);
    model_close(m);
    if (!rc)
        bench_requires_end(&a->requires, on_miss, &a->common);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = { .plan = { .warmup = 1 } };
    const struct argp argp = { options, parse, 0, "Prefill and decode rates of a model beside the machine's limits.",
                               common_init(&a.common, "infer-bench", COMMON_MODEL | COMMON_EXACT | COMMON_SEED | COMMON_JSON),
                               0, 0 };
    struct err e;
    int rc;

    common_signals();
    common_parse(&a.common, &argp, argc, argv, &a);
    rc = run(&a, &e);
    if (rc)
        common_fail(&a.common, &e);
    for (size_t i = 0; i < 4; i++)
        free(a.lists[i]);
    return common_exit(&a.common, rc == ERR_CANCELED ? EXIT_INTERRUPTED : rc ? EXIT_FAILED : a.requires.missed ? EXIT_MISSED : EXIT_GOOD);
}
