/* Files built in memory: little-endian values appended one after another, some under a label so that a test can change them
 * afterwards. */
#ifndef SLUICE_TESTS_UNIT_BYTES_H
#define SLUICE_TESTS_UNIT_BYTES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_CAP 8192
#define BYTES_LABELS 96

struct bytes {
    unsigned char p[BYTES_CAP];
    size_t n, n_labels;
    struct {
        const char *name;
        size_t at;
    } labels[BYTES_LABELS];
};

static inline void bytes_raw(struct bytes *b, const void *p, size_t n)
{
    if (b->n + n > BYTES_CAP)
        abort();
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void bytes_label(struct bytes *b, const char *name)
{
    if (b->n_labels == BYTES_LABELS)
        abort();
    b->labels[b->n_labels].name = name;
    b->labels[b->n_labels++].at = b->n;
}

/* The lowest size bytes of v, under label unless that is NULL. */
static inline void bytes_int(struct bytes *b, const char *label, unsigned size, uint64_t v)
{
    if (label)
        bytes_label(b, label);
    for (unsigned i = 0; i < size; i++)
        bytes_raw(b, &(unsigned char){ (unsigned char)(v >> 8 * i) }, 1);
}

static inline void bytes_pad(struct bytes *b, size_t multiple)
{
    while (b->n % multiple)
        bytes_raw(b, "", 1);
}

static inline void bytes_patch(struct bytes *b, const char *label, unsigned size, uint64_t v)
{
    for (size_t i = 0; i < b->n_labels; i++)
        if (!strcmp(b->labels[i].name, label)) {
            for (unsigned k = 0; k < size; k++)
                b->p[b->labels[i].at + k] = (unsigned char)(v >> 8 * k);
            return;
        }
    fprintf(stderr, "no label %s\n", label);
    abort();
}

/* A heap copy of exactly n bytes, so that a sanitizer sees reads past the end. */
static inline unsigned char *bytes_copy(const void *p, size_t n)
{
    unsigned char *c = malloc(n ? n : 1);

    if (!c)
        abort();
    if (n)
        memcpy(c, p, n);
    return c;
}

static inline void bytes_save(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");

    if (!f || fwrite(p, 1, n, f) != n || fclose(f))
        abort();
}

#endif
