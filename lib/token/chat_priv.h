/* Chat templates: chat.c renders, chat_match.c recognises. */
#ifndef SLUICE_TOKEN_CHAT_PRIV_H
#define SLUICE_TOKEN_CHAT_PRIV_H

#include "lib/token/token_priv.h"

enum chat_family {
    CHAT_CHATML,   /* <|im_start|>role\n ... <|im_end|>\n */
    CHAT_QWEN3,    /* the same, with the thinking of the last answer kept and of earlier ones dropped */
    CHAT_LLAMA2,   /* <s>[INST] <<SYS>> ... [/INST] ... </s> */
    CHAT_LLAMA3,   /* <|start_header_id|>role<|end_header_id|>\n\n ... <|eot_id|> */
    CHAT_GEMMA,    /* <start_of_turn>role\n ... <end_of_turn>\n */
    CHAT_MISTRAL,  /* <s>[INST] ... [/INST] ... </s>, in many spacings */
    CHAT_DEEPSEEK2,
    CHAT_DEEPSEEK3
};

enum chat_system { /* what becomes of a system message */
    SYSTEM_TURN,  /* a turn of its own */
    SYSTEM_FIRST, /* put before the first user message */
    SYSTEM_LAST,  /* put before a user message that is the last message; else lost, as in the published template */
    SYSTEM_NONE   /* refused */
};

#define CHAT_NEEDS_MAX 3

struct chat_template {
    const char *name;
    enum chat_family family;
    const char *needs[CHAT_NEEDS_MAX]; /* special tokens without which the vocabulary is another model's */
    const char *system_text;           /* the system message of a conversation without one; NULL: none. Llama 3.1: what
                                        * precedes the system message */
    enum chat_system system;
    const char *open, *close;          /* CHAT_MISTRAL: around a user message */
    const char *before, *after;        /* CHAT_MISTRAL: before an answer; behind its </s> */
    const char *system_open;           /* CHAT_MISTRAL, SYSTEM_TURN */
    const char *prompt;                /* opening of an assistant turn; NULL: none */
    bool always_prompt;                /* even when it is not asked for */
    bool trim_answer;                  /* CHAT_MISTRAL */
    bool join_systems;                 /* CHAT_DEEPSEEK3: all system messages count; else the last one does */
    bool drop_thinking;                /* CHAT_DEEPSEEK3: answers start behind </think> */
    bool tool_turns;                   /* CHAT_CHATML, CHAT_QWEN3: "tool" messages are shown in a user turn; and no roles
                                        * but the known ones */
};

/* The template with that text; NULL: unknown. nearest (may be NULL): the name of one that has its marks, or NULL. */
const struct chat_template *chat_match(const char *text, const char **nearest);
/* By name in the table; NULL: none. */
const struct chat_template *chat_named(const char *name);

/* What text says, in one way of saying it: "E expr\n" for each {{ expr }}, "S name=expr\n" for each {% set %} that
 * mentions a string, "I cond\n" for each condition on the place in the loop or on add_generation_prompt, "R text\n" for
 * text outside tags; parts that only tools reach are left out, and so is white space
 * outside strings. Strings are in '...', with real line ends as "\1". malloc'd; NULL: no memory. */
char *chat_outline(const char *text);

#endif
