/* Tokenizers against the ids that Hugging Face's give (tests/golden/tokens), from tokenizer.json and from GGUF; what the
 * loaders refuse; what must hold for any bytes. With SLUICE_MODELS set to a folder of GGUF files, also on those. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <time.h>

#include "lib/core/rng.h"
#include "lib/token/token.h"
#include "tests/unit/token_files.h"

#define MARK "\xe2\x96\x81"

/* --- opening golden vocabularies ------------------------------------------------------------------------------- */

static struct tokenizer *open_path(const char *dir, const char *file, const char *pre)
{
    char path[192];
    struct source *s;
    struct tokenizer *t = NULL;
    struct err e;

    snprintf(path, sizeof path, "%s%s%s", dir, file ? "/" : "", file ? file : "");
    if (source_open(&s, path, &e) || tokenizer_open(&t, s, pre, &e))
        fail_msg("%s", e.msg);
    source_close(s); /* tokenizers outlive their source */
    return t;
}

/* The complete tokenizer.json of a case. */
static char *case_json(const json_t *c)
{
    static const char *const parts[] = { "normalizer", "pre_tokenizer", "decoder" };
    json_t *j = golden_json(json_string_value(json_object_get(c, "base")));
    json_t *added = json_object_get(c, "added");
    char *text;

    if (added)
        json_array_extend(json_object_get(j, "added_tokens"), added);
    for (size_t i = 0; i < 3; i++)
        json_object_set(j, parts[i], json_object_get(c, parts[i]));
    if (json_is_true(json_object_get(c, "ignore_merges")))
        json_object_set_new(json_object_get(j, "model"), "ignore_merges", json_true());
    text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    assert_non_null(text);
    return text;
}

static struct tokenizer *open_hf(const json_t *c)
{
    struct token_folder f;
    struct tokenizer *t;
    char *text = case_json(c);

    folder_make(&f);
    folder_hf(&f, text, strlen(text));
    t = open_path(f.path, NULL, NULL);
    folder_remove(&f);
    free(text);
    return t;
}

/* The case's vocabulary as GGUF: texts by id, types from the added tokens (or given), merges or scores. */
static void write_gguf(const struct token_folder *f, const json_t *c)
{
    json_t *j = golden_json(json_string_value(json_object_get(c, "base"))), *v;
    const json_t *model = json_object_get(j, "model"), *vocab = json_object_get(model, "vocab"), *added, *merges;
    const json_t *types = json_object_get(c, "types"), *scores = json_object_get(c, "scores");
    const char *text[2048] = { NULL };
    int32_t type[2048];
    size_t n = 0;
    struct gguf_out g;

    added = json_object_get(j, "added_tokens");
    merges = json_object_get(model, "merges");
    const char *key;
    json_object_foreach((json_t *)vocab, key, v) {
        text[json_integer_value(v)] = key;
        type[json_integer_value(v)] = 1;
        n++;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *a = json_array_get(added, i);
        json_int_t id = json_integer_value(json_object_get(a, "id"));

        n += text[id] == NULL;
        text[id] = json_string_value(json_object_get(a, "content"));
        type[id] = json_is_true(json_object_get(a, "special")) ? 3 : 4;
    }
    gguf_begin(&g);
    gguf_key_str(&g, "general.architecture", "llama");
    gguf_key_str(&g, "tokenizer.ggml.model", types ? "llama" : "gpt2");
    gguf_key_str(&g, "tokenizer.ggml.pre", types ? "default" : json_string_value(json_object_get(c, "pre")));
    if (types)
        gguf_key_bool(&g, "tokenizer.ggml.add_space_prefix", json_is_true(json_object_get(c, "prefix")));
    gguf_key_array(&g, "tokenizer.ggml.tokens", 8, n);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(text[i]);

        if (types && type[i] == 4 && len % 3 == 0 && strncmp(text[i], MARK, 3) == 0)
            gguf_string(&g, "                ", len / 3); /* as converters write runs of marks */
        else
            gguf_string(&g, text[i], len);
    }
    gguf_key_array(&g, "tokenizer.ggml.token_type", 5, n);
    for (size_t i = 0; i < n; i++)
        gguf_u32(&g, types ? (uint32_t)json_integer_value(json_array_get(types, i)) : (uint32_t)type[i]);
    if (types) {
        gguf_key_array(&g, "tokenizer.ggml.scores", 6, n);
        for (size_t i = 0; i < n; i++) {
            float x = (float)json_number_value(json_array_get(scores, i));

            gguf_put(&g, &x, sizeof x);
        }
    } else {
        gguf_key_array(&g, "tokenizer.ggml.merges", 8, json_array_size(merges));
        for (size_t i = 0; i < json_array_size(merges); i++) {
            const json_t *m = json_array_get(merges, i);
            char pair[256];
            int k = snprintf(pair, sizeof pair, "%s %s", json_string_value(json_array_get(m, 0)),
                             json_string_value(json_array_get(m, 1)));

            gguf_string(&g, pair, (size_t)k);
        }
    }
    gguf_key_u32(&g, "tokenizer.ggml.eos_token_id", 2);
    gguf_end(&g, f);
    json_decref(j);
}

