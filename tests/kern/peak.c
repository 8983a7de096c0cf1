/* What one core can do at best, from the loops of kernels/peak.h. */
#include "kernels/peak.h"

#include <string.h>

#include "lib/core/mem.h"
#include "tests/kern/checkkern.h"

struct loops {
    struct peak_ops ops;
    double i8, f32; /* operations per second, 0 before they are measured */
};

#define ROUNDS 20000u

static void run_i8(void *arg)
{
    ((struct peak_ops *)arg)->i8(ROUNDS);
}

static void run_f32(void *arg)
{
    ((struct peak_ops *)arg)->f32(ROUNDS);
}

static struct loops *loops_of(const char *isa)
{
    static struct loops rows[8];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loops *l = &rows[i];

        if (!l->ops.isa) {
            if (peak_ops_init(&l->ops, isa))
                return NULL;
            l->i8 = l->ops.i8_ops * ROUNDS / bench_seconds(run_i8, &l->ops);
            l->f32 = l->ops.f32_ops * ROUNDS / bench_seconds(run_f32, &l->ops);
        }
        if (!strcmp(l->ops.isa, isa))
            return l;
    }
    return NULL;
}

double peak_int_ops(const char *isa)
{
    const struct loops *l = loops_of(isa);

    return l ? l->i8 : 0;
}

double peak_float_ops(const char *isa)
{
    const struct loops *l = loops_of(isa);

    return l ? l->f32 : 0;
}

double peak_read_bytes(void)
{
    static double best;
    const size_t n = (size_t)192 << 20;
    struct peak_ops ops;
    unsigned char *p;

    if (best > 0 || peak_ops_init(&ops, NULL) || !(p = mem_map(n)))
        return best;
    memset(p, 1, n);
    for (int run = 0; run < 4; run++) {
        const double t0 = cpu_seconds();
        const uint64_t sum = ops.read(p, n);
        const double rate = (double)n / (cpu_seconds() - t0);

        __asm__ volatile("" : : "r"(sum));
        best = rate > best ? rate : best;
    }
    mem_unmap(p, n);
    return best;
}
