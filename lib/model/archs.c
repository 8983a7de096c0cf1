#include "lib/model/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arch *const table[] = { &arch_llama, &arch_qwen2, &arch_qwen3, &arch_gemma3 };

#define N_ARCHS (sizeof table / sizeof table[0])

const struct arch_name arch_names_plain[] = {
    { "attn_norm.weight", "input_layernorm.weight" },
    { "attn_q.weight", "self_attn.q_proj.weight" },
    { "attn_k.weight", "self_attn.k_proj.weight" },
    { "attn_v.weight", "self_attn.v_proj.weight" },
    { "attn_q.bias", "self_attn.q_proj.bias" },
    { "attn_k.bias", "self_attn.k_proj.bias" },
    { "attn_v.bias", "self_attn.v_proj.bias" },
    { "attn_q_norm.weight", "self_attn.q_norm.weight" },
    { "attn_k_norm.weight", "self_attn.k_norm.weight" },
    { "attn_output.weight", "self_attn.o_proj.weight" },
    { "ffn_norm.weight", "post_attention_layernorm.weight" },
    { "ffn_gate.weight", "mlp.gate_proj.weight" },
    { "ffn_up.weight", "mlp.up_proj.weight" },
    { "ffn_down.weight", "mlp.down_proj.weight" },
    { NULL, NULL },
};

static const struct arch_name global_names[] = {
    { "token_embd.weight", "embed_tokens.weight" },
    { "output_norm.weight", "norm.weight" },
    { "output.weight", "lm_head.weight" },
    { NULL, NULL },
};

/* Text models stand at the root or, in multimodal checkpoints, under one of these. */
static const char *const hf_roots[] = { "model.", "language_model.model.", "model.language_model." };
static const char *const hf_head_roots[] = { "", "language_model.", "" };

#define N_ROOTS (sizeof hf_roots / sizeof hf_roots[0])

const char *const *model_arch_names(void)
{
    static const char *const names[] = { "llama", "qwen2", "qwen3", "gemma3", NULL };

    return names;
}

const struct arch *arch_by_name(const char *name)
{
    for (size_t i = 0; i < N_ARCHS; i++)
        if (!strcmp(table[i]->name, name))
            return table[i];
    return NULL;
}

const struct arch *arch_find(const struct source *s, struct err *e)
{
    bool gguf = source_kind(s) == SOURCE_GGUF;
    const char *key = gguf ? "general.architecture" : "model_type", *name;

    if (source_get_str(s, key, &name, NULL, e)) {
        err_set(e, ERR_FORMAT, "%s: no string '%s': not a language model", source_path(s), key);
        return NULL;
    }
    for (size_t i = 0; i < N_ARCHS; i++) {
        if (gguf && !strcmp(table[i]->name, name))
            return table[i];
        for (const char *const *t = table[i]->hf_types; !gguf && *t; t++)
            if (!strcmp(*t, name))
                return table[i];
    }
    err_set(e, ERR_UNSUPPORTED, "%s: architecture '%.64s' is not supported (llama, mistral, qwen2, qwen3, gemma3 are)",
            source_path(s), name);
    return NULL;
}

/* The key of a hyperparameter in s, or NULL when it has none there. Multimodal configurations nest the text model's. */
static const char *full_key(const struct model_params *p, const struct source *s, const char *gguf, const char *hf,
                            char *buf, size_t size)
{
    size_t n;
    uint64_t u;

    if (source_kind(s) == SOURCE_GGUF) {
        if (!gguf)
            return NULL;
        snprintf(buf, size, "%s.%s", p->arch, gguf);
        return buf;
    }
    if (!hf)
        return NULL;
    n = source_get_u64(s, "text_config.hidden_size", &u, NULL) == 0;
    snprintf(buf, size, "%s%s", n ? "text_config." : "", hf);
    return buf;
}

static int absent(const struct source *s, const char *gguf, const char *hf, struct err *e)
{
    return err_set(e, ERR_FORMAT, "%s: hyperparameter '%s' is missing", source_path(s),
                   source_kind(s) == SOURCE_GGUF ? (gguf ? gguf : hf) : (hf ? hf : gguf));
}