static struct tokenizer *open_gguf(const json_t *c)
{
    struct token_folder f;
    struct tokenizer *t;

    folder_make(&f);
    write_gguf(&f, c);
    t = open_path(f.path, "model.gguf", NULL);
    folder_remove(&f);
    return t;
}

static const json_t *find_case(const json_t *all, const char *name)
{
    const json_t *list = json_object_get(all, "cases");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);

        if (strcmp(json_string_value(json_object_get(c, "name")), name) == 0)
            return c;
    }
    fail_msg("no golden case %s", name);
    return NULL;
}

/* --- comparing ------------------------------------------------------------------------------------------------- */

static void encode(const struct tokenizer *t, const char *s, size_t n, unsigned flags, struct token_list *out)
{
    struct err e;

    out->n = 0;
    if (tokenizer_encode(t, s, n, flags, out, &e))
        fail_msg("%s", e.msg);
}

static char *decode(const struct tokenizer *t, const struct token_list *l, size_t *len)
{
    char *s = NULL;
    struct err e;

    *len = 0;
    if (tokenizer_decode(t, l->ids, l->n, true, &s, len, &e))
        fail_msg("%s", e.msg);
    return s;
}

static void expect_ids(const char *what, const char *text, const struct token_list *got, const json_t *want)
{
    size_t n = json_array_size(want), i = 0;

    while (i < n && i < got->n && json_integer_value(json_array_get(want, i)) == got->ids[i])
        i++;
    if (i < n || i < got->n)
        fail_msg("%s: \"%s\": %zu ids, expected %zu; the first difference is at %zu", what, text, got->n, n, i);
}

/* The incremental decoder gives the same bytes, and whole characters only where the text has them. */
static void check_increments(const struct tokenizer *t, const struct token_list *l, const char *text, size_t n)
{
    struct token_decoder d;
    char *buf = NULL;
    size_t len = 0, cap = 0;
    struct err e;

    token_decoder_init(&d, t, true);
    for (size_t i = 0; i < l->n; i++) {
        size_t before = len;

        assert_int_equal(token_decoder_push(&d, l->ids[i], &buf, &len, &cap, &e), 0);
        assert_true(d.n_held <= 3);
        assert_true(len <= n && (before == len || (buf[before] & 0xc0) != 0x80));
        assert_true(len == n || (text[len] & 0xc0) != 0x80 || d.n_held == 0);
    }
    assert_int_equal(token_decoder_finish(&d, &buf, &len, &cap, &e), 0);
    assert_int_equal(len, n);
    if (n)
        assert_memory_equal(buf, text, n);
    free(buf);
}

static void check_case(const struct tokenizer *t, const char *what, const json_t *c, const json_t *texts)
{
    const json_t *ids = json_object_get(c, "ids"), *plain = json_object_get(c, "plain_ids");
    bool meta = strncmp(what, "metaspace", 9) == 0; /* takes " x" for "x" */
    bool spm = strcmp(tokenizer_kind(t), "spm") == 0, nfc = strcmp(tokenizer_pre(t), "qwen2") == 0;
    struct token_list l = { 0 };

    for (size_t i = 0; i < json_array_size(ids); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        size_t n = json_string_length(json_array_get(texts, i)), len;
        const json_t *want;
        char key[24], *back;

        encode(t, text, n, TOKEN_PARSE_SPECIAL, &l);
        expect_ids(what, text, &l, json_array_get(ids, i));
        snprintf(key, sizeof key, "%zu", i);
        want = json_object_get(plain, key);
        encode(t, text, n, 0, &l);
        expect_ids(what, text, &l, want ? want : json_array_get(ids, i));
        back = decode(t, &l, &len);
        if (!nfc && !(meta && text[0] == ' ') && !(spm && strstr(text, MARK)) && !strstr(text, "<left>") && !strstr(text, "<right>") &&
            !strstr(text, "<tag>")) {
            assert_int_equal(len, n);
            if (n)
                assert_memory_equal(back, text, n);
            check_increments(t, &l, text, n);
        }
        free(back);
    }
    free(l.ids);
}

