/* Private to infer-run: its options and its modes. */
#ifndef SLUICE_CMD_INFER_RUN_RUN_H
#define SLUICE_CMD_INFER_RUN_RUN_H

#include "cmd/common.h"
#include "lib/gen/job.h"

enum run_mode {
    RUN_BATCH, RUN_PROMPT, RUN_CHAT, RUN_DESCRIBE, RUN_TOKENIZE, RUN_DETOKENIZE, RUN_ARCHS, RUN_FORMATS, RUN_TEMPLATES
};

struct run_args {
    struct common common;
    enum run_mode mode;
    const char *mode_option;   /* the option that chose the mode, for messages */
    const char *input;         /* prompts, or the file of --tokenize and --detokenize; NULL: standard input */
    const char *prompt;        /* -p */
    const char *resume, *template_name, *pre_tokenizer, *system;
    enum job_format format;    /* JOB_AUTO: not given */
    uint32_t batch, chunk_tokens;
    bool special, no_special, instruct, unordered, token_ids, no_timings, max_tokens_given;
    struct gen_params params;  /* what lines and prompts do not say themselves */
};

/* Fills a from the command line; exits with 64 on wrong usage. */
void run_args_parse(struct run_args *a, int argc, char **argv);
void run_args_fini(struct run_args *a);

/* A model that is ready to generate. */
struct run_session {
    struct runtime rt;
    struct gen_prompting how;
    struct err chat_error;
};
int run_session_open(struct run_session *s, const struct run_args *a, uint32_t n_seqs, struct err *e);
void run_session_close(struct run_session *s);

/* Modes; each returns an exit status and reports its own errors. */
int run_batch(const struct run_args *a);
int run_prompt(const struct run_args *a);
int run_chat(const struct run_args *a);
int run_describe(const struct run_args *a);
int run_tokenize(const struct run_args *a);
int run_detokenize(const struct run_args *a);

#endif
