/* Lines of a file, a pipe or a terminal, without waiting for more than is there. */
#ifndef SLUICE_GEN_INPUT_H
#define SLUICE_GEN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"

#define INPUT_LINE_MAX ((size_t)64 << 20)

struct input;

/* path "-": standard input. */
int input_open(struct input **out, const char *path, struct err *e);
void input_close(struct input *in); /* NULL is legal */

enum input_state {
    INPUT_END,   /* no more lines */
    INPUT_LINE,
    INPUT_LONG,  /* a line of more than INPUT_LINE_MAX bytes was skipped */
    INPUT_AGAIN  /* nothing there yet (wait false), or a signal came (wait true) */
};

/* The next line, without its end (LF or CRLF); a BOM at the very beginning is dropped. *text is valid until the next call,
 * and a NUL follows it. *line counts from 1. Negative: reading failed. */
int input_next(struct input *in, bool wait, const char **text, size_t *len, uint64_t *line, struct err *e);

/* Share of the file that has been handed out, 0..1; negative when the size is not known. */
double input_fraction(const struct input *in);

#endif
