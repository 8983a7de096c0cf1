#include "kernels/cpu/ref/linear.h"

#include <math.h>
#include <stdbool.h>

#include "kernels/blocks.h"
#include "kernels/cpu/init.h"
#include "lib/core/f16.h"

static void put(float *y, float v, enum linear_mode mode)
{
    *y = mode == LINEAR_ADD ? *y + v : v;
}

/* One row of one group (n columns, 16 or 32) times one token, added to a in the order that kern.h prescribes. */
static float dot_group(const int8_t *qw, const int8_t *qx, unsigned n, float sw, const float *mw, float dx, float a)
{
    int idot = 0, isum = 0;

    for (unsigned c = 0; c < n; c++) {
        idot += qw[c] * qx[c];
        isum += qx[c];
    }
    a = fmaf((float)idot, sw * dx, a);
    return mw ? fmaf(*mw, dx * (float)isum, a) : a;
}

static void tile_q8(const struct wmat *w, uint32_t tile, const struct act *x, enum linear_mode mode, float *y, size_t ldy,
                    struct group_values *groups)
{
    const struct unit_info *u = unit_info(w->type);
    const uint32_t n_groups = w->n_cols / 32;

    for (uint32_t g = 0; g < n_groups; g++)
        tile_group(w, tile, g, &groups[g]);
    for (uint32_t t = 0; t < x->n_tokens; t++)
        for (uint32_t r = 0; r < TILE_ROWS && tile * TILE_ROWS + r < w->n_rows; r++) {
            const int8_t *qx = x->q + (size_t)t * x->ld;
            const float *d = x->d + (size_t)t * (x->ld / 32);
            float a = 0;

            for (uint32_t g = 0; g < n_groups; g++)
                for (unsigned h = 0; h < 32u / u->group; h++)
                    a = dot_group(groups[g].q[r] + 16 * h, qx + 32 * g + 16 * h, u->group, groups[g].sw[h][r],
                                  u->minimum ? &groups[g].mw[h][r] : NULL, d[g], a);
            put(&y[(size_t)t * ldy + tile * TILE_ROWS + r], a, mode);
        }
}

static void tile_f32(const struct wmat *w, uint32_t tile, const struct act *x, enum linear_mode mode, float *y, size_t ldy,
                     float *row)
{
    for (uint32_t r = tile * TILE_ROWS; r < (tile + 1) * TILE_ROWS && r < w->n_rows; r++) {
        wmat_row_f32(w, r, row);
        for (uint32_t t = 0; t < x->n_tokens; t++) {
            const float *xf = x->f + (size_t)t * x->ld;
            float a = 0;

            for (uint32_t c = 0; c < w->n_cols; c++)
                a = fmaf(row[c], xf[c], a);
            put(&y[(size_t)t * ldy + r], a, mode);
        }
    }
}

/* The order of vdpbf16ps: of every pair of columns the odd one first. */
static void tile_bf16(const struct wmat *w, uint32_t tile, const struct act *x, enum linear_mode mode, float *y, size_t ldy,
                      float *row)
{
    for (uint32_t r = tile * TILE_ROWS; r < (tile + 1) * TILE_ROWS && r < w->n_rows; r++) {
        wmat_row_f32(w, r, row);
        for (uint32_t t = 0; t < x->n_tokens; t++) {
            const uint16_t *xb = x->bf + (size_t)t * x->ld;
            float a = 0;

            for (uint32_t c = 0; c < w->n_cols; c += 2) {
                if (c + 1 < w->n_cols)
                    a = fmaf(row[c + 1], f32_from_bf16(xb[c + 1]), a);
                a = fmaf(row[c], f32_from_bf16(xb[c]), a);
            }
            put(&y[(size_t)t * ldy + r], a, mode);
        }
    }
}

void linear_ref(const struct wmat *w, uint32_t tile0, uint32_t tile1, const struct act *x, enum act_kind kind,
                enum linear_mode mode, float *y, size_t ldy, void *scratch)
{
    for (uint32_t tile = tile0; tile < tile1; tile++) {
        if (kind == ACT_Q8)
            tile_q8(w, tile, x, mode, y, ldy, scratch);
        else if (kind == ACT_BF16)
            tile_bf16(w, tile, x, mode, y, ldy, scratch);
        else
            tile_f32(w, tile, x, mode, y, ldy, scratch);
    }
}

void kern_init_linear_ref(struct kern_ops *ops, uint32_t flags)
{
    (void)flags;
    ops->quantize_q8 = quantize_q8_ref;
    ops->round_bf16 = round_bf16_ref;
    ops->linear = linear_ref;
    ops->bf16_dot = false;
}
