/* Merging of symbols, lowest key first, leftmost among equal keys. Words of a few symbols are scanned; longer ones take
 * a binary heap over a doubly linked list, so that n symbols cost O(n log n). */
#include <stdlib.h>

#include "lib/core/mem.h"
#include "lib/token/token_priv.h"

#define KEY_NONE UINT64_MAX
#define SCAN_MAX 24 /* symbols; above that the heap is faster */
#define NO_SYM UINT32_MAX

/* key orders the merge of a symbol with the one after it; to is what they become. */
struct sym {
    uint64_t key;
    int32_t id, to;
    uint32_t prev, next;
    uint32_t begin, end; /* of its text; merging by score only */
};

struct heap_item {
    uint64_t key;
    uint32_t at;
};

struct merge_work {
    struct sym *syms;
    struct heap_item *heap;
    size_t n, cap, heap_n, heap_cap;
};

/* --- tables ---------------------------------------------------------------------------------------------------- */

static uint32_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;

    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32);
}

int merge_table_init(struct merge_table *m, size_t n, struct err *e)
{
    size_t slots = 16;

    memset(m, 0, sizeof *m);
    if (n > UINT32_MAX / 4)
        return err_set(e, ERR_FORMAT, "%zu merges: too many", n);
    while (slots < n + n / 2)
        slots *= 2;
    m->slots = mem_alloc(slots * sizeof *m->slots);
    if (!m->slots)
        return err_set(e, ERR_NOMEM, "table of %zu merges", n);
    memset(m->slots, 0xff, slots * sizeof *m->slots);
    m->mask = (uint32_t)(slots - 1);
    return 0;
}

void merge_table_fini(struct merge_table *m)
{
    free(m->slots);
    memset(m, 0, sizeof *m);
}

void merge_table_put(struct merge_table *m, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint32_t at = hash_pair(left, right) & m->mask;

    while (m->slots[at].left >= 0 && (m->slots[at].left != left || m->slots[at].right != right))
        at = (at + 1) & m->mask;
    m->n += m->slots[at].left < 0;
    m->slots[at] = (struct merge){ left, right, rank, id };
}

const struct merge *merge_table_find(const struct merge_table *m, int32_t left, int32_t right)
{
    uint32_t at = hash_pair(left, right) & m->mask;

    for (; m->slots[at].left >= 0; at = (at + 1) & m->mask) {
        if (m->slots[at].left == left && m->slots[at].right == right)
            return &m->slots[at];
    }
    return NULL;
}

/* Bits that order floats ascending as unsigned integers; -0 equals 0. */
static uint32_t float_order(float f)
{
    uint32_t u;

    f += 0.0f; /* -0 becomes 0 */
    memcpy(&u, &f, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

int merge_scores_init(struct merge_scores *s, const float *score, const uint8_t *mergeable, size_t n,
                      enum merge_tie tie, struct err *e)
{
    uint64_t *a = mem_alloc(n * sizeof *a), *b = mem_alloc(n * sizeof *b), *swap;
    uint32_t place = 0;

    s->tie = tie;
    s->order = mem_alloc(n * sizeof *s->order);
    if (!a || !b || !s->order) {
        free(a);
        free(b);
        return err_set(e, ERR_NOMEM, "scores of %zu tokens", n);
    }
    for (size_t i = 0; i < n; i++)
        a[i] = (uint64_t)~float_order(score[i]) << 32 | i;
    for (unsigned shift = 32; shift < 64; shift += 8) { /* stable radix sort by descending score */
        size_t count[257] = { 0 };

        for (size_t i = 0; i < n; i++)
            count[(a[i] >> shift & 255) + 1]++;
        for (unsigned c = 0; c < 256; c++)
            count[c + 1] += count[c];
        for (size_t i = 0; i < n; i++)
            b[count[a[i] >> shift & 255]++] = a[i];
        swap = a;
        a = b;
        b = swap;
    }
    for (size_t i = 0; i < n; i++) { /* equal scores share a place where the tie is broken by lengths */
        if (i > 0 && (tie == TIE_LOWEST_ID || a[i] >> 32 != a[i - 1] >> 32))
            place++;
        s->order[(uint32_t)a[i]] = mergeable[(uint32_t)a[i]] ? place : UINT32_MAX;
    }
    free(a);
    free(b);
    return 0;
}

/* --- symbols --------------------------------------------------------------------------------------------------- */

int merge_work_open(struct merge_work **out, struct err *e)
{
    *out = calloc(1, sizeof **out);
    return *out ? 0 : err_set(e, ERR_NOMEM, "scratch memory for merging");
}

void merge_work_close(struct merge_work *w)
{
    if (!w)
        return;
    free(w->syms);
    free(w->heap);
    free(w);
}

void merge_begin(struct merge_work *w)
{
    w->n = 0;
}

int merge_push(struct merge_work *w, int32_t id, size_t text_end, struct err *e)
{
    struct sym *s;

    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;

        s = cap < NO_SYM ? realloc(w->syms, cap * sizeof *s) : NULL;
        if (!s)
            return err_set(e, ERR_NOMEM, "%zu symbols to merge", cap);
        w->syms = s;
        w->cap = cap;
    }
    s = &w->syms[w->n];
    s->id = id;
    s->begin = w->n ? s[-1].end : 0;
    s->end = (uint32_t)text_end;
    w->n++;
    return 0;
}

static unsigned count_chars(const char *s, size_t n)
{
    unsigned c = 0;

    for (size_t i = 0; i < n && c < 255; i++)
        c += ((unsigned char)s[i] & 0xc0) != 0x80;
    return c;
}

/* Sets l's key and result from l and the symbol r that follows it (NULL: none). */
static void look_up(const struct tokenizer *t, const char *text, struct sym *l, const struct sym *r)
{
    l->key = KEY_NONE;
    if (!r)
        return;
    if (t->scores.order) {
        const struct vocab *v = &t->v;
        uint64_t place;

        if (l->id < 0 || r->id < 0 || ((v->attr[l->id] | v->attr[r->id]) & ATTR_BYTE))
            return;
        l->to = vocab_find(v, text + l->begin, r->end - l->begin);
        if (l->to < 0 || t->scores.order[l->to] == UINT32_MAX)
            return;
        place = (uint64_t)t->scores.order[l->to] << 40;
        if (t->scores.tie == TIE_LOWEST_ID)
            l->key = place | (uint32_t)l->id;
        else
            l->key = place | (uint64_t)(255 - count_chars(text + l->begin, l->end - l->begin)) << 32 |
                     (uint64_t)(255 - count_chars(text + r->begin, r->end - r->begin)) << 24 | (uint32_t)l->to;
    } else {
        const struct merge *m = merge_table_find(&t->merges, l->id, r->id);

        if (m) {
            l->key = m->rank;
            l->to = m->id;
        }
    }
}

static void scan(const struct tokenizer *t, struct sym *s, size_t *n, const char *text)
{
    for (size_t i = 0; i < *n; i++)
        look_up(t, text, &s[i], i + 1 < *n ? &s[i + 1] : NULL);
    for (;;) {
        size_t best = 0;

        for (size_t i = 1; i < *n; i++) {
            if (s[i].key < s[best].key)
                best = i;
        }
        if (s[best].key == KEY_NONE)
            return;
        s[best].id = s[best].to;
        s[best].end = s[best + 1].end;
        --*n;
        memmove(&s[best + 1], &s[best + 2], (*n - best - 1) * sizeof *s);
        look_up(t, text, &s[best], best + 1 < *n ? &s[best + 1] : NULL);
        if (best > 0)
            look_up(t, text, &s[best - 1], &s[best]);
    }
}

static bool before(struct heap_item a, struct heap_item b)
{
    return a.key < b.key || (a.key == b.key && a.at < b.at);
}

static void sift_down(struct heap_item *h, size_t n, size_t i)
{
    struct heap_item x = h[i];

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= n)
            break;
        if (c + 1 < n && before(h[c + 1], h[c]))
            c++;
        if (!before(h[c], x))
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = x;
}