static void each_case(bool gguf)
{
    json_t *all = golden_json("cases.json");
    const json_t *list = json_object_get(all, "cases");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(c, "name")), *pre = json_string_value(json_object_get(c, "pre"));
        struct tokenizer *t;

        if (gguf && (strcmp(pre, "custom") == 0 || (!*pre && !json_object_get(c, "types"))))
            continue; /* what GGUF cannot say */
        t = gguf ? open_gguf(c) : open_hf(c);
        assert_string_equal(tokenizer_pre(t), pre);
        check_case(t, name, c, json_object_get(all, "texts"));
        tokenizer_close(t);
    }
    json_decref(all);
}

static void test_hf_ids(void **state)
{
    (void)state;
    each_case(false);
}

static void test_gguf_ids(void **state)
{
    (void)state;
    each_case(true);
}

/* --- any bytes ------------------------------------------------------------------------------------------------- */

static void test_any_bytes(void **state)
{
    static const char *const names[] = { "smollm", "llama-bpe", "gemma", "llama" };
    json_t *all = golden_json("cases.json");
    struct token_list l = { 0 };
    char text[512];

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct tokenizer *t = open_gguf(find_case(all, names[k]));

        for (uint32_t round = 0; round < 400; round++) {
            size_t n = round % sizeof text, len;
            char *back;

            for (size_t i = 0; i < n; i++) {
                double x = rng_uniform(7, round, i);

                text[i] = (char)(round % 2 ? (int)(x * 256) : "\xe2\x82\xac\xf0\x9f\x98\x80 a\xc3\xa9\xed\xa0"[(int)(x * 13)]);
            }
            encode(t, text, n, 0, &l);
            back = decode(t, &l, &len);
            if (k < 2 || !memmem(text, n, MARK, 3)) {
                assert_int_equal(len, n);
                if (n)
                    assert_memory_equal(back, text, n);
            }
            free(back);
        }
        tokenizer_close(t);
    }
    json_decref(all);
    free(l.ids);
}

/* Bytes that cannot become a character any more are given out at once; others wait. */
static void test_held_bytes(void **state)
{
    static const struct {
        const char *in;
        const char *after[5]; /* what has come out after each byte */
    } rows[] = {
        { "\xe2\x82\xac", { "", "", "\xe2\x82\xac" } },
        { "\xe2\x82x", { "", "", "\xe2\x82x" } },
        { "\xf0\x9f\x98\x80", { "", "", "", "\xf0\x9f\x98\x80" } },
        { "\x80\xc3\xa9", { "\x80", "\x80", "\x80\xc3\xa9" } },
        { "\xed\xa0\x80", { "", "\xed\xa0", "\xed\xa0\x80" } }, /* a surrogate */
        { "\xf5\xc3\xc3\xa9", { "\xf5", "\xf5", "\xf5\xc3", "\xf5\xc3\xc3\xa9" } },
    };
    json_t *all = golden_json("cases.json");
    struct tokenizer *t = open_gguf(find_case(all, "gpt2"));
    struct token_list l = { 0 };
    struct err e;

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct token_decoder d;
        char *buf = NULL;
        size_t len = 0, cap = 0;

        token_decoder_init(&d, t, false);
        for (size_t i = 0; rows[r].in[i]; i++) {
            encode(t, rows[r].in + i, 1, 0, &l);
            assert_int_equal(l.n, 1);
            assert_int_equal(token_decoder_push(&d, l.ids[0], &buf, &len, &cap, &e), 0);
            assert_int_equal(len, strlen(rows[r].after[i]));
            if (len)
                assert_memory_equal(buf, rows[r].after[i], len);
        }
        free(buf);
    }
    tokenizer_close(t);
    json_decref(all);
    free(l.ids);
}

