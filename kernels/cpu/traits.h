/* Properties of the quantised types as functions that fold to constants in kernels specialised for one type; equal to
 * unit_info(). */
#ifndef SLUICE_KERNELS_CPU_TRAITS_H
#define SLUICE_KERNELS_CPU_TRAITS_H

#include "kernels/blocks.h"
#include "kernels/cpu/inline.h"

INLINE unsigned type_unit_cols(enum dtype type)
{
    switch (type) {
    case DT_Q2_K:
    case DT_Q3_K:
    case DT_Q4_K:
    case DT_Q5_K:
    case DT_Q6_K:
    case DT_IQ4_XS:
        return 256;
    default:
        return 32;
    }
}

INLINE unsigned type_bits(enum dtype type)
{
    switch (type) {
    case DT_Q2_K:
        return 2;
    case DT_Q3_K:
        return 3;
    case DT_Q5_0:
    case DT_Q5_1:
    case DT_Q5_K:
        return 5;
    case DT_Q6_K:
        return 6;
    case DT_Q8_0:
        return 8;
    default:
        return 4;
    }
}

INLINE bool type_minimum(enum dtype type)
{
    return type == DT_Q4_1 || type == DT_Q5_1 || type == DT_Q2_K || type == DT_Q4_K || type == DT_Q5_K;
}

INLINE bool type_table(enum dtype type)
{
    return type == DT_IQ4_NL || type == DT_IQ4_XS;
}

/* Scale groups in 32 columns: 1 or 2. */
INLINE unsigned type_halves(enum dtype type)
{
    return type == DT_Q2_K || type == DT_Q3_K || type == DT_Q6_K ? 2 : 1;
}

INLINE int type_offset(enum dtype type)
{
    switch (type) {
    case DT_Q4_0:
        return 8;
    case DT_Q5_0:
        return 16;
    case DT_Q8_0:
    case DT_IQ4_NL:
    case DT_IQ4_XS:
        return 128;
    case DT_Q3_K:
        return 4;
    case DT_Q6_K:
        return 32;
    default:
        return 0;
    }
}

INLINE unsigned type_unit_bytes(enum dtype type)
{
    switch (type) {
    case DT_Q4_1:
        return sizeof(struct unit_q4_1);
    case DT_Q5_0:
        return sizeof(struct unit_q5_0);
    case DT_Q5_1:
        return sizeof(struct unit_q5_1);
    case DT_Q8_0:
        return sizeof(struct unit_q8_0);
    case DT_Q2_K:
        return sizeof(struct unit_q2_k);
    case DT_Q3_K:
        return sizeof(struct unit_q3_k);
    case DT_Q4_K:
        return sizeof(struct unit_q4_k);
    case DT_Q5_K:
        return sizeof(struct unit_q5_k);
    case DT_Q6_K:
        return sizeof(struct unit_q6_k);
    case DT_IQ4_XS:
        return sizeof(struct unit_iq4_xs);
    default:
        return sizeof(struct unit_q4_0); /* and IQ4_NL */
    }
}

/* Code blocks end the unit. */
INLINE unsigned type_codes_at(enum dtype type)
{
    return type_unit_bytes(type) - type_unit_cols(type) / 32 * 64 * type_bits(type);
}

#endif
