/* The table of chat templates and how a model's own template finds its row. A row lists the outline (chat_outline.c) of
 * the published template: lines with '!' must be there, lines with '?' may be, and any other line means that the
 * template says something this row does not, so that no template is ever taken for a similar one. */
#include <stdlib.h>

#include "lib/token/chat_priv.h"

#define NL "\1"
#define LINES_MAX 20

struct row {
    struct chat_template t;
    const char *lines[LINES_MAX];
};

#define ALTERNATE "(message.role=='user')!=(loop.index0%2==0)"

#define IM_NEEDS .needs = { "<|im_start|>", "<|im_end|>" }, .prompt = "<|im_start|>assistant\n"
#define IM_TURN "!E '<|im_start|>'+message.role+'" NL "'+message.content+'<|im_end|>" NL "'"
#define IM_PROMPT "!I add_generation_prompt", "!E '<|im_start|>assistant" NL "'"
#define IM_SYSTEM "!E '<|im_start|>system" NL "'+messages[0].content+'<|im_end|>" NL "'"
#define IM_DEFAULT(text) "!E '<|im_start|>system" NL text "<|im_end|>" NL "'"
#define SMOLLM "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
#define QWEN2 "You are a helpful assistant."
#define QWEN25 "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

#define L3_NEEDS                                                                                                      \
    .needs = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" },                                            \
    .prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n"
#define L3_PROMPT "!E '<|start_header_id|>assistant<|end_header_id|>" NL NL "'"
#define L3_TURN "'<|start_header_id|>'+message.role+'<|end_header_id|>" NL NL "'+message.content|trim+'<|eot_id|>'"
#define L3_FIRST "!E content", "!S content=" L3_TURN, "!I loop.index0==0"
#define L31_DATES "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

#define GEMMA_NEEDS .needs = { "<start_of_turn>", "<end_of_turn>" }, .prompt = "<start_of_turn>model\n"
#define GEMMA_LINES                                                                                                   \
    "!E bos_token", "!I " ALTERNATE, "!S role='model'", "!I add_generation_prompt", "!E '<start_of_turn>model" NL "'"

#define M_SYSTEM(open, close) "!E '" open "'+system_message+'" NL NL "'+message.content+'" close "'"
#define M_USER(open, close) "!E '" open "'+message.content+'" close "'"
#define M_LAST "!E bos_token", "!I loop.lastandsystem_messageisdefined", "?I " ALTERNATE, \
    "?S user_messages=loop_messages|selectattr('role','equalto','user')|list"

#define DS_NEEDS .needs = { "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>" }
#define DS_LINES                                                                                                      \
    "?S ns=namespace(is_first=false,is_tool=false,is_output_first=true,system_prompt='')",                            \
        "?S ns=namespace(is_first=false,is_tool=false,is_output_first=true,system_prompt='',is_first_sp=true)",       \
        "!E bos_token", "!E ns.system_prompt", "!E '<｜User｜>'+message.content", "?I notadd_generation_promptisdefined", \
        "!I add_generation_promptandnotns.is_tool"
#define DS_JOIN "!S ns.system_prompt=ns.system_prompt+'" NL NL "'+message.content"
#define DS_ANSWER "!E '<｜Assistant｜>'+message.content+'<｜end▁of▁sentence｜>'"
#define DS_THOUGHT "!S content=content.split('</think>')[-1]", "!E '<｜Assistant｜>'+content+'<｜end▁of▁sentence｜>'"