/* Milliseconds of this thread, for a line without spaces of n bytes and back; kind: one letter, letters, spaces. */
static double encode_line(const struct tokenizer *t, int kind, char *text, size_t n, struct token_list *l)
{
    struct timespec a, b;
    size_t len;
    char *back;

    for (size_t i = 0; i < n; i++)
        text[i] = kind == 0 ? 'e' : kind == 1 ? ' ' : (char)('a' + (int)(26 * rng_uniform(1, 2, i)));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    encode(t, text, n, 0, l);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    back = decode(t, l, &len);
    assert_int_equal(len, n);
    assert_memory_equal(back, text, n);
    free(back);
    return (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6;
}

/* Six times the text takes some six times as long: quadratic merging would take 36 times. */
static void test_long_lines(void **state)
{
    static const char *const names[] = { "smollm", "qwen2", "gemma", "llama" };
    enum { SHORT = 10000, LONG = 6 * SHORT };
    json_t *all = golden_json("cases.json");
    char *text = malloc(LONG);
    struct token_list l = { 0 };

    (void)state;
    assert_non_null(text);
    for (size_t k = 0; k < 4; k++) {
        struct tokenizer *t = open_gguf(find_case(all, names[k]));

        for (int kind = 0; kind < 3; kind++) {
            double less = encode_line(t, kind, text, SHORT, &l), more = encode_line(t, kind, text, LONG, &l);

            assert_true(more < 20 * less + 50);
        }
        tokenizer_close(t);
    }
    free(text);
    free(l.ids);
    json_decref(all);
}

/* --- what a tokenizer says of itself --------------------------------------------------------------------------- */

static void test_properties(void **state)
{
    static const char config[] = "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"<|im_end|>\"},\"add_bos_token\":true,"
                                 "\"chat_template\":\"x\"}";
    static const char generation[] = "{\"eos_token_id\":[2,259]}";
    json_t *all = golden_json("cases.json");
    char *text = case_json(find_case(all, "smollm"));
    struct token_folder f;
    struct tokenizer *t;
    struct token_list l = { 0 };
    const char *piece;
    size_t n;
    int32_t id;

    (void)state;
    folder_make(&f);
    folder_hf(&f, text, strlen(text));
    folder_file(&f, "tokenizer_config.json", config, sizeof config - 1);
    folder_file(&f, "generation_config.json", generation, sizeof generation - 1);
    t = open_path(f.path, NULL, NULL);
    folder_remove(&f);
    assert_string_equal(tokenizer_kind(t), "bpe");
    assert_int_equal(tokenizer_bos(t), tokenizer_find(t, "<s>", 3));
    id = tokenizer_eos(t);
    assert_int_equal(id, tokenizer_find(t, "<|im_end|>", 10));
    assert_true(tokenizer_add_bos(t) && !tokenizer_add_eos(t));
    assert_true(tokenizer_is_stop(t, id) && tokenizer_is_stop(t, 2) && tokenizer_is_stop(t, 259));
    assert_true(tokenizer_is_stop(t, 0)); /* <|endoftext|> */
    assert_false(tokenizer_is_stop(t, 3) || tokenizer_is_stop(t, -1) || tokenizer_is_stop(t, 1 << 30));
    assert_true(tokenizer_is_special(t, id));
    assert_false(tokenizer_is_special(t, tokenizer_find(t, "<tool>", 6)));
    assert_int_equal(tokenizer_find(t, "no such token", 13), -1);
    for (unsigned b = 0; b < 256; b++)
        assert_true(tokenizer_has_byte(t, (unsigned char)b));
    tokenizer_piece(t, id, false, &piece, &n);
    assert_int_equal(n, 0);
    tokenizer_piece(t, id, true, &piece, &n);
    assert_int_equal(n, 10);
    tokenizer_piece(t, 99999, true, &piece, &n);
    assert_int_equal(n, 0);
    encode(t, "a", 1, TOKEN_ADD_BOS, &l);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.ids[0], tokenizer_bos(t));
    encode(t, "<|im_end|>", 10, TOKEN_PARSE_SPECIAL, &l);
    assert_int_equal(l.n, 1);
    tokenizer_close(t);
    tokenizer_close(NULL);
    free(text);
    free(l.ids);
    json_decref(all);
}

/* --- refusals -------------------------------------------------------------------------------------------------- */

static void expect_refusal(const char *dir, const char *file, const char *pre, int code, const char *part)
{
    char path[192];
    struct source *s;
    struct tokenizer *t;
    struct err e = { 0 };

    snprintf(path, sizeof path, "%s%s%s", dir, file ? "/" : "", file ? file : "");
    assert_int_equal(source_open(&s, path, &e), 0);
    assert_int_equal(tokenizer_open(&t, s, pre, &e), code);
    assert_null(t);
    if (!strstr(e.msg, part))
        fail_msg("expected \"%s\" in \"%s\"", part, e.msg);
    source_close(s);
}

