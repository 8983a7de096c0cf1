/* GGUF: the container, then everything a model loader would ask of it. */
#include "lib/io/gguf.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    volatile unsigned char sum = 0;
    struct gguf *g;
    struct map m;
    struct err e;

    if (map_memory(&m, data, size, "input", &e) || gguf_open(&g, &m, &e))
        return 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct source_tensor *t = &g->tensors[i];

        sum ^= *(const unsigned char *)t->data;
        sum ^= ((const unsigned char *)t->data)[t->bytes - 1];
    }
    for (size_t i = 0; i < g->n_kv; i++) {
        const struct gguf_kv *kv = &g->kv[i];
        uint64_t u;
        double f;

        for (uint64_t k = 0; k < kv->n; k++) {
            if (gguf_u64(kv, k, &u))
                sum ^= (unsigned char)u;
            if (gguf_f64(kv, k, &f))
                sum ^= f > 0;
            for (size_t c = 0; kv->type == GGUF_STRING && c < kv->strs[k].len; c++)
                sum ^= (unsigned char)kv->strs[k].ptr[c];
        }
    }
    gguf_close(g);
    (void)sum; /* what was read has to be read */
    return 0;
}