static const struct row rows[] = {
    { { .name = "chatml", .family = CHAT_CHATML, IM_NEEDS }, { IM_TURN, IM_PROMPT } },
    { { .name = "smollm2", .family = CHAT_CHATML, IM_NEEDS, .system_text = SMOLLM },
      { IM_TURN, IM_PROMPT, IM_DEFAULT(SMOLLM), "!I loop.firstandmessages[0].role!='system'" } },
    { { .name = "qwen2", .family = CHAT_CHATML, IM_NEEDS, .system_text = QWEN2 },
      { IM_TURN, IM_PROMPT, IM_DEFAULT(QWEN2), "!I loop.firstandmessages[0].role!='system'" } },
    { { .name = "qwen2.5", .family = CHAT_CHATML, IM_NEEDS, .system_text = QWEN25, .tool_turns = true },
      { IM_TURN, IM_PROMPT, IM_SYSTEM, IM_DEFAULT(QWEN25), "?E '<|im_start|>'+message.role", "?E '" NL "'+message.content",
        "?E '<|im_end|>" NL "'",
        "!I (message.role=='user')or(message.role=='system'andnotloop.first)or(message.role=='assistant'andnotmessage."
        "tool_calls)" } },
    { { .name = "qwen3", .family = CHAT_QWEN3, IM_NEEDS, .tool_turns = true },
      { IM_TURN, IM_PROMPT, IM_SYSTEM, "!S reasoning_content=''",
        "!S content=message.content.split('</think>')[-1].lstrip('" NL "')",
        "!S reasoning_content=message.content.split('</think>')[0].rstrip('" NL "').split('<think>')[-1].lstrip('" NL "')",
        "!E '<|im_start|>'+message.role+'" NL "<think>" NL "'+reasoning_content.strip('" NL "')+'" NL "</think>" NL NL
        "'+content.lstrip('" NL "')",
        "!E '<|im_start|>'+message.role+'" NL "'+content", "!E '<|im_end|>" NL "'", "!E '<think>" NL NL "</think>" NL NL "'",
        "!I (message.role=='user')or(message.role=='system'andnotloop.first)", "!I loop.index0>ns.last_query_index",
        "!I loop.lastor(notloop.lastandreasoning_content)" } },
    { { .name = "qwen3", .family = CHAT_QWEN3, IM_NEEDS, .tool_turns = true }, /* as revised: same for text contents */
      { "!E '<|im_start|>'+message.role+'" NL "'+content+'<|im_end|>" NL "'", IM_PROMPT, IM_SYSTEM, "!S content=''",
        "!S reasoning_content=''", "!S content=content.split('</think>')[-1].lstrip('" NL "')",
        "!S reasoning_content=content.split('</think>')[0].rstrip('" NL "').split('<think>')[-1].lstrip('" NL "')",
        "!E '<|im_start|>'+message.role+'" NL "<think>" NL "'+reasoning_content.strip('" NL "')+'" NL "</think>" NL NL
        "'+content.lstrip('" NL "')",
        "!E '<|im_start|>'+message.role+'" NL "'+content", "!E '<|im_end|>" NL "'", "!E '<think>" NL NL "</think>" NL NL "'",
        "!I (message.role=='user')or(message.role=='system'andnotloop.first)", "!I loop.index0>ns.last_query_index",
        "!I loop.lastor(notloop.lastandreasoning_content)" } },
    { { .name = "qwen3-instruct", .family = CHAT_CHATML, IM_NEEDS, .tool_turns = true }, /* the 2507 models, which do not think */
      { "!E '<|im_start|>'+message.role+'" NL "'+content+'<|im_end|>" NL "'", IM_PROMPT, IM_SYSTEM, "!S content=''",
        "!E '<|im_start|>'+message.role+'" NL "'+content", "!E '<|im_end|>" NL "'",
        "!I (message.role=='user')or(message.role=='system'andnotloop.first)" } },

    { { .name = "llama2", .family = CHAT_LLAMA2, .needs = { "<s>", "</s>" }, .system = SYSTEM_FIRST },
      { "!S content='<<SYS>>" NL "'+system_message+'" NL "<</SYS>>" NL NL "'+message.content", "!I " ALTERNATE,
        "!I loop.index0==0andsystem_message!=false", "!E bos_token+'[INST] '+content.strip()+' [/INST]'",
        "!E ' '+content.strip()+' '+eos_token", "?E '<<SYS>>" NL "'+content.strip()+'" NL "<</SYS>>" NL NL "'" } },

    { { .name = "llama3", .family = CHAT_LLAMA3, L3_NEEDS }, { L3_FIRST, L3_PROMPT, "!I add_generation_prompt" } },
    { { .name = "llama3-prompt", .family = CHAT_LLAMA3, L3_NEEDS, .always_prompt = true }, { L3_FIRST, L3_PROMPT } },
    { { .name = "llama3.1", .family = CHAT_LLAMA3, L3_NEEDS, .system_text = L31_DATES },
      { "!E bos_token", "!S date_string='26 Jul 2024'", "?S date_string=strftime_now('%d %b %Y')", "!S system_message=''",
        "!E '<|start_header_id|>system<|end_header_id|>" NL NL "'", "!E 'Cutting Knowledge Date: December 2023" NL "'",
        "!E 'Today Date: '+date_string+'" NL NL "'", "!E system_message", "!E '<|eot_id|>'", "!E " L3_TURN, L3_PROMPT,
        "!I add_generation_prompt" } },

    { { .name = "gemma", .family = CHAT_GEMMA, GEMMA_NEEDS, .system = SYSTEM_FIRST },
      { GEMMA_LINES, "!S first_user_prefix=messages[0].content+'" NL NL "'", "!S first_user_prefix=''",
        "?S first_user_prefix=messages[0].content[0].text+'" NL NL "'",
        "!E '<start_of_turn>'+role+'" NL "'+(first_user_prefixifloop.firstelse'')", "!E message.content|trim",
        "?E '<start_of_image>'", "?E item.text|trim", "!E '<end_of_turn>" NL "'" } },
    { { .name = "gemma2", .family = CHAT_GEMMA, GEMMA_NEEDS, .system = SYSTEM_NONE },
      { GEMMA_LINES, "!E '<start_of_turn>'+role+'" NL "'+message.content|trim+'<end_of_turn>" NL "'" } },

    { { .name = "mistral-v0.1", .family = CHAT_MISTRAL, .needs = { "<s>", "</s>" }, .system = SYSTEM_NONE, .open = "[INST] ",
        .close = " [/INST]", .before = "", .after = " " },
      { "!E bos_token", "!I " ALTERNATE, M_USER("[INST] ", " [/INST]"), "!E message.content+eos_token+' '" } },
    { { .name = "mistral-v0.2", .family = CHAT_MISTRAL, .needs = { "<s>", "</s>" }, .system = SYSTEM_NONE, .open = "[INST] ",
        .close = " [/INST]", .before = "", .after = "" },
      { "!E bos_token", "!I " ALTERNATE, M_USER("[INST] ", " [/INST]"), "!E message.content+eos_token" } },
    { { .name = "mistral-v1", .family = CHAT_MISTRAL, .needs = { "<s>", "</s>" }, .system = SYSTEM_FIRST, .open = " [INST] ",
        .close = " [/INST]", .before = " ", .after = "" },
      { "!E bos_token", "!I " ALTERNATE, "!I loop.firstandsystem_messageisdefined", M_SYSTEM(" [INST] ", " [/INST]"),
        M_USER(" [INST] ", " [/INST]"), "!E ' '+message.content+eos_token" } },
    { { .name = "mistral-v3", .family = CHAT_MISTRAL, .needs = { "[INST]", "[/INST]", "</s>" }, .system = SYSTEM_LAST,
        .open = "[INST] ", .close = "[/INST]", .before = " ", .after = "", .trim_answer = true },
      { M_LAST, M_SYSTEM("[INST] ", "[/INST]"), M_USER("[INST] ", "[/INST]"), "!E ' '+message.content|trim+eos_token" } },
    { { .name = "mistral-v3-untrimmed", .family = CHAT_MISTRAL, .needs = { "[INST]", "[/INST]", "</s>" },
        .system = SYSTEM_LAST, .open = "[INST] ", .close = "[/INST]", .before = " ", .after = "" },
      { M_LAST, M_SYSTEM("[INST] ", "[/INST]"), M_USER("[INST] ", "[/INST]"), "!E ' '+message.content+eos_token" } },
    { { .name = "mistral-v3-tekken", .family = CHAT_MISTRAL, .needs = { "[INST]", "[/INST]", "</s>" },
        .system = SYSTEM_LAST, .open = "[INST]", .close = "[/INST]", .before = "", .after = "" },
      { M_LAST, M_SYSTEM("[INST]", "[/INST]"), M_USER("[INST]", "[/INST]"), "!E message.content+eos_token" } },
    { { .name = "mistral-v7", .family = CHAT_MISTRAL, .needs = { "[INST]", "[/INST]", "[SYSTEM_PROMPT]" },
        .system = SYSTEM_TURN, .open = "[INST] ", .close = "[/INST]", .before = " ", .after = "",
        .system_open = "[SYSTEM_PROMPT] " },
      { "!E bos_token", M_USER("[INST] ", "[/INST]"), M_USER("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"),
        "!E ' '+message.content+eos_token" } },
    { { .name = "mistral-v7-tekken", .family = CHAT_MISTRAL, .needs = { "[INST]", "[/INST]", "[SYSTEM_PROMPT]" },
        .system = SYSTEM_TURN, .open = "[INST]", .close = "[/INST]", .before = "", .after = "",
        .system_open = "[SYSTEM_PROMPT]" },
      { "!E bos_token", M_USER("[INST]", "[/INST]"), M_USER("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"), "!E message.content+eos_token" } },

    { { .name = "deepseek-v2", .family = CHAT_DEEPSEEK2, .needs = { "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>" },
        .prompt = "Assistant:" },
      { "!E bos_token", "!E 'User: '+message.content+'" NL NL "'", "!E 'Assistant: '+message.content+eos_token",
        "!E message.content+'" NL NL "'", "!E 'Assistant:'", "!I add_generation_prompt",
        "?I notadd_generation_promptisdefined" } },
    { { .name = "deepseek-v2.5", .family = CHAT_DEEPSEEK3, DS_NEEDS, .prompt = "<｜Assistant｜>" },
      { DS_LINES, DS_ANSWER, "!E '<｜Assistant｜>'" } },
    { { .name = "deepseek-v3", .family = CHAT_DEEPSEEK3, DS_NEEDS, .prompt = "<｜Assistant｜>", .join_systems = true },
      { DS_LINES, DS_JOIN, DS_ANSWER, "!E '<｜Assistant｜>'" } },
    { { .name = "deepseek-r1", .family = CHAT_DEEPSEEK3, DS_NEEDS, .prompt = "<｜Assistant｜><think>\n", .drop_thinking = true },
      { DS_LINES, DS_THOUGHT, "!E '<｜Assistant｜><think>" NL "'" } },
    { { .name = "deepseek-r1-open", .family = CHAT_DEEPSEEK3, DS_NEEDS, .prompt = "<｜Assistant｜>", .drop_thinking = true },
      { DS_LINES, DS_THOUGHT, "!E '<｜Assistant｜>'" } },
    { { .name = "deepseek-r1-0528", .family = CHAT_DEEPSEEK3, DS_NEEDS, .prompt = "<｜Assistant｜>", .drop_thinking = true,
        .join_systems = true },
      { DS_LINES, DS_JOIN, DS_THOUGHT, "!E '<｜Assistant｜>'" } },
};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* What most tells a family, to advise a person whose template is not known. */
static const struct {
    const char *mark, *name;
} marks[] = {
    { "<|im_start|>", "chatml" }, { "<|start_header_id|>", "llama3" }, { "<start_of_turn>", "gemma" },
    { "<<SYS>>", "llama2" },      { "[INST]", "mistral" },             { "<｜User｜>", "deepseek" },
};

