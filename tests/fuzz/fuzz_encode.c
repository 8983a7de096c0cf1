/* Any bytes through small byte-level and SentencePiece vocabularies: decoding gives them back, all at once and token by
 * token. The first byte chooses the vocabulary and whether special tokens are recognised. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/token/hf_priv.h"
#include "tests/fuzz/fuzz.h"

#define MARK "\xe2\x96\x81"
#define N_KINDS 6

static void add(json_t *vocab, const char *text)
{
    if (!json_object_get(vocab, text))
        json_object_set_new(vocab, text, json_integer((json_int_t)json_object_size(vocab)));
}

static void merge(json_t *model, const char *left, const char *right)
{
    char both[64];

    snprintf(both, sizeof both, "%s%s", left, right);
    add(json_object_get(model, "vocab"), both);
    json_array_append_new(json_object_get(model, "merges"), json_pack("[s, s]", left, right));
}

static void add_special(json_t *root, const char *text, int special)
{
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");

    add(vocab, text);
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:O, s:s, s:b, s:b}", "id", json_object_get(vocab, text), "content", text, "special", special,
                                    "normalized", 0));
}

/* kind 0..3: byte-level with the pre-tokenizer of that place in the list; 4 and 5: SentencePiece without and with a space
 * put first. */
static json_t *make_json(int kind)
{
    static const char *const pairs[][2] = { { "a", "a" }, { "aa", "aa" }, { "aa", "a" }, { "b", "a" }, { "a", "b" }, { "ab", "ab" },
                                            { "t", "h" }, { "th", "e" },  { "1", "2" },  { "\n", "\n" } };
    int spm = kind >= 4;
    json_t *root = json_pack("{s:{s:s, s:{}, s:[], s:b}, s:[]}", "model", "type", "BPE", "vocab", "merges", "byte_fallback", spm,
                             "added_tokens");
    json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");

    for (unsigned b = 0; b < 256; b++) {
        char text[8];

        if (spm)
            snprintf(text, sizeof text, "<0x%02X>", b);
        else
            text[byte_level_char((unsigned char)b, text)] = 0;
        add(vocab, text);
    }
    for (const char *c = "abthe12 \n"; spm && *c; c++)
        add(vocab, (const char[]){ *c, 0 });
    add(vocab, spm ? MARK : "\xc4\xa0");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] - !spm; i++)
        merge(model, pairs[i][0], pairs[i][1]);
    merge(model, spm ? MARK : "\xc4\xa0", "t");
    merge(model, spm ? MARK : "\xc4\xa0", spm ? MARK : "\xc4\xa0");
    merge(model, spm ? MARK "t" : "\xc4\xa0t", "h");
    add_special(root, "<s>", 1);
    add_special(root, "</s>", 1);
    add_special(root, "<s><s>", 1);
    add_special(root, "<user>", 0);
    if (spm)
        json_object_set_new(root, "normalizer", json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}]}", "type", "Sequence", "normalizers", "type",
                                                          "Replace", "pattern", "String", " ", "content", MARK));
    if (kind == 5) {
        json_array_insert_new(json_object_get(json_object_get(root, "normalizer"), "normalizers"), 0,
                              json_pack("{s:s, s:s}", "type", "Prepend", "prepend", MARK));
        json_object_set_new(root, "decoder", json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    }
    return root;
}

static struct tokenizer *make(int kind)
{
    static const char *const pre[] = { "gpt2", "smollm", "llama-bpe", "deepseek-v3", NULL, NULL };
    struct tokenizer *t = malloc(sizeof *t);
    struct hf_files f = { make_json(kind), NULL, NULL };
    struct err e;

    if (!t)
        abort();
    token_init(t);
    if (hf_load(t, &f, pre[kind], &e)) {
        fprintf(stderr, "%s\n", e.msg);
        abort();
    }
    json_decref((json_t *)f.tokenizer);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *kinds[N_KINDS];
    int kind = size ? data[0] % N_KINDS : 0, special = size && data[0] / N_KINDS % 2;
    const char *text = (const char *)data + (size > 0);
    size_t n = size ? size - 1 : 0, len = 0, inc_len = 0, cap = 0;
    struct token_list l = { 0 };
    struct token_decoder d;
    char *buf = NULL, *inc = NULL;

    if (!kinds[kind])
        kinds[kind] = make(kind);
    if (tokenizer_encode(kinds[kind], text, n, special ? TOKEN_PARSE_SPECIAL : 0, &l, NULL) ||
        tokenizer_decode(kinds[kind], l.ids, l.n, true, &buf, &len, NULL))
        abort();
    token_decoder_init(&d, kinds[kind], true);
    for (size_t i = 0; i < l.n; i++) {
        if (token_decoder_push(&d, l.ids[i], &inc, &inc_len, &cap, NULL) || d.n_held > 3)
            abort();
    }
    if (token_decoder_finish(&d, &inc, &inc_len, &cap, NULL) || inc_len != len || (len && memcmp(buf, inc, len) != 0))
        abort();
    /* A mark in the text decodes as a space, and a space is put behind every added token: as in the models' own files. */
    if (kind < 4 || (!memmem(text, n, MARK, 3) && (kind == 4 || !memchr(text, '<', n)))) {
        if (len != n || (n && memcmp(buf, text, n) != 0))
            abort();
    }
    free(l.ids);
    free(buf);
    free(inc);
    return 0;
}
