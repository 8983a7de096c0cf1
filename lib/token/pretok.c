#include "lib/token/pretok.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "lib/token/regex.h"
#include "lib/token/token_priv.h"
#include "lib/token/utf8.h"

#define STEPS_MAX 16
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define RE_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define RE_DIGIT "\\p{N}"
#define RE_LLAMA3 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAIL
#define RE_QWEN2 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TAIL
#define RE_TEKKEN                                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"                       \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"                      \
    "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define RE_DS_HAN "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define RE_DS_TEXT                                                                                                    \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"                 \
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
#define RE_DS1_WORD                                                                                                   \
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"                 \
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"                 \
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf"        \
    "\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57"        \
    "\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"          \
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124"          \
    "\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b"           \
    "\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"         \
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"                          \
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"                            \
    "\U000118a0-\U000118df\U0001e900-\U0001e943]+"
#define RE_DS1_PUNCT "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
#define RE_DS1_CJK "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

/* steps: as published, up to the first NULL. (DeepSeek's ranges are spelt in escapes because editors like to replace
 * U+212A and its like by their canonical equivalents.) alias: what GGUF files and converters call it. */
struct known {
    const char *name;
    const char *alias[8];
    const char *steps[8];
    struct pretok_traits traits;
};

static const struct known known[] = {
    { "gpt2", { "gpt-2", "gpt2" }, { RE_GPT2 }, { false, false, false } },
    { "smollm", { "smollm", "starcoder", "refact" }, { RE_DIGIT, RE_GPT2 }, { false, false, false } },
    { "llama-bpe", { "llama-bpe", "llama3", "llama-v3" }, { RE_LLAMA3 }, { false, true, true } },
    { "qwen2", { "qwen2", "qwen3" }, { RE_QWEN2 }, { true, false, false } },
    { "deepseek-r1-qwen", { "deepseek-r1-qwen" }, { RE_QWEN2 }, { true, true, false } },
    { "deepseek-llm", { "deepseek-llm" },
      { "[\r\n]", RE_DS1_WORD, RE_DS1_PUNCT, "\\s+$", RE_DS1_CJK, RE_DIGIT }, { false, true, false } },
    { "deepseek-coder", { "deepseek-coder" },
      { "[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", RE_DS1_CJK, RE_DIGIT }, { false, true, false } },
    { "deepseek-v3", { "deepseek-v3" }, { "\\p{N}{1,3}", RE_DS_HAN, RE_DS_TEXT }, { false, true, false } },
    { "tekken", { "tekken" }, { RE_TEKKEN }, { false, true, true } },
};
#define N_KNOWN (sizeof known / sizeof known[0])

struct pretok_step {
    char *regex; /* as published */
    pcre2_code *code;
};

struct pretok_work {
    pcre2_match_data *md;
    pcre2_match_context *mc;
    struct token_span_list list[2];
};

const char *const *token_pre_names(void)
{
    static const char *const names[] = { "gpt2",         "smollm",         "llama-bpe",   "qwen2",  "deepseek-r1-qwen",
                                         "deepseek-llm", "deepseek-coder", "deepseek-v3", "tekken", NULL };

    return names;
}

static const struct known *find_known(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        for (size_t k = 0; k < 8 && known[i].alias[k]; k++) {
            if (strcmp(known[i].alias[k], name) == 0)
                return &known[i];
        }
    }
    return NULL;
}

const char *pretok_find(const char *alias)
{
    const struct known *k = find_known(alias);

    return k ? k->name : NULL;
}

struct pretok_traits pretok_traits(const char *name)
{
    const struct known *k = find_known(name);

    return k ? k->traits : (struct pretok_traits){ false, false, false };
}

