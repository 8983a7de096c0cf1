/* Qwen2 and Qwen2.5: Llama's layer with biases on q, k and v. */
#include "lib/model/arch.h"

static int read_params(struct model_params *p, const struct source *s, struct err *e)
{
    int rc;

    p->qkv_bias = true;
    if ((rc = arch_read_window(p, s, false, e)))
        return rc;
    return arch_read_silu(p, s, e);
}

static const char *const hf_types[] = { "qwen2", NULL };

const struct arch arch_qwen2 = { "qwen2", hf_types, arch_names_plain, read_params, graph_layer };
