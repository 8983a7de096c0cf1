/* Gemma 3 text models: embeddings scaled by sqrt(width), norms before and after attention and feed-forward (the latter
 * before the residual addition), q/k norms, GELU, five sliding-window layers to each global one with their own RoPE base.
 * Hugging Face stores norm gains minus one; GGUF has one added. */
#include <math.h>
#include <string.h>

#include "lib/model/arch.h"

static int check_plain(const struct source *s, const char *key, struct err *e)
{
    double v;

    if (source_get_f64(s, key, &v, NULL) == 0 && v != 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: %s is not supported for gemma3", source_path(s), key);
    return 0;
}

/* The position of the first global layer gives the pattern; layer_types, where written, must follow it. */
static int read_pattern(struct model_params *p, const struct source *s, struct err *e)
{
    static const uint32_t six = 6;
    const char *key = "layer_types", *type;
    size_t n;
    int rc;

    if ((rc = arch_u32(p, s, "attention.sliding_window_pattern", "sliding_window_pattern", &six, &p->window_pattern, e)))
        return rc;
    if (source_get_array(s, key, &n, NULL) && source_get_array(s, key = "text_config.layer_types", &n, NULL))
        return 0;
    p->window_pattern = (uint32_t)n + 1;
    for (size_t i = 0; i < n; i++) {
        bool full;

        if ((rc = source_array_str(s, key, i, &type, NULL, e)))
            return rc;
        full = !strcmp(type, "full_attention");
        if (full && p->window_pattern > n)
            p->window_pattern = (uint32_t)i + 1;
        if (full != ((i + 1) % p->window_pattern == 0))
            return err_set(e, ERR_UNSUPPORTED, "%s: layer_types does not repeat with a fixed period", source_path(s));
    }
    return 0;
}

static int read_params(struct model_params *p, const struct source *s, struct err *e)
{
    static const float local = 10000;
    float qscale = p->n_layers == 62 ? (float)p->n_embd / (float)p->n_heads : (float)p->head_dim; /* 62 layers: the 27B */
    int rc;

    p->act = MODEL_GELU_TANH;
    p->qk_norm = p->post_norms = true;
    p->embed_scale = sqrtf((float)p->n_embd);
    p->norm_plus_one = source_kind(s) == SOURCE_HF;
    if ((rc = check_plain(s, "final_logit_softcapping", e)) || (rc = check_plain(s, "attn_logit_softcapping", e)) ||
        (rc = arch_f32(p, s, NULL, "query_pre_attn_scalar", &qscale, &qscale, e)) ||
        (rc = arch_u32(p, s, "attention.sliding_window", "sliding_window", NULL, &p->window, e)) ||
        (rc = arch_f32(p, s, "rope.freq_base_swa", "rope_local_base_freq", &local, &p->rope_theta_local, e)) ||
        (rc = arch_f32(p, s, NULL, "rope_parameters.sliding_attention.rope_theta", &p->rope_theta_local,
                       &p->rope_theta_local, e)))
        return rc;
    if (!(qscale > 0) || !(p->rope_theta_local > 0))
        return err_set(e, ERR_FORMAT, "%s: query scale %g, local RoPE base %g", source_path(s), (double)qscale,
                       (double)p->rope_theta_local);
    p->attn_scale = 1.0f / sqrtf(qscale);
    return read_pattern(p, s, e);
}

static const struct arch_name names[] = {
    { "attn_norm.weight", "input_layernorm.weight" },
    { "attn_q.weight", "self_attn.q_proj.weight" },
    { "attn_k.weight", "self_attn.k_proj.weight" },
    { "attn_v.weight", "self_attn.v_proj.weight" },
    { "attn_q_norm.weight", "self_attn.q_norm.weight" },
    { "attn_k_norm.weight", "self_attn.k_norm.weight" },
    { "attn_output.weight", "self_attn.o_proj.weight" },
    { "post_attention_norm.weight", "post_attention_layernorm.weight" },
    { "ffn_norm.weight", "pre_feedforward_layernorm.weight" },
    { "ffn_gate.weight", "mlp.gate_proj.weight" },
    { "ffn_up.weight", "mlp.up_proj.weight" },
    { "ffn_down.weight", "mlp.down_proj.weight" },
    { "post_ffw_norm.weight", "post_feedforward_layernorm.weight" },
    { NULL, NULL },
};

static const char *const hf_types[] = { "gemma3_text", "gemma3", NULL };

const struct arch arch_gemma3 = { "gemma3", hf_types, names, read_params, graph_layer };