static bool line_equals(const char *line, const char *what)
{
    size_t n = strlen(what);

    return strncmp(line, what, n) == 0 && line[n] == '\n';
}

static bool row_matches(const struct row *r, const char *outline)
{
    uint32_t seen = 0, must = 0;

    for (const char *line = outline; *line; line = strchr(line, '\n') + 1) {
        bool known = false;

        for (size_t i = 0; i < LINES_MAX && r->lines[i] && !known; i++) {
            known = line_equals(line, r->lines[i] + 1);
            if (known)
                seen |= 1u << i;
        }
        if (!known)
            return false;
    }
    for (size_t i = 0; i < LINES_MAX && r->lines[i]; i++)
        must |= r->lines[i][0] == '!' ? 1u << i : 0;
    return (seen & must) == must;
}

const struct chat_template *chat_match(const char *text, const char **nearest)
{
    char *outline = chat_outline(text);
    const struct chat_template *found = NULL;

    for (size_t i = 0; outline && i < N_ROWS && !found; i++) {
        if (row_matches(&rows[i], outline))
            found = &rows[i].t;
    }
    free(outline);
    if (nearest)
        *nearest = NULL;
    for (size_t i = 0; nearest && !*nearest && i < sizeof marks / sizeof marks[0]; i++) {
        if (strstr(text, marks[i].mark))
            *nearest = marks[i].name;
    }
    return found;
}

