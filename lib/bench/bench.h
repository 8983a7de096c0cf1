/* Speed of a model: prefill and decode rates over crossed lists of lengths, batch sizes, threads, instruction sets and
 * KV types, each beside what the machine could do at most, measured in the same run.
 *
 * Threads: one caller; each test runs on a pool of its own number of threads. */
#ifndef SLUICE_BENCH_BENCH_H
#define SLUICE_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/pool.h"
#include "lib/io/json.h"
#include "lib/model/engine.h"

/* --- the machine's limits ------------------------------------------------------------------------------------------- */

struct bench_limits {
    double read_bytes;               /* bytes read from memory per second, all threads together */
    double i8_ops, bf16_ops, f32_ops; /* arithmetic operations per second: multiplications and additions counted singly */
};

/* Measures for about 0.2 s with the pool's threads and the loops of isa (NULL: the best), and raises each field of *best to
 * what it finds, so that repeated calls give the best seen. buf: memory larger than the last cache, 4096-byte aligned. */
int bench_limits_measure(struct bench_limits *best, struct pool *pool, const char *isa, const void *buf, size_t bytes,
                         struct err *e);

/* Bytes for that buffer: four times the last-level cache, at least 256 MiB, at most 1 GiB. */
size_t bench_buffer_bytes(void);

/* --- the work of a step --------------------------------------------------------------------------------------------- */

struct bench_work {
    double weight_bytes;    /* packed weights read */
    double kv_bytes;        /* keys and values read: each sequence's once a step */
    double i8_ops, bf16_ops, f32_ops; /* of linear layers, by the arithmetic they use */
    double attention_ops;   /* of scores and weighted values */
    uint32_t steps;
};

/* Adds one decode step: n_seqs sequences that hold pos tokens each compute one more, and its logits. */
void bench_work_decode(struct bench_work *w, const struct model *m, const struct kern_ops *ops, bool exact, enum kv_type kv,
                       uint32_t n_seqs, uint32_t pos);

/* Adds the prefill of n_seqs empty sequences with n_tokens each, cut into steps of chunk tokens, with the logits of each last
 * token. */
void bench_work_prefill(struct bench_work *w, const struct model *m, const struct kern_ops *ops, bool exact,
                        enum kv_type kv, uint32_t n_seqs, uint32_t n_tokens, uint32_t chunk);

/* Least seconds that the limits allow for w: the longer one of reading its bytes and doing its operations. */
double bench_least_seconds(const struct bench_work *w, const struct bench_limits *l, bool bf16_attention);

/* --- tests ---------------------------------------------------------------------------------------------------------- */

struct bench_row {
    const char *test;        /* "prefill" or "decode" */
    uint64_t prompt_tokens, generated_tokens, batch, threads; /* per sequence; prefill has 0 generated */
    const char *isa, *kv_type;
    uint64_t exact;
    double tokens_per_second, tokens_per_second_min, tokens_per_second_max; /* median and range over repeats, all sequences */
    uint64_t repeats;
    double ms_per_step;      /* median repeat, per step of all sequences */
    double weight_bytes_per_step, kv_bytes_per_step;
    double gb_per_second, limit_gb_per_second;   /* 1e9 bytes */
    double gop_per_second, limit_gop_per_second; /* 1e9 operations of linear layers */
    double attention_gop_per_second, limit_attention_gop_per_second;
    double limit_ratio;      /* least seconds that the limits allow / seconds taken */
};

/* The columns of a row, for printing and for requirements. */
enum bench_field_type { BENCH_STR, BENCH_BOOL /* stored as uint64_t */, BENCH_U64, BENCH_F64 };
struct bench_field {
    const char *name;        /* JSON field */
    enum bench_field_type type;
    size_t offset;           /* in struct bench_row */
    const char *heading;     /* short name in the table, or NULL: not shown there */
    int width, digits;       /* of the table */
};
extern const struct bench_field bench_fields[]; /* ended by name NULL */

