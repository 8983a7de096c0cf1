#!/usr/bin/env python3
"""Makes tests/golden/tokens: tiny vocabularies and the ids that Hugging Face tokenizers give with them.

Usage: make-golden-tokens.py [OUTPUT-FOLDER]     needs: tokenizers

bpe.json and spm.json hold a vocabulary each (a tokenizer.json without normaliser and pre-tokenizer); cases.json holds
texts, and for each configuration the parts that complete the file and the expected ids of every text. Everything is
seeded: running it again with the same library version writes the same bytes."""
import json
import random
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import token_oracle as oracle  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

WORDS = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which
one you were her all she there would their we him been has when who will more no if out so said what up its about into than
them can only other new some could time these two may then do first any my now such like our over man me even most made after
also did many before must through back years where much your way well down should because each just those people how too
little state good very make world still own see men work long get here between both life being under never day same another
know while last might us great old year off come since against go came right used take three token tokens merge vocabulary"""
BPE_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
               "<|eot_id|>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<s>", "</s>",
               "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]
SPM_SPECIAL = ["<unk>", "<s>", "</s>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"]


def corpus():
    rng = random.Random(3)
    words = WORDS.split()
    lines = [" ".join(rng.choice(words) for _ in range(12)) + rng.choice([".", "?", "!", ", and"]) for _ in range(600)]
    return lines + ["don't DON'T we'll 12 345 6789\tx = f(y);\n\n    return z" for _ in range(40)] + [oracle.torture()[:20000]]


def texts():
    """Lines of the torture text, long ones cut, and a few that only whole texts show."""
    rng = random.Random(5)
    special = ["<|im_start|>", "<start_of_turn>", "</s>", "<tool>", "<tag>"]
    lines = oracle.torture(special).split("\n")
    head, tail = lines[:118], lines[118:]
    out = ["", " ", "\n\n\n", "a\n\n \n\tb  \n", "  two  spaces  ", "x" + " " * 40 + "y" + "\n" * 35 + "z" + "\t" * 5,
           "a \u3000<left> b", " <right> \n x<right>", "zword zwords szword zword. _zword \u00e9zword", "cafe\u0301\u0301 e\u0301"]
    out += [l if len(l) < 80 else l[:40] for l in head if l] + [l[:40] for l in rng.sample(tail, 12) if l]
    return list(dict.fromkeys(out))


def train_bpe():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=560, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=["<|endoftext|>"]))
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in BPE_SPECIAL])
    tok.add_tokens([AddedToken("<tool>", normalized=False)])
    return json.loads(tok.to_str())


def train_spm():
    """A SentencePiece-like vocabulary: special and user-defined tokens, bytes, pieces by falling score, characters."""
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    count = Counter("".join(corpus()).replace(" ", "▁"))
    alphabet = sorted(count, key=lambda c: (-count[c], c))[:100]
    tok.train_from_iterator(["".join(c if c in alphabet else " " for c in line.replace(" ", "▁")) for line in corpus()],
                            trainers.BpeTrainer(vocab_size=450, show_progress=False, initial_alphabet=alphabet))
    pieces = [t for t, _ in sorted(tok.get_vocab().items(), key=lambda x: x[1])]
    blanks = ["▁" * n for n in range(2, 9)] + ["\n" * n for n in range(1, 5)] + ["\t\t"]
    chars = [p for p in pieces if len(p) == 1 and p not in blanks and p != "▁"] + ["▁"]
    longer = [p for p in pieces if len(p) > 1 and p not in blanks and p not in SPM_SPECIAL]
    tokens = SPM_SPECIAL + blanks + ["<tag>"] + [f"<0x{b:02X}>" for b in range(256)] + longer + chars
    kinds = [3] * len(SPM_SPECIAL) + [4] * (len(blanks) + 1) + [6] * 256 + [1] * (len(longer) + len(chars))
    scores = [-1000.0 if k in (3, 4) else 0.0 for k in kinds[:-len(longer) - len(chars)]]
    scores += [-float(i) for i in range(len(longer) + len(chars))]
    return tokens, kinds, scores


def spm_json(tokens, kinds, scores, gemma):
    """tokenizer.json of that vocabulary; gemma: with the runs of white space as tokens, as the published one has them."""
    use = [k == 1 or (k == 4 and gemma and t.strip("▁\n\t") == "") for t, k in zip(tokens, kinds)]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = oracle.generate_merges(vocab, {t: 0.0 if k == 4 else s for t, k, s, u in zip(tokens, kinds, scores, use) if u},
                                    lowest_id=not gemma)
    tok = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    for t, k in zip(tokens, kinds):
        if k == 3:
            tok.add_special_tokens([AddedToken(t, normalized=False, special=True)])
        elif k == 4:
            tok.add_tokens([AddedToken(t, normalized=False)])
    return json.loads(tok.to_str())


def flagged(bpe):
    """Added tokens with each of the flags that matching knows; GGUF has none of them."""
    flags = {"<left>": "lstrip", "<right>": "rstrip", "zword": "single_word", "e\u0301\u0301": "normalized"}
    first = max(a["id"] for a in bpe["added_tokens"]) + 1
    none = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return [{"id": first + i, "content": t, **none, f: True} for i, (t, f) in enumerate(flags.items())]


def encode_all(spec, lines):
    """Ids of every text with special tokens recognised; and of every text without, where that differs."""
    tok = Tokenizer.from_str(json.dumps(spec))
    special = [tok.encode(t, add_special_tokens=False).ids for t in lines]
    tok.encode_special_tokens = True
    plain = [tok.encode(t, add_special_tokens=False).ids for t in lines]
    return special, {str(i): b for i, (a, b) in enumerate(zip(special, plain)) if a != b}


def parts(o):
    """normalizer, pre_tokenizer or decoder object as JSON."""
    return json.loads(o.__getstate__()) if o else None


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "tests/golden/tokens")
    out.mkdir(parents=True, exist_ok=True)
    lines, cases = texts(), []
    bpe = train_bpe()
    level = decoders.ByteLevel()
    for name in ("gpt2", "smollm", "llama-bpe", "qwen2", "deepseek-v3", "tekken"):
        norm, pre, whole = oracle.pre_tokenizer(name)
        cases.append({"name": name, "base": "bpe.json", "pre": name, "ignore_merges": whole, "normalizer": parts(norm),
                      "pre_tokenizer": parts(pre), "decoder": parts(level)})
    cases.append({"name": "custom", "base": "bpe.json", "pre": "custom", "ignore_merges": False, "normalizer": None,
                  "pre_tokenizer": parts(oracle.splits([r"\p{Lu}?[\p{Ll}\p{M}]+|\d{2}|\w|(?=[.,])|\s*\n"])),
                  "decoder": parts(level), "added": flagged(bpe)})
    tokens, kinds, scores = train_spm()
    space = normalizers.Replace(" ", "▁")
    spm_decoder = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    (out / "spm-gemma.json").write_text(dump(spm_json(tokens, kinds, scores, True)))
    plain = [i for i, (t, k) in enumerate(zip(tokens, kinds)) if k != 4]
    slim = [[x[i] for i in plain] for x in (tokens, kinds, scores)]
    (out / "spm-llama.json").write_text(dump(spm_json(*slim, False)))
    cases.append({"name": "gemma", "base": "spm-gemma.json", "pre": "", "prefix": False, "normalizer": parts(space),
                  "pre_tokenizer": parts(pre_tokenizers.Split(" ", "merged_with_previous")),
                  "decoder": parts(decoders.Sequence(spm_decoder)), "types": kinds, "scores": scores})
    strip = decoders.Sequence(spm_decoder + [decoders.Strip(" ", 1, 0)])
    cases.append({"name": "llama", "base": "spm-llama.json", "pre": "", "prefix": True,
                  "normalizer": parts(normalizers.Sequence([normalizers.Prepend("▁"), space])), "pre_tokenizer": None,
                  "decoder": parts(strip), "types": slim[1], "scores": slim[2]})
    for scheme, split in (("first", False), ("always", False), ("first", True)):
        meta = pre_tokenizers.Metaspace("▁", prepend_scheme=scheme, split=split)
        cases.append({"name": f"metaspace-{scheme}{'-split' if split else ''}", "base": "spm-llama.json", "pre": "",
                      "normalizer": None, "pre_tokenizer": parts(meta), "decoder": parts(strip)})
    (out / "bpe.json").write_text(dump(bpe))
    for c in cases:
        spec = json.loads((out / c["base"]).read_text())
        spec["model"]["ignore_merges"] = c.get("ignore_merges", False)
        spec["added_tokens"] += c.get("added", [])
        spec.update({k: c[k] for k in ("normalizer", "pre_tokenizer", "decoder")})
        c["ids"], c["plain_ids"] = encode_all(spec, lines[:45] if "metaspace" in c["name"] else lines)
    (out / "cases.json").write_text(
        '{"texts": ' + dump(lines) + ',\n"cases": [\n' + ",\n".join(dump(c) for c in cases) + "\n]}\n")
    for f in sorted(out.iterdir()):
        print(f.name, f.stat().st_size)


def dump(o):
    return json.dumps(o, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
