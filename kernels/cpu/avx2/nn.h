/* What kern_init_nn_avx2 finds in other files of the folder. */
#ifndef SLUICE_KERNELS_CPU_AVX2_NN_H
#define SLUICE_KERNELS_CPU_AVX2_NN_H

#include "kernels/kern.h"

void kv_store_avx2(const struct attn_args *a, uint32_t kvh, uint32_t pos, const float *k, const float *v);
void attention_avx2(const struct attn_args *a, uint32_t kvh, uint32_t q0, uint32_t q1, void *scratch);

#endif
