/* The paged KV cache: a pool of blocks shaped [B, L, 2, H] (block outermost, so one block of one sequence is one run of
 * bytes), block tables of sequences, sharing by reference counts, copy-on-write, and a cache of full prefix blocks.
 * Threads: a pool and its sequences belong to one thread at a time; kernels read and write block contents in parallel
 * while that thread waits. Rules in lib/kv/README.md. */
#ifndef SLUICE_KV_KV_H
#define SLUICE_KV_KV_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "lib/core/err.h"

struct kv_pool;

struct kv_seq {
    uint32_t *blocks;  /* block table: position p lies in blocks[p / block_tokens] */
    uint32_t n_blocks, cap;
    uint32_t n_tokens; /* positions filled */
    uint32_t n_known;  /* leading blocks that the prefix cache knows */
};

struct kv_stats {
    uint32_t n_blocks, n_free, n_used, n_cached; /* cached: held only by the prefix cache */
    uint64_t prefix_hit_tokens, evictions, copies;
};

int kv_pool_open(struct kv_pool **out, const struct kv_layout *layout, uint32_t n_blocks, struct err *e);
void kv_pool_close(struct kv_pool *p); /* NULL is legal; all sequences must have been cleared or be abandoned */
unsigned char *kv_pool_base(struct kv_pool *p);
const struct kv_layout *kv_pool_layout(const struct kv_pool *p);
void kv_pool_stats(const struct kv_pool *p, struct kv_stats *out);

/* Blocks that can be had now: free ones and those that only the prefix cache holds. */
uint32_t kv_pool_available(const struct kv_pool *p);

/* A zeroed struct kv_seq is an empty sequence. clear gives its blocks back and frees the table. */
void kv_seq_clear(struct kv_pool *p, struct kv_seq *s);

/* Makes positions [0, n_tokens) addressable and the ones from s->n_tokens on writable: allocates blocks, and copies the
 * last block first when it is partly filled and shared. Does not change s->n_tokens. ERR_LIMIT when the pool is full;
 * nothing is changed then. */
int kv_seq_reserve(struct kv_pool *p, struct kv_seq *s, uint32_t n_tokens, struct err *e);

/* Drops positions from n_tokens on. */
void kv_seq_truncate(struct kv_pool *p, struct kv_seq *s, uint32_t n_tokens);

/* dst (empty) shares the first n_tokens positions of src. */
int kv_seq_fork(struct kv_pool *p, const struct kv_seq *src, uint32_t n_tokens, struct kv_seq *dst, struct err *e);

/* s (empty) takes the longest run of full blocks known for tokens[0..n), at most max_tokens; returns their token count. */
uint32_t kv_prefix_take(struct kv_pool *p, struct kv_seq *s, const int32_t *tokens, uint32_t n, uint32_t max_tokens);

/* Makes the full blocks of s, whose tokens are tokens[0..s->n_tokens), known for sharing. A block whose contents are known
 * already is exchanged for the known one: by batch invariance they are the same bits. */
void kv_prefix_put(struct kv_pool *p, struct kv_seq *s, const int32_t *tokens);

#endif
