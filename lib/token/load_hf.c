/* Tokenizers in Hugging Face folders (tokenizer.json). */
#include "lib/token/token_priv.h"

int token_load_hf(struct tokenizer *t, struct source *s, const char *pre, struct err *e)
{
    (void)t;
    (void)pre;
    return err_set(e, ERR_UNSUPPORTED, "%s: tokenizers of Hugging Face folders are not handled", source_path(s));
}
