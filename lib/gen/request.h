/* Generation requests: parameters, and how they are read from a line of text or of JSON. */
#ifndef SLUICE_GEN_REQUEST_H
#define SLUICE_GEN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/core/err.h"
#include "lib/io/json.h"
#include "lib/model/sample.h"
#include "lib/token/token.h"

#define GEN_N_MAX 1024u             /* sequences of one request */
#define GEN_STOPS_MAX 64u           /* stop strings of one request */
#define GEN_TOKENS_MAX (1u << 30)   /* largest max_tokens */

struct gen_stop {
    char *text;
    size_t len; /* >= 1 */
};

struct gen_params {
    struct sample_params sample; /* sample.bias is owned */
    bool seed_given;             /* else the seed is made from the run's seed and the line number */
    uint32_t max_tokens;         /* >= 1 */
    uint32_t n;                  /* sequences, 1..GEN_N_MAX */
    int32_t logprobs;            /* -1: none; else that many alternatives to each token, up to SAMPLE_TOP_MAX */
    bool ignore_eos;             /* go on after the model's own stop tokens */
    struct gen_stop *stop;       /* [n_stop] */
    uint32_t n_stop;
    int32_t *stop_ids;           /* [n_stop_ids] */
    uint32_t n_stop_ids;
};

/* Greedy, 256 tokens, one sequence. Free with gen_params_clear. */
void gen_params_init(struct gen_params *p);
void gen_params_clear(struct gen_params *p);
int gen_params_copy(struct gen_params *dst, const struct gen_params *src, struct err *e); /* dst: uninitialised */
int gen_params_add_stop(struct gen_params *p, const char *text, size_t len, struct err *e);
int gen_params_add_stop_id(struct gen_params *p, int32_t id, struct err *e);
int gen_params_add_bias(struct gen_params *p, int32_t id, float bias, struct err *e);
/* ERR_INVAL, with the name of the field, for what is out of range. */
int gen_params_check(const struct gen_params *p, uint32_t n_vocab, struct err *e);

struct gen_request {
    uint64_t line;            /* of the input, from 1 */
    json_t *id;               /* string or integer; the line number when none was given */
    struct gen_params params;
    struct token_list prompt; /* at least one token */
    uint32_t refs;            /* private to lib/gen */
};

/* How lines become prompts. Everything is borrowed. */
struct gen_prompting {
    const struct tokenizer *tok;
    uint32_t n_vocab;                    /* of the model: ids must be below it */
    const struct gen_params *defaults;   /* for what a line does not say */
    const struct chat_template *chat;    /* for messages; NULL: none, chat_error says why */
    const char *chat_error;
    const char *system;                  /* with instruct: the system message, or NULL */
    bool instruct;                       /* a text prompt is the user message of a chat */
    bool no_special;                     /* special tokens written in a text prompt are plain text */
    uint64_t seed;                       /* of the run */
};

/* Both make a request of one input line. On failure r still has its id where that could be read, and must be cleared too:
 * ERR_FORMAT and ERR_INVAL are the line's fault, with a message that names the field. */
int gen_request_text(struct gen_request *r, const struct gen_prompting *how, uint64_t line, const char *text, size_t len,
                     struct err *e);
/* One JSON object: `prompt` (text or array of token ids) or `messages`, and any of the parameters by name; null is the
 * same as leaving a field out. Unknown fields are errors. */
int gen_request_json(struct gen_request *r, const struct gen_prompting *how, uint64_t line, const char *text, size_t len,
                     struct err *e);
/* A request of ready messages. */
int gen_request_chat(struct gen_request *r, const struct gen_prompting *how, uint64_t line,
                     const struct chat_message *msgs, size_t n, struct err *e);
void gen_request_clear(struct gen_request *r);

/* Names of the fields of gen_request_json, NULL-terminated. */
const char *const *gen_request_fields(void);

#endif
