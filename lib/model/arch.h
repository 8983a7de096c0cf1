/* Inside of lib/model: the table of architectures. An architecture is one file: how its hyperparameters are read from both
 * containers, its tensor names, and its layer's graph. */
#ifndef SLUICE_MODEL_ARCH_H
#define SLUICE_MODEL_ARCH_H

#include "lib/model/graph.h"
#include "lib/model/model.h"

struct arch_name { /* one per-layer tensor: "blk.N." + canonical, "model.layers.N." + hf */
    const char *canonical, *hf;
};

struct arch {
    const char *name;                /* as in GGUF's general.architecture */
    const char *const *hf_types;     /* model_type values of config.json, NULL-terminated */
    const struct arch_name *names;   /* ended by canonical NULL */
    /* Fills what arch_read_common leaves. p->arch is set already. */
    int (*read)(struct model_params *p, const struct source *s, struct err *e);
    void (*layer)(struct graph *g, const struct model_layer *l, uint32_t index);
};

extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_gemma3;

/* The row for s, or NULL with a message that names the architecture and lists the known ones. */
const struct arch *arch_find(const struct source *s, struct err *e);
const struct arch *arch_by_name(const char *name);

/* Sizes, norm epsilon, RoPE base and scaling: what all rows share. */
int arch_read_common(struct model_params *p, const struct source *s, struct err *e);
/* silu from hidden_act (HF); ERR_UNSUPPORTED for anything else. */
int arch_read_silu(struct model_params *p, const struct source *s, struct err *e);
/* Sliding windows as Mistral and Qwen write them: sliding_window, use_sliding_window (`use` when absent), max_window_layers. */
int arch_read_window(struct model_params *p, const struct source *s, bool use, struct err *e);

/* A hyperparameter under its GGUF key (without "ARCH.") or its config.json path; a NULL name is absent. When absent:
 * `dflt` is stored if it is not NULL, else ERR_FORMAT naming the key. */
int arch_u32(const struct model_params *p, const struct source *s, const char *gguf, const char *hf, const uint32_t *dflt,
             uint32_t *out, struct err *e);
int arch_f32(const struct model_params *p, const struct source *s, const char *gguf, const char *hf, const float *dflt,
             float *out, struct err *e);

/* Tensor by canonical name ("blk.3.attn_q.weight", "output.weight"); NULL when the container lacks it. */
const struct source_tensor *arch_tensor(const struct arch *a, const struct source *s, const char *canonical);

/* Angular frequencies of RoPE, out[head_dim / 2], in radians per position. factors: rope_freqs.weight or NULL. */
void arch_rope_freqs(const struct model_params *p, bool local, const float *factors, float *out);

/* Names that Llama, Mistral, Qwen2 and Qwen3 share, with the q/k norms of Qwen3 and the biases of Qwen2. */
extern const struct arch_name arch_names_plain[];

#endif
