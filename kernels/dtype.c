#include "kernels/dtype.h"

#include <stddef.h>

static const struct dtype_info table[] = {
    { DT_F32, "F32", 1, 4, false },        { DT_F16, "F16", 1, 2, false },      { DT_BF16, "BF16", 1, 2, false },
    { DT_Q4_0, "Q4_0", 32, 18, true },     { DT_Q4_1, "Q4_1", 32, 20, true },   { DT_Q5_0, "Q5_0", 32, 22, true },
    { DT_Q5_1, "Q5_1", 32, 24, true },     { DT_Q8_0, "Q8_0", 32, 34, true },   { DT_Q2_K, "Q2_K", 256, 84, true },
    { DT_Q3_K, "Q3_K", 256, 110, true },   { DT_Q4_K, "Q4_K", 256, 144, true }, { DT_Q5_K, "Q5_K", 256, 176, true },
    { DT_Q6_K, "Q6_K", 256, 210, true },   { DT_IQ4_NL, "IQ4_NL", 32, 18, true },
    { DT_IQ4_XS, "IQ4_XS", 256, 136, true },
};

const struct dtype_info *dtype_info(uint32_t type)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if ((uint32_t)table[i].type == type)
            return &table[i];
    return NULL;
}

const char *dtype_ggml_name(uint32_t type)
{
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",      [2] = "Q4_0",     [3] = "Q4_1",   [6] = "Q5_0",    [7] = "Q5_1",
        [8] = "Q8_0",     [9] = "Q8_1",     [10] = "Q2_K",    [11] = "Q3_K",  [12] = "Q4_K",   [13] = "Q5_K",
        [14] = "Q6_K",    [15] = "Q8_K",    [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
        [20] = "IQ4_NL",  [21] = "IQ3_S",   [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",     [25] = "I16",
        [26] = "I32",     [27] = "I64",     [28] = "F64",     [29] = "IQ1_M", [30] = "BF16",   [34] = "TQ1_0",
        [35] = "TQ2_0",   [39] = "MXFP4",   [40] = "NVFP4",
    };

    return type < sizeof names / sizeof names[0] ? names[type] : NULL;
}
