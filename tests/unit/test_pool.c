#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "lib/core/pool.h"

struct sum_job {
    struct pool *pool;
    uint64_t part[64];
    uint64_t seen[64];
};

static void sum_stage(void *arg, unsigned member)
{
    struct sum_job *j = arg;
    unsigned n = pool_size(j->pool);

    for (int round = 0; round < 200; round++) {
        uint64_t total = 0;

        j->part[member] = (uint64_t)round * 10 + member;
        pool_barrier(j->pool);
        for (unsigned i = 0; i < n; i++)
            total += j->part[i];
        j->seen[member] += total;
        pool_barrier(j->pool);
    }
}

static void barriers_publish_writes(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 5; n++) {
        struct sum_job j = { 0 };
        uint64_t want = 0;

        assert_int_equal(pool_open(&j.pool, n, true, NULL), 0);
        for (int run = 0; run < 20; run++)
            pool_run(j.pool, sum_stage, &j);
        for (uint64_t round = 0; round < 200; round++)
            want += round * 10 * n + (uint64_t)n * (n - 1) / 2;
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(j.seen[i], want * 20);
        pool_close(j.pool);
    }
}

static void split_covers_everything_once(void **state)
{
    struct pool *p;

    (void)state;
    assert_int_equal(pool_open(&p, 3, false, NULL), 0);
    for (uint32_t n = 0; n < 200; n += 7)
        for (uint32_t unit = 1; unit < 40; unit += 13) {
            uint32_t at = 0, b, e;

            for (unsigned m = 0; m < 3; m++) {
                pool_split(p, m, n, unit, &b, &e);
                assert_int_equal(b, at);
                assert_true(e >= b && (e % unit == 0 || e == n));
                at = e;
            }
            assert_int_equal(at, n);
        }
    pool_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_publish_writes),
        cmocka_unit_test(split_covers_everything_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
