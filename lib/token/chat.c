/* Rendering of conversations. The text is built with a list of the stretches that the template wrote: only there are
 * special tokens recognised when it is encoded. */
#include <stdlib.h>

#include "lib/token/chat_priv.h"
#include "lib/token/utf8.h"

struct render {
    const struct chat_template *c;
    const struct tokenizer *t;
    const struct chat_message *m;
    size_t n_messages;
    char *s;
    size_t n, cap;
    struct token_span *trusted;
    size_t n_trusted, cap_trusted;
    bool failed; /* no memory */
};

/* --- building the text ----------------------------------------------------------------------------------------- */

static void put_n(struct render *r, const char *s, size_t n)
{
    if (n > r->cap - r->n) {
        size_t cap = 2 * r->cap + n + 256;
        char *p = realloc(r->s, cap);

        if (!p) {
            r->failed = true;
            return;
        }
        r->s = p;
        r->cap = cap;
    }
    if (n)
        memcpy(r->s + r->n, s, n);
    r->n += n;
}

/* What a message says. */
static void say(struct render *r, const char *s)
{
    put_n(r, s, strlen(s));
}

/* What the template says. */
static void tell_n(struct render *r, const char *s, size_t n)
{
    struct token_span *last = r->n_trusted ? &r->trusted[r->n_trusted - 1] : NULL;
    size_t at = r->n;

    put_n(r, s, n);
    if (last && last->off + last->len == at) {
        last->len = r->n - last->off;
        return;
    }
    if (r->n_trusted == r->cap_trusted) {
        size_t cap = 2 * r->cap_trusted + 16;
        struct token_span *p = realloc(r->trusted, cap * sizeof *p);

        if (!p) {
            r->failed = true;
            return;
        }
        r->trusted = p;
        r->cap_trusted = cap;
    }
    r->trusted[r->n_trusted++] = (struct token_span){ at, r->n - at };
}

static void put(struct render *r, const char *s)
{
    tell_n(r, s, strlen(s));
}

static void put_token(struct render *r, int32_t id)
{
    if (id >= 0) {
        size_t n;
        const char *s = vocab_text(&r->t->v, (uint32_t)id, &n);

        tell_n(r, s, n);
    }
}

/* --- Python's string methods ----------------------------------------------------------------------------------- */

struct view {
    const char *s;
    size_t n;
};

