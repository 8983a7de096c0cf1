/* What the machine can do at most: reading memory and arithmetic, with the threads of a pool. */
#include <unistd.h>

#include "kernels/peak.h"
#include "lib/bench/bench.h"
#include "lib/core/clock.h"

#define FIRST_PASSES 5
#define MORE_PASSES 2          /* when there are figures already */
#define PASSES_NS 150000000u   /* no further pass after this time */
#define ARITHMETIC_NS 6000000u /* time of one pass of an arithmetic loop */

size_t bench_buffer_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = cache > 0 ? (size_t)cache * 4 : 0;

    bytes = bytes < (256u << 20) ? 256u << 20 : bytes;
    return bytes > (1u << 30) ? 1u << 30 : bytes & ~(size_t)(PEAK_READ_UNIT - 1);
}

enum loop { LOOP_READ, LOOP_I8, LOOP_BF16, LOOP_F32 };

struct measure {
    struct pool *pool;
    const struct peak_ops *ops;
    const unsigned char *buf;
    uint32_t units;        /* of PEAK_READ_UNIT in buf */
    enum loop loop;
    int passes;
    uint64_t rounds;
    uint64_t ns;           /* out: from the last start to the last end */
    uint64_t sink;         /* keeps results in use */
};

static void run_loop(struct measure *m, unsigned member)
{
    uint64_t r = 0;

    switch (m->loop) {
    case LOOP_READ: {
        uint32_t begin, end;

        pool_split(m->pool, member, m->units, 1, &begin, &end);
        r = m->ops->read(m->buf + (size_t)begin * PEAK_READ_UNIT, (size_t)(end - begin) * PEAK_READ_UNIT);
        break;
    }
    case LOOP_I8: r = (uint64_t)m->ops->i8(m->rounds); break;
    case LOOP_BF16: r = m->ops->bf16(m->rounds) > 0; break;
    case LOOP_F32: r = m->ops->f32(m->rounds) > 0; break;
    }
    __atomic_fetch_add(&m->sink, r, __ATOMIC_RELAXED);
}

static void timed(void *arg, unsigned member)
{
    struct measure *m = arg;
    uint64_t start;

    pool_barrier(m->pool);
    start = clock_ns();
    run_loop(m, member);
    pool_barrier(m->pool);
    if (member == 0)
        m->ns = clock_ns() - start;
}

/* Best of the passes, in units of `amount` per second, where every pass does amount (of all threads). */
static double best_rate(struct measure *m, double amount)
{
    double best = 0;
    uint64_t spent = 0;

    for (int i = 0; i < m->passes && spent < PASSES_NS; i++) {
        pool_run(m->pool, timed, m);
        spent += m->ns;
        if (m->ns > 0 && amount / (double)m->ns > best)
            best = amount / (double)m->ns;
    }
    return best * 1e9;
}

static double arithmetic_rate(struct measure *m, enum loop loop, double ops_per_round)
{
    double n = pool_size(m->pool);

    m->loop = loop;
    m->rounds = 1024;
    do { /* until one pass takes long enough to time */
        m->rounds *= 4;
        pool_run(m->pool, timed, m);
    } while (m->ns < ARITHMETIC_NS / 4 && m->rounds < (uint64_t)1 << 40);
    m->rounds = (uint64_t)((double)m->rounds * ARITHMETIC_NS / (double)(m->ns ? m->ns : 1)) + 1;
    return best_rate(m, ops_per_round * (double)m->rounds * n);
}

static void lift(double *best, double v)
{
    if (v > *best)
        *best = v;
}

int bench_limits_measure(struct bench_limits *best, struct pool *pool, const char *isa, const void *buf, size_t bytes,
                         struct err *e)
{
    struct peak_ops ops;
    struct measure m = { .pool = pool, .ops = &ops, .buf = buf, .units = (uint32_t)(bytes / PEAK_READ_UNIT),
                         .passes = best->read_bytes > 0 ? MORE_PASSES : FIRST_PASSES };

    if (peak_ops_init(&ops, isa))
        return err_set(e, ERR_INVAL, "instruction set %s: unknown, or not on this machine", isa ? isa : "(best)");
    lift(&best->f32_ops, arithmetic_rate(&m, LOOP_F32, ops.f32_ops));
    lift(&best->bf16_ops, arithmetic_rate(&m, LOOP_BF16, ops.bf16_ops));
    lift(&best->i8_ops, arithmetic_rate(&m, LOOP_I8, ops.i8_ops));
    m.loop = LOOP_READ;
    lift(&best->read_bytes, best_rate(&m, (double)m.units * PEAK_READ_UNIT));
    return 0;
}
