/* What each instruction-set folder gives to the dispatch table (kernels/isa.c): functions that store the kernels which
 * the folder does faster into ops and leave the rest as it was. flags is what isa_detect() found, for kernels that need
 * more than their folder's baseline (VNNI, BF16). The avx folders are empty on machines that are not x86-64. */
#ifndef SLUICE_KERNELS_CPU_INIT_H
#define SLUICE_KERNELS_CPU_INIT_H

#include <stdint.h>

#include "kernels/kern.h"

/* quantize_q8, round_bf16, linear, and bf16_dot */
void kern_init_linear_ref(struct kern_ops *ops, uint32_t flags);
void kern_init_linear_avx2(struct kern_ops *ops, uint32_t flags);
void kern_init_linear_avx512(struct kern_ops *ops, uint32_t flags);

/* everything else in struct kern_ops */
void kern_init_nn_ref(struct kern_ops *ops);
void kern_init_nn_avx2(struct kern_ops *ops);
void kern_init_nn_avx512(struct kern_ops *ops);

#endif
