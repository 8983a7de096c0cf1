/* JSON through jansson, with Sluice's errors. This header is the one place that includes jansson; modules that read
 * JSON include it. Values are reference counted by jansson's own rules. */
#ifndef SLUICE_IO_JSON_H
#define SLUICE_IO_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "lib/core/err.h"

/* Parses text[0..len) strictly (UTF-8, duplicate keys rejected, one value, nothing after it). `what` names the source in
 * messages, which carry line and column. The caller owns *out (json_decref). */
int json_parse(json_t **out, const char *text, size_t len, const char *what, struct err *e);

/* Reads and parses a whole file of at most max_bytes. */
int json_read_file(json_t **out, const char *path, size_t max_bytes, struct err *e);

#endif
