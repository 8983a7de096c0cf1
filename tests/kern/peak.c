/* What one core can do at best: loops of independent multiply-adds, and a read of memory larger than the caches. */
#include "tests/kern/checkkern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/clock.h"
#include "lib/core/mem.h"

#define STEPS 4096

#if defined(__x86_64__)
#include <immintrin.h>

/* Twelve chains each, enough to hide the latency; the empty asm keeps the compiler from folding them. */
__attribute__((target("avx512f,avx512bw,avx512vnni"))) static void int_avx512(void *arg)
{
    __m512i a[12], x = _mm512_set1_epi32(*(int *)arg);

    for (int i = 0; i < 12; i++)
        a[i] = x;
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(a[i]) : "v"(x));
}

__attribute__((target("avx512f"))) static void float_avx512(void *arg)
{
    __m512 a[12], x = _mm512_set1_ps((float)*(int *)arg);

    for (int i = 0; i < 12; i++)
        a[i] = x;
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(a[i]) : "v"(x));
}

__attribute__((target("avx2"))) static void int_avx2(void *arg)
{
    __m256i a[12], x = _mm256_set1_epi32(*(int *)arg);

    for (int i = 0; i < 12; i++)
        a[i] = x;
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            __m256i p;

            __asm__ volatile("vpmaddubsw %2, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(a[i]), "=&x"(p) : "x"(x));
        }
}

__attribute__((target("avx2,fma"))) static void float_avx2(void *arg)
{
    __m256 a[12], x = _mm256_set1_ps((float)*(int *)arg);

    for (int i = 0; i < 12; i++)
        a[i] = x;
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            __asm__ volatile("vfmadd231ps %1, %1, %0" : "+x"(a[i]) : "x"(x));
}

double peak_int_ops(const char *isa)
{
    static double avx512, avx2;
    int one = 0;

    if (!strcmp(isa, "avx512")) {
        if (avx512 == 0)
            avx512 = 12.0 * STEPS * 64 * 2 / bench_seconds(int_avx512, &one);
        return avx512;
    }
    if (!strcmp(isa, "avx2")) {
        if (avx2 == 0)
            avx2 = 12.0 * STEPS * 32 * 2 / bench_seconds(int_avx2, &one);
        return avx2;
    }
    return 0;
}

double peak_float_ops(const char *isa)
{
    static double avx512, avx2;
    int one = 0;

    if (!strcmp(isa, "avx512")) {
        if (avx512 == 0)
            avx512 = 12.0 * STEPS * 16 * 2 / bench_seconds(float_avx512, &one);
        return avx512;
    }
    if (!strcmp(isa, "avx2")) {
        if (avx2 == 0)
            avx2 = 12.0 * STEPS * 8 * 2 / bench_seconds(float_avx2, &one);
        return avx2;
    }
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
