#!/usr/bin/env python3
"""Makes tests/golden/models: tiny random checkpoints of every architecture with the logits PyTorch computes for them.

Usage: make-golden.py [OUTPUT-FOLDER]     needs: torch transformers tokenizers safetensors gguf numpy

Each folder holds a Hugging Face checkpoint and, where a converter exists, the same weights as *.gguf; tests/golden/README.md
describes the files. Everything is seeded: running it again with the same library versions writes the same bytes."""

import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from golden import gguf_out, quants, vocab  # noqa: E402

MAGIC = b"SLGOLD1\n"
# (tokens, first position whose logits are stored)
SEQUENCES = [(40, 0), (600, 599)]


def base_config(arch, cls, v, **more):
    c = {"architectures": [cls], "model_type": arch, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_act": "silu", "max_position_embeddings": 1024,
         "rms_norm_eps": 1e-5, "vocab_size": len(v["tokens"]), "bos_token_id": v["bos"], "eos_token_id": v["eos"],
         "tie_word_embeddings": False, "torch_dtype": "float32"}
    c.update(more)
    return c


def random_state(model, rng):
    """Random values for every parameter: gains and biases far from 1 and 0, queries and keys large enough that attention
    is neither flat nor one-hot."""
    state = {}
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        x = rng.standard_normal(tuple(p.shape))
        if name.endswith("norm.weight"):
            plain_gain = 0.0 if "gemma3" in model.config.model_type else 1.0
            x = plain_gain + 0.3 * x
        elif p.ndim == 1:
            x = 0.5 * x
        elif "embed_tokens" in name:
            x = (0.5 if p.shape[1] < 128 else 0.1) * x  # a wide tied head would give logits of 100 and more
        else:
            x = x * (2.0 if ".q_proj." in name or ".k_proj." in name else 1.0) / np.sqrt(p.shape[1])
        state[name] = x.astype(np.float32)
    return state


def save(tensors, path):
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)


def write_weights(folder, state, dtype, shards):
    tensors = {k: torch.from_numpy(v).to(dtype).contiguous() for k, v in state.items()}
    if shards == 1:
        save(tensors, folder / "model.safetensors")
        return
    names = sorted(tensors)
    files = {}
    for i in range(shards):
        part = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        mine = names[i * len(names) // shards:(i + 1) * len(names) // shards]
        save({k: tensors[k] for k in mine}, folder / part)
        files.update({k: part for k in mine})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")


def write_golden(folder, model, n_vocab, rng):
    out = [MAGIC, struct.pack("<II", len(SEQUENCES), n_vocab)]
    for n, first in SEQUENCES:
        ids = rng.integers(0, n_vocab, size=n).astype("<i4")
        with torch.no_grad():
            logits = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0, first:].float().numpy()
        assert np.isfinite(logits).all() and 0.5 < logits.std() < 30, (folder, logits.std())
        out += [struct.pack("<II", n, first), ids.tobytes(), logits.astype("<f4").tobytes()]
    (folder / "golden.logits").write_bytes(b"".join(out))


def load(folder):
    m = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return m.eval()


def make(folder, config, v, seed, dtype=torch.float32, shards=1, arch=None, gguf_type=T.F32):
    """One folder. arch: GGUF name of the architecture, None for no GGUF file."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    vocab.write_tokenizer(v, folder)
    vocab.write_sample(v, folder)
    blank = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    state = random_state(blank, rng)
    write_weights(folder, state, dtype, shards)
    model = load(folder)
    stored = {k: model.state_dict()[k].numpy() for k in state}
    write_golden(folder, model, config["vocab_size"], rng)
    if arch:
        gguf_out.write(folder / "model.gguf", arch, config, rope_of(model.config), v, stored, gguf_type)


def rope_of(config):
    return config.rope_parameters


def make_quantised(folder, config, v, seed, arch, kinds):
    """A GGUF file alone, its matrices of the types in kinds (suffix of the HF name -> type)."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    tmp = folder / "tmp"
    tmp.mkdir()
    (tmp / "config.json").write_text(json.dumps(config))
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp), attn_implementation="eager").float().eval()
    state = random_state(model, rng)
    raw = {}
    for name in sorted(state):
        kind = next((k for suffix, k in kinds.items() if name.endswith(suffix)), None)
        if kind is None:
            continue
        rows, cols = state[name].shape
        data, x = quants.random_matrix(rng, kind, rows, cols, float(state[name].std()))
        n = gguf_out.heads_to_permute(name, arch, config)
        state[name] = gguf_out.unpermute(x, n) if n else x
        raw[name] = (data, kind)
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(x)) for k, x in state.items()}, strict=False)
    model.tie_weights()
    write_golden(folder, model, config["vocab_size"], rng)
    vocab.write_sample(v, folder)
    gguf_out.write(folder / "model.gguf", arch, config, rope_of(model.config), v, state, raw=raw)
    shutil.rmtree(tmp)


