"""A GGUF model as a transformers model in FP32 on the dequantised weights: the oracle of oracle-logits.py and
oracle-ppl.py. Needs torch, transformers and gguf (pip). Architectures: llama, qwen2, qwen3, gemma3."""

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize


class Gguf:
    """Metadata and tensors of one GGUF file."""

    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.arch = self.get("general.architecture")

    def get(self, key, default=None):
        field = self.reader.fields.get(key)
        return default if field is None else field.contents()

    def param(self, key, default=None):
        return self.get(f"{self.arch}.{key}", default)

    def tensors(self):
        """Yields (name, float32 array, row-major shape)."""
        for t in self.reader.tensors:
            shape = [int(d) for d in reversed(t.shape)]
            yield t.name, dequantize(t.data, t.tensor_type).reshape(shape)


def unpermute(w, n_heads):
    """Undoes the row order that llama GGUF files give q and k (pairs 2i, 2i+1) for transformers' halves order."""
    dim = w.shape[0] // n_heads
    return w.reshape(n_heads, dim // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


LAYER_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}
GEMMA_NAMES = {"ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm",
               "post_ffw_norm": "post_feedforward_layernorm"}


def torch_name(name, arch):
    top = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
           "output.weight": "lm_head.weight"}
    if name in top:
        return top[name]
    if not name.startswith("blk."):
        return None
    _, layer, stem, kind = name.split(".")
    names = dict(LAYER_NAMES, **(GEMMA_NAMES if arch == "gemma3" else {}))
    return f"model.layers.{layer}.{names[stem]}.{kind}" if stem in names else None


def config_of(g, n_vocab, tied):
    heads = g.param("attention.head_count")
    theta = g.param("rope.freq_base", 10000.0)
    c = dict(vocab_size=n_vocab, hidden_size=g.param("embedding_length"), num_hidden_layers=g.param("block_count"),
             intermediate_size=g.param("feed_forward_length"), num_attention_heads=heads,
             num_key_value_heads=g.param("attention.head_count_kv", heads),
             max_position_embeddings=g.param("context_length"),
             rms_norm_eps=float(g.param("attention.layer_norm_rms_epsilon")), tie_word_embeddings=tied,
             head_dim=g.param("attention.key_length", g.param("embedding_length") // heads),
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
    rope = {"rope_type": "default", "rope_theta": float(theta)}
    if g.arch == "llama":
        from transformers import LlamaConfig, LlamaForCausalLM
        return LlamaForCausalLM, LlamaConfig(rope_parameters=rope, **c)
    if g.arch == "qwen2":
        from transformers import Qwen2Config, Qwen2ForCausalLM
        c.pop("head_dim")
        return Qwen2ForCausalLM, Qwen2Config(rope_parameters=rope, **c)
    if g.arch == "qwen3":
        from transformers import Qwen3Config, Qwen3ForCausalLM
        return Qwen3ForCausalLM, Qwen3Config(rope_parameters=rope, **c)
    if g.arch == "gemma3":
        from transformers import Gemma3ForCausalLM, Gemma3TextConfig
        local = {"rope_type": "default", "rope_theta": 10000.0}
        return Gemma3ForCausalLM, Gemma3TextConfig(
            rope_parameters={"full_attention": rope, "sliding_attention": local},
            sliding_window=g.param("attention.sliding_window"), query_pre_attn_scalar=c["head_dim"], **c)
    raise SystemExit(f"oracle_model: architecture {g.arch} is not in this script")


def load(path):
    """Returns (model in eval mode, Gguf)."""
    g = Gguf(path)
    if g.param("rope.scaling.type", "none") not in ("none", None):
        raise SystemExit("oracle_model: RoPE scaling is not in this script")
    state, heads = {}, g.param("attention.head_count")
    for name, w in g.tensors():
        to = torch_name(name, g.arch)
        if to is None:
            raise SystemExit(f"oracle_model: tensor {name} has no place in architecture {g.arch}")
        if g.arch == "llama" and ".attn_q." in name:
            w = unpermute(w, heads)
        elif g.arch == "llama" and ".attn_k." in name:
            w = unpermute(w, g.param("attention.head_count_kv", heads))
        elif g.arch == "gemma3" and "norm" in name:
            w = w - np.float32(1)  # the converter stored gain + 1
        state[to] = torch.from_numpy(np.array(w, dtype=np.float32))
    tied = "lm_head.weight" not in state
    n_vocab = state["model.embed_tokens.weight"].shape[0]
    cls, config = config_of(g, n_vocab, tied)
    config._attn_implementation = "eager"
    torch.set_default_dtype(torch.float32)
    model = cls(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing = [m for m in missing if not (tied and m == "lm_head.weight")]
    if missing or unexpected:
        raise SystemExit(f"oracle_model: missing {missing[:3]}, unexpected {unexpected[:3]}")
    if tied:
        model.tie_weights()
    return model.eval(), g


def read_ids(path):
    """Token ids, one per line, as infer-run --tokenize prints them."""
    with open(path, encoding="ascii") as f:
        return [int(line) for line in f if line.strip() and not line.startswith("#")]


def windows_of(ids, g, ctx, n_windows=None):
    """Windows as infer-eval takes them: no overlap, the last partial one dropped. Where the vocabulary asks for a BOS the
    text starts with it and it takes the place of the first token of every window."""
    bos = g.get("tokenizer.ggml.bos_token_id")
    if not g.get("tokenizer.ggml.add_bos_token", g.get("tokenizer.ggml.model") == "llama"):
        bos = None
    ids = ids if bos is None else [bos] + ids
    n = len(ids) // ctx
    n = n if n_windows is None else min(n, n_windows)
    out = [list(ids[i * ctx:(i + 1) * ctx]) for i in range(n)]
    for w in out if bos is not None else []:
        w[0] = bos
    return out
