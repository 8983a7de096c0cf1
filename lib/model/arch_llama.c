/* Llama 2 and 3, SmolLM2, Mistral: pre-norm attention and gated SiLU feed-forward, no biases. GGUF stores the rows of q and k
 * permuted per head, so that RoPE rotates neighbours; Hugging Face rotates halves. */
#include "lib/model/arch.h"

static int refuse_bias(const struct source *s, const char *key, struct err *e)
{
    bool b = false;
    int rc = source_get_bool(s, key, &b, e);

    if (rc && rc != ERR_NOTFOUND)
        return rc;
    if (b)
        return err_set(e, ERR_UNSUPPORTED, "%s: %s is not supported for llama", source_path(s), key);
    return 0;
}

static int read_params(struct model_params *p, const struct source *s, struct err *e)
{
    int rc;

    p->rope_interleaved = source_kind(s) == SOURCE_GGUF;
    if ((rc = refuse_bias(s, "attention_bias", e)) || (rc = refuse_bias(s, "mlp_bias", e)) ||
        (rc = arch_read_window(p, s, true, e)))
        return rc;
    return arch_read_silu(p, s, e);
}

static const char *const hf_types[] = { "llama", "mistral", NULL };

const struct arch arch_llama = { "llama", hf_types, arch_names_plain, read_params, graph_layer };
