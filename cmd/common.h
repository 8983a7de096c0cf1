/* What every tool shares: options, --config files, --version, exit statuses, messages, signals, progress, JSON rows, and
 * opening a model with its engine. A tool is an argp parser of its own options plus the child that common_init returns.
 *
 *     struct args { struct common common; ... } a = { 0 };
 *     struct argp argp = { options, parse, args_doc, doc, common_init(&a.common, "tool", COMMON_ENGINE), 0, 0 };
 *     common_parse(&a.common, &argp, argc, argv, &a);          (parse: ARGP_KEY_INIT sets child_inputs[0] = &a->common)
 *     ...
 *     return common_exit(&a.common, status);
 *
 * Everything here belongs to the main thread. */
#ifndef SLUICE_CMD_COMMON_H
#define SLUICE_CMD_COMMON_H

#include <argp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/core/err.h"
#include "lib/core/pool.h"
#include "lib/io/json.h"
#include "lib/model/engine.h"
#include "lib/token/token.h"

enum exit_status { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_MISSED = 2, EXIT_USAGE = 64, EXIT_INTERRUPTED = 130 };

/* Options that a tool takes from the shared set; --config, -q and -v are always there. */
enum common_opt {
    COMMON_MODEL = 1 << 0,     /* -m, --model PATH */
    COMMON_OUTPUT = 1 << 1,    /* -o, --output FILE */
    COMMON_DATA = 1 << 2,      /* -d, --data FILE */
    COMMON_THREADS = 1 << 3,   /* -t, --threads N */
    COMMON_ISA = 1 << 4,       /* --isa NAME */
    COMMON_EXACT = 1 << 5,     /* --exact */
    COMMON_CTX = 1 << 6,       /* --ctx TOKENS */
    COMMON_KV_TYPE = 1 << 7,   /* --kv-type bf16|f32 */
    COMMON_KV_MEMORY = 1 << 8, /* --kv-memory BYTES */
    COMMON_MEMORY = 1 << 9,    /* --memory BYTES */
    COMMON_SEED = 1 << 10,     /* --seed N */
    COMMON_JSON = 1 << 11,     /* --json */
    COMMON_ENGINE = COMMON_MODEL | COMMON_THREADS | COMMON_ISA | COMMON_EXACT | COMMON_CTX | COMMON_KV_TYPE | COMMON_KV_MEMORY
};

#define COMMON_N_OPTIONS 16 /* rows of the shared table, its end included */

struct common {
    /* Values. Strings are borrowed from argv or from the config file, which lives as long as this struct. */
    const char *tool;
    const char *model, *output, *data, *isa, *config;
    unsigned threads;      /* 0: not given, all physical cores */
    uint32_t ctx_tokens;   /* 0: not given */
    enum kv_type kv_type;
    size_t kv_bytes;       /* 0: not given */
    size_t memory_bytes;   /* 0: not given */
    uint64_t seed;         /* 0 when not given */
    bool seed_given, exact, json, quiet;
    int verbose;           /* number of -v */

    /* Private: the argp child, and arguments made from the config file. */
    struct argp_option options[COMMON_N_OPTIONS];
    struct argp argp;
    struct argp_child children[2];
    char **argv;           /* [argc + n_injected] */
    char **injected;       /* "--key=value" of the config file */
    unsigned *lines;       /* their lines */
    size_t n_injected, cap_injected;
};

/* Fills c with defaults and the child parser for the options in mask. The result is for struct argp.children. */
const struct argp_child *common_init(struct common *c, const char *tool, unsigned mask);
/* Reads the config file, then the command line, through argp. Exits with 64 on wrong usage; --help, --usage and --version
 * exit with 0. Keys of a config file are the tool's long options without dashes ('_' may stand for '-'); an option given on
 * the command line hides the key. */
void common_parse(struct common *c, const struct argp *argp, int argc, char **argv, void *input);
void common_fini(struct common *c);

/* Ends with a usage error (64) about an option's value: "tool: [FILE:LINE: ]--option=value: want". */
void common_bad_value(const struct common *c, struct argp_state *state, const char *option, const char *value,
                      const char *want);

/* Values of options; false when text is not wholly one, or outside [min, max]. Sizes take K, M, G, T (powers of 1024) and
 * decimals ("1.5G"). Lists are comma-separated; the caller frees *out. */
bool common_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
bool common_f64(const char *text, double min, double max, double *out);
bool common_size(const char *text, size_t *out);
bool common_u32_list(const char *text, uint32_t min, uint32_t max, uint32_t **out, size_t *n);

/* Messages on stderr, "tool: message"; stdout is flushed first so that both stay in order on a terminal. */
void common_error(const struct common *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void common_warn(const struct common *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));    /* not with -q */
void common_verbose(const struct common *c, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* with -v */
/* The same for a library error; returns EXIT_FAILED. */
int common_fail(const struct common *c, const struct err *e);

/* To be called last: frees c and returns the process's exit status. */
int common_exit(struct common *c, int status);

/* To be called first. Signals: SIGINT and SIGTERM set common_signal (a second one ends the process); after SIGPIPE writes
 * return EPIPE. Descriptors 0 to 2 are made open, so that no file of ours takes their place. At exit stdout is flushed; a
 * failed write is a message (not for a closed pipe) and exit status EXIT_FAILED. */
extern volatile sig_atomic_t common_signal;
void common_signals(void);
/* Exit status of a program that stopped because of a signal: 128 + its number (130 for SIGINT). */
int common_signal_status(void);

/* A line on stderr that rewrites itself, at most ten times a second; nothing when stderr is no terminal or with -q. */
struct progress {
    bool on, shown;
    double last_ms;
};
void progress_init(struct progress *p, const struct common *c);
bool progress_due(struct progress *p); /* so that callers format only what will be seen */
void progress_show(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_clear(struct progress *p);

/* Opening ----------------------------------------------------------------------------------------------------------- */

struct runtime {
    struct pool *pool;
    struct model *model;
    struct tokenizer *tok; /* NULL unless asked for */
    struct engine *engine;
};

struct runtime_opts {
    bool tokenizer;
    const char *pre_tokenizer; /* NULL: what the model names */
    uint32_t n_seqs;           /* sequences to size the KV pool for without --kv-memory (more than one: up to 1 GiB); 0: 1 */
    uint32_t chunk_tokens;     /* 0: the engine's default */
    bool no_prefix_cache;
};

/* Opens the pool, the model, the tokenizer and the engine that the options name. Close with runtime_close, also after a
 * failure. */
int runtime_open(struct runtime *r, const struct common *c, const struct runtime_opts *o, struct err *e);
void runtime_close(struct runtime *r);

/* JSON rows: a new object with tool, version, host, isa and threads; r may be NULL (isa and threads are then those that
 * would be used). NULL when out of memory. */
json_t *common_row(const struct common *c, const struct runtime *r);
/* Prints row as one line on f and drops it; numbers keep 9 digits. 0 or ERR_NOMEM (row NULL included); write errors show
 * in ferror(f). */
int common_row_print(FILE *f, json_t *row);

#endif
