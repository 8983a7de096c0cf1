/* Opening what the generating modes of infer-run need. */
#include <string.h>

#include "cmd/infer-run/run.h"

int run_session_open(struct run_session *s, const struct run_args *a, uint32_t n_seqs, struct err *e)
{
    const struct runtime_opts o = { .tokenizer = true, .pre_tokenizer = a->pre_tokenizer, .n_seqs = n_seqs,
                                    .chunk_tokens = a->chunk_tokens };
    const struct chat_template *chat = NULL;
    int rc;

    memset(s, 0, sizeof *s);
    rc = runtime_open(&s->rt, &a->common, &o, e);
    if (rc)
        return rc;
    s->how.tok = s->rt.tok;
    s->how.n_vocab = s->rt.model->params.n_vocab;
    s->how.defaults = &a->params;
    s->how.system = a->system;
    s->how.instruct = a->instruct;
    s->how.no_special = a->no_special;
    s->how.seed = a->common.seed;
    rc = chat_template_find(&chat, s->rt.tok, a->template_name, &s->chat_error);
    if (rc && (a->template_name || a->instruct || a->mode == RUN_CHAT)) {
        if (e)
            *e = s->chat_error;
        return rc;
    }
    s->how.chat = rc ? NULL : chat;
    s->how.chat_error = s->chat_error.msg;
    return gen_params_check(&a->params, s->how.n_vocab, e);
}

void run_session_close(struct run_session *s)
{
    runtime_close(&s->rt);
}
