/* quantize_q8, round_bf16 and linear. Integer products and float chains are compared bit for bit with the reference, and
 * all with double precision on the weights as dtype_row_f32 has them. */
#include "tests/kern/checkkern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/blocks.h"
#include "lib/core/f16.h"
#include "lib/core/mem.h"

static const enum dtype types[] = { DT_F32,  DT_F16,  DT_BF16, DT_Q4_0, DT_Q4_1,   DT_Q5_0,  DT_Q5_1, DT_Q8_0,
                                    DT_Q2_K, DT_Q3_K, DT_Q4_K, DT_Q5_K, DT_Q6_K, DT_IQ4_NL, DT_IQ4_XS };

#define N_TYPES (sizeof types / sizeof types[0])

/* How the codes of a case are made. The last two are the extremes of every integer sum. */
enum pattern { RANDOM, ALL_ONES, ALL_ZERO };

struct problem {
    struct wmat w;
    unsigned char *src; /* row-major blocks */
    unsigned char *tiles;
    struct act x;
    void *scratch;
    float *y, *want;    /* [n_tokens][ldy] */
    size_t src_bytes, tiles_bytes, scratch_bytes, y_bytes, ldy;
};

/* --- inputs ----------------------------------------------------------------------------------------------------------- */

static uint16_t random_half(struct checker *c)
{
    const uint32_t r = check_u32(c) % 64;

    if (r == 0)
        return 0;
    if (r == 1)
        return (uint16_t)(check_u32(c) % 1024); /* subnormal */
    return f16_from_f32(check_uniform(c, -0.1f, 0.1f));
}

/* Offsets in a block of the halves that scale it. */
static unsigned half_offsets(enum dtype type, unsigned at[2])
{
    at[0] = 0;
    at[1] = 2;
    switch (type) {
    case DT_Q2_K:
        at[0] = 80;
        at[1] = 82;
        return 2;
    case DT_Q3_K:
        at[0] = 108;
        return 1;
    case DT_Q6_K:
        at[0] = 208;
        return 1;
    case DT_Q4_1:
    case DT_Q5_1:
    case DT_Q4_K:
    case DT_Q5_K:
        return 2;
    default:
        return 1;
    }
}

static void fill_weights(struct checker *c, enum dtype type, enum pattern pattern, unsigned char *p, size_t bytes)
{
    const struct dtype_info *info = dtype_info((uint32_t)type);
    unsigned at[2];

    for (size_t i = 0; i < bytes; i += info->block_bytes) {
        if (type == DT_F32) {
            const float f = check_uniform(c, -1, 1);

            memcpy(p + i, &f, 4);
        } else if (!info->quantised) {
            const float f = check_uniform(c, -1, 1);
            const uint16_t h = type == DT_F16 ? f16_from_f32(f) : bf16_from_f32(f);

            memcpy(p + i, &h, 2);
        } else {
            for (size_t k = 0; k < info->block_bytes; k++)
                p[i + k] = pattern == RANDOM ? (unsigned char)check_u32(c) : pattern == ALL_ONES ? 0xff : 0;
            for (unsigned k = 0, n = half_offsets(type, at); k < n; k++) {
                const uint16_t h = random_half(c);

                memcpy(p + i + at[k], &h, 2);
            }
            if (pattern == ALL_ZERO && type == DT_Q8_0)
                memset(p + i + 2, 0x80, 32); /* -128, which quantisers avoid */
        }
    }
}

/* Values of very different sizes, groups of zeros, and for the extreme patterns all of one size. */
static float activation(struct checker *c, enum pattern pattern, uint32_t t, uint32_t col)
{
    const uint32_t g = col / 32 + t;

    if (pattern != RANDOM)
        return t % 3 == 0 ? 1.0f : t % 3 == 1 ? -1.0f : (col & 1 ? 0.5f : -0.5f);
    if (g % 11 == 3)
        return 0;
    return check_uniform(c, -1, 1) * (g % 7 == 2 ? 100.0f : 1.0f) * (check_u32(c) % 50 == 0 ? 20.0f : 1.0f);
}

static size_t ld_of(uint32_t n_cols)
{
    return mem_round_up(n_cols, 64);
}