int arch_u32(const struct model_params *p, const struct source *s, const char *gguf, const char *hf, const uint32_t *dflt,
             uint32_t *out, struct err *e)
{
    char buf[160];
    const char *key = full_key(p, s, gguf, hf, buf, sizeof buf);
    uint64_t v;
    int rc = key ? source_get_u64(s, key, &v, e) : ERR_NOTFOUND;

    if (rc == ERR_NOTFOUND) {
        if (!dflt)
            return absent(s, gguf, hf, e);
        *out = *dflt;
        return 0;
    }
    if (rc)
        return rc;
    if (v > INT32_MAX)
        return err_set(e, ERR_FORMAT, "%s: %s = %llu is out of range", source_path(s), key, (unsigned long long)v);
    *out = (uint32_t)v;
    return 0;
}

int arch_f32(const struct model_params *p, const struct source *s, const char *gguf, const char *hf, const float *dflt,
             float *out, struct err *e)
{
    char buf[160];
    const char *key = full_key(p, s, gguf, hf, buf, sizeof buf);
    double v;
    int rc = key ? source_get_f64(s, key, &v, e) : ERR_NOTFOUND;

    if (rc == ERR_NOTFOUND) {
        if (!dflt)
            return absent(s, gguf, hf, e);
        *out = *dflt;
        return 0;
    }
    if (rc)
        return rc;
    if (!isfinite(v) || fabs(v) > 1e30)
        return err_set(e, ERR_FORMAT, "%s: %s = %g is out of range", source_path(s), key, v);
    *out = (float)v;
    return 0;
}

/* A string hyperparameter; *out NULL when absent. */
static int read_str(const struct model_params *p, const struct source *s, const char *gguf, const char *hf,
                    const char **out, struct err *e)
{
    char buf[160];
    const char *key = full_key(p, s, gguf, hf, buf, sizeof buf);
    int rc = key ? source_get_str(s, key, out, NULL, e) : ERR_NOTFOUND;

    if (rc == ERR_NOTFOUND) {
        *out = NULL;
        return 0;
    }
    return rc;
}

static int read_rope_scaling(struct model_params *p, const struct source *s, struct err *e)
{
    static const char *const type_keys[] = { "rope_parameters.full_attention.rope_type", "rope_parameters.rope_type",
                                             "rope_scaling.rope_type", "rope_scaling.type" };
    static const float one = 1, four = 4;
    static const uint32_t zero = 0;
    const char *type = NULL, *group = "rope_scaling";
    char key[4][128];
    int rc;

    for (size_t i = 0; i < sizeof type_keys / sizeof type_keys[0] && !type; i++) {
        if ((rc = read_str(p, s, i ? NULL : "rope.scaling.type", type_keys[i], &type, e)))
            return rc;
        if (type)
            group = i == 0 ? "rope_parameters.full_attention" : i == 1 ? "rope_parameters" : "rope_scaling";
    }
    p->rope_scaling = ROPE_PLAIN;
    p->rope_factor = 1;
    if (!type || !strcmp(type, "none") || !strcmp(type, "default"))
        return 0;
    if (!strcmp(type, "linear"))
        p->rope_scaling = ROPE_LINEAR;
    else if (!strcmp(type, "llama3"))
        p->rope_scaling = ROPE_LLAMA3;
    else
        return err_set(e, ERR_UNSUPPORTED, "%s: RoPE scaling '%.32s' is not supported (linear and llama3 are)",
                       source_path(s), type);
    snprintf(key[0], sizeof key[0], "%s.factor", group);
    snprintf(key[1], sizeof key[1], "%s.low_freq_factor", group);
    snprintf(key[2], sizeof key[2], "%s.high_freq_factor", group);
    snprintf(key[3], sizeof key[3], "%s.original_max_position_embeddings", group);
    if ((rc = arch_f32(p, s, "rope.scaling.factor", key[0], NULL, &p->rope_factor, e)) ||
        (rc = arch_f32(p, s, NULL, key[1], &one, &p->rope_low_freq, e)) ||
        (rc = arch_f32(p, s, NULL, key[2], &four, &p->rope_high_freq, e)) ||
        (rc = arch_u32(p, s, "rope.scaling.original_context_length", key[3], &zero, &p->rope_orig_ctx, e)))
        return rc;
    if (p->rope_scaling == ROPE_LLAMA3 && (!p->rope_orig_ctx || p->rope_high_freq <= p->rope_low_freq))
        return err_set(e, ERR_FORMAT, "%s: llama3 RoPE scaling lacks sensible frequency factors", source_path(s));
    if (!(p->rope_factor > 0))
        return err_set(e, ERR_FORMAT, "%s: RoPE scaling factor %g", source_path(s), (double)p->rope_factor);
    return 0;
}

