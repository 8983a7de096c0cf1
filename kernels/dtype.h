/* Element types of stored tensors. Ids are ggml's type ids where ggml has the type, so that GGUF needs no table of its
 * own; Sluice's packed formats start at 1000. */
#ifndef SLUICE_KERNELS_DTYPE_H
#define SLUICE_KERNELS_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

enum dtype {
    DT_F32 = 0,
    DT_F16 = 1,
    DT_Q4_0 = 2,
    DT_Q4_1 = 3,
    DT_Q5_0 = 6,
    DT_Q5_1 = 7,
    DT_Q8_0 = 8,
    DT_Q2_K = 10,
    DT_Q3_K = 11,
    DT_Q4_K = 12,
    DT_Q5_K = 13,
    DT_Q6_K = 14,
    DT_IQ4_NL = 20,
    DT_IQ4_XS = 23,
    DT_BF16 = 30
};

struct dtype_info {
    enum dtype type;
    const char *name;      /* "Q4_K" */
    uint32_t block;        /* weights per block; a row is a whole number of blocks */
    uint32_t block_bytes;
    bool quantised;
};

/* NULL for a type that Sluice does not handle. */
const struct dtype_info *dtype_info(uint32_t type);

/* Name of any ggml type id, handled or not ("IQ2_XXS"), for messages; "type N" is the caller's job when NULL. */
const char *dtype_ggml_name(uint32_t type);

#endif