static void test_refused_json(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *part;
    } rows[] = {
        { "{}", ERR_FORMAT, "no model" },
        { "{\"model\":{\"type\":\"Unigram\"}}", ERR_UNSUPPORTED, "Unigram" },
        { "{\"model\":{\"type\":\"BPE\"}}", ERR_FORMAT, "vocab" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", ERR_FORMAT, "share the id 0" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"x\"},\"merges\":[]}}", ERR_FORMAT, "\"a\"" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}", ERR_FORMAT, "4000000000" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", ERR_FORMAT, "merge 0" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", ERR_FORMAT, "merge 0" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", ERR_FORMAT, "merge 0" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", ERR_UNSUPPORTED, "dropout" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}", ERR_UNSUPPORTED,
          "subwords" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", ERR_UNSUPPORTED, "ByteLevel" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":\"Lowercase\"}}",
          ERR_UNSUPPORTED, "Lowercase" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
          ERR_UNSUPPORTED, "BertPreTokenizer" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
          "{\"Regex\":\"[a-z&&[^b]]\"},\"behavior\":\"Isolated\"}}",
          ERR_UNSUPPORTED, "[a-z&&[^b]]" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":1,\"content\":\"a\"}]}",
          ERR_FORMAT, "has the id 1" },
    };
    struct token_folder f;

    (void)state;
    folder_make(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        folder_hf(&f, rows[i].text, strlen(rows[i].text));
        expect_refusal(f.path, NULL, NULL, rows[i].code, rows[i].part);
    }
    folder_remove(&f);
}

/* A GGUF vocabulary of "a", "b", "ab" with one thing changed. */
static void small_gguf(const struct token_folder *f, const char *model, const char *pre, const char *merge, uint32_t bos,
                       size_t n_types)
{
    struct gguf_out g;

    gguf_begin(&g);
    gguf_key_str(&g, "general.architecture", "llama");
    if (model)
        gguf_key_str(&g, "tokenizer.ggml.model", model);
    if (pre)
        gguf_key_str(&g, "tokenizer.ggml.pre", pre);
    gguf_key_array(&g, "tokenizer.ggml.tokens", 8, 3);
    gguf_string(&g, "a", 1);
    gguf_string(&g, "b", 1);
    gguf_string(&g, "ab", 2);
    gguf_key_array(&g, "tokenizer.ggml.token_type", 5, n_types);
    for (size_t i = 0; i < n_types; i++)
        gguf_u32(&g, 1);
    if (merge) {
        gguf_key_array(&g, "tokenizer.ggml.merges", 8, 1);
        gguf_string(&g, merge, strlen(merge));
    }
    gguf_key_u32(&g, "tokenizer.ggml.bos_token_id", bos);
    gguf_end(&g, f);
}

static void test_refused_gguf(void **state)
{
    static const struct {
        const char *model, *pre, *merge;
        uint32_t bos;
        size_t n_types;
        const char *option;
        int code;
        const char *part;
    } rows[] = {
        { NULL, "gpt-2", "a b", 0, 3, NULL, ERR_FORMAT, "no tokenizer" },
        { "bert", "gpt-2", "a b", 0, 3, NULL, ERR_UNSUPPORTED, "bert" },
        { "gpt2", NULL, "a b", 0, 3, NULL, ERR_UNSUPPORTED, "--pre-tokenizer" },
        { "gpt2", "nonesuch", "a b", 0, 3, NULL, ERR_UNSUPPORTED, "\"nonesuch\"" },
        { "gpt2", "nonesuch", "a b", 0, 3, NULL, ERR_UNSUPPORTED, "--pre-tokenizer" },
        { "gpt2", "gpt-2", "a b", 0, 3, "nonesuch", ERR_UNSUPPORTED, "nonesuch" },
        { "gpt2", "gpt-2", NULL, 0, 3, NULL, ERR_FORMAT, "merges" },
        { "gpt2", "gpt-2", "b a", 0, 3, NULL, ERR_FORMAT, "merge 0" },
        { "gpt2", "gpt-2", "ab", 0, 3, NULL, ERR_FORMAT, "merge 0" },
        { "gpt2", "gpt-2", "a b", 3, 3, NULL, ERR_FORMAT, "bos_token_id = 3" },
        { "gpt2", "gpt-2", "a b", 0, 2, NULL, ERR_FORMAT, "token types" },
        { "llama", NULL, NULL, 0, 3, NULL, ERR_FORMAT, "scores" },
    };
    struct token_folder f;
    struct tokenizer *t;
    struct token_list l = { 0 };

    (void)state;
    folder_make(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        small_gguf(&f, rows[i].model, rows[i].pre, rows[i].merge, rows[i].bos, rows[i].n_types);
        expect_refusal(f.path, "model.gguf", rows[i].option, rows[i].code, rows[i].part);
    }
    small_gguf(&f, "gpt2", "nonesuch", "a b", UINT32_MAX, 3); /* a chosen pre-tokenizer is used; -1 is no BOS */
    t = open_path(f.path, "model.gguf", "qwen2");
    assert_string_equal(tokenizer_pre(t), "qwen2");
    assert_int_equal(tokenizer_bos(t), -1);
    encode(t, "abcab", 5, TOKEN_ADD_BOS, &l); /* the vocabulary has no c */
    assert_int_equal(l.n, 2);
    assert_int_equal(l.ids[0], 2);
    assert_false(tokenizer_has_byte(t, 'c'));
    tokenizer_close(t);
    folder_remove(&f);
    free(l.ids);
}