static int read_rope(struct model_params *p, const struct source *s, struct err *e)
{
    static const float base = 10000;
    float theta = 0;
    int rc;

    /* Three places of config.json, by the age of the library that wrote it. */
    if ((rc = arch_f32(p, s, "rope.freq_base", "rope_theta", &base, &theta, e)) ||
        (rc = arch_f32(p, s, NULL, "rope_parameters.rope_theta", &theta, &theta, e)) ||
        (rc = arch_f32(p, s, NULL, "rope_parameters.full_attention.rope_theta", &theta, &theta, e)))
        return rc;
    if (!(theta > 0))
        return err_set(e, ERR_FORMAT, "%s: RoPE base %g", source_path(s), (double)theta);
    p->rope_theta = p->rope_theta_local = theta;
    return read_rope_scaling(p, s, e);
}

static int check_sizes(const struct model_params *p, const struct source *s, struct err *e)
{
    if (!p->n_layers || p->n_layers > 4096 || !p->n_embd || p->n_embd > 1u << 20 || !p->n_heads || p->n_heads > 4096 ||
        !p->n_kv_heads || p->n_kv_heads > p->n_heads || !p->n_ff || p->n_ff > 1u << 24)
        return err_set(e, ERR_FORMAT, "%s: sizes out of range: %u layers, width %u, %u heads, %u KV heads, FFN %u",
                       source_path(s), p->n_layers, p->n_embd, p->n_heads, p->n_kv_heads, p->n_ff);
    if (p->n_heads % p->n_kv_heads)
        return err_set(e, ERR_FORMAT, "%s: %u heads are not a multiple of %u KV heads", source_path(s), p->n_heads,
                       p->n_kv_heads);
    if (!p->head_dim || p->head_dim > 1024 || p->head_dim % 16)
        return err_set(e, ERR_UNSUPPORTED, "%s: head dimension %u: need a multiple of 16, at most 1024", source_path(s),
                       p->head_dim);
    if (!(p->rms_eps >= 0 && p->rms_eps < 1))
        return err_set(e, ERR_FORMAT, "%s: RMS norm epsilon %g", source_path(s), (double)p->rms_eps);
    return 0;
}

int arch_read_common(struct model_params *p, const struct source *s, struct err *e)
{
    static const uint32_t zero = 0;
    static const float eps = 1e-6f;
    int rc;

    if ((rc = arch_u32(p, s, "block_count", "num_hidden_layers", NULL, &p->n_layers, e)) ||
        (rc = arch_u32(p, s, "embedding_length", "hidden_size", NULL, &p->n_embd, e)) ||
        (rc = arch_u32(p, s, "attention.head_count", "num_attention_heads", NULL, &p->n_heads, e)) ||
        (rc = arch_u32(p, s, "attention.head_count_kv", "num_key_value_heads", &p->n_heads, &p->n_kv_heads, e)) ||
        (rc = arch_u32(p, s, "attention.key_length", "head_dim", &zero, &p->head_dim, e)) ||
        (rc = arch_u32(p, s, "feed_forward_length", "intermediate_size", NULL, &p->n_ff, e)) ||
        (rc = arch_u32(p, s, "context_length", "max_position_embeddings", &zero, &p->n_ctx_train, e)) ||
        (rc = arch_f32(p, s, "attention.layer_norm_rms_epsilon", "rms_norm_eps", &eps, &p->rms_eps, e)) ||
        (rc = read_rope(p, s, e)))
        return rc;
    if (!p->head_dim && p->n_heads)
        p->head_dim = p->n_embd / p->n_heads;
    if ((rc = check_sizes(p, s, e)))
        return rc;
    p->attn_scale = 1.0f / sqrtf((float)p->head_dim);
    p->embed_scale = 1;
    p->act = MODEL_SILU;
    return 0;
}

int arch_read_silu(struct model_params *p, const struct source *s, struct err *e)
{
    const char *act;
    int rc = read_str(p, s, NULL, "hidden_act", &act, e);

    if (rc)
        return rc;
    if (act && strcmp(act, "silu"))
        return err_set(e, ERR_UNSUPPORTED, "%s: activation '%.32s' is not supported by %s (silu is)", source_path(s), act,
                       p->arch);
    return 0;
}

