/* Parameters of a generation request. */
#include <stdlib.h>
#include <string.h>

#include "lib/gen/request.h"

void gen_params_init(struct gen_params *p)
{
    memset(p, 0, sizeof *p);
    sample_params_init(&p->sample);
    p->max_tokens = 256;
    p->n = 1;
    p->logprobs = -1;
}

void gen_params_clear(struct gen_params *p)
{
    for (uint32_t i = 0; i < p->n_stop; i++)
        free(p->stop[i].text);
    free(p->stop);
    free(p->stop_ids);
    free((void *)(uintptr_t)p->sample.bias);
    gen_params_init(p);
}

int gen_params_add_stop(struct gen_params *p, const char *text, size_t len, struct err *e)
{
    struct gen_stop *v;
    char *copy;

    if (!len)
        return err_set(e, ERR_INVAL, "stop: an empty string would stop at once");
    if (p->n_stop == GEN_STOPS_MAX)
        return err_set(e, ERR_INVAL, "stop: more than %u strings", GEN_STOPS_MAX);
    v = realloc(p->stop, (p->n_stop + 1) * sizeof *v);
    if (v)
        p->stop = v;
    copy = v ? malloc(len + 1) : NULL;
    if (!copy)
        return err_set(e, ERR_NOMEM, "stop string of %zu bytes", len);
    memcpy(copy, text, len);
    copy[len] = 0;
    p->stop[p->n_stop++] = (struct gen_stop){ copy, len };
    return 0;
}

int gen_params_add_stop_id(struct gen_params *p, int32_t id, struct err *e)
{
    int32_t *v = realloc(p->stop_ids, (p->n_stop_ids + 1) * sizeof *v);

    if (!v)
        return err_set(e, ERR_NOMEM, "stop_token_ids");
    p->stop_ids = v;
    p->stop_ids[p->n_stop_ids++] = id;
    return 0;
}

int gen_params_add_bias(struct gen_params *p, int32_t id, float bias, struct err *e)
{
    struct sample_bias *v = realloc((void *)(uintptr_t)p->sample.bias, (p->sample.n_bias + 1) * sizeof *v);

    if (!v)
        return err_set(e, ERR_NOMEM, "logit_bias");
    v[p->sample.n_bias++] = (struct sample_bias){ id, bias };
    p->sample.bias = v;
    return 0;
}

int gen_params_copy(struct gen_params *dst, const struct gen_params *src, struct err *e)
{
    int rc = 0;

    *dst = *src;
    dst->sample.bias = NULL;
    dst->stop = NULL;
    dst->stop_ids = NULL;
    dst->sample.n_bias = dst->n_stop = dst->n_stop_ids = 0;
    for (uint32_t i = 0; !rc && i < src->n_stop; i++)
        rc = gen_params_add_stop(dst, src->stop[i].text, src->stop[i].len, e);
    for (uint32_t i = 0; !rc && i < src->n_stop_ids; i++)
        rc = gen_params_add_stop_id(dst, src->stop_ids[i], e);
    for (uint32_t i = 0; !rc && i < src->sample.n_bias; i++)
        rc = gen_params_add_bias(dst, src->sample.bias[i].token, src->sample.bias[i].bias, e);
    return rc;
}

int gen_params_check(const struct gen_params *p, uint32_t n_vocab, struct err *e)
{
    if (p->max_tokens < 1 || p->max_tokens > GEN_TOKENS_MAX)
        return err_set(e, ERR_INVAL, "max_tokens: %u is not from 1 to %u", (unsigned)p->max_tokens, GEN_TOKENS_MAX);
    if (p->n < 1 || p->n > GEN_N_MAX)
        return err_set(e, ERR_INVAL, "n: %u is not from 1 to %u", (unsigned)p->n, GEN_N_MAX);
    if (p->logprobs < -1 || p->logprobs > (int32_t)SAMPLE_TOP_MAX)
        return err_set(e, ERR_INVAL, "logprobs: %d is not from 0 to %u", (int)p->logprobs, SAMPLE_TOP_MAX);
    for (uint32_t i = 0; i < p->n_stop_ids; i++)
        if (p->stop_ids[i] < 0 || (uint32_t)p->stop_ids[i] >= n_vocab)
            return err_set(e, ERR_INVAL, "stop_token_ids: %d is not in the vocabulary of %u", (int)p->stop_ids[i],
                           (unsigned)n_vocab);
    return sample_params_check(&p->sample, n_vocab, e);
}
