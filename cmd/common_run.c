/* Version, messages, signals, progress, JSON rows and opening of models. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/common.h"
#include "kernels/isa.h"
#include "lib/core/clock.h"
#include "lib/core/mem.h"

#define PROGRESS_MS 100
#define KV_DEFAULT_BYTES ((size_t)1 << 30)

volatile sig_atomic_t common_signal;
static volatile sig_atomic_t pipe_closed;

static void print_version(FILE *f, struct argp_state *state);

void (*argp_program_version_hook)(FILE *, struct argp_state *) = print_version;

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void print_version(FILE *f, struct argp_state *state)
{
    const uint32_t flags = isa_detect();
    struct kern_ops ops;

    fprintf(f, "%s (Sluice) %s\n", state && state->name ? state->name : "sluice", SLUICE_VERSION);
    fprintf(f, "compiler: %s\n", COMPILER);
    fprintf(f, "features: %scuda %smpi\n",
#ifdef SLUICE_CUDA
            "+",
#else
            "-",
#endif
#ifdef SLUICE_MPI
            "+"
#else
            "-"
#endif
    );
    fprintf(f, "kernels:");
    for (const struct isa *i = isa_table; i->name; i++)
        fprintf(f, " %s%s", i->name, (i->flags & flags) == i->flags ? "" : " (not on this machine)");
    fprintf(f, "\ncpu:%s%s%s%s%s\n", flags & ISA_AVX2 ? " avx2" : "", flags & ISA_AVX512 ? " avx512" : "",
            flags & ISA_AVX512_VNNI ? " vnni" : "", flags & ISA_AVX512_BF16 ? " bf16" : "", flags ? "" : " baseline");
    if (!kern_ops_init(&ops, NULL))
        fprintf(f, "default isa: %s, %u threads\n", ops.isa, pool_cores());
}

static void say(const struct common *c, const char *fmt, va_list ap)
{
    fflush(stdout);
    fprintf(stderr, "%s: ", c->tool);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

void common_error(const struct common *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(c, fmt, ap);
    va_end(ap);
}

void common_warn(const struct common *c, const char *fmt, ...)
{
    va_list ap;

    if (c->quiet)
        return;
    va_start(ap, fmt);
    say(c, fmt, ap);
    va_end(ap);
}

void common_verbose(const struct common *c, const char *fmt, ...)
{
    va_list ap;

    if (!c->verbose)
        return;
    va_start(ap, fmt);
    say(c, fmt, ap);
    va_end(ap);
}

int common_fail(const struct common *c, const struct err *e)
{
    common_error(c, "%s", e->msg);
    return EXIT_FAILED;
}

int common_exit(struct common *c, int status)
{
    common_fini(c);
    return status;
}

/* At exit, --help and --version included: what was printed must have got to where it goes. */
static void check_stdout(void)
{
    bool bad = ferror(stdout);

    errno = 0;
    if (!fflush(stdout) && !bad)
        return;
    if (!pipe_closed)
        fprintf(stderr, "%s: standard output: %s\n", program_invocation_short_name, errno ? strerror(errno) : "write failed");
    _exit(EXIT_FAILED);
}

static void on_signal(int sig)
{
    common_signal = sig;
}

static void on_pipe(int sig)
{
    (void)sig;
    pipe_closed = 1; /* the write returns EPIPE */
}

void common_signals(void)
{
    static bool registered;
    struct sigaction sa;

    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) /* still fails when used */
            _exit(EXIT_FAILED);
    if (!registered)
        registered = !atexit(check_stdout);
    memset(&sa, 0, sizeof sa);
    sigemptyset(&sa.sa_mask);
    sa.sa_handler = on_pipe;
    sa.sa_flags = SA_RESTART;
    sigaction(SIGPIPE, &sa, NULL);
    sa.sa_handler = on_signal;
    sa.sa_flags = (int)SA_RESETHAND; /* no SA_RESTART: a blocked read must return */
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

int common_signal_status(void)
{
    return 128 + common_signal;
}

void progress_init(struct progress *p, const struct common *c)
{
    memset(p, 0, sizeof *p);
    p->on = !c->quiet && isatty(STDERR_FILENO);
}

