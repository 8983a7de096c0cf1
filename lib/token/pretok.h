/* Pre-tokenizers: cut a text into words that merging never crosses. A pre-tokenizer is a list of steps; each cuts every
 * piece that the one before left. The patterns are those the models publish, run by PCRE2. */
#ifndef SLUICE_TOKEN_PRETOK_H
#define SLUICE_TOKEN_PRETOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"

struct token_span {
    size_t off, len;
};

struct token_span_list {
    struct token_span *at;
    size_t n, cap;
};

struct pretok_work; /* scratch memory of one thread */
struct pretok_step;

struct pretok {
    struct pretok_step *steps; /* none: the whole text is one word */
    size_t n;
    char name[32];
};

/* The name in token_pre_names() that `alias` (what GGUF files write) stands for; NULL: unknown. */
const char *pretok_find(const char *alias);

/* Whether models with this pre-tokenizer normalise to form C, put BOS first, and take whole words that are in the
 * vocabulary; for GGUF files, which do not say. */
struct pretok_traits {
    bool nfc, add_bos, ignore_merges;
};
struct pretok_traits pretok_traits(const char *name);

/* Adds the steps of a known pre-tokenizer; ERR_UNSUPPORTED when the name is not one of token_pre_names(). */
int pretok_init(struct pretok *p, const char *name, struct err *e);
/* Adds one step: matches of a regular expression (Oniguruma syntax, as tokenizer.json has it) and the gaps between them
 * become words. ERR_UNSUPPORTED when PCRE2 does not take the pattern. */
int pretok_add_regex(struct pretok *p, const char *regex, struct err *e);
/* Adds the split that byte-level BPE of GPT-2 makes. */
int pretok_add_gpt2(struct pretok *p, struct err *e);
/* Sets p->name to the known pre-tokenizer with exactly these steps, or to "custom". */
void pretok_recognise(struct pretok *p);
void pretok_fini(struct pretok *p);

int pretok_work_open(struct pretok_work **out, struct err *e);
void pretok_work_close(struct pretok_work *w);

/* Replaces words by the words of s[0..n), in order, covering it without gaps. Bytes that are not UTF-8 make words of
 * their own, one for each run. */
int pretok_split(const struct pretok *p, struct pretok_work *w, const char *s, size_t n, struct token_span_list *words,
                 struct err *e);

#endif
