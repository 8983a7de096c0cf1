"""Writes a Hugging Face state dict as GGUF with the names, keys and permutations that converters for llama.cpp use."""

import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "post_attention_layernorm": "ffn_norm"}
GEMMA = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}
TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
       "lm_head.weight": "output.weight"}


def gguf_name(name, arch):
    if name in TOP:
        return TOP[name]
    _, _, layer, rest = name.split(".", 3)
    stem, kind = rest.rsplit(".", 1)
    table = {**LAYER, **GEMMA} if arch == "gemma3" else LAYER
    return f"blk.{layer}.{table[stem]}.{kind}"


def permute(w, n_heads):
    """Rows of each head from half-split to interleaved rotary order; w is [n_heads * head_dim][...]."""
    return w.reshape(n_heads, 2, w.shape[0] // n_heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def unpermute(w, n_heads):
    return w.reshape(n_heads, w.shape[0] // n_heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def heads_to_permute(name, arch, c):
    """Number of heads when GGUF stores this tensor (HF name) permuted, else 0."""
    if arch == "llama" and ".q_proj." in name:
        return c["num_attention_heads"]
    if arch == "llama" and ".k_proj." in name:
        return c["num_key_value_heads"]
    return 0


def rope_freq_factors(rope, head_dim):
    """The rope_freqs tensor of llama3 scaling: what each frequency is divided by."""
    f = rope["rope_theta"] ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    ratio = rope["original_max_position_embeddings"] * f / (2 * np.pi)  # context over wavelength
    t = np.clip((ratio - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"]), 0, 1)
    return (1 / ((1 - t) / rope["factor"] + t)).astype(np.float32)


def _write_params(w, arch, c, rope):
    full = rope.get("full_attention", rope)
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(full["rope_theta"])
    if c.get("head_dim"):
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    if full.get("rope_type") == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(full["factor"])
    if arch == "llama":
        w.add_vocab_size(c["vocab_size"])
        w.add_rope_dimension_count(head_dim)
    if arch == "gemma3":
        w.add_sliding_window(c["sliding_window"])
    return full, head_dim


def _write_vocab(w, v, n_vocab):
    pad = n_vocab - len(v["tokens"])
    w.add_tokenizer_model(v["model"])
    w.add_tokenizer_pre(v["pre"])
    w.add_token_list(v["tokens"] + [f"[PAD{len(v['tokens']) + i}]" for i in range(pad)])
    w.add_token_types(v["types"] + [gguf.TokenType.UNUSED] * pad)
    if v["scores"]:
        w.add_token_scores(v["scores"] + [-1000.0] * pad)
    if v["merges"]:
        w.add_token_merges(v["merges"])
    for key, add in (("bos", w.add_bos_token_id), ("eos", w.add_eos_token_id), ("unk", w.add_unk_token_id)):
        if v[key] is not None:
            add(v[key])
    w.add_add_bos_token(v["add_bos"])
    if v["space_prefix"] is not None:
        w.add_add_space_prefix(v["space_prefix"])
    if v["chat"]:
        w.add_chat_template(v["chat"])


def write(path, arch, config, rope, vocab, tensors, matrix_type=T.F32, raw=None):
    """tensors: HF name -> float32 array. raw: HF name -> (bytes as uint8 [rows][row bytes], type), already in GGUF's row
    order, taking the place of the tensor of that name. Matrices become matrix_type, vectors F32."""
    w = gguf.GGUFWriter(str(path), arch)
    full, head_dim = _write_params(w, arch, config, rope)
    _write_vocab(w, vocab, config["vocab_size"])
    if full.get("rope_type") == "llama3":
        w.add_tensor("rope_freqs.weight", rope_freq_factors(full, head_dim))
    for name in sorted(tensors):
        x = tensors[name].astype(np.float32)
        if raw and name in raw:
            data, kind = raw[name]
            w.add_tensor(gguf_name(name, arch), data, raw_dtype=kind)
            continue
        n = heads_to_permute(name, arch, config)
        if n:
            x = np.ascontiguousarray(permute(x, n))
        if arch == "gemma3" and name.endswith("norm.weight"):
            x = x + np.float32(1)
        if x.ndim == 2 and matrix_type != T.F32:
            w.add_tensor(gguf_name(name, arch), gguf.quants.quantize(x, matrix_type), raw_dtype=matrix_type)
        else:
            w.add_tensor(gguf_name(name, arch), x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
