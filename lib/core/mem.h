/* Aligned heap memory and overflow-checked sizes. Threads: all functions are safe to call from any thread. */
#ifndef SLUICE_CORE_MEM_H
#define SLUICE_CORE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEM_ALIGN 64 /* a cache line and a 512-bit vector */

/* bytes of memory aligned to MEM_ALIGN, contents undefined; NULL when there is none or bytes is 0.
 * Freed with free(). */
void *mem_alloc(size_t bytes);

/* Same, zeroed. */
void *mem_zalloc(size_t bytes);

/* Page-aligned anonymous mapping of at least bytes, zeroed, transparent huge pages advised when large.
 * NULL on failure. Unmapped with mem_unmap and the same size. Pages cost memory only once touched. */
void *mem_map(size_t bytes);
void mem_unmap(void *p, size_t bytes);

/* *out = a * b (a + b); false when that overflows size_t. */
bool mem_mul(size_t a, size_t b, size_t *out);
bool mem_add(size_t a, size_t b, size_t *out);

/* x rounded up to a multiple of a (a power of two). */
static inline size_t mem_round_up(size_t x, size_t a)
{
    return (x + a - 1) & ~(a - 1);
}

#endif