const struct chat_template *chat_named(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].t.name, name) == 0)
            return &rows[i].t;
    }
    return NULL;
}

const char *const *chat_template_names(void)
{
    static const char *const names[] = {
        "chatml", "smollm2", "qwen2", "qwen2.5", "qwen3", "qwen3-instruct", "llama2", "llama3", "llama3.1",
        "gemma", "gemma2", "mistral", "mistral-v0.1", "mistral-v0.2", "mistral-v1", "mistral-v3",
        "mistral-v3-tekken", "mistral-v7", "mistral-v7-tekken", "deepseek", "deepseek-v2", "deepseek-v3",
        "deepseek-r1",
        NULL,
    };

    return names;
}

static bool has_special(const struct tokenizer *t, const char *text)
{
    return tokenizer_is_special(t, tokenizer_find(t, text, strlen(text)));
}

/* Names of families: the member that the vocabulary speaks for. */
static const char *resolve(const struct tokenizer *t, const char *name)
{
    bool tekken = strcmp(tokenizer_pre(t), "tekken") == 0;

    if (strcmp(name, "mistral") == 0) {
        if (has_special(t, "[SYSTEM_PROMPT]"))
            return tekken ? "mistral-v7-tekken" : "mistral-v7";
        if (has_special(t, "[INST]"))
            return tekken ? "mistral-v3-tekken" : "mistral-v3";
        return "mistral-v1";
    }
    if (strcmp(name, "deepseek") == 0)
        return tokenizer_find(t, "<｜User｜>", strlen("<｜User｜>")) >= 0 ? "deepseek-v3" : "deepseek-v2";
    return name;
}

