#include "lib/gen/batch.h"

#include <stdlib.h>
#include <string.h>

#define HEADROOM_BLOCKS 2u /* kept free for each running sequence when another is admitted */
#define NONE UINT32_MAX

enum state { FREE, QUEUED, ADMITTING, PREFILL, DECODE };

struct member {
    enum state state;
    bool shared_tail;    /* its last block may have to be copied before it is written */
    uint32_t n_tokens;   /* known */
    uint32_t n_cached;   /* of them in the cache */
    uint64_t group;
    uint64_t arrival;    /* order in the queue */
    uint32_t next, prev; /* queue */
};

struct batch {
    struct batch_params p;
    struct member *m;    /* [cap] */
    uint32_t cap, n_free;
    uint32_t *free_list; /* [cap] */
    uint32_t head, tail; /* queue, by arrival */
    uint32_t *active;    /* [max_seqs], by admission: the last one is preempted first */
    uint32_t n_active;
    struct batch_item *items; /* [max_seqs] */
    uint32_t n_items;
    uint64_t arrivals;
    bool prefill_turn, full;
    struct batch_stats stats;
};

int batch_open(struct batch **out, const struct batch_params *p, struct err *e)
{
    struct batch *b;

    *out = NULL;
    if (!p->max_seqs || !p->chunk_tokens || !p->block_tokens)
        return err_set(e, ERR_INVAL, "batch of %u sequences, chunks of %u and blocks of %u tokens: all must be above 0",
                       (unsigned)p->max_seqs, (unsigned)p->chunk_tokens, (unsigned)p->block_tokens);
    b = calloc(1, sizeof *b);
    if (b) {
        b->p = *p;
        b->head = b->tail = NONE;
        b->prefill_turn = true;
        b->active = calloc(p->max_seqs, sizeof *b->active);
        b->items = calloc(p->max_seqs, sizeof *b->items);
    }
    if (!b || !b->active || !b->items) {
        batch_close(b);
        return err_set(e, ERR_NOMEM, "batch of %u sequences", (unsigned)p->max_seqs);
    }
    *out = b;
    return 0;
}

void batch_close(struct batch *b)
{
    if (!b)
        return;
    free(b->m);
    free(b->free_list);
    free(b->active);
    free(b->items);
    free(b);
}

/* --- the queue, kept in order of arrival ------------------------------------------------------------------------------ */

static void queue_insert(struct batch *b, uint32_t seq)
{
    struct member *m = &b->m[seq];
    uint32_t before = NONE, after = b->head;

    if (b->tail != NONE && b->m[b->tail].arrival < m->arrival) { /* the common case: a new one */
        before = b->tail;
        after = NONE;
    }
    while (after != NONE && b->m[after].arrival < m->arrival) {
        before = after;
        after = b->m[after].next;
    }
    m->prev = before;
    m->next = after;
    if (before == NONE)
        b->head = seq;
    else
        b->m[before].next = seq;
    if (after == NONE)
        b->tail = seq;
    else
        b->m[after].prev = seq;
    m->state = QUEUED;
    b->stats.n_queued++;
}

static void queue_remove(struct batch *b, uint32_t seq)
{
    struct member *m = &b->m[seq];

    if (m->prev == NONE)
        b->head = m->next;
    else
        b->m[m->prev].next = m->next;
    if (m->next == NONE)
        b->tail = m->prev;
    else
        b->m[m->next].prev = m->prev;
    b->stats.n_queued--;
}

int batch_add(struct batch *b, uint64_t group, uint32_t n_tokens, uint32_t *seq, struct err *e)
{
    struct member *m;

    if (!n_tokens)
        return err_set(e, ERR_INVAL, "a sequence needs at least one token");
    if (!b->n_free) {
        uint32_t cap = b->cap ? 2 * b->cap : 64, *list;

        m = realloc(b->m, cap * sizeof *m);
        if (m)
            b->m = m;
        list = m ? realloc(b->free_list, cap * sizeof *list) : NULL;
        if (!list)
            return err_set(e, ERR_NOMEM, "queue of %u sequences", (unsigned)cap);
        b->free_list = list;
        memset(b->m + b->cap, 0, (cap - b->cap) * sizeof *m);
        for (uint32_t i = cap; i-- > b->cap;)
            b->free_list[b->n_free++] = i;
        b->cap = cap;
    }
    *seq = b->free_list[--b->n_free];
    m = &b->m[*seq];
    memset(m, 0, sizeof *m);
    m->group = group;
    m->n_tokens = n_tokens;
    m->arrival = b->arrivals++;
    queue_insert(b, *seq);
    return 0;
}