static void heap_add(struct merge_work *w, uint64_t key, uint32_t at)
{
    struct heap_item x = { key, at };
    size_t i = w->heap_n++;

    while (i > 0 && before(x, w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = x;
}

/* Each merge takes one item out and puts at most two in, so 3 n items are enough. */
static int heap_reserve(struct merge_work *w, struct err *e)
{
    size_t need = 3 * w->n;
    struct heap_item *h;

    if (need <= w->heap_cap)
        return 0;
    h = realloc(w->heap, need * sizeof *h);
    if (!h)
        return err_set(e, ERR_NOMEM, "queue of %zu merges", need);
    w->heap = h;
    w->heap_cap = need;
    return 0;
}

static void heap_build(const struct tokenizer *t, struct merge_work *w, const char *text)
{
    struct sym *s = w->syms;

    w->heap_n = 0;
    for (size_t i = 0; i < w->n; i++) {
        s[i].prev = i ? (uint32_t)(i - 1) : NO_SYM;
        s[i].next = i + 1 < w->n ? (uint32_t)(i + 1) : NO_SYM;
        look_up(t, text, &s[i], i + 1 < w->n ? &s[i + 1] : NULL);
        if (s[i].key != KEY_NONE)
            w->heap[w->heap_n++] = (struct heap_item){ s[i].key, (uint32_t)i };
    }
    for (size_t i = w->heap_n / 2; i-- > 0;)
        sift_down(w->heap, w->heap_n, i);
}

static void heap_merge(const struct tokenizer *t, struct merge_work *w, const char *text)
{
    struct sym *s = w->syms;
    size_t n = 0;

    heap_build(t, w, text);
    while (w->heap_n) {
        struct heap_item top = w->heap[0];
        struct sym *l = &s[top.at], *r;

        if (--w->heap_n) {
            w->heap[0] = w->heap[w->heap_n];
            sift_down(w->heap, w->heap_n, 0);
        }
        if (l->key != top.key) /* stale: that pair is gone */
            continue;
        r = &s[l->next];
        l->id = l->to;
        l->end = r->end;
        l->next = r->next;
        r->key = KEY_NONE; /* dead: what the queue still has of it is stale */
        if (l->next != NO_SYM)
            s[l->next].prev = top.at;
        look_up(t, text, l, l->next != NO_SYM ? &s[l->next] : NULL);
        if (l->key != KEY_NONE)
            heap_add(w, l->key, top.at);
        if (l->prev != NO_SYM) {
            struct sym *p = &s[l->prev];

            look_up(t, text, p, l);
            if (p->key != KEY_NONE)
                heap_add(w, p->key, l->prev);
        }
    }
    for (uint32_t i = 0; i != NO_SYM; i = s[i].next) /* the first symbol never dies */
        s[n++] = s[i];
    w->n = n;
}

int merge_finish(const struct tokenizer *t, struct merge_work *w, const char *text, struct token_list *out, struct err *e)
{
    int rc;

    if (w->n > 1 && w->n <= SCAN_MAX) {
        scan(t, w->syms, &w->n, text);
    } else if (w->n > 1) {
        rc = heap_reserve(w, e);
        if (rc)
            return rc;
        heap_merge(t, w, text);
    }
    rc = token_list_grow(out, w->n, e);
    if (rc)
        return rc;
    for (size_t i = 0; i < w->n; i++)
        out->ids[out->n++] = w->syms[i].id;
    return 0;
}
