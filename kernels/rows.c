/* The stored types as floats, straight from the layout of their blocks (ggml's, little-endian). Every value is one
 * correctly rounded operation away from the stored numbers: products of scales and codes are exact in float. */
#include "kernels/kern.h"

#include <string.h>

#include "kernels/blocks.h"
#include "lib/core/f16.h"

const int8_t iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

static uint16_t load16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t load32(const unsigned char *p)
{
    return (uint32_t)load16(p) | (uint32_t)load16(p + 2) << 16;
}

static float half(const unsigned char *p)
{
    return f32_from_f16(load16(p));
}

static void row_q4_0(const unsigned char *b, float *y)
{
    const float d = half(b);

    for (unsigned j = 0; j < 16; j++) {
        y[j] = d * (float)((int)(b[2 + j] & 15) - 8);
        y[j + 16] = d * (float)((int)(b[2 + j] >> 4) - 8);
    }
}

static void row_q4_1(const unsigned char *b, float *y)
{
    const float d = half(b), m = half(b + 2);

    for (unsigned j = 0; j < 16; j++) {
        y[j] = d * (float)(b[4 + j] & 15) + m;
        y[j + 16] = d * (float)(b[4 + j] >> 4) + m;
    }
}

static void row_q5_0(const unsigned char *b, float *y)
{
    const float d = half(b);
    const uint32_t qh = load32(b + 2);

    for (unsigned j = 0; j < 16; j++) {
        y[j] = d * (float)((int)((b[6 + j] & 15u) | (qh >> j & 1) << 4) - 16);
        y[j + 16] = d * (float)((int)((b[6 + j] >> 4) | (qh >> (j + 16) & 1) << 4) - 16);
    }
}

static void row_q5_1(const unsigned char *b, float *y)
{
    const float d = half(b), m = half(b + 2);
    const uint32_t qh = load32(b + 4);

    for (unsigned j = 0; j < 16; j++) {
        y[j] = d * (float)((b[8 + j] & 15u) | (qh >> j & 1) << 4) + m;
        y[j + 16] = d * (float)((uint32_t)(b[8 + j] >> 4) | (qh >> (j + 16) & 1) << 4) + m;
    }
}

static void row_q8_0(const unsigned char *b, float *y)
{
    const float d = half(b);

    for (unsigned j = 0; j < 32; j++)
        y[j] = d * (float)(int8_t)b[2 + j];
}

static void row_iq4_nl(const unsigned char *b, float *y)
{
    const float d = half(b);

    for (unsigned j = 0; j < 16; j++) {
        y[j] = d * (float)iq4_values[b[2 + j] & 15];
        y[j + 16] = d * (float)iq4_values[b[2 + j] >> 4];
    }
}

static void row_q2_k(const unsigned char *b, float *y)
{
    const float d = half(b + 80), dmin = half(b + 82);

    for (unsigned i = 0; i < 256; i++) {
        const unsigned h = i / 128, j = i / 32 % 4, l = i % 32, s = b[8 * h + 2 * j + l / 16];

        y[i] = d * (float)(s & 15) * (float)(b[16 + 32 * h + l] >> 2 * j & 3) - dmin * (float)(s >> 4);
    }
}

static void row_q3_k(const unsigned char *b, float *y)
{
    const unsigned char *hmask = b, *qs = b + 32, *scales = b + 96;
    const float d = half(b + 108);

    for (unsigned i = 0; i < 256; i++) {
        const unsigned h = i / 128, j = i / 32 % 4, l = i % 32, k = 8 * h + 2 * j + l / 16;
        const unsigned low = k < 8 ? scales[k] & 15u : scales[k - 8] >> 4;
        const int s = (int)(low | (scales[8 + k % 4] >> 2 * (k / 4) & 3u) << 4) - 32;
        const int q = (qs[32 * h + l] >> 2 * j & 3) - (hmask[l] >> (4 * h + j) & 1 ? 0 : 4);

        y[i] = d * (float)s * (float)q;
    }
}

