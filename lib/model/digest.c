#include "lib/model/digest.h"

#include <stdlib.h>
#include <string.h>

struct digest_job {
    const struct source *s;
    const struct source_tensor **sorted; /* [n], by name */
    unsigned char (*sums)[SHA256_BYTES]; /* [n] */
    size_t n;
    size_t next;                         /* next tensor to take */
};

static int by_name(const void *a, const void *b)
{
    const struct source_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* Tensors differ much in size, so that members take them one by one instead of in equal shares. */
static void sum_tensors(void *arg, unsigned member)
{
    struct digest_job *j = arg;
    size_t i;

    (void)member;
    while ((i = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->n) {
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, j->sorted[i]->data, j->sorted[i]->bytes);
        sha256_end(&s, j->sums[i]);
        source_tensor_release(j->s, j->sorted[i]);
    }
}

int model_digest(const struct source *s, struct pool *pool, unsigned char out[SHA256_BYTES], struct err *e)
{
    struct digest_job j = { s, NULL, NULL, source_n_tensors(s), 0 };
    struct sha256 all;
    int rc = 0;

    j.sorted = malloc((j.n + 1) * sizeof *j.sorted);
    j.sums = malloc((j.n + 1) * sizeof *j.sums);
    if (!j.sorted || !j.sums) {
        rc = err_set(e, ERR_NOMEM, "digest of %zu tensors: out of memory", j.n);
        goto done;
    }
    for (size_t i = 0; i < j.n; i++)
        j.sorted[i] = source_tensor_at(s, i);
    qsort(j.sorted, j.n, sizeof *j.sorted, by_name);
    if (pool)
        pool_run(pool, sum_tensors, &j);
    else
        sum_tensors(&j, 0);
    sha256_init(&all);
    sha256_add_u64(&all, j.n);
    for (size_t i = 0; i < j.n; i++) {
        const struct source_tensor *t = j.sorted[i];

        sha256_add_u64(&all, strlen(t->name));
        sha256_add(&all, t->name, strlen(t->name));
        sha256_add_u64(&all, t->type);
        sha256_add_u64(&all, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++)
            sha256_add_u64(&all, t->dims[d]);
        sha256_add(&all, j.sums[i], SHA256_BYTES);
    }
    sha256_end(&all, out);
done:
    free(j.sorted);
    free(j.sums);
    return rc;
}

void model_bits_count(const struct model *m, struct model_bits *out)
{
    source_bits_count(m->source, &m->params, out);
}

void source_bits_count(const struct source *s, const struct model_params *p, struct model_bits *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < source_n_tensors(s); i++) {
        const struct source_tensor *t = source_tensor_at(s, i);
        uint64_t n = 1;
        char buf[128];
        const char *name = model_canonical_name(s, p, t->name, buf, sizeof buf);

        for (uint32_t d = 0; d < t->n_dims; d++)
            n *= t->dims[d];
        out->n_weights += n;
        out->bytes += t->bytes;
        if (t->n_dims == 2 && name && !strncmp(name, "blk.", 4)) {
            out->n_linear += n;
            out->linear_bytes += t->bytes;
        }
    }
    if (out->n_weights)
        out->bits_per_weight = 8.0 * (double)out->bytes / (double)out->n_weights;
    if (out->n_linear)
        out->bits_per_weight_linear = 8.0 * (double)out->linear_bytes / (double)out->n_linear;
}
