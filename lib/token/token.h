/* Tokenizers: byte-level BPE and SentencePiece BPE, read from GGUF metadata or tokenizer.json.
 * A tokenizer is immutable after opening and safe to use from any thread; a token_decoder belongs to one sequence. */
#ifndef SLUICE_TOKEN_TOKEN_H
#define SLUICE_TOKEN_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"
#include "lib/io/source.h"

struct tokenizer;

struct token_list { /* growable; zero-initialise; free(ids) */
    int32_t *ids;
    size_t n, cap;
};

/* pre_tokenizer: NULL takes what the model names (unknown: ERR_UNSUPPORTED naming it and the option --pre-tokenizer),
 * or one of the names of token_pre_names(). Copies what it needs: s may be closed afterwards. */
int tokenizer_open(struct tokenizer **out, struct source *s, const char *pre_tokenizer, struct err *e);
void tokenizer_close(struct tokenizer *t); /* NULL is legal */

const char *tokenizer_kind(const struct tokenizer *t); /* "bpe" or "spm" */
const char *tokenizer_pre(const struct tokenizer *t);  /* "smollm", "qwen2", ...; "" for spm */
const char *const *token_pre_names(void);              /* NULL-terminated */
uint32_t tokenizer_n_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);
bool tokenizer_add_bos(const struct tokenizer *t);
bool tokenizer_add_eos(const struct tokenizer *t);
/* True for every token that ends a turn or a text: eos, eot/eom, <|im_end|>, <end_of_turn>, <|endoftext|>, ..., and what
 * generation_config.json lists. Text generation stops on them. */
bool tokenizer_is_stop(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id); /* control/added special token */

/* False where the vocabulary cannot express the byte at all (SmolLM2 has no token for 0x04 or 0xFF, for example): encoding
 * leaves such bytes out, as Hugging Face's tokenizers do, and only then decoding does not give the text back. */
bool tokenizer_has_byte(const struct tokenizer *t, unsigned char byte);

enum token_flags {
    TOKEN_PARSE_SPECIAL = 1, /* recognise special tokens written in the text */
    TOKEN_ADD_BOS = 2,       /* put BOS (and EOS) where the model asks for it */
};

/* Appends the ids of text[0..len) (any bytes; NUL and invalid UTF-8 included) to out. Time is near-linear in len.
 * On failure out keeps what it had before. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags, struct token_list *out,
                     struct err *e);

/* Bytes of one token as they appear in text; special tokens give their text only when `special`. Not terminated. */
void tokenizer_piece(const struct tokenizer *t, int32_t id, bool special, const char **out, size_t *len);
/* id of the token whose stored text is exactly text, or -1. */
int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len);

/* Appends the bytes of ids[0..n) to a growable buffer (free(*buf)): the whole text at once, byte for byte. For spm the
 * leading space that encoding added is removed, as Hugging Face's decoder does. */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool special, char **buf, size_t *len,
                     struct err *e);

/* Incremental decoding that never emits half a UTF-8 character: bytes of an incomplete character are held back until
 * completed, or given out as they are when they can no longer become one. */
struct token_decoder {
    const struct tokenizer *t;
    unsigned char held[8];
    uint8_t n_held;
    bool started, special;
};
void token_decoder_init(struct token_decoder *d, const struct tokenizer *t, bool special);
/* Appends what id makes complete to buf (growable, *len bytes of *cap). */
int token_decoder_push(struct token_decoder *d, int32_t id, char **buf, size_t *len, size_t *cap, struct err *e);
/* Gives out what is still held. */
int token_decoder_finish(struct token_decoder *d, char **buf, size_t *len, size_t *cap, struct err *e);

/* Chat templates -------------------------------------------------------------------------------------------------- */

struct chat_message {
    const char *role;    /* "system", "user", "assistant", ... */
    const char *content; /* UTF-8, NUL-terminated */
};

struct chat_template;
const char *const *chat_template_names(void); /* NULL-terminated: chatml, llama2, llama3, gemma, mistral, deepseek, ... */

/* The model's template. name NULL: recognised from the template text the model carries (ERR_UNSUPPORTED, naming the option
 * --chat-template, when it is unknown or absent), else by name. Static storage; never freed. */
int chat_template_find(const struct chat_template **out, const struct tokenizer *t, const char *name, struct err *e);
const char *chat_template_name(const struct chat_template *c);

/* Appends the ids of the rendered conversation, ending with the opening of an assistant turn when add_generation_prompt.
 * Contents are encoded without recognising special tokens, so a user cannot forge a turn. ERR_INVAL for a role order that
 * the template forbids. Ids equal Hugging Face's apply_chat_template for contents free of special tokens. */
/* The llama3.1 template (also of 3.2 and 3.3) names a date: always the one that its text gives, 26 Jul 2024, never today's,
 * so that the same conversation is always the same tokens. */
int chat_encode(const struct chat_template *c, const struct tokenizer *t, const struct chat_message *msgs, size_t n,
                bool add_generation_prompt, struct token_list *out, struct err *e);

/* The rendered text itself, as apply_chat_template(tokenize=False) gives it. *out is malloc'd, NUL-terminated, *len bytes.
 * Encode with chat_encode, not from this text: here a forged turn looks like a real one. */
int chat_render(const struct chat_template *c, const struct tokenizer *t, const struct chat_message *msgs, size_t n,
                bool add_generation_prompt, char **out, size_t *len, struct err *e);

#endif