/* The 6-bit scale and minimum of sub-block j from the 12 bytes that Q4_K and Q5_K share. */
static void scale_k4(const unsigned char *s, unsigned j, unsigned *sc, unsigned *mn)
{
    if (j < 4) {
        *sc = s[j] & 63;
        *mn = s[j + 4] & 63;
    } else {
        *sc = (s[j + 4] & 15u) | (s[j - 4] >> 6) << 4;
        *mn = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}

static void row_q4_k(const unsigned char *b, float *y)
{
    const float d = half(b), dmin = half(b + 2);

    for (unsigned g = 0; g < 8; g++) {
        unsigned sc, mn;

        scale_k4(b + 4, g, &sc, &mn);
        for (unsigned l = 0; l < 32; l++)
            y[32 * g + l] = d * (float)sc * (float)(b[16 + 32 * (g / 2) + l] >> 4 * (g & 1) & 15) - dmin * (float)mn;
    }
}

static void row_q5_k(const unsigned char *b, float *y)
{
    const float d = half(b), dmin = half(b + 2);

    for (unsigned g = 0; g < 8; g++) {
        unsigned sc, mn;

        scale_k4(b + 4, g, &sc, &mn);
        for (unsigned l = 0; l < 32; l++) {
            const unsigned q = (b[48 + 32 * (g / 2) + l] >> 4 * (g & 1) & 15u) | (b[16 + l] >> g & 1u) << 4;

            y[32 * g + l] = d * (float)sc * (float)q - dmin * (float)mn;
        }
    }
}

static void row_q6_k(const unsigned char *b, float *y)
{
    const float d = half(b + 208);

    for (unsigned i = 0; i < 256; i++) {
        const unsigned h = i / 128, u = i / 32 % 4, l = i % 32;
        const unsigned low = b[64 * h + 32 * (u & 1) + l] >> (u < 2 ? 0 : 4) & 15;
        const unsigned high = b[128 + 32 * h + l] >> 2 * u & 3;
        const int8_t s = (int8_t)b[192 + 8 * h + 2 * u + l / 16];

        y[i] = d * (float)s * (float)((int)(low | high << 4) - 32);
    }
}

static void row_iq4_xs(const unsigned char *b, float *y)
{
    const float d = half(b);
    const unsigned scales_h = load16(b + 2);

    for (unsigned g = 0; g < 8; g++) {
        const unsigned low = b[4 + g / 2] >> 4 * (g & 1) & 15;
        const float s = d * (float)((int)(low | (scales_h >> 2 * g & 3) << 4) - 32);

        for (unsigned j = 0; j < 16; j++) {
            y[32 * g + j] = s * (float)iq4_values[b[8 + 16 * g + j] & 15];
            y[32 * g + j + 16] = s * (float)iq4_values[b[8 + 16 * g + j] >> 4];
        }
    }
}

static void row_f32(const unsigned char *b, float *y)
{
    *y = f32_from_bits(load32(b));
}

static void row_f16(const unsigned char *b, float *y)
{
    *y = half(b);
}

static void row_bf16(const unsigned char *b, float *y)
{
    *y = f32_from_bf16(load16(b));
}

void dtype_row_f32(enum dtype type, const void *src, size_t n, float *out)
{
    static const struct {
        enum dtype type;
        void (*row)(const unsigned char *block, float *y);
    } rows[] = {
        { DT_F32, row_f32 },       { DT_F16, row_f16 },       { DT_BF16, row_bf16 }, { DT_Q4_0, row_q4_0 },
        { DT_Q4_1, row_q4_1 },     { DT_Q5_0, row_q5_0 },     { DT_Q5_1, row_q5_1 }, { DT_Q8_0, row_q8_0 },
        { DT_Q2_K, row_q2_k },     { DT_Q3_K, row_q3_k },     { DT_Q4_K, row_q4_k }, { DT_Q5_K, row_q5_k },
        { DT_Q6_K, row_q6_k },     { DT_IQ4_NL, row_iq4_nl }, { DT_IQ4_XS, row_iq4_xs },
    };
    const struct dtype_info *info = dtype_info((uint32_t)type);

    for (size_t i = 0; info && i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].type == type)
            for (size_t c = 0; c < n; c += info->block)
                rows[i].row((const unsigned char *)src + c / info->block * info->block_bytes, out + c);
}
