/* Inside of the KV pool, shared by pool.c and prefix.c. */
#ifndef SLUICE_KV_KV_PRIV_H
#define SLUICE_KV_KV_PRIV_H

#include <stdbool.h>

#include "lib/kv/kv.h"

#define KV_NONE UINT32_MAX

/* A block is free (on the free list), used (refs > 0), or cached (known, refs == 0, on the LRU list). */
struct kv_block {
    uint32_t refs;       /* sequences whose table has it */
    uint32_t prev, next; /* LRU list, oldest first; next also links the free list */
    uint32_t parent;     /* known block before it in its prefix, KV_NONE for the first */
    uint32_t n_children; /* known blocks whose parent this is: it cannot be evicted before them */
    uint64_t hash;       /* of (parent, tokens) while known */
    bool known;
};

struct kv_pool {
    struct kv_layout layout;
    unsigned char *base;
    size_t base_bytes;
    uint32_t n_blocks;
    struct kv_block *blocks; /* [n_blocks] */
    int32_t *tokens;         /* [n_blocks][block_tokens]: contents of known blocks */
    uint32_t *table;         /* hash table of known blocks, linear probing, KV_NONE empty */
    uint32_t table_mask;
    uint32_t free_head, lru_head, lru_tail;
    uint32_t n_free, n_cached;
    uint64_t prefix_hit_tokens, evictions, copies;
};

void kv_block_ref(struct kv_pool *p, uint32_t b);
void kv_block_unref(struct kv_pool *p, uint32_t b);
void kv_prefix_forget(struct kv_pool *p, uint32_t b); /* takes a childless known block out of the table */

#endif