static void problem_init(struct checker *c, struct problem *p, enum dtype type, uint32_t n_rows, uint32_t n_cols,
                         uint32_t n_tokens, enum pattern pattern)
{
    const struct dtype_info *info = dtype_info((uint32_t)type);
    const size_t ld = ld_of(n_cols), n = n_tokens * ld;
    struct act *x = &p->x;

    memset(p, 0, sizeof *p);
    if (!wmat_init(&p->w, type, n_rows, n_cols)) {
        fprintf(stderr, "checkkern: wmat_init refused %s %u x %u\n", info->name, n_rows, n_cols);
        exit(1);
    }
    p->src_bytes = (size_t)n_rows * (n_cols / info->block) * info->block_bytes;
    p->tiles_bytes = p->w.n_tiles * p->w.tile_bytes;
    p->scratch_bytes = kern_linear_scratch(n_cols);
    p->ldy = n_rows + 5u;
    p->y_bytes = n_tokens * p->ldy * sizeof(float);
    p->src = guard_new(p->src_bytes);
    p->tiles = guard_new(p->tiles_bytes);
    p->scratch = guard_new(p->scratch_bytes);
    p->y = guard_new(p->y_bytes);
    p->want = guard_new(p->y_bytes);
    fill_weights(c, type, pattern, p->src, p->src_bytes);
    wmat_pack(&p->w, p->src, p->tiles, 0, p->w.n_tiles);
    p->w.tiles = p->tiles;

    *x = (struct act){ .n_tokens = n_tokens, .n_cols = n_cols, .ld = (uint32_t)ld, .kinds = ACT_F32 | ACT_Q8 | ACT_BF16 };
    x->f = guard_new(n * sizeof *x->f);
    x->q = guard_new(n * sizeof *x->q);
    x->d = guard_new(n / 32 * sizeof *x->d);
    x->s = guard_new(n / 16 * sizeof *x->s);
    x->bf = guard_new(n * sizeof *x->bf);
    for (uint32_t t = 0; t < n_tokens; t++) {
        for (uint32_t i = 0; i < ld; i++)
            x->f[t * ld + i] = i < n_cols ? activation(c, pattern, t, i) : 0;
        c->ref->quantize_q8(x->f + t * ld, n_cols, x->ld, x->q + t * ld, x->d + t * (ld / 32), x->s + t * (ld / 16));
        c->ref->round_bf16(x->f + t * ld, n_cols, x->ld, x->bf + t * ld);
    }
}

static void problem_free(struct problem *p)
{
    const size_t n = (size_t)p->x.n_tokens * p->x.ld;

    guard_free(p->src, p->src_bytes);
    guard_free(p->tiles, p->tiles_bytes);
    guard_free(p->scratch, p->scratch_bytes);
    guard_free(p->y, p->y_bytes);
    guard_free(p->want, p->y_bytes);
    guard_free(p->x.f, n * sizeof *p->x.f);
    guard_free(p->x.q, n * sizeof *p->x.q);
    guard_free(p->x.d, n / 32 * sizeof *p->x.d);
    guard_free(p->x.s, n / 16 * sizeof *p->x.s);
    guard_free(p->x.bf, n * sizeof *p->x.bf);
}

/* --- linear ----------------------------------------------------------------------------------------------------------- */

static const char *kind_name(enum act_kind kind)
{
    return kind == ACT_Q8 ? "q8" : kind == ACT_BF16 ? "bf16" : "f32";
}

/* The activation as the kernel sees it. */
static double act_value(const struct act *x, enum act_kind kind, uint32_t t, uint32_t c)
{
    if (kind == ACT_Q8)
        return (double)x->d[t * (x->ld / 32) + c / 32] * x->q[(size_t)t * x->ld + c];
    if (kind == ACT_BF16)
        return f32_from_bf16(x->bf[(size_t)t * x->ld + c]);
    return x->f[(size_t)t * x->ld + c];
}

/* Rows [row0, row1) of want against double precision. Weights with a minimum are bounded by the sum of both parts. */
static void check_against_double(struct checker *c, const struct problem *p, enum act_kind kind, const float *y)
{
    const struct dtype_info *info = dtype_info((uint32_t)p->w.type);
    const uint32_t n = p->w.n_cols;
    float *row = guard_new(n * sizeof *row);
    bool ok = true;

    for (uint32_t r = 0; r < p->w.n_rows && ok; r++) {
        float biggest = 0;

        dtype_row_f32(p->w.type, p->src + (size_t)r * (n / info->block) * info->block_bytes, n, row);
        for (uint32_t i = 0; i < n; i++)
            biggest = fabsf(row[i]) > biggest ? fabsf(row[i]) : biggest;
        for (uint32_t t = 0; t < p->x.n_tokens && ok; t++) {
            double sum = 0, magnitude = 0, diff;

            for (uint32_t i = 0; i < n; i++) {
                const double v = act_value(&p->x, kind, t, i);

                sum += row[i] * v;
                magnitude += fabs((info->quantised ? biggest : row[i]) * v);
            }
            diff = fabs(y[t * p->ldy + r] - sum);
            ok = diff <= check_tolerance(n, magnitude);
            check_that(c, ok, "linear %s %s %ux%u row %u token %u of %u: %g, in double precision %g", info->name,
                       kind_name(kind), p->w.n_rows, n, r, t, p->x.n_tokens, (double)y[t * p->ldy + r], sum);
        }
    }
    guard_free(row, n * sizeof *row);
}

