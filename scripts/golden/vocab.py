"""Tiny tokenizers for the golden models: byte-level BPE and SentencePiece BPE, as tokenizer.json and as GGUF metadata."""

import json
from collections import Counter

from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Digits, Sequence, Split
from tokenizers import Regex

CORPUS = """\
The water rises in the lock, and the gate holds the river back until the levels agree.
When the levels agree the gate opens; boats go through one after another, 12 in an hour, 288 in a day.
A sluice does one thing: it lets through what is wanted and keeps the rest where it is.
int main(void) { for (int i = 0; i < 1024; i++) { printf("%d\\n", i * i); } return 0; }
def level(x):\n    return [v for v in x if v > 0.5]
It isn't that we're late; they'll have started, and I'd have told you if I'd known.
Über den Fluß führt eine Brücke. L'eau monte, l'écluse s'ouvre. El agua está fría.
Вода поднимается, и ворота открываются. 水位が上がると門が開く。水门打开了。
"""

# Longer than the corpus in kind: what the committed ids are made from.
SAMPLE = CORPUS[:180] + """
   three spaces, a\ttab, and numbers 3.14159 and 2024-07-01!
They'RE shouting: DON'T!!  naïve café, e\u0301 combining, \U0001F600 emoji, 日本語。
<|im_start|>not special here<|im_end|> <bos></s>
\r\nCRLF line\r\n\n\nend"""

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

# The published patterns.
_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {"llama-bpe": _WORDS % "{1,3}", "qwen2": _WORDS % ""}

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # GGUF token types


def train_merges(words, n_merges):
    """words: Counter of symbol tuples. Most frequent pair first, ties by text; the pairs in order of merging."""
    words = Counter(words)
    merges = []
    while len(merges) < n_merges:
        pairs = Counter()
        for w, n in words.items():
            for pair in zip(w, w[1:]):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        merged = Counter()
        for w, n in words.items():
            out, i = [], 0
            while i < len(w):
                if w[i:i + 2] == best:
                    out.append(w[i] + w[i + 1])
                    i += 2
                else:
                    out.append(w[i])
                    i += 1
            merged[tuple(out)] += n
        words = merged
    return merges


