/* The text of a sequence as it grows, with stop strings that may lie across tokens.
 *
 * What could still become the beginning of a stop string is held back: text[0..safe) is final and may be shown. The text
 * ends before the stop string that is complete first (of several ending at the same byte, the one that begins first); the
 * outcome is the same however the bytes were cut into pieces. */
#ifndef SLUICE_GEN_TEXT_H
#define SLUICE_GEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/gen/request.h"

struct gen_text {
    char *text;     /* growable; appended to by the owner (token_decoder_push) */
    size_t len, cap;
    size_t safe;    /* bytes that may be shown */
    bool stopped;   /* a stop string was found; text ends before it */
};

/* Looks at what was appended since the last call. */
void gen_text_scan(struct gen_text *t, const struct gen_stop *stops, uint32_t n_stops);
/* No more text comes: everything is safe. */
void gen_text_end(struct gen_text *t);
void gen_text_clear(struct gen_text *t);

/* A copy of text[0..len) with every byte that is not part of valid UTF-8 replaced by U+FFFD; *out_len may be NULL.
 * NULL when out of memory; the caller frees it. */
char *gen_utf8_clean(const char *text, size_t len, size_t *out_len);

#endif
