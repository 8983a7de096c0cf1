/* Lists of names and defaults of a plan. */
#include <string.h>

#include "kernels/isa.h"
#include "lib/bench/bench.h"

static bool take_isa(struct bench_plan *p, const char *name)
{
    struct kern_ops ops;

    if (p->n_isas == BENCH_MAX_NAMES || kern_ops_init(&ops, name))
        return false;
    p->isas[p->n_isas++] = ops.isa; /* the table's own string */
    return true;
}

static bool take_kv_type(struct bench_plan *p, const char *name)
{
    bool f32 = !strcmp(name, "f32");

    if (p->n_kv_types == 2 || (!f32 && strcmp(name, "bf16")))
        return false;
    p->kv_types[p->n_kv_types++] = f32 ? KV_F32 : KV_BF16;
    return true;
}

static bool take_test(struct bench_plan *p, const char *name)
{
    bool prefill = !strcmp(name, "prefill"), decode = !strcmp(name, "decode");

    p->prefill |= prefill;
    p->decode |= decode;
    return prefill || decode;
}

static int take_names(struct bench_plan *p, const char *list, bool (*take)(struct bench_plan *, const char *),
                      const char *want, struct err *e)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        char name[32];

        if (len == 0 || len >= sizeof name)
            return err_set(e, ERR_INVAL, "%s", want);
        memcpy(name, list, len);
        name[len] = 0;
        if (!take(p, name))
            return err_set(e, ERR_INVAL, "'%s': %s", name, want);
        if (!list[len])
            return 0;
        list += len + 1;
    }
}

int bench_plan_isas(struct bench_plan *p, const char *list, struct err *e)
{
    p->n_isas = 0;
    return take_names(p, list, take_isa, "not an instruction set of this machine; --version lists them", e);
}

int bench_plan_kv_types(struct bench_plan *p, const char *list, struct err *e)
{
    p->n_kv_types = 0;
    return take_names(p, list, take_kv_type, "not a list of bf16 and f32", e);
}

int bench_plan_tests(struct bench_plan *p, const char *list, struct err *e)
{
    p->prefill = p->decode = false;
    return take_names(p, list, take_test, "not a list of prefill and decode", e);
}

static const uint32_t default_prompts[] = { 512 }, default_gens[] = { 128 }, default_batches[] = { 1 },
                      default_threads[] = { 0 };

static void default_list(const uint32_t **list, size_t *n, const uint32_t *value)
{
    if (!*list) {
        *list = value;
        *n = 1;
    }
}

void bench_plan_defaults(struct bench_plan *p)
{
    default_list(&p->prompts, &p->n_prompts, default_prompts);
    default_list(&p->gens, &p->n_gens, default_gens);
    default_list(&p->batches, &p->n_batches, default_batches);
    default_list(&p->threads, &p->n_threads, default_threads);
    if (!p->n_isas)
        p->isas[p->n_isas++] = NULL;
    if (!p->n_kv_types)
        p->kv_types[p->n_kv_types++] = KV_BF16;
    if (!p->prefill && !p->decode)
        p->prefill = p->decode = true;
    if (!p->repeats)
        p->repeats = 5;
}