static void fill_output(struct problem *p, float *y, enum linear_mode mode)
{
    memset(y, 0xff, p->y_bytes);
    for (uint32_t t = 0; t < p->x.n_tokens && mode == LINEAR_ADD; t++)
        for (uint32_t r = 0; r < p->w.n_rows; r++)
            y[t * p->ldy + r] = (float)(r % 7) - 3.0f + (float)t;
}

/* Equal as floats (zeros of either sign), or both untouched. */
static bool same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (f32_bits(a[i]) != f32_bits(b[i]) && !(a[i] == b[i]))
            return false;
    return true;
}

static bool inputs_intact(const struct problem *p)
{
    const size_t n = (size_t)p->x.n_tokens * p->x.ld;

    return guard_intact(p->tiles, p->tiles_bytes) && guard_intact(p->scratch, p->scratch_bytes) &&
           guard_intact(p->x.f, n * 4) && guard_intact(p->x.q, n) && guard_intact(p->x.d, n / 8) &&
           guard_intact(p->x.s, n / 8) && guard_intact(p->x.bf, n * 2);
}

/* Tiles [tile0, tile1) by the kernel under test; want: by the reference, or for BF16, whose chips round in their own way, by
 * the kernel itself one token at a time (the bits of a token must not depend on the batch). */
static void check_call(struct checker *c, struct problem *p, enum act_kind kind, enum linear_mode mode, uint32_t tile0,
                       uint32_t tile1)
{
    const char *type = dtype_info((uint32_t)p->w.type)->name;

    fill_output(p, p->y, mode);
    fill_output(p, p->want, mode);
    c->ops->linear(&p->w, tile0, tile1, &p->x, kind, mode, p->y, p->ldy, p->scratch);
    check_that(c, guard_intact(p->y, p->y_bytes) && inputs_intact(p), "linear %s %s %ux%u tokens %u: stray writes", type,
               kind_name(kind), p->w.n_rows, p->w.n_cols, p->x.n_tokens);
    memset(p->scratch, 0xff, p->scratch_bytes);
    if (kind == ACT_BF16 || !c->prev) {
        for (uint32_t t = 0; t < p->x.n_tokens; t++) {
            struct act one = p->x;

            one.n_tokens = 1;
            one.f += (size_t)t * one.ld;
            one.q += (size_t)t * one.ld;
            one.bf += (size_t)t * one.ld;
            one.d += (size_t)t * (one.ld / 32);
            one.s += (size_t)t * (one.ld / 16);
            c->ops->linear(&p->w, tile0, tile1, &one, kind, mode, p->want + t * p->ldy, p->ldy, p->scratch);
        }
    } else {
        c->ref->linear(&p->w, tile0, tile1, &p->x, kind, mode, p->want, p->ldy, p->scratch);
    }
    check_that(c, same_bits(p->y, p->want, p->y_bytes / sizeof(float)),
               "linear %s %s %ux%u tokens %u tiles %u..%u: not the same bits", type, kind_name(kind), p->w.n_rows,
               p->w.n_cols, p->x.n_tokens, tile0, tile1);
}

static void check_problem(struct checker *c, enum dtype type, uint32_t n_rows, uint32_t n_cols, uint32_t n_tokens,
                          enum pattern pattern)
{
    const bool quantised = dtype_info((uint32_t)type)->quantised;
    const enum act_kind kinds[] = { ACT_F32, quantised ? ACT_Q8 : ACT_BF16 };
    struct problem p;

    problem_init(c, &p, type, n_rows, n_cols, n_tokens, pattern);
    for (unsigned k = 0; k < 2; k++) {
        if (kinds[k] == ACT_BF16 && (type != DT_BF16 || !c->ops->bf16_dot))
            continue;
        check_call(c, &p, kinds[k], LINEAR_ADD, 0, p.w.n_tiles);
        if (p.w.n_tiles > 1)
            check_call(c, &p, kinds[k], LINEAR_STORE, p.w.n_tiles / 2, p.w.n_tiles);
        check_call(c, &p, kinds[k], LINEAR_STORE, 0, p.w.n_tiles);
        check_against_double(c, &p, kinds[k], p.y);
    }
    problem_free(&p);
}

