/* Qwen3: Llama's layer with an RMS norm on every head of q and k before RoPE; the head dimension is free of the width. */
#include "lib/model/arch.h"

static int read_params(struct model_params *p, const struct source *s, struct err *e)
{
    bool bias = false;
    int rc;

    p->qk_norm = true;
    rc = source_get_bool(s, "attention_bias", &bias, e);
    if (rc && rc != ERR_NOTFOUND)
        return rc;
    if (bias)
        return err_set(e, ERR_UNSUPPORTED, "%s: attention_bias is not supported for qwen3", source_path(s));
    if ((rc = arch_read_window(p, s, false, e)))
        return rc;
    return arch_read_silu(p, s, e);
}

static const char *const hf_types[] = { "qwen3", NULL };

const struct arch arch_qwen3 = { "qwen3", hf_types, arch_names_plain, read_params, graph_layer };
