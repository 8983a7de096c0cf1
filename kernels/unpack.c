/* Packed tiles read without SIMD: the layouts of blocks.h as plain index formulas. */
#include "kernels/blocks.h"

#include <string.h>

#include "lib/core/f16.h"

static const struct unit_info units[] = {
    { DT_Q4_0, 32, sizeof(struct unit_q4_0), offsetof(struct unit_q4_0, q), 4, 8, 32, false, false },
    { DT_Q4_1, 32, sizeof(struct unit_q4_1), offsetof(struct unit_q4_1, q), 4, 0, 32, true, false },
    { DT_Q5_0, 32, sizeof(struct unit_q5_0), offsetof(struct unit_q5_0, q), 5, 16, 32, false, false },
    { DT_Q5_1, 32, sizeof(struct unit_q5_1), offsetof(struct unit_q5_1, q), 5, 0, 32, true, false },
    { DT_Q8_0, 32, sizeof(struct unit_q8_0), offsetof(struct unit_q8_0, q), 8, 128, 32, false, false },
    { DT_IQ4_NL, 32, sizeof(struct unit_q4_0), offsetof(struct unit_q4_0, q), 4, 128, 32, false, true },
    { DT_Q2_K, 256, sizeof(struct unit_q2_k), offsetof(struct unit_q2_k, q), 2, 0, 16, true, false },
    { DT_Q3_K, 256, sizeof(struct unit_q3_k), offsetof(struct unit_q3_k, q), 3, 4, 16, false, false },
    { DT_Q4_K, 256, sizeof(struct unit_q4_k), offsetof(struct unit_q4_k, q), 4, 0, 32, true, false },
    { DT_Q5_K, 256, sizeof(struct unit_q5_k), offsetof(struct unit_q5_k, q), 5, 0, 32, true, false },
    { DT_Q6_K, 256, sizeof(struct unit_q6_k), offsetof(struct unit_q6_k, q), 6, 32, 16, false, false },
    { DT_IQ4_XS, 256, sizeof(struct unit_iq4_xs), offsetof(struct unit_iq4_xs, q), 4, 128, 32, false, true },
};

const struct unit_info *unit_info(enum dtype type)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (units[i].type == type)
            return &units[i];
    return NULL;
}

static unsigned nibble_at(const unsigned char *q, unsigned j, unsigned p)
{
    return q[64 * (j % 4) + p] >> 4 * (j / 4) & 15u;
}

static unsigned pair_at(const unsigned char *q, unsigned j, unsigned p)
{
    return q[64 * (j / 4) + p] >> 2 * (j % 4) & 3u;
}

/* The code of one row and column (0..31) in a code block. */
static unsigned code_at(const unsigned char *q, unsigned bits, unsigned row, unsigned col)
{
    const unsigned j = col / 4, p = 4 * row + col % 4;

    switch (bits) {
    case 2:
        return pair_at(q, j, p);
    case 3:
        return pair_at(q, j, p) | (q[CODES_2 + p] >> j & 1u) << 2;
    case 4:
        return nibble_at(q, j, p);
    case 5:
        return nibble_at(q, j, p) | (q[CODES_4 + p] >> j & 1u) << 4;
    case 6:
        return nibble_at(q, j, p) | pair_at(q + CODES_4, j, p) << 4;
    default:
        return q[64 * j + p];
    }
}

static void scales_k4(const uint8_t lo[8][16], const uint8_t hi[4][16], const uint16_t *d, const uint16_t *dmin, unsigned g,
                      unsigned row, float *sw, float *mw)
{
    const unsigned l = lo[g][row], h = hi[g % 4][row] >> 4 * (g / 4) & 15u;

    *sw = f32_from_f16(d[row]) * (float)((l & 15) | (h & 3) << 4);
    *mw = -(f32_from_f16(dmin[row]) * (float)(l >> 4 | (h >> 2) << 4));
}