/* --- blocks ---------------------------------------------------------------------------------------------------------- */

static uint32_t blocks_of(const struct batch *b, uint32_t n_tokens)
{
    return n_tokens / b->p.block_tokens + (n_tokens % b->p.block_tokens != 0);
}

/* Blocks to allocate so that n more tokens of m can be cached. */
static uint32_t blocks_for(const struct batch *b, const struct member *m, uint32_t n)
{
    return blocks_of(b, m->n_cached + n) - blocks_of(b, m->n_cached) +
           (m->shared_tail && m->n_cached % b->p.block_tokens && n);
}

/* Most tokens of m, up to n, that `blocks` more blocks hold. */
static uint32_t tokens_in(const struct batch *b, const struct member *m, uint32_t n, uint32_t blocks)
{
    uint64_t room;

    if (m->shared_tail && m->n_cached % b->p.block_tokens) {
        if (!blocks)
            return 0;
        blocks--;
    }
    room = (uint64_t)(blocks_of(b, m->n_cached) + blocks) * b->p.block_tokens - m->n_cached;
    return n < room ? n : (uint32_t)room;
}

/* --- decisions ------------------------------------------------------------------------------------------------------- */

static uint32_t count(const struct batch *b, enum state state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_active; i++)
        n += b->m[b->active[i]].state == state;
    return n;
}

static bool group_busy(const struct batch *b, uint64_t group)
{
    for (uint32_t i = 0; i < b->n_active; i++) {
        const struct member *m = &b->m[b->active[i]];

        if (m->group == group && m->state == PREFILL)
            return true;
    }
    return false;
}

/* The first queued sequence that may come in now, or NONE. */
static uint32_t admissible(const struct batch *b, uint32_t available)
{
    uint64_t promised = 0;

    if (b->n_active == b->p.max_seqs)
        return NONE;
    for (uint32_t i = 0; i < b->n_active; i++) {
        const struct member *m = &b->m[b->active[i]];

        promised += HEADROOM_BLOCKS;
        if (m->state == PREFILL)
            promised += blocks_for(b, m, m->n_tokens - m->n_cached);
    }
    for (uint32_t i = b->head; i != NONE; i = b->m[i].next) {
        if (group_busy(b, b->m[i].group))
            continue;
        if (b->n_active && blocks_of(b, b->m[i].n_tokens + 1) + promised > available)
            return NONE; /* those behind it wait too: order of arrival */
        return i;
    }
    return NONE;
}

static void deactivate(struct batch *b, uint32_t seq)
{
    uint32_t at = 0, n_group = 0, other = 0;

    for (uint32_t i = 0; i < b->n_active; i++) {
        uint32_t a = b->active[i];

        if (a == seq)
            continue;
        b->active[at++] = a;
        if (b->m[a].group == b->m[seq].group) {
            n_group++;
            other = a;
        }
    }
    b->n_active = at;
    if (n_group == 1)
        b->m[other].shared_tail = false; /* nobody left to share with */
}

static void preempt_youngest(struct batch *b, struct batch_action *out)
{
    uint32_t seq = b->active[b->n_active - 1];

    if (b->n_active == 1) {
        out->kind = BATCH_TOO_BIG;
        out->seq = seq;
        return;
    }
    deactivate(b, seq);
    b->m[seq].n_cached = 0;
    b->m[seq].shared_tail = false;
    queue_insert(b, seq);
    b->stats.preemptions++;
    out->kind = BATCH_PREEMPT;
    out->seq = seq;
}

