/* Files mapped for reading. */
#ifndef SLUICE_IO_MAP_H
#define SLUICE_IO_MAP_H

#include <stddef.h>

#include "lib/core/err.h"

struct map {
    const unsigned char *data; /* NULL when bytes is 0 */
    size_t bytes;
    char *path;
    int owned; /* data is a mapping of ours, not the caller's memory */
};

/* Maps the whole regular file at path. */
int map_open(struct map *m, const char *path, struct err *e);
/* A view of the caller's memory under a name for messages; the memory must outlive m. */
int map_memory(struct map *m, const void *data, size_t bytes, const char *name, struct err *e);
void map_close(struct map *m); /* zeroed and failed maps are legal */

/* Lets the whole pages inside [p, p + n) leave the resident set; they are read again from the file when touched. */
void map_release(const struct map *m, const void *p, size_t n);

#endif
