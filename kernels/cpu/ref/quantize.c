#include "kernels/cpu/ref/linear.h"

#include <math.h>
#include <string.h>

#include "lib/core/f16.h"

/* Largest magnitude of a group as the bits of a float: they order as the values do, infinities and NaNs above all. */
static uint32_t max_bits(const float *x, uint32_t n)
{
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t u = f32_bits(x[i]) & 0x7fffffffu;

        m = u > m ? u : m;
    }
    return m;
}

void quantize_q8_ref(const float *x, uint32_t n, uint32_t ld, int8_t *q, float *d, int16_t *s)
{
    memset(q, 0, ld);
    for (uint32_t g = 0; g < ld / ACT_GROUP; g++) {
        const uint32_t c0 = g * ACT_GROUP, cols = c0 >= n ? 0 : n - c0 < ACT_GROUP ? n - c0 : ACT_GROUP;
        const uint32_t bits = max_bits(x + c0, cols);
        const float amax = f32_from_bits(bits);

        d[g] = 0;
        s[2 * g] = s[2 * g + 1] = 0;
        if (bits >= 0x7f800000u) {
            d[g] = NAN;
        } else if (amax >= ACT_AMAX_MIN) {
            const float inv = 127.0f / amax;

            d[g] = amax / 127.0f;
            for (uint32_t i = 0; i < cols; i++) {
                q[c0 + i] = (int8_t)nearbyintf(x[c0 + i] * inv);
                s[2 * g + i / 16] = (int16_t)(s[2 * g + i / 16] + q[c0 + i]);
            }
        }
    }
}

void round_bf16_ref(const float *x, uint32_t n, uint32_t ld, uint16_t *bf)
{
    for (uint32_t i = 0; i < ld; i++)
        bf[i] = i < n ? bf16_from_f32(x[i]) : 0;
}