int pretok_init(struct pretok *p, const char *name, struct err *e)
{
    const struct known *k = find_known(name);

    if (!k)
        return err_set(e, ERR_UNSUPPORTED, "unknown pre-tokenizer \"%.60s\": choose one with --pre-tokenizer", name);
    for (size_t i = 0; i < 8 && k->steps[i]; i++) {
        int rc = pretok_add_regex(p, k->steps[i], e);

        if (rc)
            return rc;
    }
    strcpy(p->name, k->name);
    return 0;
}

int pretok_add_gpt2(struct pretok *p, struct err *e)
{
    return pretok_add_regex(p, RE_GPT2, e);
}

static pcre2_code *compile(const char *pattern, struct err *e)
{
    pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
    pcre2_code *code = NULL;
    int number;
    PCRE2_SIZE at;
    PCRE2_UCHAR why[128];

    if (!cc) {
        err_set(e, ERR_NOMEM, "a pattern");
        return NULL;
    }
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &number,
                         &at, cc);
    pcre2_compile_context_free(cc);
    if (!code) {
        pcre2_get_error_message(number, why, sizeof why);
        err_set(e, ERR_UNSUPPORTED, "pre-tokenizer pattern \"%.300s\": %s", pattern, (char *)why);
        return NULL;
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where there is no JIT, matching interprets */
    return code;
}

int pretok_add_regex(struct pretok *p, const char *regex, struct err *e)
{
    struct pretok_step *s;
    char *pattern = NULL;
    int rc;

    if (p->n == STEPS_MAX)
        return err_set(e, ERR_UNSUPPORTED, "a pre-tokenizer of more than %d steps", STEPS_MAX);
    /* White space before the end of a line, as published, tries every start in a run that does not end one: quadratic.
     * All matches begin where a run begins, or right after a match, where none follows. */
    rc = regex_translate(strcmp(regex, "\\s+$") == 0 ? "(?<!\\s)\\s+$" : regex, &pattern, e);
    if (rc) {
        err_prefix(e, "pre-tokenizer pattern \"%.300s\" has what PCRE2 cannot express", regex);
        return rc;
    }
    s = realloc(p->steps, (p->n + 1) * sizeof *s);
    if (!s) {
        rc = err_set(e, ERR_NOMEM, "pre-tokenizer");
        goto done;
    }
    p->steps = s;
    s += p->n;
    s->regex = strdup(regex);
    s->code = s->regex ? compile(pattern, e) : NULL;
    if (!s->code) {
        rc = s->regex ? (e ? e->code : ERR_UNSUPPORTED) : err_set(e, ERR_NOMEM, "pre-tokenizer");
        free(s->regex);
        goto done;
    }
    p->n++;
done:
    free(pattern);
    return rc;
}

void pretok_recognise(struct pretok *p)
{
    strcpy(p->name, "custom");
    for (size_t i = 0; i < N_KNOWN; i++) {
        size_t k = 0;

        while (k < p->n && k < 8 && known[i].steps[k] && strcmp(known[i].steps[k], p->steps[k].regex) == 0)
            k++;
        if (k == p->n && (k == 8 || !known[i].steps[k])) {
            strcpy(p->name, known[i].name);
            return;
        }
    }
}

void pretok_fini(struct pretok *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->steps[i].regex);
        pcre2_code_free(p->steps[i].code);
    }
    free(p->steps);
    memset(p, 0, sizeof *p);
}

int pretok_work_open(struct pretok_work **out, struct err *e)
{
    struct pretok_work *w = calloc(1, sizeof *w);

    *out = NULL;
    if (w) {
        w->md = pcre2_match_data_create(1, NULL);
        w->mc = pcre2_match_context_create(NULL);
    }
    if (!w || !w->md || !w->mc) {
        pretok_work_close(w);
        return err_set(e, ERR_NOMEM, "scratch memory for pre-tokenizing");
    }
    *out = w;
    return 0;
}

void pretok_work_close(struct pretok_work *w)
{
    if (!w)
        return;
    pcre2_match_data_free(w->md);
    pcre2_match_context_free(w->mc);
    free(w->list[0].at);
    free(w->list[1].at);
    free(w);
}