/* Scale and minimum of one row in half h (16 columns) of the 32-column group g of a unit. */
static void scale_at(const struct unit_info *u, const void *unit, unsigned g, unsigned h, unsigned row, float *sw, float *mw)
{
    const uint16_t *halves = unit; /* every unit starts with d[16], then m or dmin where the type has one */
    const float d = f32_from_f16(halves[row]);

    *mw = 0;
    switch (u->type) {
    case DT_Q2_K: {
        const struct unit_q2_k *k = unit;
        const unsigned s = k->sc[2 * g + h][row];

        *sw = d * (float)(s & 15);
        *mw = -(f32_from_f16(k->dmin[row]) * (float)(s >> 4));
        break;
    }
    case DT_Q3_K: {
        const struct unit_q3_k *k = unit;
        const unsigned n = 2 * g + h, lo = k->lo[n % 8][row] >> 4 * (n / 8) & 15u, hi = k->hi[n % 4][row] >> 2 * (n / 4) & 3u;

        *sw = d * (float)((int)(lo | hi << 4) - 32);
        break;
    }
    case DT_Q4_K: {
        const struct unit_q4_k *k = unit;

        scales_k4(k->lo, k->hi, k->d, k->dmin, g, row, sw, mw);
        break;
    }
    case DT_Q5_K: {
        const struct unit_q5_k *k = unit;

        scales_k4(k->lo, k->hi, k->d, k->dmin, g, row, sw, mw);
        break;
    }
    case DT_Q6_K:
        *sw = d * (float)((const struct unit_q6_k *)unit)->sc[2 * g + h][row];
        break;
    case DT_IQ4_XS: {
        const struct unit_iq4_xs *k = unit;
        const unsigned lo = k->lo[g % 4][row] >> 4 * (g / 4) & 15u, hi = k->hi[g % 2][row] >> 2 * (g / 2) & 3u;

        *sw = d * (float)((int)(lo | hi << 4) - 32);
        break;
    }
    default:
        *sw = d;
        if (u->minimum)
            *mw = f32_from_f16(halves[16 + row]);
    }
}

static void row_group(const struct unit_info *u, const unsigned char *tile, uint32_t g, unsigned row, int8_t q[32],
                      float sw[2], float mw[2])
{
    const unsigned groups = u->cols / 32u, in_unit = g % groups;
    const unsigned char *unit = tile + (size_t)(g / groups) * u->bytes;
    const unsigned char *codes = unit + u->codes + (size_t)in_unit * (64u * u->bits);

    for (unsigned c = 0; c < 32; c++) {
        const unsigned code = code_at(codes, u->bits, row, c);

        q[c] = u->table ? iq4_values[code] : (int8_t)((int)code - u->offset);
    }
    scale_at(u, unit, in_unit, 0, row, &sw[0], &mw[0]);
    sw[1] = sw[0];
    mw[1] = mw[0];
    if (u->group == 16)
        scale_at(u, unit, in_unit, 1, row, &sw[1], &mw[1]);
}

void tile_group(const struct wmat *w, uint32_t tile, uint32_t g, struct group_values *out)
{
    const struct unit_info *u = unit_info(w->type);
    const unsigned char *t = w->tiles + (size_t)tile * w->tile_bytes;

    for (unsigned r = 0; r < 16; r++) {
        float sw[2], mw[2];

        row_group(u, t, g, r, out->q[r], sw, mw);
        for (unsigned h = 0; h < 2; h++) {
            out->sw[h][r] = sw[h];
            out->mw[h][r] = mw[h];
        }
    }
}

void wmat_row_f32(const struct wmat *w, uint32_t row, float *out)
{
    const struct unit_info *u = unit_info(w->type);
    const unsigned char *t = w->tiles + (size_t)(row / TILE_ROWS) * w->tile_bytes;
    const unsigned r = row % TILE_ROWS;

    for (uint32_t g = 0; u && g < w->n_cols / 32; g++) {
        int8_t q[32];
        float sw[2], mw[2];

        row_group(u, t, g, r, q, sw, mw);
        for (unsigned c = 0; c < 32; c++)
            out[32 * g + c] = u->minimum ? sw[c / 16] * (float)q[c] + mw[c / 16] : sw[c / 16] * (float)q[c];
    }
    for (uint32_t c = 0; !u && c < w->n_cols; c++) {
        if (w->type == DT_F32)
            out[c] = ((const float *)t)[(size_t)c * 16 + r];
        else if (w->type == DT_F16)
            out[c] = f32_from_f16(((const uint16_t *)t)[(size_t)c * 16 + r]);
        else
            out[c] = f32_from_bf16(((const uint16_t *)t)[(size_t)(c / 2) * 32 + 2 * r + c % 2]);
    }
}
