/* Portable loops; the compiler makes of them what the platform's baseline allows. */
#include <string.h>

#include "kernels/peak.h"

#define LANES 32

static uint64_t read_ref(const void *p, size_t bytes)
{
    const uint64_t *x = p;
    uint64_t s[8] = { 0 }, sum = 0;

    for (size_t i = 0; i < bytes / 8; i += 8)
        for (int j = 0; j < 8; j++)
            s[j] += x[i + (size_t)j];
    for (int j = 0; j < 8; j++)
        sum += s[j];
    return sum;
}

static float f32_ref(uint64_t rounds)
{
    float a[LANES], sum = 0;

    memset(a, 0, sizeof a);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < LANES; i++)
            a[i] = a[i] * 0.5f + 1.0f;
    for (int i = 0; i < LANES; i++)
        sum += a[i];
    return sum;
}

static int32_t i8_ref(uint64_t rounds)
{
    int8_t x[LANES], y[LANES];
    int32_t a[LANES] = { 0 };
    uint32_t sum = 0;

    memset(x, 3, sizeof x);
    memset(y, 5, sizeof y);
    for (uint64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : : "r"(x), "r"(y) : "memory"); /* else the products are computed once */
        for (int i = 0; i < LANES; i++)
            a[i] = (int32_t)((uint32_t)a[i] + (uint32_t)(x[i] * y[i]));
    }
    for (int i = 0; i < LANES; i++)
        sum += (uint32_t)a[i];
    return (int32_t)sum;
}

void peak_init_ref(struct peak_ops *p, uint32_t flags)
{
    (void)flags;
    p->read = read_ref;
    p->f32 = p->bf16 = f32_ref;
    p->i8 = i8_ref;
    p->f32_ops = p->bf16_ops = p->i8_ops = 2 * LANES;
}