def make_llama(out):
    v = vocab.byte_bpe("smollm", 60, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], True, "<|im_start|>", "<|im_end|>",
                       chat=vocab.CHATML)
    c = base_config("llama", "LlamaForCausalLM", v, tie_word_embeddings=True, attention_bias=False, mlp_bias=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 100000.0})
    make(out / "llama", c, v, 1, arch="llama")

    v = vocab.byte_bpe("llama-bpe", 60, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                                         "<|eot_id|>"], False, "<|begin_of_text|>", "<|eot_id|>", add_bos=True)
    # The keys of older files: rope_theta and rope_scaling. The bands are so that one frequency is kept, one blended, the
    # rest divided.
    c = base_config("llama", "LlamaForCausalLM", v, rope_theta=10000.0, head_dim=32, torch_dtype="bfloat16",
                    rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 32})
    make(out / "llama3", c, v, 2, dtype=torch.bfloat16, arch="llama", gguf_type=T.BF16)

    v = vocab.sentencepiece_bpe("llama", 48)
    c = base_config("mistral", "MistralForCausalLM", v, rope_theta=10000.0, sliding_window=16, head_dim=None,
                    hidden_size=48, num_attention_heads=3, tie_word_embeddings=True)
    make(out / "mistral", c, v, 3, shards=3)


def make_qwen(out):
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    v = vocab.byte_bpe("qwen2", 60, specials, False, None, "<|im_end|>", chat=vocab.CHATML)
    # The window is switched off, and the matrix has more rows than the vocabulary: both as in the published checkpoints.
    c = base_config("qwen2", "Qwen2ForCausalLM", v, rope_theta=1000000.0, sliding_window=8, use_sliding_window=False,
                    max_window_layers=1, vocab_size=len(v["tokens"]) + 9, torch_dtype="float16", rms_norm_eps=1e-6)
    make(out / "qwen2", c, v, 4, dtype=torch.float16, arch="qwen2", gguf_type=T.F16)

    c = base_config("qwen3", "Qwen3ForCausalLM", v, head_dim=32, tie_word_embeddings=True, attention_bias=False,
                    use_sliding_window=False, sliding_window=None, rms_norm_eps=1e-6, num_attention_heads=4,
                    num_key_value_heads=2, torch_dtype="bfloat16",
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})
    make(out / "qwen3", c, v, 5, dtype=torch.bfloat16, arch="qwen3", gguf_type=T.BF16)


def make_gemma(out):
    v = vocab.sentencepiece_bpe("gemma", 48)
    common = dict(hidden_act=None, hidden_activation="gelu_pytorch_tanh", attention_bias=False, head_dim=16,
                  tie_word_embeddings=True, rms_norm_eps=1e-6, attn_logit_softcapping=None, final_logit_softcapping=None)
    # Keys of older files. Six layers: five local, one global; 40 is no square, so the embedding scale shows.
    c = base_config("gemma3_text", "Gemma3ForCausalLM", v, hidden_size=40, intermediate_size=48, num_hidden_layers=6,
                    num_attention_heads=4, torch_dtype="bfloat16", sliding_window=16, sliding_window_pattern=6, query_pre_attn_scalar=16,
                    rope_theta=1000000.0, rope_local_base_freq=10000.0, **common)
    make(out / "gemma3", c, v, 6, dtype=torch.bfloat16, arch="gemma3", gguf_type=T.BF16)

    # Newer keys: layer_types and rope_parameters by layer type, linear scaling of the global layers, a score scale that is
    # not that of head_dim (GGUF cannot say so).
    local, full = "sliding_attention", "full_attention"
    c = base_config("gemma3_text", "Gemma3ForCausalLM", v, num_hidden_layers=3, sliding_window=12,
                    query_pre_attn_scalar=24, layer_types=[local, local, full],
                    rope_parameters={local: {"rope_type": "default", "rope_theta": 10000.0},
                                     full: {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}}, **common)
    make(out / "gemma3-linear", c, v, 7)


def make_quants(out):
    v = vocab.byte_bpe("qwen2", 40, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], False, None, "<|im_end|>",
                       chat=vocab.CHATML)
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    c = base_config("qwen2", "Qwen2ForCausalLM", v, hidden_size=64, intermediate_size=96, num_attention_heads=4,
                    num_key_value_heads=2, rope_parameters=rope,
                    use_sliding_window=False)
    make_quantised(out / "quants-32", c, v, 8, "qwen2",
                   {"q_proj.weight": T.Q4_0, "k_proj.weight": T.Q4_1, "v_proj.weight": T.Q8_0, "o_proj.weight": T.Q5_0,
                    "gate_proj.weight": T.IQ4_NL, "up_proj.weight": T.Q5_1, "down_proj.weight": T.Q4_1,
                    "embed_tokens.weight": T.Q8_0, "lm_head.weight": T.Q4_0})

    v = vocab.byte_bpe("gpt2", 40, ["<|endoftext|>"], True, "<|endoftext|>", "<|endoftext|>")
    c = base_config("llama", "LlamaForCausalLM", v, hidden_size=256, intermediate_size=256, num_hidden_layers=1,
                    num_attention_heads=4, num_key_value_heads=1, head_dim=32, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    make_quantised(out / "quants-256", c, v, 9, "llama",
                   {"q_proj.weight": T.IQ4_XS, "k_proj.weight": T.Q2_K, "v_proj.weight": T.Q3_K, "o_proj.weight": T.Q8_0,
                    "gate_proj.weight": T.Q4_K, "up_proj.weight": T.Q5_K, "down_proj.weight": T.Q3_K,
                    "embed_tokens.weight": T.Q6_K})


def main():
    root = Path(__file__).resolve().parent.parent
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "golden" / "models"
    shutil.rmtree(out, ignore_errors=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make_llama(out)
    make_qwen(out)
    make_gemma(out)
    make_quants(out)
    for d in sorted(out.iterdir()):
        print(f"{d.name:14} {sum(f.stat().st_size for f in d.iterdir()):8} bytes")


if __name__ == "__main__":
    main()
