/* safetensors files: an 8-byte header length, a JSON header, tensors. */
#ifndef SLUICE_IO_SAFETENSORS_H
#define SLUICE_IO_SAFETENSORS_H

#include "lib/io/json.h"
#include "lib/io/map.h"
#include "lib/io/source.h"

struct safetensors {
    struct map map;
    json_t *header; /* owns the tensors' names */
    struct source_tensor *tensors; /* ordered by offset */
    size_t n_tensors;
};

/* Takes over m (closed on failure too). Integer buffers that no model computes with (position ids, inverse frequencies) are
 * left out; any other type than F32, F16 and BF16 is ERR_UNSUPPORTED. */
int safetensors_open(struct safetensors *s, struct map *m, struct err *e);
void safetensors_close(struct safetensors *s); /* zeroed is legal */

#endif
