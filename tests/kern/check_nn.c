/* Norms, activations, rotation and reductions against double precision. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/f16.h"
#include "tests/kern/checkkern.h"

#define MAX_N 700u

/* 0..70, then steps: tails of every length. */
static uint32_t next_n(uint32_t n)
{
    return n + (n < 70 ? 1 : 61);
}

static float *random_floats(struct checker *c, uint32_t n, float range)
{
    float *x = guard_new(n * sizeof *x);

    for (uint32_t i = 0; i < n; i++)
        x[i] = check_uniform(c, -range, range);
    return x;
}

static bool near(double got, double want, double tol)
{
    return fabs(got - want) <= tol;
}

static void check_rmsnorm(struct checker *c)
{
    for (uint32_t n = 1; n < MAX_N; n = next_n(n))
        for (unsigned kind = 0; kind < 4; kind++) { /* bit 0: no weights, bit 1: in place */
            const float eps = 1e-5f, range = n % 2 ? 1e-4f : 30;
            float *x = random_floats(c, n, range), *w = random_floats(c, n, 2), *y = guard_new(n * sizeof *y);
            float *to = kind & 2 ? x : y;
            double want[MAX_N], sum = 0;
            bool ok = true;

            for (uint32_t i = 0; i < n; i++)
                sum += (double)x[i] * x[i];
            for (uint32_t i = 0; i < n; i++)
                want[i] = x[i] / sqrt(sum / n + (double)eps) * (kind & 1 ? 1.0 : w[i]);
            c->ops->rmsnorm(to, x, kind & 1 ? NULL : w, n, eps);
            for (uint32_t i = 0; i < n; i++)
                ok = ok && near(to[i], want[i], check_tolerance(n, fabs(want[i])));
            check_that(c, ok, "rmsnorm n %u kind %u: wrong", n, kind);
            check_that(c, guard_intact(to, n * sizeof *to), "rmsnorm n %u: stray writes", n);
            guard_free(x, n * sizeof *x);
            guard_free(w, n * sizeof *w);
            guard_free(y, n * sizeof *y);
        }
}

static void check_add_scale(struct checker *c)
{
    for (uint32_t n = 0; n < MAX_N; n = next_n(n)) {
        float *x = random_floats(c, n, 5), *y = random_floats(c, n, 5), *z = guard_new(n * sizeof *z);
        const float a = check_uniform(c, -3, 3);
        bool ok = true;

        memcpy(z, y, n * sizeof *z);
        c->ops->add(y, x, n);
        for (uint32_t i = 0; i < n; i++)
            ok = ok && y[i] == z[i] + x[i];
        check_that(c, ok, "add n %u: wrong", n);
        c->ops->scale(z, a, n);
        for (uint32_t i = 0; i < n; i++)
            ok = ok && near(z[i], (double)a * (y[i] - x[i]), 4e-6);
        check_that(c, ok, "scale n %u: wrong", n);
        check_that(c, guard_intact(y, n * sizeof *y) && guard_intact(z, n * sizeof *z), "add, scale n %u: stray writes", n);
        guard_free(x, n * sizeof *x);
        guard_free(y, n * sizeof *y);
        guard_free(z, n * sizeof *z);
    }
}

static double gate(bool gelu, double x)
{
    const double z = 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);

    return x / (1 + exp(-(gelu ? z : x)));
}

/* Steepness amplifies the rounding of the exponent: by |z| up to 90, beyond which the result is 0 or x. */
static double gate_tolerance(bool gelu, double x, double want)
{
    const double z = fabs(gelu ? 1.6 * (x + 0.045 * x * x * x) : x);

    return (4 + (x < 0 ? 8 * fmin(z, 110) : 8)) * 0x1p-24 * fabs(want) + 8 * (double)FLT_MIN * fmax(1, fabs(x));
}

