/* The kernel checker: every pointer of struct kern_ops, for every row of isa_table that the machine has, against the
 * reference and against double precision. One file per family of kernels; main is in checkkern.c. */
#ifndef SLUICE_TESTS_KERN_CHECKKERN_H
#define SLUICE_TESTS_KERN_CHECKKERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"

struct checker {
    const struct kern_ops *ref;  /* the first row */
    const struct kern_ops *prev; /* the row below ops; NULL when ops is the first: then everything is to be checked */
    const struct kern_ops *ops;  /* under test */
    const char *filter;          /* NULL or a part of the names to run */
    uint64_t rng;
    unsigned long checks, failures;
};

struct family {
    const char *name;
    void (*check)(struct checker *c);
    void (*bench)(struct checker *c); /* NULL: none */
};

extern const struct family family_linear, family_nn, family_attn;

/* True when the kernel called name is to be run: it differs from the row below and passes the filter. A struct member
 * is passed twice: check_wanted(c, "add", c->prev && c->prev->add == c->ops->add). */
bool check_wanted(const struct checker *c, const char *name, bool same_as_prev);

/* Counts a check; when !ok, also a failure, and prints the message (the first 20 of a run). Returns ok. */
bool check_that(struct checker *c, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Largest error allowed of a float sum of n products whose absolute values sum to magnitude. Test with !(diff <= tol), so
 * that a NaN fails. */
double check_tolerance(double n, double magnitude);

/* --- data ------------------------------------------------------------------------------------------------------------- */

uint32_t check_u32(struct checker *c);
float check_uniform(struct checker *c, float lo, float hi);

/* 64-byte aligned memory between 64 bytes and at least one byte of 0xff (a NaN as float, half or bfloat16) and a page that
 * faults when touched. Filled with 0xff. Ends the program when there is no memory. */
void *guard_new(size_t bytes);
/* True when the bytes around the buffer are still 0xff. */
bool guard_intact(const void *p, size_t bytes);
void guard_free(void *p, size_t bytes);

/* --- timing ----------------------------------------------------------------------------------------------------------- */

/* Processor time of this thread: a shared machine disturbs it less than the clock. */
double cpu_seconds(void);

/* Best processor seconds per call of fn(arg), of this thread, over several runs of a millisecond or more. */
double bench_seconds(void (*fn)(void *arg), void *arg);

/* Measured peaks of one core with the instructions of an isa row, cached after the first call: integer operations (a u8 x s8
 * multiply and an add count as two) and float operations per second, bytes per second read from memory. */
double peak_int_ops(const char *isa);
double peak_float_ops(const char *isa);
double peak_read_bytes(void);

#endif
