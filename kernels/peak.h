/* Loops that show what one core can do at most: reading memory, and arithmetic on registers. Benchmarks divide by them.
 * Pure functions; any thread may run them. */
#ifndef SLUICE_KERNELS_PEAK_H
#define SLUICE_KERNELS_PEAK_H

#include <stddef.h>
#include <stdint.h>

struct peak_ops {
    const char *isa;

    /* Reads all of p[0..bytes), 64-byte aligned, bytes a multiple of PEAK_READ_UNIT. The result depends on every byte. */
    uint64_t (*read)(const void *p, size_t bytes);

    /* `rounds` rounds of independent operations on registers; the result depends on all of them. A multiplication and an
     * addition count as two operations. */
    float (*f32)(uint64_t rounds);
    double f32_ops;  /* operations of one round */
    float (*bf16)(uint64_t rounds); /* pairs of bf16 products summed into f32; f32 where the machine has no such instruction */
    double bf16_ops;
    int32_t (*i8)(uint64_t rounds); /* 8-bit products summed exactly into 32 bits */
    double i8_ops;
};

#define PEAK_READ_UNIT 4096u

/* Loops of the instruction set called name (NULL: the best this machine has); as kern_ops_init, -1 unknown, -2 not here. */
int peak_ops_init(struct peak_ops *p, const char *isa);

/* Filled by each instruction-set folder with what it does faster. flags: isa_detect(). */
void peak_init_ref(struct peak_ops *p, uint32_t flags);
void peak_init_avx2(struct peak_ops *p, uint32_t flags);
void peak_init_avx512(struct peak_ops *p, uint32_t flags);

#endif