static void check_gates(struct checker *c, bool gelu)
{
    static const float special[] = { 0, -0.0f, 1e-30f, -1e-30f, 87, -87, 89, -89, 103, -104, 1e4f, -1e4f, 1e13f, -1e13f, 3e38f, -3e38f };
    const char *name = gelu ? "gelu_mul" : "silu_mul";

    for (uint32_t n = 0; n < MAX_N; n = next_n(n)) {
        const float range = n % 3 == 0 ? 1 : n % 3 == 1 ? 12 : 120;
        float *g = random_floats(c, n, range), *u = random_floats(c, n, 2), *x = guard_new(n * sizeof *x);

        for (uint32_t i = 0; n > 100 && i < 16; i++)
            g[i * 5] = special[i];
        memcpy(x, g, n * sizeof *x);
        if (n > 20)
            g[17] = NAN;
        (gelu ? c->ops->gelu_mul : c->ops->silu_mul)(g, u, n);
        for (uint32_t i = 0; i < n; i++) {
            const double y = gate(gelu, x[i]), want = y * u[i];

            if (n > 20 && i == 17)
                check_that(c, isnan(g[i]), "%s: a NaN became %g", name, (double)g[i]);
            else
                check_that(c, near(g[i], want, gate_tolerance(gelu, x[i], want)) || (isinf(g[i]) && fabs(want) > FLT_MAX),
                           "%s n %u: %.9g times %.9g is %.9g, not %.9g", name, n, (double)x[i], (double)u[i], (double)g[i], want);
        }
        check_that(c, guard_intact(g, n * sizeof *g), "%s n %u: stray writes", name, n);
        guard_free(g, n * sizeof *g);
        guard_free(u, n * sizeof *u);
        guard_free(x, n * sizeof *x);
    }
}

static void check_rope(struct checker *c)
{
    for (uint32_t hd = 2; hd <= 256; hd += hd < 70 ? 2 : 26)
        for (uint32_t heads = 1; heads < 6; heads += 2)
            for (unsigned pairs = 0; pairs < 2; pairs++) {
                const size_t bytes = (size_t)heads * hd * sizeof(float);
                float *x = random_floats(c, heads * hd, 3), *old = guard_new(bytes), *cs = random_floats(c, hd, 1);
                bool ok = true;

                memcpy(old, x, bytes);
                c->ops->rope(x, heads, hd, cs, pairs);
                for (uint32_t i = 0; i < heads * (hd / 2); i++) {
                    const uint32_t h = i / (hd / 2), j = i % (hd / 2);
                    const size_t at = (size_t)h * hd + (pairs ? 2 * j : j), to = at + (pairs ? 1 : hd / 2);
                    const double a = old[at], b = old[to], co = cs[2 * j], s = cs[2 * j + 1];

                    ok = ok && near(x[at], a * co - b * s, check_tolerance(2, fabs(a * co) + fabs(b * s)));
                    ok = ok && near(x[to], b * co + a * s, check_tolerance(2, fabs(b * co) + fabs(a * s)));
                }
                check_that(c, ok, "rope head %u heads %u interleaved %u: wrong", hd, heads, pairs);
                check_that(c, guard_intact(x, bytes), "rope head %u: stray writes", hd);
                guard_free(x, bytes);
                guard_free(old, bytes);
                guard_free(cs, hd * sizeof *cs);
            }
}

static uint32_t plain_argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}

static void check_max(struct checker *c)
{
    for (uint32_t n = 0; n < MAX_N; n = next_n(n))
        for (unsigned kind = 0; kind < 6; kind++) {
            float *x = random_floats(c, n, 5);
            uint32_t want;
            float top;

            for (uint32_t i = 0; i < n; i++)
                x[i] = kind == 1                          ? roundf(x[i] / 2) /* equals */
                       : kind == 2 && check_u32(c) % 2    ? NAN
                       : kind == 3                        ? NAN
                       : kind == 4                        ? (check_u32(c) % 3 ? NAN : -INFINITY)
                       : kind == 5 && check_u32(c) % 9 < 2 ? INFINITY
                                                          : x[i];
            want = plain_argmax(x, n);
            top = n && !isnan(x[want]) ? x[want] : -INFINITY;
            check_that(c, c->ops->argmax(x, n) == want, "argmax n %u kind %u: %u, not %u", n, kind, c->ops->argmax(x, n), want);
            check_that(c, c->ops->max(x, n) == top, "max n %u kind %u: %g, not %g", n, kind, (double)c->ops->max(x, n), (double)top);
            guard_free(x, n * sizeof *x);
        }
}

