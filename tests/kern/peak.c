/* What one core can do at best: loops of independent multiply-adds, and a read of memory larger than the caches. */
#include "tests/kern/checkkern.h"

#include <string.h>

#include "lib/core/clock.h"
#include "lib/core/mem.h"

#define STEPS 4096

/* Registers 0..11 are twelve chains, enough to hide the latency; 12 and 13 are operands, whatever they hold. */
#define TWELVE(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define LOOP(body) __asm__ volatile("1:\n\t" body "dec %0\n\tjnz 1b" : "+r"(n) : : "cc", CLOBBERS)
#define CLOBBERS                                                                                                      \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13"

#if defined(__x86_64__)

#define VPDPBUSD(i)   "vpdpbusd %%zmm12, %%zmm12, %%zmm" #i "\n\t"
#define VPMADDUBSW(i) "vpmaddubsw %%ymm12, %%ymm12, %%ymm13\n\tvpaddw %%ymm13, %%ymm" #i ", %%ymm" #i "\n\t"
#define VFMADD_512(i) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" #i "\n\t"
#define VFMADD_256(i) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" #i "\n\t"
#define ZERO(i)       "vpxor %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"

/* Zero operands: no value is slow, and the upper halves are clean. */
#define PEAK(name, step)                                                                                              \
    static void name(void *arg)                                                                                       \
    {                                                                                                                 \
        unsigned long n = *(unsigned long *)arg;                                                                      \
                                                                                                                      \
        __asm__ volatile(TWELVE(ZERO) ZERO(12) ZERO(13) : : : CLOBBERS);                                              \
        LOOP(TWELVE(step));                                                                                           \
        __asm__ volatile("vzeroupper" : : : CLOBBERS);                                                                \
    }

PEAK(int_avx512, VPDPBUSD)
PEAK(int_avx2, VPMADDUBSW)
PEAK(float_avx512, VFMADD_512)
PEAK(float_avx2, VFMADD_256)

/* lanes: multiply-adds in one instruction. */
static double peak(void (*fn)(void *), double lanes)
{
    unsigned long n = STEPS;

    return 2 * 12 * lanes * STEPS / bench_seconds(fn, &n);
}

double peak_int_ops(const char *isa)
{
    static double avx512, avx2;

    if (!strcmp(isa, "avx512"))
        return avx512 > 0 ? avx512 : (avx512 = peak(int_avx512, 64));
    if (!strcmp(isa, "avx2"))
        return avx2 > 0 ? avx2 : (avx2 = peak(int_avx2, 32));
    return 0;
}

double peak_float_ops(const char *isa)
{
    static double avx512, avx2;

    if (!strcmp(isa, "avx512"))
        return avx512 > 0 ? avx512 : (avx512 = peak(float_avx512, 16));
    if (!strcmp(isa, "avx2"))
        return avx2 > 0 ? avx2 : (avx2 = peak(float_avx2, 8));
    return 0;
}

#else

double peak_int_ops(const char *isa)
{
    (void)isa;
    return 0;
}

double peak_float_ops(const char *isa)
{
    (void)isa;
    return 0;
}

#endif

double peak_read_bytes(void)
{
    static double best;
    const size_t n = (size_t)192 << 20;
    unsigned char *p;

    if (best > 0)
        return best;
    p = mem_map(n);
    if (!p)
        return 0;
    memset(p, 1, n);
    for (int run = 0; run < 4; run++) {
        const uint64_t t0 = clock_ns();
        uint64_t s[4] = { 0 };
        double rate;

        for (const uint64_t *w = (const uint64_t *)p, *end = w + n / 8; w < end; w += 16) { /* two lines a step */
            __builtin_prefetch((const char *)w + 4096);
            __builtin_prefetch((const char *)w + 4160);
            for (int i = 0; i < 4; i++)
                s[i] += w[i] + w[i + 4] + w[i + 8] + w[i + 12];
        }
        __asm__ volatile("" : : "r"(s[0] + s[1] + s[2] + s[3]));
        rate = (double)n / ((double)(clock_ns() - t0) * 1e-9);
        best = rate > best ? rate : best;
    }
    mem_unmap(p, n);
    return best;
}
