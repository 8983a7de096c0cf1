/* A hash index over an array of strings that lives elsewhere. */
#ifndef SLUICE_IO_STRINDEX_H
#define SLUICE_IO_STRINDEX_H

#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"
#include "lib/io/source.h"

#define STRINDEX_NONE UINT32_MAX

struct strindex {
    const struct source_str *names; /* borrowed */
    uint32_t *slots;
    uint32_t mask;
};

/* Indexes names[0..n). *duplicate is the index of a name that is there already (ERR_FORMAT), else STRINDEX_NONE. */
int strindex_build(struct strindex *x, const struct source_str *names, size_t n, uint32_t *duplicate);
void strindex_free(struct strindex *x);
uint32_t strindex_find(const struct strindex *x, const char *name, size_t len);

#endif