int chat_template_find(const struct chat_template **out, const struct tokenizer *t, const char *name, struct err *e)
{
    const struct chat_template *c;
    const char *nearest;

    *out = NULL;
    if (!name) {
        if (!t->chat_text)
            return err_set(e, ERR_UNSUPPORTED, "the model carries no chat template: choose one with --chat-template");
        c = chat_match(t->chat_text, &nearest);
        if (!c)
            return err_set(e, ERR_UNSUPPORTED,
                           "the model's chat template is not one of the known ones%s%s: choose with --chat-template",
                           nearest ? "; it has the marks of " : "", nearest ? nearest : "");
        *out = c;
        return 0;
    }
    c = chat_named(resolve(t, name));
    if (!c)
        return err_set(e, ERR_UNSUPPORTED, "unknown chat template \"%.60s\": see --help for the names", name);
    for (size_t i = 0; i < CHAT_NEEDS_MAX && c->needs[i]; i++) {
        if (tokenizer_find(t, c->needs[i], strlen(c->needs[i])) < 0)
            return err_set(e, ERR_UNSUPPORTED,
                           "chat template %s needs the token %s, which the vocabulary does not have: choose another with "
                           "--chat-template", c->name, c->needs[i]);
    }
    *out = c;
    return 0;
}

const char *chat_template_name(const struct chat_template *c)
{
    return c->name;
}
