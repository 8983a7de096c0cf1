/* Philox4x32-10: a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
 * The value depends only on (seed, stream, position), so a request's draws do not depend on what else runs. */
#ifndef SLUICE_CORE_RNG_H
#define SLUICE_CORE_RNG_H

#include <stdint.h>

/* Four 32-bit words for counter ctr[4] under key[2]. */
void rng_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* Uniform double in [0, 1), 53 bits, for draw number `position` of stream `stream` under `seed`. */
double rng_uniform(uint64_t seed, uint64_t stream, uint64_t position);

#endif
