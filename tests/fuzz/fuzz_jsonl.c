/* Lines of a prompt file, read as JSON and as text, with a tokenizer where the tiny models can be found. */
#include <string.h>

#include "lib/gen/request.h"
#include "lib/io/source.h"
#include "tests/fuzz/fuzz.h"

static const struct tokenizer *tiny_tokenizer(void)
{
    static struct tokenizer *tok;
    static struct source *src;
    struct err e;

    if (!tok && !src && !source_open(&src, "tests/golden/models/llama/model.gguf", &e))
        tokenizer_open(&tok, src, NULL, &e);
    return tok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *end = text + size;
    struct gen_params defaults;
    struct gen_prompting how = { .tok = tiny_tokenizer(), .n_vocab = 300, .defaults = &defaults };
    uint64_t number = 0;

    if (!how.tok)
        return 0;
    gen_params_init(&defaults);
    while (text < end) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        size_t len = nl ? (size_t)(nl - text) : (size_t)(end - text);
        struct gen_request r;
        struct err e;

        gen_request_json(&r, &how, ++number, text, len, &e);
        gen_request_clear(&r);
        gen_request_text(&r, &how, number, text, len, &e);
        gen_request_clear(&r);
        text += len + (nl != NULL);
    }
    gen_params_clear(&defaults);
    return 0;
}
