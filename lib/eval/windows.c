/* Text to token ids to windows. */
#include <stdlib.h>
#include <string.h>

#include "lib/core/mem.h"
#include "lib/eval/eval.h"

int eval_windows_cut(struct eval_windows *w, const int32_t *ids, size_t n, int32_t bos, uint32_t ctx,
                     uint32_t max_windows, struct err *e)
{
    size_t n_windows;

    memset(w, 0, sizeof *w);
    if (ctx < 2)
        return err_set(e, ERR_INVAL, "a window of %u tokens: need at least 2", ctx);
    n_windows = n / ctx;
    if (n_windows == 0)
        return err_set(e, ERR_INVAL, "the text has %zu tokens, less than one window of %u: give more text or a smaller --ctx",
                       n, ctx);
    if (max_windows && n_windows > max_windows)
        n_windows = max_windows;
    if (n_windows > UINT32_MAX)
        return err_set(e, ERR_LIMIT, "the text has %zu windows of %u tokens: limit them with --windows", n_windows, ctx);
    w->ids = malloc(n_windows * ctx * sizeof *w->ids);
    if (!w->ids)
        return err_set(e, ERR_NOMEM, "%zu windows of %u tokens: out of memory", n_windows, ctx);
    memcpy(w->ids, ids, n_windows * ctx * sizeof *w->ids);
    for (size_t i = 0; bos >= 0 && i < n_windows; i++)
        w->ids[i * ctx] = bos;
    w->n_windows = (uint32_t)n_windows;
    w->ctx = ctx;
    w->n_tokens = n;
    return 0;
}

int eval_windows_make(struct eval_windows *w, const struct tokenizer *t, const char *text, size_t len, uint32_t ctx,
                      uint32_t max_windows, struct err *e)
{
    struct token_list list = { 0 };
    int32_t bos = tokenizer_add_bos(t) ? tokenizer_bos(t) : -1;
    struct sha256 s;
    int rc;

    memset(w, 0, sizeof *w);
    if (bos >= 0) { /* by hand: TOKEN_ADD_BOS would add an EOS too where the model asks for one */
        list.cap = 64;
        list.ids = malloc(list.cap * sizeof *list.ids);
        if (!list.ids)
            return err_set(e, ERR_NOMEM, "token list: out of memory");
        list.ids[list.n++] = bos;
    }
    rc = tokenizer_encode(t, text, len, 0, &list, e);
    if (!rc)
        rc = eval_windows_cut(w, list.ids, list.n, bos, ctx, max_windows, e);
    free(list.ids);
    if (rc)
        return rc;
    sha256_init(&s);
    sha256_add(&s, text, len);
    sha256_end(&s, w->text_sha256);
    return 0;
}

void eval_windows_free(struct eval_windows *w)
{
    free(w->ids);
    memset(w, 0, sizeof *w);
}
