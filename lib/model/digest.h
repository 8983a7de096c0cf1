/* Identity and size of a model's stored weights. */
#ifndef SLUICE_MODEL_DIGEST_H
#define SLUICE_MODEL_DIGEST_H

#include "lib/core/err.h"
#include "lib/core/pool.h"
#include "lib/core/sha256.h"
#include "lib/io/source.h"
#include "lib/model/model.h"

/* SHA-256 over the tensors in the order of their names: name, type, shape, and the SHA-256 of the data. It does not
 * depend on the container's layout or metadata. Reads the whole model once with the pool's threads (pool may be NULL) and gives the
 * mapped pages back. */
int model_digest(const struct source *s, struct pool *pool, unsigned char out[SHA256_BYTES], struct err *e);

struct model_bits {
    uint64_t n_weights, bytes;               /* every stored tensor */
    uint64_t n_linear, linear_bytes;         /* matrices of the layers: no embedding, no head, no vectors */
    double bits_per_weight, bits_per_weight_linear; /* 8 * bytes / n; 0 when there are none */
};

/* Counts the stored tensors of a source whose hyperparameters are p; model_bits_count those of m's source. */
void source_bits_count(const struct source *s, const struct model_params *p, struct model_bits *out);
void model_bits_count(const struct model *m, struct model_bits *out);

#endif
