/* Reading tokenizer.json: shared by load_hf.c (vocabulary, merges, ids) and hf_pipeline.c (everything that turns text
 * into words). */
#ifndef SLUICE_TOKEN_HF_PRIV_H
#define SLUICE_TOKEN_HF_PRIV_H

#include "lib/io/json.h"
#include "lib/token/token_priv.h"

struct hf_files { /* borrowed; all but tokenizer may be NULL */
    const json_t *tokenizer, *tokenizer_config, *generation_config;
};

/* Fills an empty tokenizer but for the chat template; the caller frees it on failure. */
int hf_load(struct tokenizer *t, const struct hf_files *f, const char *pre, struct err *e);

/* Normaliser, pre-tokenizer and decoder. t->spm is set. pre replaces the file's pre-tokenizer when not NULL. */
int hf_load_pipeline(struct tokenizer *t, const json_t *root, const char *pre, struct err *e);

/* The string at key of an object; NULL when it is absent or something else. */
const char *hf_string(const json_t *object, const char *key);
/* The boolean at key, or what `missing` says. */
bool hf_flag(const json_t *object, const char *key, bool missing);

#endif
