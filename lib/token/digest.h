/* Identity of a vocabulary: two tokenizers with the same digest give an id the same meaning. */
#ifndef SLUICE_TOKEN_DIGEST_H
#define SLUICE_TOKEN_DIGEST_H

#include "lib/core/sha256.h"
#include "lib/token/token.h"

/* SHA-256 over the kind, the pre-tokenizer, the size, BOS and its use, and every id's bytes and special flag. Merge order
 * is not part of it. */
void tokenizer_digest(const struct tokenizer *t, unsigned char out[SHA256_BYTES]);

#endif
