#include "kernels/isa.h"

#include <string.h>

#include "kernels/cpu/init.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0: the register files that the operating system saves on a context switch. */
static uint64_t xcr0(void)
{
    uint32_t lo, hi;

    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

uint32_t isa_detect(void)
{
    const uint64_t os_ymm = 0x6, os_zmm = 0xe6;
    const uint32_t leaf1_c = bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C;
    const uint32_t avx512_b = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    uint32_t a, b, c, d, a1 = 0, b1, c1, d1, flags = 0;
    uint64_t os;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf1_c) != leaf1_c)
        return 0;
    os = xcr0();
    if ((os & os_ymm) != os_ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) || !(b & bit_BMI2))
        return 0;
    flags |= ISA_AVX2;
    if ((os & os_zmm) != os_zmm || (b & avx512_b) != avx512_b || !(c & bit_AVX512VBMI))
        return flags;
    flags |= ISA_AVX512;
    if (c & bit_AVX512VNNI)
        flags |= ISA_AVX512_VNNI;
    if (a >= 1 && __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) && (a1 & (1u << 5))) /* AVX512_BF16 */
        flags |= ISA_AVX512_BF16;
    return flags;
}

static void init_avx2(struct kern_ops *ops, uint32_t flags)
{
    kern_init_linear_avx2(ops, flags);
    kern_init_nn_avx2(ops);
}

static void init_avx512(struct kern_ops *ops, uint32_t flags)
{
    kern_init_linear_avx512(ops, flags);
    kern_init_nn_avx512(ops);
}

#else

uint32_t isa_detect(void)
{
    return 0;
}

#endif

static void init_ref(struct kern_ops *ops, uint32_t flags)
{
    kern_init_linear_ref(ops, flags);
    kern_init_nn_ref(ops);
}

const struct isa isa_table[] = {
    { "ref", 0, init_ref },
#if defined(__x86_64__)
    { "avx2", ISA_AVX2, init_avx2 },
    { "avx512", ISA_AVX512, init_avx512 },
#endif
    { NULL, 0, NULL },
};

int kern_ops_init(struct kern_ops *ops, const char *name)
{
    const uint32_t have = isa_detect();
    const struct isa *last = NULL;

    for (const struct isa *i = isa_table; i->name; i++)
        if (name ? !strcmp(i->name, name) : (i->flags & ~have) == 0)
            last = i;
    if (!last)
        return -1;
    if (last->flags & ~have)
        return -2;
    memset(ops, 0, sizeof *ops);
    for (const struct isa *i = isa_table; i <= last; i++) {
        if (i->flags & ~have)
            continue;
        i->init(ops, have);
        ops->isa = i->name;
    }
    return 0;
}
