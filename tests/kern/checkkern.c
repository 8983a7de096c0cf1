/* checkkern [--isa NAME] [--filter TEXT] [--bench] [--seed N]: runs every kernel of every instruction set of this machine
 * against the reference; exit 0 when all agree, 2 when one does not. */
#include "tests/kern/checkkern.h"

#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/isa.h"

static const struct family *const families[] = { &family_linear, &family_nn, &family_attn };

#define N_FAMILIES (sizeof families / sizeof families[0])

bool check_wanted(const struct checker *c, const char *name, bool same_as_prev)
{
    return !same_as_prev && (!c->filter || strstr(name, c->filter));
}

bool check_that(struct checker *c, bool ok, const char *fmt, ...)
{
    va_list ap;

    c->checks++;
    if (ok)
        return true;
    if (++c->failures <= 20) {
        printf("FAIL %s: ", c->ops->isa);
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        putchar('\n');
    }
    return false;
}

double check_tolerance(double n, double magnitude)
{
    double root = 1;

    while (root * root < n + 1)
        root += 1;
    return 4 * 0x1p-23 * root * (magnitude + 0x1p-126);
}

/* --- data ------------------------------------------------------------------------------------------------------------- */

uint32_t check_u32(struct checker *c)
{
    uint64_t z = c->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

float check_uniform(struct checker *c, float lo, float hi)
{
    return lo + (hi - lo) * (float)(check_u32(c) >> 8) * 0x1p-24f;
}

#define FRONT 64u

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of the accessible pages: what comes before the buffer, the buffer, and 1..64 bytes that align its end. */
static size_t span_bytes(size_t bytes)
{
    const size_t page = page_bytes();

    return (FRONT + (bytes / 64 + 1) * 64 + page - 1) / page * page;
}

void *guard_new(size_t bytes)
{
    const size_t span = span_bytes(bytes), page = page_bytes();
    unsigned char *m = mmap(NULL, span + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (m == MAP_FAILED || mprotect(m + span, page, PROT_NONE)) {
        fprintf(stderr, "checkkern: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(m, 0xff, span);
    return m + span - (bytes / 64 + 1) * 64;
}

bool guard_intact(const void *p, size_t bytes)
{
    const unsigned char *b = p, *end = b + (bytes / 64 + 1) * 64;

    for (const unsigned char *i = b - FRONT; i < b; i++)
        if (*i != 0xff)
            return false;
    for (const unsigned char *i = b + bytes; i < end; i++)
        if (*i != 0xff)
            return false;
    return true;
}

void guard_free(void *p, size_t bytes)
{
    const size_t span = span_bytes(bytes);
    unsigned char *end = (unsigned char *)p + (bytes / 64 + 1) * 64;

    munmap(end - span, span + page_bytes());
}

/* --- timing ----------------------------------------------------------------------------------------------------------- */

double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double bench_seconds(void (*fn)(void *arg), void *arg)
{
    double best = 1e30;
    unsigned long calls = 1;

    fn(arg);
    for (int run = 0; run < 12;) {
        const double t0 = cpu_seconds();
        double s;

        for (unsigned long i = 0; i < calls; i++)
            fn(arg);
        s = cpu_seconds() - t0;
        if (s < 1e-3 && calls < 1u << 24) {
            calls *= s < 1e-4 ? 8 : 2;
            continue;
        }
        best = s / (double)calls < best ? s / (double)calls : best;
        run += s > 0.1 ? 4 : 1;
    }
    return best;
}

/* --- main ------------------------------------------------------------------------------------------------------------- */

struct arguments {
    const char *isa, *filter;
    uint64_t seed;
    bool bench;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;

    switch (key) {
    case 'i':
        a->isa = arg;
        return 0;
    case 'f':
        a->filter = arg;
        return 0;
    case 's':
        a->seed = strtoull(arg, NULL, 0);
        return 0;
    case 'b':
        a->bench = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static unsigned long run_row(const struct arguments *a, const struct kern_ops *ref, const struct kern_ops *prev,
                             const struct kern_ops *ops)
{
    struct checker c = { .ref = ref, .prev = prev, .ops = ops, .filter = a->filter, .rng = a->seed };

    for (size_t i = 0; i < N_FAMILIES; i++) {
        const unsigned long checks = c.checks, failures = c.failures;

        if (a->bench) {
            if (families[i]->bench)
                families[i]->bench(&c);
            continue;
        }
        families[i]->check(&c);
        printf("%-7s %-10s %8lu checks %s\n", ops->isa, families[i]->name, c.checks - checks,
               c.failures == failures ? "ok" : "FAILED");
        fflush(stdout);
    }
    return c.failures;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        { "isa", 'i', "NAME", 0, "Only this row of the instruction-set table", 0 },
        { "filter", 'f', "TEXT", 0, "Only kernels whose name contains TEXT", 0 },
        { "bench", 'b', NULL, 0, "Time the kernels instead of checking them", 0 },
        { "seed", 's', "N", 0, "Seed of the random inputs (1)", 0 },
        { 0 },
    };
    static const struct argp argp = { options, parse, NULL, "Check and time the CPU kernels", NULL, NULL, NULL };
    struct arguments a = { .seed = 1 };
    struct kern_ops rows[8];
    unsigned long failures = 0;
    bool found = false;

    argp_parse(&argp, argc, argv, 0, NULL, &a);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && isa_table[i].name; i++) {
        if (kern_ops_init(&rows[i], isa_table[i].name)) {
            printf("%-7s not on this machine\n", isa_table[i].name);
            break;
        }
        if (a.isa && strcmp(a.isa, rows[i].isa))
            continue;
        found = true;
        failures += run_row(&a, &rows[0], i ? &rows[i - 1] : NULL, &rows[i]);
    }
    if (!found) {
        fprintf(stderr, "checkkern: this machine has no instruction set %s\n", a.isa ? a.isa : "");
        return 1;
    }
    return failures ? 2 : 0;
}
