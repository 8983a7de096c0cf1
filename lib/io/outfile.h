/* Output files that appear under their name only when complete, so that a program that fails, or is killed, leaves what was
 * there before. Devices, pipes and standard output are written as they are. */
#ifndef SLUICE_IO_OUTFILE_H
#define SLUICE_IO_OUTFILE_H

#include <stdio.h>

#include "lib/core/err.h"

struct outfile {
    FILE *f;    /* to write to; may be a standard stream; NULL after outfile_create */
    char *path; /* final name, symbolic links followed; NULL: standard output */
    char *temp; /* name while writing, in the same folder; NULL: path itself is written (a device or a pipe) */
};

/* path NULL or "-": standard output. Else a new file beside path under a temporary name, with the access rights of the file
 * that it will replace. */
int outfile_open(struct outfile *o, const char *path, struct err *e);

/* The same for writers that open o->temp by its name themselves: makes the empty file. ERR_INVAL when path is NULL, "-" or
 * something else than a regular file. */
int outfile_create(struct outfile *o, const char *path, struct err *e);

/* Flushes, syncs, renames. On failure the temporary file is gone. o is closed in any case. */
int outfile_commit(struct outfile *o, struct err *e);

/* Removes the temporary file; a zeroed or closed o is legal. */
void outfile_abort(struct outfile *o);

#endif
