#include "lib/core/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/core/mem.h"

/* How long a waiting thread spins before it sleeps: a few times the longest stage of a decode step, so that threads stay
 * awake within a step, and far less than what a person or another process would notice. */
#define SPIN_ROUNDS 20000

/* A word that threads wait on. Waiters count themselves before sleeping and wakers change the word before looking at the
 * count (both sequentially consistent), so no wake-up is lost. */
struct gate {
    _Alignas(64) atomic_uint word;
    _Alignas(64) atomic_uint sleepers;
};

struct worker {
    struct pool *pool;
    unsigned member;
    pthread_t thread;
};

struct pool {
    unsigned size;
    unsigned spin;
    struct gate start;   /* word: number of the current job */
    struct gate barrier; /* word: barriers passed */
    _Alignas(64) atomic_uint arrived;
    atomic_bool stop;
    void (*fn)(void *, unsigned);
    void *arg;
    struct worker *workers; /* [size]; entry 0 is the caller and has no thread */
    cpu_set_t *cores;       /* [size] one core each; NULL without pinning */
};

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void gate_wait(struct gate *g, unsigned old, unsigned spin)
{
    for (unsigned i = 0; i < spin; i++) {
        if (atomic_load_explicit(&g->word, memory_order_acquire) != old)
            return;
        cpu_relax();
    }
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->word) == old)
        syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_open(struct gate *g)
{
    atomic_fetch_add(&g->word, 1);
    if (atomic_load(&g->sleepers))
        syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

void pool_barrier(struct pool *p)
{
    unsigned old;

    if (p->size == 1)
        return;
    old = atomic_load_explicit(&p->barrier.word, memory_order_acquire);
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) == p->size - 1) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        gate_open(&p->barrier);
    } else {
        gate_wait(&p->barrier, old, p->spin);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    unsigned job = 0;

    if (p->cores)
        pthread_setaffinity_np(pthread_self(), sizeof p->cores[0], &p->cores[w->member]);
    for (;;) {
        gate_wait(&p->start, job, p->spin);
        job++;
        if (atomic_load(&p->stop))
            return NULL;
        p->fn(p->arg, w->member);
        pool_barrier(p);
    }
}

void pool_run(struct pool *p, void (*fn)(void *arg, unsigned member), void *arg)
{
    cpu_set_t old;
    bool restore = p->cores && !pthread_getaffinity_np(pthread_self(), sizeof old, &old);

    if (restore)
        pthread_setaffinity_np(pthread_self(), sizeof p->cores[0], &p->cores[0]);
    p->fn = fn;
    p->arg = arg;
    if (p->size > 1)
        gate_open(&p->start);
    fn(arg, 0);
    pool_barrier(p);
    if (restore)
        pthread_setaffinity_np(pthread_self(), sizeof old, &old);
}

/* The lowest-numbered hardware thread of cpu's core, or cpu itself where the system does not say. */
static int core_of(int cpu)
{
    char path[96];
    FILE *f;
    int first = cpu;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    f = fopen(path, "r");
    if (f) {
        if (fscanf(f, "%d", &first) != 1)
            first = cpu;
        fclose(f);
    }
    return first;
}

/* One CPU of each physical core in the affinity mask, in order; returns their number (at least 1). */
static unsigned list_cores(int *cpus, unsigned max)
{
    bool seen[CPU_SETSIZE] = { false };
    cpu_set_t set;
    unsigned n = 0;

    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    for (int c = 0; c < CPU_SETSIZE; c++) {
        int core;

        if (!CPU_ISSET(c, &set))
            continue;
        core = core_of(c);
        if (core < 0 || core >= CPU_SETSIZE || seen[core])
            continue;
        seen[core] = true;
        if (cpus && n < max)
            cpus[n] = c;
        n++;
    }
    return n ? n : 1;
}

unsigned pool_cores(void)
{
    return list_cores(NULL, 0);
}

int pool_open(struct pool **out, unsigned n_threads, bool pin, struct err *e)
{
    int cpus[CPU_SETSIZE] = { 0 };
    unsigned n_cores = list_cores(cpus, CPU_SETSIZE);
    struct pool *p;
    int rc;

    *out = NULL;
    if (!n_threads)
        n_threads = n_cores;
    if (n_threads > 1024)
        return err_set(e, ERR_INVAL, "%u threads: at most 1024", n_threads);
    p = mem_zalloc(sizeof *p);
    if (!p || !(p->workers = calloc(n_threads, sizeof *p->workers)))
        goto nomem;
    /* With more threads than cores a spinning thread keeps the one it waits for off its core. */
    p->spin = n_threads <= n_cores ? SPIN_ROUNDS : 100;
    if (pin && n_threads > 1 && n_threads <= n_cores) {
        if (!(p->cores = calloc(n_threads, sizeof *p->cores)))
            goto nomem;
        for (unsigned i = 0; i < n_threads; i++)
            CPU_SET(cpus[i], &p->cores[i]);
    }
    for (unsigned i = 1; i < n_threads; i++) {
        p->workers[i].pool = p;
        p->workers[i].member = i;
    }
    p->size = n_threads;
    for (unsigned i = 1; i < n_threads; i++) {
        rc = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (rc) {
            rc = err_set(e, ERR_LIMIT, "thread %u of %u cannot be started: %s", i, n_threads, strerror(rc));
            p->size = i;
            pool_close(p);
            return rc;
        }
    }
    *out = p;
    return 0;
nomem:
    if (p)
        free(p->workers);
    free(p);
    return err_set(e, ERR_NOMEM, "no memory for %u threads", n_threads);
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    if (p->size > 1)
        gate_open(&p->start);
    for (unsigned i = 1; i < p->size; i++)
        pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p->cores);
    free(p);
}

unsigned pool_size(const struct pool *p)
{
    return p ? p->size : 1;
}

void pool_split(const struct pool *p, unsigned member, uint32_t n, uint32_t unit, uint32_t *begin, uint32_t *end)
{
    uint64_t units = ((uint64_t)n + unit - 1) / unit;
    uint64_t size = pool_size(p);
    uint64_t b = units * member / size * unit;
    uint64_t e = units * (member + 1) / size * unit;

    *begin = (uint32_t)(b < n ? b : n);
    *end = (uint32_t)(e < n ? e : n);
}
