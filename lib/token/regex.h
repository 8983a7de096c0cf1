/* Regular expressions of tokenizer.json on PCRE2. Those are written for Oniguruma (Ruby syntax); the same text means
 * something slightly else to PCRE2, so it is translated, and what has no equal is refused. */
#ifndef SLUICE_TOKEN_REGEX_H
#define SLUICE_TOKEN_REGEX_H

#include "lib/core/err.h"

/* *out is the pattern for PCRE2 (UTF, UCP, MULTILINE, newline LF), malloc'd. ERR_UNSUPPORTED names what cannot be said;
 * ERR_FORMAT: the pattern is broken. */
int regex_translate(const char *onig, char **out, struct err *e);

#endif
