/* What the integer products of the SIMD kernels share: a block of tokens, and what their scale groups contribute besides the
 * products of codes. */
#ifndef SLUICE_KERNELS_CPU_TOKENS_H
#define SLUICE_KERNELS_CPU_TOKENS_H

#include "kernels/cpu/traits.h"
#include "lib/core/mem.h"

struct tokens {
    const int8_t *q;     /* [n][ldq] */
    const float *d;      /* [n][ldd] */
    size_t ldq, ldd;
    const int32_t *fold; /* [n][ldp] types with an offset: -offset * sum of q, where the integer sums start */
    const float *sum;    /* [n][ldp] types with a minimum: d * sum of q */
    size_t ldp;
};

/* Tokens whose sums fit in the scratch beside two unpacked tiles (kern_linear_scratch counts on it). */
INLINE uint32_t tokens_max(const struct wmat *w)
{
    return 16u * unit_info(w->type)->group;
}

/* Tokens [t0, t0 + n) of x, n <= tokens_max(w), for the weights w; buf: 4 * n * (groups of a row + 16) bytes. */
INLINE void tokens_init(struct tokens *b, const struct act *x, uint32_t t0, uint32_t n, const struct wmat *w, void *buf)
{
    const struct unit_info *u = unit_info(w->type);
    const unsigned halves = 32u / u->group;
    const uint32_t groups = w->n_cols / u->group;
    const int offset = u->offset;

    b->q = x->q + (size_t)t0 * x->ld;
    b->d = x->d + (size_t)t0 * (x->ld / 32);
    b->ldq = x->ld;
    b->ldd = x->ld / 32;
    b->ldp = mem_round_up(groups, 16);
    b->fold = buf;
    b->sum = buf;
    for (uint32_t t = 0; t < n; t++) {
        const int16_t *s = x->s + (size_t)(t0 + t) * (x->ld / 16);
        const float *d = b->d + t * b->ldd;
        int32_t *fold = (int32_t *)buf + t * b->ldp;
        float *sum = (float *)buf + t * b->ldp;

        if (u->minimum && halves == 1)
            for (uint32_t g = 0; g < groups; g++)
                sum[g] = d[g] * (float)(s[2 * g] + s[2 * g + 1]);
        else if (u->minimum)
            for (uint32_t g = 0; g < groups; g++)
                sum[g] = d[g / 2] * (float)s[g];
        else if (halves == 1)
            for (uint32_t g = 0; g < groups; g++)
                fold[g] = -offset * (s[2 * g] + s[2 * g + 1]);
        else
            for (uint32_t g = 0; g < groups; g++)
                fold[g] = -offset * s[g];
    }
}

/* Tokens [t, ..) of b. */
INLINE struct tokens tokens_from(const struct tokens *b, uint32_t t)
{
    struct tokens r = *b;

    r.q += t * r.ldq;
    r.d += t * r.ldd;
    r.fold += t * r.ldp;
    r.sum += t * r.ldp;
    return r;
}

/* Size of the next block of `left` tokens: blocks of nearly equal size, none above max. */
INLINE uint32_t tokens_block(uint32_t left, uint32_t max)
{
    const uint32_t blocks = (left + max - 1) / max;

    return (left + blocks - 1) / blocks;
}

/* The largest power of two up to left and max. */
INLINE uint32_t tokens_power(uint32_t left, uint32_t max, unsigned *log)
{
    uint32_t n = 1;

    for (*log = 0; 2 * n <= max && 2 * n <= left; n *= 2)
        ++*log;
    return n;
}

#endif
