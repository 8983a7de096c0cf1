/* tokenizer.json from memory: loads or is refused; what loads encodes and decodes a short text. */
#include <stdlib.h>
#include <string.h>

#include "lib/token/hf_priv.h"
#include "tests/fuzz/fuzz.h"

static const char text[] = "Hello  w\xc3\xb6rld, don't 123\t<s>\n\n \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80 e\xcc\x81 \xff\xc3 <|im_end|>a";

static void use(const struct tokenizer *t)
{
    struct token_list l = { 0 };
    struct token_decoder d;
    char *buf = NULL, *inc = NULL;
    size_t len = 0, inc_len = 0, cap = 0;

    if (tokenizer_encode(t, text, sizeof text, TOKEN_PARSE_SPECIAL | TOKEN_ADD_BOS, &l, NULL))
        return; /* a pattern that would run for ever is an error */
    if (tokenizer_decode(t, l.ids, l.n, true, &buf, &len, NULL))
        abort();
    token_decoder_init(&d, t, true);
    for (size_t i = 0; i < l.n; i++) {
        if (l.ids[i] < 0 || (uint32_t)l.ids[i] >= tokenizer_n_vocab(t))
            abort();
        token_decoder_push(&d, l.ids[i], &inc, &inc_len, &cap, NULL);
    }
    token_decoder_finish(&d, &inc, &inc_len, &cap, NULL);
    if (inc_len != len || (len && memcmp(inc, buf, len) != 0))
        abort();
    free(l.ids);
    free(buf);
    free(inc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_files f = { NULL, NULL, NULL };
    struct tokenizer *t;
    json_t *j;
    struct err e;

    if (json_parse(&j, (const char *)data, size, "tokenizer.json", &e))
        return 0;
    t = malloc(sizeof *t);
    if (!t)
        abort();
    token_init(t);
    f.tokenizer = j;
    f.tokenizer_config = json_object_get(j, "tokenizer_config"); /* so that one input can hold all three */
    f.generation_config = json_object_get(j, "generation_config");
    if (hf_load(t, &f, NULL, &e) == 0)
        use(t);
    tokenizer_close(t);
    json_decref(j);
    return 0;
}
