#include "lib/io/strindex.h"

#include <stdlib.h>
#include <string.h>

static uint32_t *slot_of(const struct strindex *x, const char *name, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)x->slots; /* so that no file can hold names made to collide */

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
    for (uint32_t i = (uint32_t)(h ^ (h >> 32)) & x->mask;; i = (i + 1) & x->mask) {
        const struct source_str *s;

        if (x->slots[i] == STRINDEX_NONE)
            return &x->slots[i];
        s = &x->names[x->slots[i]];
        if (s->len == len && !memcmp(s->ptr, name, len))
            return &x->slots[i];
    }
}

int strindex_build(struct strindex *x, const struct source_str *names, size_t n, uint32_t *duplicate)
{
    size_t size = 8;

    *duplicate = STRINDEX_NONE;
    memset(x, 0, sizeof *x);
    if (n > UINT32_MAX / 4)
        return ERR_NOMEM;
    while (size < 2 * n)
        size *= 2;
    if (!(x->slots = malloc(size * sizeof *x->slots)))
        return ERR_NOMEM;
    memset(x->slots, 0xff, size * sizeof *x->slots);
    x->names = names;
    x->mask = (uint32_t)size - 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *s = slot_of(x, names[i].ptr, names[i].len);

        if (*s != STRINDEX_NONE) {
            *duplicate = i;
            strindex_free(x);
            return ERR_FORMAT;
        }
        *s = i;
    }
    return 0;
}

void strindex_free(struct strindex *x)
{
    free(x->slots);
    memset(x, 0, sizeof *x);
}

uint32_t strindex_find(const struct strindex *x, const char *name, size_t len)
{
    return x->slots ? *slot_of(x, name, len) : STRINDEX_NONE;
}