/* The error of a term is that of x - shift, rounded to float, and of exp. */
static void check_sum_exp(struct checker *c)
{
    for (uint32_t n = 0; n < MAX_N; n = next_n(n)) {
        const float range = n % 2 ? 3 : 60, shift = check_uniform(c, -range, 0);
        float *x = random_floats(c, n, range);
        double want = 0, tol = 0, got;

        for (uint32_t i = 0; i < n; i++) {
            x[i] = i % 50 == 7 ? -INFINITY : fminf(x[i], shift + 60);
            want += exp((double)x[i] - shift);
            tol += exp((double)x[i] - shift) * (4 + (isinf(x[i]) ? 0 : fabs((double)x[i] - shift))) * 0x1p-24;
        }
        got = c->ops->sum_exp(x, n, shift);
        check_that(c, near(got, want, tol + FLT_MIN * n), "sum_exp n %u: %.12g, not %.12g", n, got, want);
        if (n) {
            x[n / 2] = NAN;
            check_that(c, isnan(c->ops->sum_exp(x, n, shift)), "sum_exp n %u: lost a NaN", n);
        }
        guard_free(x, n * sizeof *x);
    }
}

static void check_nn(struct checker *c)
{
    const struct kern_ops *a = c->prev, *b = c->ops;

    if (check_wanted(c, "rmsnorm", a && a->rmsnorm == b->rmsnorm))
        check_rmsnorm(c);
    if (check_wanted(c, "add", a && a->add == b->add) || check_wanted(c, "scale", a && a->scale == b->scale))
        check_add_scale(c);
    if (check_wanted(c, "silu_mul", a && a->silu_mul == b->silu_mul))
        check_gates(c, false);
    if (check_wanted(c, "gelu_mul", a && a->gelu_mul == b->gelu_mul))
        check_gates(c, true);
    if (check_wanted(c, "rope", a && a->rope == b->rope))
        check_rope(c);
    if (check_wanted(c, "argmax", a && a->argmax == b->argmax) || check_wanted(c, "max", a && a->max == b->max))
        check_max(c);
    if (check_wanted(c, "sum_exp", a && a->sum_exp == b->sum_exp))
        check_sum_exp(c);
}

/* --- time ------------------------------------------------------------------------------------------------------------- */

struct timed {
    const struct kern_ops *ops;
    float *x, *y;
    uint32_t n;
};

static void call_rmsnorm(void *arg)
{
    struct timed *t = arg;

    t->ops->rmsnorm(t->y, t->x, t->x, t->n, 1e-5f);
}

static void call_silu(void *arg)
{
    struct timed *t = arg;

    memcpy(t->y, t->x, t->n * sizeof *t->x);
    t->ops->silu_mul(t->y, t->x, t->n);
}

static void call_gelu(void *arg)
{
    struct timed *t = arg;

    memcpy(t->y, t->x, t->n * sizeof *t->x);
    t->ops->gelu_mul(t->y, t->x, t->n);
}

static void call_rope(void *arg)
{
    struct timed *t = arg;

    t->ops->rope(t->y, t->n / 64, 64, t->x, false);
}

static void call_argmax(void *arg)
{
    struct timed *t = arg;

    t->n = t->ops->argmax(t->x, t->n) == UINT32_MAX ? 0 : t->n;
}

static void call_sum_exp(void *arg)
{
    struct timed *t = arg;

    t->y[0] = (float)t->ops->sum_exp(t->x, t->n, 1);
}

static void bench_nn(struct checker *c)
{
    static const struct {
        const char *name;
        void (*call)(void *arg);
        uint32_t n;
    } runs[] = { { "rmsnorm", call_rmsnorm, 576 },   { "silu_mul", call_silu, 1536 },     { "gelu_mul", call_gelu, 2048 },
                 { "rope", call_rope, 576 },         { "argmax", call_argmax, 49152 },    { "sum_exp", call_sum_exp, 49152 } };

    printf("# isa\tkernel\tn\tus\tns/value\n");
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const size_t bytes = runs[i].n * sizeof(float);
        struct timed t = { c->ops, random_floats(c, runs[i].n, 1), random_floats(c, runs[i].n, 1), runs[i].n };
        double s;

        if (check_wanted(c, runs[i].name, false)) {
            s = bench_seconds(runs[i].call, &t);
            printf("%s\t%s\t%u\t%.3f\t%.3f\n", c->ops->isa, runs[i].name, runs[i].n, s * 1e6, s / runs[i].n * 1e9);
        }
        guard_free(t.x, bytes);
        guard_free(t.y, bytes);
    }
}

const struct family family_nn = { "nn", check_nn, bench_nn };