static bool is_python_space(uint32_t cp)
{
    return utf8_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

static struct view whole(const char *s)
{
    return (struct view){ s, strlen(s) };
}

static struct view trim_right(struct view v)
{
    uint32_t cp;
    unsigned k;

    while (v.n && (k = utf8_decode_last(v.s, v.n, &cp)) && is_python_space(cp))
        v.n -= k;
    return v;
}

static struct view trim(struct view v)
{
    uint32_t cp;
    unsigned k;

    while (v.n && (k = utf8_decode(v.s, v.n, &cp)) && is_python_space(cp)) {
        v.s += k;
        v.n -= k;
    }
    return trim_right(v);
}

static struct view trim_newlines(struct view v, bool left, bool right)
{
    while (left && v.n && v.s[0] == '\n') {
        v.s++;
        v.n--;
    }
    while (right && v.n && v.s[v.n - 1] == '\n')
        v.n--;
    return v;
}

/* The first (last) place of mark in v; NULL: none. */
static const char *find(struct view v, const char *mark, bool last)
{
    const char *p = v.s, *found = NULL;

    while ((p = memmem(p, v.n - (size_t)(p - v.s), mark, strlen(mark)))) {
        found = p;
        if (!last)
            break;
        p += strlen(mark);
    }
    return found;
}

/* What follows the last mark, or all. */
static struct view after_last(struct view v, const char *mark)
{
    const char *p = find(v, mark, true);

    if (!p)
        return v;
    p += strlen(mark);
    return (struct view){ p, v.n - (size_t)(p - v.s) };
}

static void say_view(struct render *r, struct view v)
{
    put_n(r, v.s, v.n);
}

/* --- families -------------------------------------------------------------------------------------------------- */

static bool is_role(const struct chat_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

static int bad_role(const struct render *r, size_t i, struct err *e)
{
    return err_set(e, ERR_INVAL, "message %zu has the role \"%.40s\", which chat template %s does not have", i + 1,
                   r->m[i].role, r->c->name);
}

/* User and assistant take turns from message `from` on; a user begins. */
static int check_turns(const struct render *r, size_t from, struct err *e)
{
    for (size_t i = from; i < r->n_messages; i++) {
        bool user = (i - from) % 2 == 0;

        if (!is_role(&r->m[i], "user") && !is_role(&r->m[i], "assistant"))
            return bad_role(r, i, e);
        if (is_role(&r->m[i], "user") != user)
            return err_set(e, ERR_INVAL,
                           "message %zu is from \"%s\": chat template %s wants user and assistant in turns, a user first, "
                           "after at most one system message", i + 1, r->m[i].role, r->c->name);
    }
    return 0;
}

static void chatml_turn(struct render *r, const char *role, struct view content)
{
    put(r, "<|im_start|>");
    say(r, role);
    put(r, "\n");
    say_view(r, content);
    put(r, "<|im_end|>\n");
}

/* Qwen3 keeps the thinking of answers to the last question, and drops that of earlier ones. */
static void qwen3_answer(struct render *r, const char *role, const char *text, bool thinks)
{
    struct view v = whole(text), content = v, thought = { "", 0 };
    const char *end = find(v, "</think>", false);

    if (end) {
        content = trim_newlines(after_last(v, "</think>"), true, false);
        thought = trim_newlines((struct view){ v.s, (size_t)(end - v.s) }, false, true);
        thought = trim_newlines(after_last(thought, "<think>"), true, false);
    }
    if (!thinks) {
        chatml_turn(r, role, content);
        return;
    }
    put(r, "<|im_start|>");
    say(r, role);
    put(r, "\n<think>\n");
    say_view(r, trim_newlines(thought, true, true));
    put(r, "\n</think>\n\n");
    say_view(r, trim_newlines(content, true, false));
    put(r, "<|im_end|>\n");
}

static bool has_thought(const char *text)
{
    struct view v = whole(text);
    const char *end = find(v, "</think>", false);

    if (!end)
        return false;
    v = trim_newlines((struct view){ v.s, (size_t)(end - v.s) }, false, true);
    return trim_newlines(after_last(v, "<think>"), true, false).n > 0;
}

/* The last user message that is not the result of a tool; the last message when there is none. */
static size_t last_question(const struct render *r)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";

    for (size_t i = r->n_messages; i-- > 0;) {
        struct view v = whole(r->m[i].content);
        bool result = v.n >= sizeof close - 1 && strncmp(v.s, open, sizeof open - 1) == 0 &&
                      strcmp(v.s + v.n - (sizeof close - 1), close) == 0;

        if (is_role(&r->m[i], "user") && !result)
            return i;
    }
    return r->n_messages - 1;
}

static void tool_turn(struct render *r, size_t i)
{
    if (i == 0 || !is_role(&r->m[i - 1], "tool"))
        put(r, "<|im_start|>user");
    put(r, "\n<tool_response>\n");
    say(r, r->m[i].content);
    put(r, "\n</tool_response>");
    if (i + 1 == r->n_messages || !is_role(&r->m[i + 1], "tool"))
        put(r, "<|im_end|>\n");
}

static int render_chatml(struct render *r, struct err *e)
{
    size_t question = last_question(r);

    if (r->c->system_text && !is_role(&r->m[0], "system")) {
        put(r, "<|im_start|>system\n");
        put(r, r->c->system_text);
        put(r, "<|im_end|>\n");
    }
    for (size_t i = 0; i < r->n_messages; i++) {
        const struct chat_message *m = &r->m[i];
        bool answer = is_role(m, "assistant");

        if (r->c->tool_turns && is_role(m, "tool"))
            tool_turn(r, i);
        else if (r->c->tool_turns && !answer && !is_role(m, "user") && !is_role(m, "system"))
            return bad_role(r, i, e);
        else if (r->c->family == CHAT_QWEN3 && answer)
            qwen3_answer(r, m->role, m->content, i > question && (i + 1 == r->n_messages || has_thought(m->content)));
        else
            chatml_turn(r, m->role, whole(m->content));
    }
    return 0;
}

static int render_llama2(struct render *r, struct err *e)
{
    const char *system = is_role(&r->m[0], "system") ? r->m[0].content : NULL;
    size_t from = system != NULL;
    int rc = check_turns(r, from, e);

    for (size_t i = from; rc == 0 && i < r->n_messages; i++) {
        struct view text = whole(r->m[i].content);

        if (is_role(&r->m[i], "assistant")) {
            put(r, " ");
            say_view(r, trim(text));
            put(r, " ");
            put_token(r, r->t->eos);
            continue;
        }
        put_token(r, r->t->bos);
        put(r, "[INST] ");
        if (i == from && system) { /* stripped together with what stands before it */
            text = trim_right(text);
            put(r, "<<SYS>>\n");
            say(r, system);
            put(r, text.n ? "\n<</SYS>>\n\n" : "\n<</SYS>>");
            say_view(r, text);
        } else {
            say_view(r, trim(text));
        }
        put(r, " [/INST]");
    }
    return rc;
}

static void llama3_turn(struct render *r, const char *role, const char *before, struct view content)
{
    put(r, "<|start_header_id|>");
    say(r, role);
    put(r, "<|end_header_id|>\n\n");
    put(r, before);
    say_view(r, trim(content));
    put(r, "<|eot_id|>");
}

static int render_llama3(struct render *r, struct err *e)
{
    const char *dates = r->c->system_text;
    size_t from = 0;

    put_token(r, r->t->bos);
    if (dates) {
        from = is_role(&r->m[0], "system");
        llama3_turn(r, "system", dates, whole(from ? r->m[0].content : ""));
    }
    for (size_t i = from; i < r->n_messages; i++) {
        if (dates && (is_role(&r->m[i], "tool") || is_role(&r->m[i], "ipython")))
            return bad_role(r, i, e);
        llama3_turn(r, r->m[i].role, "", whole(r->m[i].content));
    }
    return 0;
}

static int render_gemma(struct render *r, struct err *e)
{
    const char *system = is_role(&r->m[0], "system") ? r->m[0].content : NULL;
    size_t from = system != NULL;
    int rc;

    if (system && r->c->system == SYSTEM_NONE)
        return err_set(e, ERR_INVAL, "chat template %s takes no system message", r->c->name);
    rc = check_turns(r, from, e);
    put_token(r, r->t->bos);
    for (size_t i = from; rc == 0 && i < r->n_messages; i++) {
        put(r, "<start_of_turn>");
        put(r, is_role(&r->m[i], "assistant") ? "model" : "user");
        put(r, "\n");
        if (i == from && system) {
            say(r, system);
            put(r, "\n\n");
        }
        say_view(r, trim(whole(r->m[i].content)));
        put(r, "<end_of_turn>\n");
    }
    return rc;
}

static int render_mistral(struct render *r, struct err *e)
{
    const struct chat_template *c = r->c;
    const char *system = c->system != SYSTEM_TURN && is_role(&r->m[0], "system") ? r->m[0].content : NULL;
    size_t from = system != NULL;
    int rc = 0;

    if (system && c->system == SYSTEM_NONE)
        return err_set(e, ERR_INVAL, "chat template %s takes no system message", c->name);
    if (c->system != SYSTEM_TURN)
        rc = check_turns(r, from, e);
    put_token(r, r->t->bos);
    for (size_t i = from; rc == 0 && i < r->n_messages; i++) {
        struct view text = whole(r->m[i].content);

        if (is_role(&r->m[i], "user")) {
            put(r, c->open);
            if (system && (c->system == SYSTEM_FIRST ? i == from : i + 1 == r->n_messages)) {
                say(r, system);
                put(r, "\n\n");
            }
            say_view(r, text);
            put(r, c->close);
        } else if (is_role(&r->m[i], "assistant")) {
            put(r, c->before);
            say_view(r, c->trim_answer ? trim(text) : text);
            put_token(r, r->t->eos);
            put(r, c->after);
        } else if (is_role(&r->m[i], "system")) {
            put(r, c->system_open);
            say_view(r, text);
            put(r, "[/SYSTEM_PROMPT]");
        } else {
            rc = bad_role(r, i, e);
        }
    }
    return rc;
}

static int render_deepseek2(struct render *r, struct err *e)
{
    put_token(r, r->t->bos);
    for (size_t i = 0; i < r->n_messages; i++) {
        if (is_role(&r->m[i], "user")) {
            put(r, "User: ");
            say(r, r->m[i].content);
            put(r, "\n\n");
        } else if (is_role(&r->m[i], "assistant")) {
            put(r, "Assistant: ");
            say(r, r->m[i].content);
            put_token(r, r->t->eos);
        } else if (is_role(&r->m[i], "system")) {
            say(r, r->m[i].content);
            put(r, "\n\n");
        } else {
            return bad_role(r, i, e);
        }
    }
    return 0;
}

static int render_deepseek3(struct render *r, struct err *e)
{
    bool first = true;
    size_t last = 0;

    for (size_t i = 0; i < r->n_messages; i++) {
        if (is_role(&r->m[i], "system"))
            last = i;
        else if (!is_role(&r->m[i], "user") && !is_role(&r->m[i], "assistant"))
            return bad_role(r, i, e);
    }
    put_token(r, r->t->bos);
    for (size_t i = 0; i < r->n_messages; i++) {
        if (!is_role(&r->m[i], "system") || (!r->c->join_systems && i != last))
            continue;
        if (!first)
            put(r, "\n\n");
        say(r, r->m[i].content);
        first = false;
    }
    for (size_t i = 0; i < r->n_messages; i++) {
        struct view text = whole(r->m[i].content);

        if (is_role(&r->m[i], "user")) {
            put(r, "<｜User｜>");
            say_view(r, text);
        } else if (is_role(&r->m[i], "assistant")) {
            put(r, "<｜Assistant｜>");
            say_view(r, r->c->drop_thinking ? after_last(text, "</think>") : text);
            put(r, "<｜end▁of▁sentence｜>");
        }
    }
    return 0;
}

static int render(struct render *r, bool add_generation_prompt, struct err *e)
{
    int rc = 0;

    if (r->n_messages == 0)
        return err_set(e, ERR_INVAL, "a conversation without messages");
    for (size_t i = 0; i < r->n_messages; i++) {
        if (!r->m[i].role || !r->m[i].content)
            return err_set(e, ERR_INVAL, "message %zu needs a role and a content", i + 1);
    }
    switch (r->c->family) {
    case CHAT_CHATML:
    case CHAT_QWEN3:
        rc = render_chatml(r, e);
        break;
    case CHAT_LLAMA2:
        rc = render_llama2(r, e);
        break;
    case CHAT_LLAMA3:
        rc = render_llama3(r, e);
        break;
    case CHAT_GEMMA:
        rc = render_gemma(r, e);
        break;
    case CHAT_MISTRAL:
        rc = render_mistral(r, e);
        break;
    case CHAT_DEEPSEEK2:
        rc = render_deepseek2(r, e);
        break;
    case CHAT_DEEPSEEK3:
        rc = render_deepseek3(r, e);
        break;
    }
    if (rc == 0 && r->c->prompt && (add_generation_prompt || r->c->always_prompt))
        put(r, r->c->prompt);
    if (rc == 0 && r->failed)
        rc = err_set(e, ERR_NOMEM, "a conversation of %zu messages", r->n_messages);
    return rc;
}

int chat_render(const struct chat_template *c, const struct tokenizer *t, const struct chat_message *msgs, size_t n,
                bool add_generation_prompt, char **out, size_t *len, struct err *e)
{
    struct render r = { .c = c, .t = t, .m = msgs, .n_messages = n };
    int rc = render(&r, add_generation_prompt, e);

    free(r.trusted);
    put_n(&r, "", 1); /* so that even an empty text is memory */
    if (rc == 0 && !r.s)
        rc = err_set(e, ERR_NOMEM, "a conversation");
    *out = rc ? NULL : r.s;
    *len = rc ? 0 : r.n - 1;
    if (rc)
        free(r.s);
    return rc;
}

int chat_encode(const struct chat_template *c, const struct tokenizer *t, const struct chat_message *msgs, size_t n,
                bool add_generation_prompt, struct token_list *out, struct err *e)
{
    struct render r = { .c = c, .t = t, .m = msgs, .n_messages = n };
    int rc = render(&r, add_generation_prompt, e);

    if (rc == 0)
        rc = token_encode_trusted(t, r.s ? r.s : "", r.n, r.trusted, r.n_trusted, out, e);
    free(r.trusted);
    free(r.s);
    return rc;
}