bool progress_due(struct progress *p)
{
    return p->on && clock_ms() - p->last_ms >= PROGRESS_MS;
}

void progress_show(struct progress *p, const char *fmt, ...)
{
    va_list ap;

    if (!p->on)
        return;
    p->last_ms = clock_ms();
    p->shown = true;
    fputc('\r', stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("\033[K", stderr);
    fflush(stderr);
}

void progress_clear(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

/* KV memory for several sequences: what they need at full length, but no more than KV_DEFAULT_BYTES (or one sequence of
 * --ctx): the scheduler copes with less than the worst case. */
static size_t default_kv_bytes(const struct common *c, const struct model_params *p, uint32_t n_seqs)
{
    const size_t token = 2 * (size_t)p->n_layers * p->n_kv_heads * p->head_dim * (c->kv_type == KV_F32 ? 4 : 2);
    const size_t ctx = c->ctx_tokens ? c->ctx_tokens : p->n_ctx_train ? p->n_ctx_train : 2048;
    const size_t one = mem_round_up(ctx, 1024) * token, all = one * n_seqs;
    const size_t cap = c->ctx_tokens && one > KV_DEFAULT_BYTES ? one : KV_DEFAULT_BYTES;

    return all < cap ? all : cap;
}

int runtime_open(struct runtime *r, const struct common *c, const struct runtime_opts *o, struct err *e)
{
    struct engine_opts eo = { .isa = c->isa, .exact = c->exact, .kv_type = c->kv_type, .ctx_tokens = c->ctx_tokens,
                              .kv_bytes = c->kv_bytes, .n_seqs = o->n_seqs, .chunk_tokens = o->chunk_tokens,
                              .no_prefix_cache = o->no_prefix_cache };
    int rc;

    double t0 = clock_ms(), t1, t2;

    memset(r, 0, sizeof *r);
    if (!c->model)
        return err_set(e, ERR_INVAL, "no model given: use -m PATH");
    rc = pool_open(&r->pool, c->threads, true, e);
    if (!rc)
        rc = model_open(&r->model, c->model, r->pool, e);
    t1 = clock_ms();
    if (!rc && o->tokenizer)
        rc = tokenizer_open(&r->tok, r->model->source, o->pre_tokenizer, e);
    t2 = clock_ms();
    if (!rc && !eo.kv_bytes && o->n_seqs > 1)
        eo.kv_bytes = default_kv_bytes(c, &r->model->params, o->n_seqs);
    if (!rc)
        rc = engine_open(&r->engine, r->model, r->pool, &eo, e);
    if (!rc)
        common_verbose(c, "%s, %u threads; opened in %.1f ms: model %.1f, tokenizer %.1f, engine %.1f",
                       engine_ops(r->engine)->isa, pool_size(r->pool), clock_ms() - t0, t1 - t0, t2 - t1, clock_ms() - t2);
    return rc;
}

void runtime_close(struct runtime *r)
{
    engine_close(r->engine);
    tokenizer_close(r->tok);
    model_close(r->model);
    pool_close(r->pool);
    memset(r, 0, sizeof *r);
}

json_t *common_row(const struct common *c, const struct runtime *r)
{
    char host[256] = "";
    struct kern_ops ops;
    const char *isa = "";
    unsigned threads = r && r->pool ? pool_size(r->pool) : c->threads ? c->threads : pool_cores();

    if (gethostname(host, sizeof host - 1))
        host[0] = 0;
    if (r && r->engine)
        isa = engine_ops(r->engine)->isa;
    else if (!kern_ops_init(&ops, c->isa))
        isa = ops.isa;
    return json_pack("{ss ss ss ss sI}", "tool", c->tool, "version", SLUICE_VERSION, "host", host, "isa", isa, "threads",
                     (json_int_t)threads);
}

int common_row_print(FILE *f, json_t *row)
{
    int rc = ERR_NOMEM;

    if (row) {
        json_dumpf(row, f, JSON_COMPACT | JSON_REAL_PRECISION(9));
        fputc('\n', f);
        rc = 0;
    }
    json_decref(row);
    return rc;
}