static void check_type(struct checker *c, enum dtype type)
{
    static const uint32_t rows[] = { 1, 16, 17, 47, 64 }, tokens[] = { 0, 1, 2, 3, 4, 5, 6, 7, 9, 13, 17, 24, 33 };
    const uint32_t block = dtype_info((uint32_t)type)->block;
    const uint32_t cols[] = { block, 2 * block, block == 256 ? 768 : block == 32 ? 544 : 77, 3 * block };

    for (unsigned t = 0; t < sizeof tokens / sizeof tokens[0]; t++)
        for (unsigned i = 0; i < 4; i++)
            check_problem(c, type, rows[(t + i) % 5], cols[i], tokens[t], RANDOM);
    for (uint32_t n = 1; n <= 8; n += 7) {
        check_problem(c, type, 17, block == 256 ? 512 : 576, n, ALL_ONES);
        check_problem(c, type, 17, block == 256 ? 512 : 576, n, ALL_ZERO);
    }
    check_problem(c, type, 32, 8960, 2, RANDOM);
    check_problem(c, type, 16, 8960, 7, RANDOM);
}

/* --- activations ------------------------------------------------------------------------------------------------------ */

/* Kinds of rows: ordinary; ties; tiny; infinite; NaN; negative zeros. */
static float awkward(struct checker *c, unsigned kind, uint32_t i)
{
    switch (kind) {
    case 1:
        return i % 32 == 5 ? 127.0f : (float)(int)(check_u32(c) % 255) * 0.5f - 63.5f; /* scale 1: halves are ties */
    case 2:
        return check_uniform(c, -1, 1) * (i < 32 ? 1e-37f : i < 64 ? 1e-44f : 3e-36f);
    case 3:
        return i == 40 ? INFINITY : i % 64 == 7 ? -3e38f : check_uniform(c, -1, 1);
    case 4:
        return i % 96 == 33 ? NAN : i % 96 == 65 ? -INFINITY : check_uniform(c, -1, 1);
    case 5:
        return -0.0f;
    default:
        return check_uniform(c, -8, 8);
    }
}

static void check_quantize(struct checker *c)
{
    for (uint32_t n = 0; n < 300; n += n < 70 ? 1 : 37)
        for (unsigned kind = 0; kind < 6; kind++) {
            const uint32_t ld = (uint32_t)ld_of(n);
            float *x = guard_new(n * sizeof *x), *d[2];
            int8_t *q[2];
            int16_t *s[2];

            for (uint32_t i = 0; i < n; i++)
                x[i] = awkward(c, kind, i);
            for (unsigned k = 0; k < 2; k++) {
                q[k] = guard_new(ld);
                d[k] = guard_new(ld / 8);
                s[k] = guard_new(ld / 8);
                (k ? c->ops : c->ref)->quantize_q8(x, n, ld, q[k], d[k], s[k]);
            }
            check_that(c, guard_intact(q[1], ld) && guard_intact(d[1], ld / 8) && guard_intact(s[1], ld / 8),
                       "quantize_q8 n %u: stray writes", n);
            check_that(c, !memcmp(q[0], q[1], ld) && !memcmp(d[0], d[1], ld / 8) && !memcmp(s[0], s[1], ld / 8),
                       "quantize_q8 n %u kind %u: not the same bits", n, kind);
            for (uint32_t i = 0; i < n; i++) {
                const float dx = d[1][i / 32];

                if (!(dx == dx))
                    continue;
                check_that(c, fabs((double)x[i] - (double)dx * q[1][i]) <= 0.5001 * dx + 2 * (double)ACT_AMAX_MIN && q[1][i] >= -127,
                           "quantize_q8 n %u kind %u column %u: %g became %g * %d", n, kind, i, (double)x[i], (double)dx, q[1][i]);
            }
            guard_free(x, n * sizeof *x);
            for (unsigned k = 0; k < 2; k++) {
                guard_free(q[k], ld);
                guard_free(d[k], ld / 8);
                guard_free(s[k], ld / 8);
            }
        }
}

