/* Reference versions of what prepares and multiplies activations; contracts in kernels/kern.h. */
#ifndef SLUICE_KERNELS_CPU_REF_LINEAR_H
#define SLUICE_KERNELS_CPU_REF_LINEAR_H

#include "kernels/kern.h"

void quantize_q8_ref(const float *x, uint32_t n, uint32_t ld, int8_t *q, float *d, int16_t *s);
void round_bf16_ref(const float *x, uint32_t n, uint32_t ld, uint16_t *bf);
void linear_ref(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum act_kind kind,
                enum linear_mode mode, float *y, size_t ldy, void *scratch);

#endif
