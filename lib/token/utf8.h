/* UTF-8: strict decoding (no overlong forms, no surrogates, nothing above U+10FFFF) and the few character classes that
 * tokenizers ask for. All functions are pure. */
#ifndef SLUICE_TOKEN_UTF8_H
#define SLUICE_TOKEN_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the character at s[0..n), n > 0, with its code point in *cp; 0 when the bytes there are no character. */
unsigned utf8_decode(const char *s, size_t n, uint32_t *cp);

/* Length of the character that ends at s[n - 1]; 0 when none does. */
unsigned utf8_decode_last(const char *s, size_t n, uint32_t *cp);

/* Writes cp (a valid scalar value) to out, 1 to 4 bytes; returns the length. */
unsigned utf8_encode(uint32_t cp, char *out);

/* Length of the longest prefix of s[0..n) that is valid. */
size_t utf8_valid_prefix(const char *s, size_t n);

/* How many bytes at the end of s[0..n) are the beginning of a character that more bytes could complete: 0..3. */
unsigned utf8_incomplete_tail(const char *s, size_t n);

/* The White_Space property. */
bool utf8_is_space(uint32_t cp);

/* What \w matches: letters, marks, decimal digits, letter numbers, connector punctuation. */
bool utf8_is_word(uint32_t cp);

#endif