static void check_round(struct checker *c)
{
    for (uint32_t n = 0; n < 200; n++) {
        const uint32_t ld = (uint32_t)ld_of(n);
        float *x = guard_new(n * sizeof *x);
        uint16_t *bf = guard_new(ld * sizeof *bf);
        bool ok = true;

        for (uint32_t i = 0; i < n; i++)
            x[i] = f32_from_bits(check_u32(c)); /* NaNs, infinities and subnormals among them */
        c->ops->round_bf16(x, n, ld, bf);
        for (uint32_t i = 0; i < ld; i++)
            ok = ok && bf[i] == (i < n ? bf16_from_f32(x[i]) : 0);
        check_that(c, ok, "round_bf16 n %u: wrong bits", n);
        check_that(c, guard_intact(bf, ld * sizeof *bf), "round_bf16 n %u: stray writes", n);
        guard_free(x, n * sizeof *x);
        guard_free(bf, ld * sizeof *bf);
    }
}

static void check_linear(struct checker *c)
{
    if (check_wanted(c, "quantize_q8", c->prev && c->prev->quantize_q8 == c->ops->quantize_q8))
        check_quantize(c);
    if (check_wanted(c, "round_bf16", c->prev && c->prev->round_bf16 == c->ops->round_bf16))
        check_round(c);
    for (size_t i = 0; i < N_TYPES; i++) {
        char name[32];

        snprintf(name, sizeof name, "linear_%s", dtype_info((uint32_t)types[i])->name);
        if (check_wanted(c, name, c->prev && c->prev->linear == c->ops->linear))
            check_type(c, types[i]);
    }
}

/* --- time ------------------------------------------------------------------------------------------------------------- */

struct timed {
    struct checker *c;
    struct problem *p;
    enum act_kind kind;
};

static void call_linear(void *arg)
{
    struct timed *t = arg;

    t->c->ops->linear(&t->p->w, 0, t->p->w.n_tiles, &t->p->x, t->kind, LINEAR_STORE, t->p->y, t->p->ldy, t->p->scratch);
}

static void bench_type(struct checker *c, enum dtype type, enum act_kind kind)
{
    static const uint32_t shapes[][2] = { { 576, 576 }, { 1536, 576 }, { 1536, 1536 }, { 8960, 1536 } };
    static const uint32_t tokens[] = { 1, 2, 4, 8, 16, 512 };

    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 6; k++) {
            const uint32_t block = dtype_info((uint32_t)type)->block;
            const uint32_t n_cols = shapes[i][1] / block * block;
            struct problem p;
            struct timed t = { c, &p, kind };
            double seconds, ops, bytes, peak;

            if (!strcmp(c->ops->isa, "ref") && (tokens[k] > 4 || i > 1))
                continue;
            problem_init(c, &p, type, shapes[i][0], n_cols, tokens[k], RANDOM);
            seconds = bench_seconds(call_linear, &t);
            ops = 2.0 * shapes[i][0] * n_cols * tokens[k];
            bytes = (double)p.tiles_bytes;
            peak = kind == ACT_Q8 ? peak_int_ops(c->ops->isa) : peak_float_ops(c->ops->isa);
            printf("%s\tlinear\t%s\t%s\t%u\t%u\t%u\t%.2f\t%.1f\t%.2f\t%.1f\t%.2f\n", c->ops->isa,
                   dtype_info((uint32_t)type)->name, kind_name(kind), shapes[i][0], n_cols, tokens[k], seconds * 1e6,
                   ops / seconds * 1e-9, peak > 0 ? ops / seconds / peak : 0.0, bytes / seconds * 1e-9,
                   bytes / seconds / peak_read_bytes());
            fflush(stdout);
            problem_free(&p);
        }
}

static void bench_linear(struct checker *c)
{
    printf("# peaks of one core: %.0f int GOP/s, %.0f float GOP/s, read %.1f GB/s\n", peak_int_ops(c->ops->isa) * 1e-9,
           peak_float_ops(c->ops->isa) * 1e-9, peak_read_bytes() * 1e-9);
    printf("# isa\tkernel\ttype\tact\trows\tcols\ttokens\tus\tGOP/s\tof peak\tweights GB/s\tof read\n");
    for (size_t i = 0; i < N_TYPES; i++) {
        const bool quantised = dtype_info((uint32_t)types[i])->quantised;
        char name[32];

        snprintf(name, sizeof name, "linear_%s", dtype_info((uint32_t)types[i])->name);
        if (!check_wanted(c, name, c->prev && c->prev->linear == c->ops->linear))
            continue;
        if (quantised)
            bench_type(c, types[i], ACT_Q8);
        else if (types[i] == DT_BF16 && c->ops->bf16_dot)
            bench_type(c, types[i], ACT_BF16);
        if (!quantised || types[i] == DT_Q4_1)
            bench_type(c, types[i], ACT_F32);
    }
}

const struct family family_linear = { "linear", check_linear, bench_linear };