def _added(i, text):
    return {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def _pre_tokenizer(pre):
    if pre == "gpt2":
        return ByteLevel(add_prefix_space=False)
    if pre == "smollm":
        return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    return Sequence([Split(Regex(PATTERNS[pre]), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_bpe(pre, n_merges, specials, special_first, bos, eos, add_bos=False, chat=None):
    """A byte-level BPE vocabulary. bos and eos are texts among specials; bos may be None."""
    splitter: PreTokenizer = _pre_tokenizer(pre)
    words = Counter(tuple(w) for w, _ in splitter.pre_tokenize_str(CORPUS))
    merges = train_merges(words, n_merges)
    normal = sorted(ByteLevel.alphabet()) + [a + b for a, b in merges]
    base = len(specials) if special_first else 0
    vocab = {t: base + i for i, t in enumerate(normal)}
    first = 0 if special_first else len(normal)
    special_ids = {t: first + i for i, t in enumerate(specials)}
    if special_first:
        vocab = {**special_ids, **vocab}
    post = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    if add_bos:
        post = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": bos, "type_id": 0}},
                                                         {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {bos: {"id": bos, "ids": [special_ids[bos]], "tokens": [bos]}}}
    probe = Tokenizer.from_str(_empty_bpe())
    probe.pre_tokenizer = splitter
    doc = {"version": "1.0", "truncation": None, "padding": None,
           "added_tokens": [_added(i, t) for t, i in special_ids.items()],
           "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
           "pre_tokenizer": json.loads(probe.to_str())["pre_tokenizer"],
           "post_processor": post,
           "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": pre == "llama-bpe",
                     "vocab": vocab, "merges": [list(m) for m in merges]}}
    tokens = sorted({**vocab, **special_ids}, key={**vocab, **special_ids}.get)
    return {"json": doc, "tokens": tokens, "types": [CONTROL if t in special_ids else NORMAL for t in tokens],
            "merges": [a + " " + b for a, b in merges], "scores": None, "model": "gpt2",
            "pre": "gpt-2" if pre == "gpt2" else pre, "bos": special_ids.get(bos), "eos": special_ids[eos], "unk": None,
            "bos_text": bos, "eos_text": eos, "add_bos": add_bos, "space_prefix": None, "chat": chat}


def _empty_bpe():
    return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                       "pre_tokenizer": None, "post_processor": None, "decoder": None,
                       "model": {"type": "BPE", "vocab": {}, "merges": []}})


def sentencepiece_bpe(style, n_merges):
    """A SentencePiece BPE vocabulary with byte fallback. style: "llama" (a space put in front) or "gemma"."""
    text = CORPUS.replace(" ", "▁")
    words = Counter()
    for line in text.split("\n"):
        parts = line.split("▁")
        words.update(tuple(("▁" if i else "") + p) for i, p in enumerate(parts) if p or i)
    merges = train_merges(words, n_merges)
    specials = ["<unk>", "<s>", "</s>"] if style == "llama" else ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>",
                                                                  "<end_of_turn>"]
    merged = [a + b for a, b in merges]
    # Everything outside the corpus falls back to bytes; so does the line feed in Llama's vocabularies.
    chars = sorted(set(text) - {"\n"}) + (["\n"] if style == "gemma" else [])
    tokens = specials + [f"<0x{b:02X}>" for b in range(256)] + merged + chars
    vocab = {t: i for i, t in enumerate(tokens)}
    n_head = len(specials) + 256
    scores = [0.0] * n_head + [-float(i) for i in range(len(tokens) - n_head)]
    pairs = []
    for piece in merged:
        for cut in range(1, len(piece)):
            if piece[:cut] in vocab and piece[cut:] in vocab:
                pairs.append((piece[:cut], piece[cut:], scores[vocab[piece]]))
    pairs.sort(key=lambda p: (-p[2], vocab[p[0]], vocab[p[1]]))
    bos, eos = ("<s>", "</s>") if style == "llama" else ("<bos>", "<eos>")
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if style == "llama":
        normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]}
        back.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        split = None
    else:
        normalizer = replace
        split = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    doc = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [_added(vocab[t], t) for t in specials],
           "normalizer": normalizer, "pre_tokenizer": split,
           "post_processor": {"type": "TemplateProcessing",
                              "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                              "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                              "special_tokens": {bos: {"id": bos, "ids": [vocab[bos]], "tokens": [bos]}}},
           "decoder": {"type": "Sequence", "decoders": back},
           "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                     "vocab": vocab, "merges": [[a, b] for a, b, _ in pairs]}}
    types = [UNKNOWN if t == "<unk>" else CONTROL for t in specials] + [BYTE] * 256 + [NORMAL] * (len(tokens) - n_head)
    return {"json": doc, "tokens": tokens, "types": types, "merges": None, "scores": scores, "model": "llama",
            "pre": "default", "bos": vocab[bos], "eos": vocab[eos], "unk": vocab["<unk>"], "bos_text": bos, "eos_text": eos,
            "add_bos": True, "space_prefix": style == "llama", "chat": None}


def write_tokenizer(v, folder):
    (folder / "tokenizer.json").write_text(json.dumps(v["json"], ensure_ascii=False) + "\n", encoding="utf-8")
    conf = {"bos_token": v["bos_text"], "eos_token": v["eos_text"], "add_bos_token": v["add_bos"], "add_eos_token": False,
            "clean_up_tokenization_spaces": False,
            "tokenizer_class": "PreTrainedTokenizerFast" if v["model"] == "gpt2" else "LlamaTokenizer"}
    if v["chat"]:
        conf["chat_template"] = v["chat"]
    (folder / "tokenizer_config.json").write_text(json.dumps(conf, indent=1) + "\n", encoding="utf-8")
    gen = {"bos_token_id": v["bos"], "eos_token_id": v["eos"]}
    (folder / "generation_config.json").write_text(json.dumps({k: i for k, i in gen.items() if i is not None}) + "\n")


def write_sample(v, folder):
    """golden.txt and golden.ids: a text and its ids, one a line, special tokens not recognised, no BOS."""
    doc = dict(v["json"], added_tokens=[], post_processor=None)
    # unk_token must stay a token of the model; without added tokens the text of special tokens is ordinary text.
    ids = Tokenizer.from_str(json.dumps(doc)).encode(SAMPLE, add_special_tokens=False).ids
    (folder / "golden.txt").write_bytes(SAMPLE.encode("utf-8"))
    (folder / "golden.ids").write_text("".join(f"{i}\n" for i in ids))