/* Fills items with up to chunk_tokens of what the sequences in prefill lack, oldest first, within the available blocks. */
static void plan_prefill(struct batch *b, uint32_t available)
{
    uint32_t left = b->p.chunk_tokens;

    b->n_items = 0;
    for (uint32_t i = 0; i < b->n_active && left; i++) {
        const struct member *m = &b->m[b->active[i]];
        uint32_t lack = m->n_tokens - m->n_cached, n;

        if (m->state != PREFILL)
            continue;
        n = tokens_in(b, m, lack < left ? lack : left, available);
        if (!n)
            break;
        available -= blocks_for(b, m, n);
        left -= n;
        b->items[b->n_items++] = (struct batch_item){ b->active[i], n, n == lack };
    }
}

/* Fills items with every decoding sequence; false when the blocks do not suffice. */
static bool plan_decode(struct batch *b, uint32_t available)
{
    uint64_t need = 0;

    b->n_items = 0;
    for (uint32_t i = 0; i < b->n_active; i++) {
        const struct member *m = &b->m[b->active[i]];

        if (m->state != DECODE || m->n_tokens == m->n_cached)
            continue;
        need += blocks_for(b, m, 1);
        b->items[b->n_items++] = (struct batch_item){ b->active[i], 1, true };
    }
    return need <= available;
}

void batch_next(struct batch *b, uint32_t available, struct batch_action *out)
{
    uint32_t seq, n_prefill, n_decode;

    memset(out, 0, sizeof *out);
    b->n_items = 0;
    if (b->full && b->n_active) {
        b->full = false;
        preempt_youngest(b, out);
        return;
    }
    b->full = false;
    seq = admissible(b, available);
    if (seq != NONE) {
        queue_remove(b, seq);
        b->m[seq].state = ADMITTING;
        out->kind = BATCH_ADMIT;
        out->seq = seq;
        return;
    }
    n_prefill = count(b, PREFILL);
    n_decode = count(b, DECODE);
    out->items = b->items;
    if (n_prefill && (b->prefill_turn || !n_decode)) {
        plan_prefill(b, available);
        if (b->n_items) {
            out->kind = BATCH_PREFILL;
            out->n_items = b->n_items;
            return;
        }
        if (!n_decode) {
            preempt_youngest(b, out);
            return;
        }
    }
    if (!n_decode)
        return; /* BATCH_IDLE */
    if (!plan_decode(b, available)) {
        preempt_youngest(b, out);
        return;
    }
    out->kind = b->n_items ? BATCH_DECODE : BATCH_IDLE;
    out->n_items = b->n_items;
}

void batch_admitted(struct batch *b, uint32_t seq, uint32_t n_cached, bool shared)
{
    struct member *m = &b->m[seq];

    m->state = PREFILL;
    m->n_cached = n_cached;
    m->shared_tail = shared;
    if (shared) /* the other side of the shared block does not know: all of the group copy before they write */
        for (uint32_t i = 0; i < b->n_active; i++)
            if (b->m[b->active[i]].group == m->group)
                b->m[b->active[i]].shared_tail = true;
    b->active[b->n_active++] = seq;
    b->stats.admissions++;
}

void batch_computed(struct batch *b)
{
    bool prefill = false;

    for (uint32_t i = 0; i < b->n_items; i++) {
        struct member *m = &b->m[b->items[i].seq];

        m->n_cached += b->items[i].n_tokens;
        m->shared_tail = false;
        if (m->state == PREFILL) {
            prefill = true;
            b->stats.prefill_tokens += b->items[i].n_tokens;
            if (b->items[i].last)
                m->state = DECODE;
        } else {
            b->stats.decode_tokens++;
        }
    }
    b->stats.prefill_steps += prefill;
    b->stats.decode_steps += !prefill && b->n_items;
    b->prefill_turn = !prefill;
    b->n_items = 0;
}

void batch_pool_full(struct batch *b)
{
    b->full = true;
    b->n_items = 0;
}

void batch_token(struct batch *b, uint32_t seq)
{
    b->m[seq].n_tokens++;
}

void batch_finished(struct batch *b, uint32_t seq)
{
    struct member *m = &b->m[seq];

    if (m->state == QUEUED)
        queue_remove(b, seq);
    else if (m->state != FREE)
        deactivate(b, seq);
    m->state = FREE;
    b->free_list[b->n_free++] = seq;
}

void batch_stats(const struct batch *b, struct batch_stats *out)
{
    *out = b->stats;
    out->n_prefill = count(b, PREFILL);
    out->n_decode = count(b, DECODE);
}
