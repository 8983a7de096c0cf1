/* Instruction sets: detection and the table from which kernels are chosen at run time. */
#ifndef SLUICE_KERNELS_ISA_H
#define SLUICE_KERNELS_ISA_H

#include <stdint.h>

#include "kernels/kern.h"

enum isa_flag {
    ISA_AVX2 = 1,        /* AVX2 + FMA + F16C, OS saves ymm */
    ISA_AVX512 = 2,      /* F, BW, DQ, VL, VBMI, OS saves zmm */
    ISA_AVX512_VNNI = 4,
    ISA_AVX512_BF16 = 8
};

struct isa {
    const char *name;    /* value of --isa */
    uint32_t flags;      /* all of these must be present */
    void (*init)(struct kern_ops *ops, uint32_t flags); /* overrides what it does faster */
};

/* Slowest first: ref, avx2, avx512. ended by name NULL. On machines that are not x86 only ref is there. */
extern const struct isa isa_table[];

/* Flags of this machine (CPUID and XCR0). */
uint32_t isa_detect(void);

/* Fills ops from the reference up to and including the row called name (NULL: as far as the machine goes). 0, or -1 when
 * the name is unknown, -2 when the machine lacks it. */
int kern_ops_init(struct kern_ops *ops, const char *name);

#endif
