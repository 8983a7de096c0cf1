/* Configuration files: a flat YAML mapping of option names to scalars or lists of scalars. */
#ifndef SLUICE_IO_CONFIG_H
#define SLUICE_IO_CONFIG_H

#include <stddef.h>

#include "lib/core/err.h"

struct config_entry {
    const char *name;  /* key as written */
    const char *value; /* scalar text; "" for an empty or null value; a list gives one entry an element */
    unsigned line;     /* of the value, from 1 */
};

struct config;

/* Reads path ("-" is not special). Nested mappings, anchors, aliases, tags, several documents, duplicate keys, other
 * encodings than UTF-8, more than 4096 values and files over 1 MiB are errors, with file:line:column where there is one. */
int config_open(struct config **out, const char *path, struct err *e);
/* The same from memory; name appears in messages. */
int config_parse(struct config **out, const char *text, size_t len, const char *name, struct err *e);
void config_close(struct config *c); /* NULL is legal */

size_t config_n(const struct config *c);
/* Entry i < config_n, in file order; borrowed. */
const struct config_entry *config_at(const struct config *c, size_t i);

#endif
