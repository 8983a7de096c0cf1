/* Parts of the integer product shared by its two paths. */
#ifndef SLUICE_KERNELS_CPU_AVX512_LINEAR_Q8_H
#define SLUICE_KERNELS_CPU_AVX512_LINEAR_Q8_H

#if defined(__x86_64__)

#include "kernels/cpu/avx512/codes.h"
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/tokens.h"

#define GEMV_TOKENS 8u /* up to so many tokens unpack weights in registers, again for each tile */
#define GEMM_TOKENS 6u /* tokens in one register block, and 4 or 5 at the end */

/* Row sums of one tile for T tokens, 1..GEMV_TOKENS: a[t] is the product of the 16 rows with token t. */
typedef void (*gemv_fn)(uint32_t T, const unsigned char *tile, uint32_t n_cols, const struct tokens *b, __m512 *a);
gemv_fn gemv_q8_avx512(enum dtype type);

/* Tiles [tile0, tile1) for any number of tokens. */
void gemm_q8_avx512(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum linear_mode mode,
                    float *y, size_t ldy, void *scratch);

#endif
#endif
