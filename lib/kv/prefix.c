/* Sharing of full blocks by content. A known block is found by (known block before it, its tokens); equality is checked on
 * the tokens themselves and on the identity of the block before, never on the hash alone. */
#include <stdlib.h>
#include <string.h>

#include "lib/kv/kv_priv.h"

static uint64_t prefix_hash(uint32_t parent, const int32_t *tokens, uint32_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ parent;

    for (uint32_t i = 0; i < n; i++) {
        h ^= (uint32_t)tokens[i];
        h *= 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

static uint32_t prefix_find(const struct kv_pool *p, uint32_t parent, const int32_t *tokens, uint64_t hash)
{
    uint32_t bt = p->layout.block_tokens;

    for (uint32_t i = (uint32_t)hash & p->table_mask; p->table[i] != KV_NONE; i = (i + 1) & p->table_mask) {
        uint32_t b = p->table[i];

        if (p->blocks[b].hash == hash && p->blocks[b].parent == parent &&
            !memcmp(p->tokens + (size_t)b * bt, tokens, bt * sizeof *tokens))
            return b;
    }
    return KV_NONE;
}

void kv_prefix_forget(struct kv_pool *p, uint32_t b)
{
    uint32_t mask = p->table_mask, i, j;

    for (i = (uint32_t)p->blocks[b].hash & mask; p->table[i] != b; i = (i + 1) & mask)
        ;
    /* Close the gap: move back every entry whose home is not between the gap and itself. */
    for (j = (i + 1) & mask; p->table[j] != KV_NONE; j = (j + 1) & mask) {
        uint32_t home = (uint32_t)p->blocks[p->table[j]].hash & mask;

        if (((j - home) & mask) >= ((j - i) & mask)) {
            p->table[i] = p->table[j];
            i = j;
        }
    }
    p->table[i] = KV_NONE;
    if (p->blocks[b].parent != KV_NONE)
        p->blocks[p->blocks[b].parent].n_children--;
    p->blocks[b].parent = KV_NONE;
    p->blocks[b].known = false;
}

uint32_t kv_prefix_take(struct kv_pool *p, struct kv_seq *s, const int32_t *tokens, uint32_t n, uint32_t max_tokens)
{
    uint32_t bt = p->layout.block_tokens, parent = KV_NONE;
    uint32_t limit = (n < max_tokens ? n : max_tokens) / bt;

    if (s->n_blocks || !limit)
        return 0;
    if (s->cap < limit) {
        uint32_t *t = realloc(s->blocks, (size_t)limit * sizeof *t);

        if (!t)
            return 0; /* sharing is an optimisation: without memory for it the prompt is computed */
        s->blocks = t;
        s->cap = limit;
    }
    for (uint32_t i = 0; i < limit; i++) {
        const int32_t *t = tokens + (size_t)i * bt;
        uint32_t b = prefix_find(p, parent, t, prefix_hash(parent, t, bt));

        if (b == KV_NONE)
            break;
        kv_block_ref(p, b);
        s->blocks[s->n_blocks++] = b;
        parent = b;
    }
    s->n_known = s->n_blocks;
    s->n_tokens = s->n_blocks * bt;
    p->prefix_hit_tokens += s->n_tokens;
    return s->n_tokens;
}

void kv_prefix_put(struct kv_pool *p, struct kv_seq *s, const int32_t *tokens)
{
    uint32_t bt = p->layout.block_tokens;

    for (uint32_t full = s->n_tokens / bt; s->n_known < full; s->n_known++) {
        uint32_t i = s->n_known, b = s->blocks[i];
        uint32_t parent = i ? s->blocks[i - 1] : KV_NONE;
        const int32_t *t = tokens + (size_t)i * bt;
        uint64_t hash = prefix_hash(parent, t, bt);
        uint32_t known = prefix_find(p, parent, t, hash), at;

        if (known == b)
            continue;
        if (known != KV_NONE) {
            kv_block_ref(p, known);
            kv_block_unref(p, b);
            s->blocks[i] = known;
            continue;
        }
        memcpy(p->tokens + (size_t)b * bt, t, bt * sizeof *t);
        p->blocks[b].hash = hash;
        p->blocks[b].parent = parent;
        p->blocks[b].known = true;
        if (parent != KV_NONE)
            p->blocks[parent].n_children++;
        for (at = (uint32_t)hash & p->table_mask; p->table[at] != KV_NONE; at = (at + 1) & p->table_mask)
            ;
        p->table[at] = b;
    }
}
