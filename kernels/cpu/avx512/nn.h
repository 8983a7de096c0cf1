/* AVX-512 attention; contracts in kernels/kern.h. */
#ifndef SLUICE_KERNELS_CPU_AVX512_NN_H
#define SLUICE_KERNELS_CPU_AVX512_NN_H

#include "kernels/kern.h"

void kv_store_avx512(const struct attn_args *a, uint32_t kvh, uint32_t pos, const float *k, const float *v);
void attention_avx512(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch);

#endif
