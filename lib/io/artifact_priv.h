/* What the parts of the artifact module share. */
#ifndef SLUICE_IO_ARTIFACT_PRIV_H
#define SLUICE_IO_ARTIFACT_PRIV_H

#include <hdf5.h>

#include "lib/io/artifact.h"
#include "lib/io/outfile.h"

struct artifact {
    hid_t file;
    char *path;
    struct outfile out; /* while writing, else zeroed */
    uint32_t version;
};

/* Sets the message "PATH: what name: HDF5's own reason", clears HDF5's errors, returns code. name may be NULL. */
int artifact_fail(struct err *e, int code, const struct artifact *a, const char *what, const char *name);

#endif