/* A line of the table, without a newline, into buf; row NULL: the headings, after a '#'. */
void bench_row_text(const struct bench_row *row, char *buf, size_t size);
/* Adds all fields to a JSON object, replacing those that are there. 0 or ERR_NOMEM. */
int bench_row_json(const struct bench_row *row, json_t *into);

#define BENCH_MAX_NAMES 8

struct bench_plan {
    const uint32_t *prompts, *gens, *batches, *threads; /* lists; 0 generated: no
                                                           decode test; 0 threads: the machine's cores */
    size_t n_prompts, n_gens, n_batches, n_threads;
    const char *isas[BENCH_MAX_NAMES]; /* static names; NULL among them: the best */
    size_t n_isas;
    enum kv_type kv_types[2];
    size_t n_kv_types;
    bool prefill, decode;     /* tests to run */
    uint32_t repeats, warmup; /* warmup: runs before that are not counted */
    uint32_t chunk_tokens;    /* 0: 512 */
    bool exact;
    uint64_t seed;            /* of the prompts' random tokens */
    /* Called with each finished row. 0, or an error that ends the run. */
    int (*row)(void *arg, const struct bench_row *row, struct err *e);
    /* Called between runs with what comes next; false ends with ERR_CANCELED. May be NULL. */
    bool (*progress)(void *arg, const struct bench_row *row, uint32_t run, uint32_t n_runs);
    void *arg;
};

/* Comma-separated names into p: instruction sets, KV types (bf16, f32), tests (prefill, decode). ERR_INVAL names the one that is
 * wrong. */
int bench_plan_isas(struct bench_plan *p, const char *list, struct err *e);
int bench_plan_kv_types(struct bench_plan *p, const char *list, struct err *e);
int bench_plan_tests(struct bench_plan *p, const char *list, struct err *e);

/* Gives every list that is empty its default: prompt 512, 128 generated, batch 1, the machine's cores, the best instruction
 * set, bf16, both tests, 5 repeats. */
void bench_plan_defaults(struct bench_plan *p);

int bench_run(const struct bench_plan *plan, const struct model *m, struct err *e);

/* --- requirements ---------------------------------------------------------------------------------------------------- */

/* TEST[@FILTER[,FILTER...]][:FIELD]OP NUMBER, for example "decode>=100", "decode@b16,t2>=400", "prefill@p512:limit_ratio>0.5".
 * TEST: prefill or decode. FILTER: pN, nN, bN, tN, isa=NAME, kv=NAME. FIELD: a numeric field of bench_fields, default
 * tokens_per_second. OP: >= > <= <. Holds when every row that matches TEST and all filters satisfies it. */
struct bench_require {
    const char *text;         /* borrowed */
    bool decode;
    uint64_t prompt_tokens, generated_tokens, batch, threads; /* UINT64_MAX: any */
    char isa[16], kv_type[16]; /* "": any */
    const struct bench_field *field;
    char op[3];
    double value;
};

int bench_require_parse(struct bench_require *out, const char *text, struct err *e);
bool bench_require_applies(const struct bench_require *r, const struct bench_row *row);
/* True when the row satisfies it, or it does not apply. */
bool bench_require_holds(const struct bench_require *r, const struct bench_row *row);

#define BENCH_MAX_REQUIRES 64

/* Requirements and how they fared. Zero-initialise. */
struct bench_requires {
    struct bench_require list[BENCH_MAX_REQUIRES];
    bool seen[BENCH_MAX_REQUIRES]; /* some row matched */
    size_t n;
    bool missed;
};

int bench_requires_add(struct bench_requires *s, const char *text, struct err *e);
/* Checks one row. Calls miss with a message for each requirement that it misses. */
void bench_requires_row(struct bench_requires *s, const struct bench_row *row, void (*miss)(void *arg, const char *msg), void *arg);
/* After all rows: a requirement that no row matched is missed too. */
void bench_requires_end(struct bench_requires *s, void (*miss)(void *arg, const char *msg), void *arg);

#endif
