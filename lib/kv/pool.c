#include <stdlib.h>
#include <string.h>

#include "lib/core/mem.h"
#include "lib/kv/kv_priv.h"

static void lru_remove(struct kv_pool *p, uint32_t b)
{
    struct kv_block *k = &p->blocks[b];

    *(k->prev == KV_NONE ? &p->lru_head : &p->blocks[k->prev].next) = k->next;
    *(k->next == KV_NONE ? &p->lru_tail : &p->blocks[k->next].prev) = k->prev;
    k->prev = k->next = KV_NONE;
    p->n_cached--;
}

static void lru_append(struct kv_pool *p, uint32_t b)
{
    struct kv_block *k = &p->blocks[b];

    k->prev = p->lru_tail;
    k->next = KV_NONE;
    *(p->lru_tail == KV_NONE ? &p->lru_head : &p->blocks[p->lru_tail].next) = b;
    p->lru_tail = b;
    p->n_cached++;
}

static void free_push(struct kv_pool *p, uint32_t b)
{
    p->blocks[b].next = p->free_head;
    p->free_head = b;
    p->n_free++;
}

void kv_block_ref(struct kv_pool *p, uint32_t b)
{
    if (p->blocks[b].refs++ == 0)
        lru_remove(p, b);
}

void kv_block_unref(struct kv_pool *p, uint32_t b)
{
    if (--p->blocks[b].refs)
        return;
    if (p->blocks[b].known)
        lru_append(p, b);
    else
        free_push(p, b);
}

/* A block with one reference; the caller has checked kv_pool_available. The oldest childless cached block is evicted when
 * no block is free: sequences give their blocks back last first, so the oldest one is nearly always childless. */
static uint32_t block_take(struct kv_pool *p)
{
    uint32_t b = p->free_head;

    if (b != KV_NONE) {
        p->free_head = p->blocks[b].next;
        p->n_free--;
    } else {
        for (b = p->lru_head; p->blocks[b].n_children; b = p->blocks[b].next)
            ;
        lru_remove(p, b);
        kv_prefix_forget(p, b);
        p->evictions++;
    }
    p->blocks[b].prev = p->blocks[b].next = KV_NONE;
    p->blocks[b].refs = 1;
    return b;
}

int kv_pool_open(struct kv_pool **out, const struct kv_layout *layout, uint32_t n_blocks, struct err *e)
{
    struct kv_pool *p;
    size_t table = 16;
    int rc;

    *out = NULL;
    if (!n_blocks || n_blocks >= KV_NONE / 4)
        return err_set(e, ERR_INVAL, "KV pool of %u blocks: need 1 to %u", n_blocks, KV_NONE / 4 - 1);
    while (table < 2 * (size_t)n_blocks)
        table *= 2;
    p = calloc(1, sizeof *p);
    if (!p) {
        rc = err_set(e, ERR_NOMEM, "no memory for the KV pool");
        goto fail;
    }
    p->layout = *layout;
    p->n_blocks = n_blocks;
    p->table_mask = (uint32_t)table - 1;
    if (!mem_mul(layout->block_bytes, n_blocks, &p->base_bytes) || !(p->base = mem_map(p->base_bytes)) ||
        !(p->blocks = calloc(n_blocks, sizeof *p->blocks)) ||
        !(p->tokens = calloc((size_t)n_blocks * layout->block_tokens, sizeof *p->tokens)) ||
        !(p->table = malloc(table * sizeof *p->table))) {
        rc = err_set(e, ERR_NOMEM, "no memory for a KV pool of %u blocks of %zu bytes: lower --kv-memory or --ctx",
                     n_blocks, layout->block_bytes);
        goto fail;
    }
    memset(p->table, 0xff, table * sizeof *p->table);
    p->free_head = p->lru_head = p->lru_tail = KV_NONE;
    for (uint32_t b = n_blocks; b-- > 0;)
        free_push(p, b);
    *out = p;
    return 0;
fail:
    kv_pool_close(p);
    return rc;
}

void kv_pool_close(struct kv_pool *p)
{
    if (!p)
        return;
    mem_unmap(p->base, p->base_bytes);
    free(p->blocks);
    free(p->tokens);
    free(p->table);
    free(p);
}

