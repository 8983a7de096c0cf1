/* A team of threads that run one function together (SPMD), with spin-then-sleep barriers between its stages.
 * The caller's thread is member 0. One pool_run at a time; pool_run is not reentrant. */
#ifndef SLUICE_CORE_POOL_H
#define SLUICE_CORE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/core/err.h"

struct pool;

/* n_threads 0: one per physical core of the affinity mask. pin: thread i is bound to the i-th such core (the caller's
 * thread only while it is inside pool_run; its mask is restored). */
int pool_open(struct pool **out, unsigned n_threads, bool pin, struct err *e);
void pool_close(struct pool *p); /* NULL is legal */

unsigned pool_size(const struct pool *p);

/* Physical cores in the affinity mask of the calling process (at least 1). */
unsigned pool_cores(void);

/* Runs fn(arg, member) on every member and returns when all have returned. */
void pool_run(struct pool *p, void (*fn)(void *arg, unsigned member), void *arg);

/* To be called by every member inside pool_run: nobody passes until all have come; writes before are seen after. */
void pool_barrier(struct pool *p);

/* Members [i * n / size) share of n items, in units of `unit`: *begin and *end for this member. */
void pool_split(const struct pool *p, unsigned member, uint32_t n, uint32_t unit, uint32_t *begin, uint32_t *end);

#endif
