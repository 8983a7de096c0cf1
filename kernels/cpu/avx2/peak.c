#include "kernels/isa.h"
#include "kernels/peak.h"

#if defined(__AVX2__)
#include <immintrin.h>

/* Hides where a register's value comes from, so that nothing is computed ahead of the loop. */
#define OPAQUE(v) __asm__ volatile("" : "+x"(v))

#define ACC 12 /* independent chains: latency times issue width, and 16 registers hold them */

static uint64_t read_avx2(const void *p, size_t bytes)
{
    const char *x = p;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;

    for (size_t i = 0; i < bytes; i += 128) {
        a = _mm256_add_epi64(a, _mm256_load_si256((const __m256i *)(const void *)(x + i)));
        b = _mm256_add_epi64(b, _mm256_load_si256((const __m256i *)(const void *)(x + i + 32)));
        c = _mm256_add_epi64(c, _mm256_load_si256((const __m256i *)(const void *)(x + i + 64)));
        d = _mm256_add_epi64(d, _mm256_load_si256((const __m256i *)(const void *)(x + i + 96)));
    }
    a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
    return (uint64_t)_mm256_extract_epi64(a, 0) + (uint64_t)_mm256_extract_epi64(a, 1) +
           (uint64_t)_mm256_extract_epi64(a, 2) + (uint64_t)_mm256_extract_epi64(a, 3);
}

static float f32_avx2(uint64_t rounds)
{
    __m256 a[ACC], half = _mm256_set1_ps(0.5f), one = _mm256_set1_ps(1.0f);

    for (int i = 0; i < ACC; i++)
        a[i] = _mm256_set1_ps((float)i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < ACC; i++)
            a[i] = _mm256_fmadd_ps(a[i], half, one);
    for (int i = 1; i < ACC; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    return _mm256_cvtss_f32(a[0]);
}

static int32_t i8_avx2(uint64_t rounds)
{
    __m256i a[ACC], x = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);

    for (int i = 0; i < ACC; i++)
        a[i] = _mm256_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < ACC; i++) {
            OPAQUE(x);
            a[i] = _mm256_add_epi32(a[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), ones));
        }
    for (int i = 1; i < ACC; i++)
        a[0] = _mm256_add_epi32(a[0], a[i]);
    return _mm256_extract_epi32(a[0], 0);
}

void peak_init_avx2(struct peak_ops *p, uint32_t flags)
{
    (void)flags;
    p->read = read_avx2;
    p->f32 = p->bf16 = f32_avx2;
    p->f32_ops = p->bf16_ops = ACC * 8 * 2;
    p->i8 = i8_avx2;
    p->i8_ops = ACC * 32 * 2;
}

#else

void peak_init_avx2(struct peak_ops *p, uint32_t flags)
{
    (void)p;
    (void)flags;
}

#endif