int arch_read_window(struct model_params *p, const struct source *s, bool use, struct err *e)
{
    static const uint32_t zero = 0;
    int rc;

    if ((rc = arch_u32(p, s, "attention.sliding_window", "sliding_window", &zero, &p->window, e)))
        return rc;
    rc = source_get_bool(s, "use_sliding_window", &use, e);
    if (rc && rc != ERR_NOTFOUND)
        return rc;
    if (!use)
        p->window = 0;
    return arch_u32(p, s, NULL, "max_window_layers", &zero, &p->window_first, e);
}

const struct source_tensor *arch_tensor(const struct arch *a, const struct source *s, const char *canonical)
{
    const struct arch_name *n = global_names;
    const char *suffix = canonical;
    char layer[24] = "", name[256];
    bool head = !strcmp(canonical, "output.weight");
    unsigned index;
    int used;

    if (source_kind(s) == SOURCE_GGUF)
        return source_tensor(s, canonical);
    if (sscanf(canonical, "blk.%u.%n", &index, &used) == 1) {
        snprintf(layer, sizeof layer, "layers.%u.", index);
        suffix = canonical + used;
        n = a->names;
    }
    while (n->canonical && strcmp(n->canonical, suffix))
        n++;
    for (size_t i = 0; n->canonical && i < N_ROOTS; i++) {
        const struct source_tensor *t;

        snprintf(name, sizeof name, "%s%s%s", head ? hf_head_roots[i] : hf_roots[i], layer, n->hf);
        if ((t = source_tensor(s, name)))
            return t;
    }
    return NULL;
}

const char *model_canonical_name(const struct source *s, const struct model_params *p, const char *name, char *buf,
                                 size_t size)
{
    const struct arch *a = arch_by_name(p->arch);
    const struct arch_name *n;
    unsigned index;
    int used;

    if (source_kind(s) == SOURCE_GGUF) {
        snprintf(buf, size, "%s", name);
        return buf;
    }
    if (!strcmp(name, "lm_head.weight") || !strcmp(name, "language_model.lm_head.weight")) {
        snprintf(buf, size, "output.weight");
        return buf;
    }
    for (size_t i = 0; a && i < N_ROOTS; i++) {
        const char *rest = name + strlen(hf_roots[i]);
        bool in_layer;

        if (strncmp(name, hf_roots[i], strlen(hf_roots[i])))
            continue;
        in_layer = sscanf(rest, "layers.%u.%n", &index, &used) == 1;
        for (n = in_layer ? a->names : global_names; n->canonical; n++) {
            if (strcmp(n->hf, in_layer ? rest + used : rest))
                continue;
            if (in_layer)
                snprintf(buf, size, "blk.%u.%s", index, n->canonical);
            else
                snprintf(buf, size, "%s", n->canonical);
            return buf;
        }
    }
    return NULL;
}

int model_params_read(struct model_params *out, const struct source *s, struct err *e)
{
    const struct arch *a = arch_find(s, e);
    int rc;

    memset(out, 0, sizeof *out);
    if (!a)
        return e ? e->code : ERR_UNSUPPORTED;
    out->arch = a->name;
    if ((rc = arch_read_common(out, s, e)))
        return rc;
    return a->read(out, s, e);
}

void arch_rope_freqs(const struct model_params *p, bool local, const float *factors, float *out)
{
    float base = local ? p->rope_theta_local : p->rope_theta;
    uint32_t half = p->head_dim / 2;

    for (uint32_t i = 0; i < half; i++) {
        float f = 1.0f / powf(base, (float)(2 * i) / (float)p->head_dim);
        float wave = 6.283185307179586f / f, t;

        out[i] = f;
        if (local)
            continue;
        switch (p->rope_scaling) {
        case ROPE_PLAIN:
            break;
        case ROPE_LINEAR:
            out[i] = f / p->rope_factor;
            break;
        case ROPE_FACTORS:
            out[i] = f / factors[i];
            break;
        case ROPE_LLAMA3: /* Llama 3.1: long wavelengths are stretched, short ones kept, a linear blend between */
            if (wave > (float)p->rope_orig_ctx / p->rope_low_freq) {
                out[i] = f / p->rope_factor;
            } else if (wave >= (float)p->rope_orig_ctx / p->rope_high_freq) {
                t = ((float)p->rope_orig_ctx / wave - p->rope_low_freq) / (p->rope_high_freq - p->rope_low_freq);
                out[i] = (1 - t) * f / p->rope_factor + t * f;
            }
            break;
        }
    }
}