unsigned char *kv_pool_base(struct kv_pool *p)
{
    return p->base;
}

const struct kv_layout *kv_pool_layout(const struct kv_pool *p)
{
    return &p->layout;
}

void kv_pool_stats(const struct kv_pool *p, struct kv_stats *out)
{
    *out = (struct kv_stats){
        .n_blocks = p->n_blocks,
        .n_free = p->n_free,
        .n_used = p->n_blocks - p->n_free - p->n_cached,
        .n_cached = p->n_cached,
        .prefix_hit_tokens = p->prefix_hit_tokens,
        .evictions = p->evictions,
        .copies = p->copies,
    };
}

uint32_t kv_pool_available(const struct kv_pool *p)
{
    return p->n_free + p->n_cached;
}

void kv_seq_clear(struct kv_pool *p, struct kv_seq *s)
{
    kv_seq_truncate(p, s, 0);
    free(s->blocks);
    memset(s, 0, sizeof *s);
}

void kv_seq_truncate(struct kv_pool *p, struct kv_seq *s, uint32_t n_tokens)
{
    uint32_t keep = (n_tokens + p->layout.block_tokens - 1) / p->layout.block_tokens;
    uint32_t full = n_tokens / p->layout.block_tokens;

    while (s->n_blocks > keep)
        kv_block_unref(p, s->blocks[--s->n_blocks]);
    if (s->n_tokens > n_tokens)
        s->n_tokens = n_tokens;
    if (s->n_known > full)
        s->n_known = full;
}

static int table_grow(struct kv_seq *s, uint32_t need, struct err *e)
{
    uint32_t cap = s->cap ? s->cap : 8;
    uint32_t *t;

    while (cap < need)
        cap *= 2;
    if (cap == s->cap)
        return 0;
    t = realloc(s->blocks, (size_t)cap * sizeof *t);
    if (!t)
        return err_set(e, ERR_NOMEM, "no memory for a block table of %u entries", cap);
    s->blocks = t;
    s->cap = cap;
    return 0;
}

int kv_seq_reserve(struct kv_pool *p, struct kv_seq *s, uint32_t n_tokens, struct err *e)
{
    uint32_t bt = p->layout.block_tokens;
    uint32_t need = n_tokens / bt + (n_tokens % bt != 0);
    uint32_t grow = need > s->n_blocks ? need - s->n_blocks : 0;
    uint32_t last = s->n_tokens / bt; /* the block that the next token goes to */
    bool copy = n_tokens > s->n_tokens && last < s->n_blocks && s->n_tokens % bt &&
                (p->blocks[s->blocks[last]].refs > 1 || p->blocks[s->blocks[last]].known);
    int rc;

    if (grow + copy > kv_pool_available(p))
        return err_set(e, ERR_LIMIT, "KV pool is full: %u blocks of %u tokens needed, %u of %u available", grow + copy, bt,
                       kv_pool_available(p), p->n_blocks);
    if ((rc = table_grow(s, need, e)))
        return rc;
    if (copy) {
        uint32_t b = block_take(p);

        memcpy(p->base + (size_t)b * p->layout.block_bytes, p->base + (size_t)s->blocks[last] * p->layout.block_bytes,
               p->layout.block_bytes);
        kv_block_unref(p, s->blocks[last]);
        s->blocks[last] = b;
        p->copies++;
    }
    while (s->n_blocks < need)
        s->blocks[s->n_blocks++] = block_take(p);
    return 0;
}

int kv_seq_fork(struct kv_pool *p, const struct kv_seq *src, uint32_t n_tokens, struct kv_seq *dst, struct err *e)
{
    uint32_t bt = p->layout.block_tokens;
    uint32_t n = n_tokens / bt + (n_tokens % bt != 0);
    int rc;

    if (n_tokens > src->n_tokens)
        return err_set(e, ERR_INVAL, "fork at token %u of a sequence of %u", n_tokens, src->n_tokens);
    if ((rc = table_grow(dst, n, e)))
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        dst->blocks[i] = src->blocks[i];
        kv_block_ref(p, src->blocks[i]);
    }
    dst->n_blocks = n;
    dst->n_tokens = n_tokens;
    dst->n_known = src->n_known < n_tokens / bt ? src->n_known : n_tokens / bt;
    return 0;
}
