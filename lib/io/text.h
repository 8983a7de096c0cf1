/* Whole texts in memory. */
#ifndef SLUICE_IO_TEXT_H
#define SLUICE_IO_TEXT_H

#include <stddef.h>

#include "lib/core/err.h"

/* Reads a file, or standard input for "-", to its end: *len bytes, whatever they are, and a NUL after them. The caller frees
 * *out. ERR_CANCELED when a signal interrupts. */
int text_read(char **out, size_t *len, const char *path, struct err *e);

#endif
