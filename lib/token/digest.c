#include "lib/token/digest.h"

#include <string.h>

static void add_str(struct sha256 *s, const char *p, size_t len)
{
    sha256_add_u64(s, len);
    sha256_add(s, p, len);
}

void tokenizer_digest(const struct tokenizer *t, unsigned char out[SHA256_BYTES])
{
    const char *kind = tokenizer_kind(t), *pre = tokenizer_pre(t);
    uint32_t n = tokenizer_n_vocab(t);
    struct sha256 s;

    sha256_init(&s);
    add_str(&s, kind, strlen(kind));
    add_str(&s, pre, strlen(pre));
    sha256_add_u64(&s, n);
    sha256_add_u64(&s, (uint64_t)(int64_t)tokenizer_bos(t));
    sha256_add_u64(&s, tokenizer_add_bos(t));
    for (uint32_t id = 0; id < n; id++) {
        const char *piece;
        size_t len;
        unsigned char special = tokenizer_is_special(t, (int32_t)id);

        tokenizer_piece(t, (int32_t)id, true, &piece, &len);
        sha256_add(&s, &special, 1);
        add_str(&s, piece, len);
    }
    sha256_end(&s, out);
}
