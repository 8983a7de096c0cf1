/* Output files that appear under their name only when complete. */
#ifndef SLUICE_IO_OUTFILE_H
#define SLUICE_IO_OUTFILE_H

#include <stdio.h>

#include "lib/core/err.h"

struct outfile {
    FILE *f;    /* to write to; may be a standard stream */
    char *path, *temp;
};

/* path NULL or "-": standard output; a device or a pipe: itself. Else a new file beside path under a temporary name. */
int outfile_open(struct outfile *o, const char *path, struct err *e);
/* Flushes, syncs, renames. On failure the temporary file is gone. o is closed in any case. */
int outfile_commit(struct outfile *o, struct err *e);
/* Removes the temporary file; a zeroed or closed o is legal. */
void outfile_abort(struct outfile *o);

#endif