static int push_span(struct token_span_list *l, size_t off, size_t len, struct err *e)
{
    if (len == 0)
        return 0;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct token_span *p = realloc(l->at, cap * sizeof *p);

        if (!p)
            return err_set(e, ERR_NOMEM, "%zu words", cap);
        l->at = p;
        l->cap = cap;
    }
    l->at[l->n++] = (struct token_span){ off, len };
    return 0;
}

static int match(const struct pretok_step *st, struct pretok_work *w, const char *s, size_t n, size_t from)
{
    int rc = pcre2_match(st->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, w->md, w->mc);

    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(st->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->md, w->mc);
    return rc;
}

/* Cuts s[base..base + n) into matches and the gaps between them. An empty match cuts too, unless it touches the match
 * before it. */
static int cut(const struct pretok_step *st, struct pretok_work *w, const char *text, struct token_span in,
               struct token_span_list *out, struct err *e)
{
    const char *s = text + in.off;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->md);
    size_t n = in.len, done = 0, from = 0;
    bool after_match = false;

    while (from <= n) {
        int rc = match(st, w, s, n, from);
        uint32_t cp;

        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0) {
            PCRE2_UCHAR why[128];

            pcre2_get_error_message(rc, why, sizeof why);
            return err_set(e, rc == PCRE2_ERROR_NOMEMORY ? ERR_NOMEM : ERR_LIMIT,
                           "pre-tokenizer pattern \"%.300s\" fails on a text of %zu bytes: %s", st->regex, n, (char *)why);
        }
        if (at[1] < at[0] || at[0] < done) /* a look-behind can end a match before it starts */
            break;
        if (at[1] > at[0] || !(after_match && at[0] == done)) {
            rc = push_span(out, in.off + done, at[0] - done, e);
            if (rc == 0)
                rc = push_span(out, in.off + at[0], at[1] - at[0], e);
            if (rc)
                return rc;
            done = at[1];
            after_match = true;
        }
        from = at[1];
        if (at[1] == at[0])
            from += from < n ? utf8_decode(s + from, n - from, &cp) : 1;
    }
    return push_span(out, in.off + done, n - done, e);
}

/* Runs all steps over one stretch of valid UTF-8. */
static int split_valid(const struct pretok *p, struct pretok_work *w, const char *s, struct token_span run,
                       struct token_span_list *words, struct err *e)
{
    struct token_span_list *in = NULL, *out;
    int rc = 0;

    if (p->n == 0)
        return push_span(words, run.off, run.len, e);
    for (size_t i = 0; i < p->n && rc == 0; i++) {
        out = i + 1 == p->n ? words : &w->list[i & 1];
        if (out != words)
            out->n = 0;
        if (i == 0)
            rc = cut(&p->steps[i], w, s, run, out, e);
        for (size_t k = 0; i > 0 && k < in->n && rc == 0; k++)
            rc = cut(&p->steps[i], w, s, in->at[k], out, e);
        in = out;
    }
    return rc;
}

int pretok_split(const struct pretok *p, struct pretok_work *w, const char *s, size_t n, struct token_span_list *words,
                 struct err *e)
{
    uint32_t limit = n > 300000000 ? UINT32_MAX : (uint32_t)(10000000 + 8 * n);
    int rc = 0;

    words->n = 0;
    pcre2_set_match_limit(w->mc, limit); /* patterns come from files: none may run for ever */
    for (size_t i = 0; i < n && rc == 0;) {
        size_t good = utf8_valid_prefix(s + i, n - i), bad;
        uint32_t cp;

        if (good)
            rc = split_valid(p, w, s, (struct token_span){ i, good }, words, e);
        i += good;
        for (bad = 0; i + bad < n && !utf8_decode(s + i + bad, n - i - bad, &cp);)
            bad++;
        if (rc == 0)
            rc = push_span(words, i, bad, e);
        i += bad;
    }
    return rc;
}