/* --- threads --------------------------------------------------------------------------------------------------- */

struct job {
    const struct tokenizer *t;
    const json_t *texts, *ids;
    bool same;
};

static void *encode_texts(void *arg)
{
    struct job *j = arg;
    struct token_list l = { 0 };

    j->same = true;
    for (size_t i = 0; i < json_array_size(j->ids); i++) {
        const json_t *text = json_array_get(j->texts, i), *want = json_array_get(j->ids, i);

        l.n = 0;
        if (tokenizer_encode(j->t, json_string_value(text), json_string_length(text), TOKEN_PARSE_SPECIAL, &l, NULL))
            j->same = false;
        j->same = j->same && l.n == json_array_size(want);
    }
    free(l.ids);
    return NULL;
}

static void test_threads(void **state)
{
    json_t *all = golden_json("cases.json");
    const json_t *c = find_case(all, "qwen2");
    struct tokenizer *t = open_gguf(c);
    struct job jobs[4];
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){ t, json_object_get(all, "texts"), json_object_get(c, "ids"), false };
        assert_int_equal(pthread_create(&threads[i], NULL, encode_texts, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(jobs[i].same);
    }
    tokenizer_close(t);
    json_decref(all);
}

/* --- real models ----------------------------------------------------------------------------------------------- */

/* A text of many scripts, many times over: decoding gives it back. Form C, no U+2581, no byte that SmolLM2 lacks. */
static void check_model(const char *path)
{
    static const char part[] = "The quick brown fox, 12345; don't: \xc3\xa9\xc3\xbc \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\t\r\n  "
                               "<|im_start|>x<end_of_turn>\n\n\n    return f(x)\n";
    struct tokenizer *t = open_path(path, NULL, NULL);
    struct token_list l = { 0 };
    size_t n = 2000 * (sizeof part - 1), len;
    char *text = malloc(n), *back;

    assert_non_null(text);
    for (size_t i = 0; i < 2000; i++)
        memcpy(text + i * (sizeof part - 1), part, sizeof part - 1);
    for (unsigned flags = 0; flags < 2; flags++) {
        encode(t, text, n, flags, &l);
        back = decode(t, &l, &len);
        assert_int_equal(len, n);
        assert_memory_equal(back, text, n);
        free(back);
    }
    free(text);
    free(l.ids);
    tokenizer_close(t);
}

static void test_real_models(void **state)
{
    const char *folder = getenv("SLUICE_MODELS");
    DIR *d = folder ? opendir(folder) : NULL;
    struct dirent *entry;
    size_t n = 0;

    (void)state;
    while (d && (entry = readdir(d))) {
        const char *dot = strrchr(entry->d_name, '.');
        char path[600];

        if (!dot || strcmp(dot, ".gguf") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        check_model(path);
        n++;
    }
    if (d)
        closedir(d);
    if (n == 0)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hf_ids),       cmocka_unit_test(test_gguf_ids),     cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_held_bytes),   cmocka_unit_test(test_long_lines),   cmocka_unit_test(test_properties),
        cmocka_unit_test(test_refused_json), cmocka_unit_test(test_refused_gguf), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_real_models),
    };

    return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
