#include "kernels/isa.h"
#include "kernels/peak.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#define OPAQUE(v) __asm__ volatile("" : "+v"(v)) /* as in avx2/peak.c */

#define ACC 16 /* independent chains; no more, or gcc keeps them in memory */

static uint64_t read_avx512(const void *p, size_t bytes)
{
    const char *x = p;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    uint64_t lanes[8], sum = 0;

    for (size_t i = 0; i < bytes; i += 256) {
        a = _mm512_add_epi64(a, _mm512_load_si512(x + i));
        b = _mm512_add_epi64(b, _mm512_load_si512(x + i + 64));
        c = _mm512_add_epi64(c, _mm512_load_si512(x + i + 128));
        d = _mm512_add_epi64(d, _mm512_load_si512(x + i + 192));
    }
    a = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
    _mm512_storeu_si512(lanes, a); /* the reduction intrinsics add signed values, which may overflow */
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

static float f32_avx512(uint64_t rounds)
{
    __m512 a[ACC], half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1.0f);

    for (int i = 0; i < ACC; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < ACC; i++)
            a[i] = _mm512_fmadd_ps(a[i], half, one);
    for (int i = 1; i < ACC; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    return _mm512_cvtss_f32(a[0]);
}

static float bf16_avx512(uint64_t rounds)
{
    __m512 a[ACC];
    __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0f), _mm512_set1_ps(0.5f));

    for (int i = 0; i < ACC; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < ACC; i++)
            a[i] = _mm512_dpbf16_ps(a[i], x, x);
    for (int i = 1; i < ACC; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    return _mm512_cvtss_f32(a[0]);
}

static int32_t vnni_avx512(uint64_t rounds)
{
    __m512i a[ACC], x = _mm512_set1_epi8(3);

    for (int i = 0; i < ACC; i++)
        a[i] = _mm512_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < ACC; i++)
            a[i] = _mm512_dpbusd_epi32(a[i], x, x);
    for (int i = 1; i < ACC; i++)
        a[0] = _mm512_add_epi32(a[0], a[i]);
    return _mm512_cvtsi512_si32(a[0]);
}

static int32_t i8_avx512(uint64_t rounds)
{
    __m512i a[ACC], x = _mm512_set1_epi8(3), ones = _mm512_set1_epi16(1);

    for (int i = 0; i < ACC; i++)
        a[i] = _mm512_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < ACC; i++) {
            OPAQUE(x);
            a[i] = _mm512_add_epi32(a[i], _mm512_madd_epi16(_mm512_maddubs_epi16(x, x), ones));
        }
    for (int i = 1; i < ACC; i++)
        a[0] = _mm512_add_epi32(a[0], a[i]);
    return _mm512_cvtsi512_si32(a[0]);
}

void peak_init_avx512(struct peak_ops *p, uint32_t flags)
{
    p->read = read_avx512;
    p->f32 = p->bf16 = f32_avx512;
    p->f32_ops = p->bf16_ops = ACC * 16 * 2;
    p->i8 = flags & ISA_AVX512_VNNI ? vnni_avx512 : i8_avx512;
    p->i8_ops = ACC * 64 * 2;
    if (flags & ISA_AVX512_BF16) {
        p->bf16 = bf16_avx512;
        p->bf16_ops = ACC * 32 * 2;
    }
}

#else

void peak_init_avx512(struct peak_ops *p, uint32_t flags)
{
    (void)p;
    (void)flags;
}

#endif
