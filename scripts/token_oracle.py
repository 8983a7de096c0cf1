"""Hugging Face tokenizers built from GGUF vocabularies, and texts that are hard to tokenize. Imported by the check and
golden scripts; needs `tokenizers` and `gguf`. The definitions of normalisers and pre-tokenizers are those that the
models' own tokenizer.json files publish."""
import gzip
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def splits(patterns):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def pre_tokenizer(name):
    """(normalizer, pre-tokenizer, ignore_merges) by GGUF name."""
    if name in ("smollm", "starcoder", "refact"):
        return None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                              pre_tokenizers.ByteLevel(add_prefix_space=False)]), False
    if name in ("gpt-2", "gpt2"):
        return None, pre_tokenizers.ByteLevel(add_prefix_space=False), False
    if name in ("qwen2", "deepseek-r1-qwen"):
        return normalizers.NFC(), splits([QWEN2]), False
    if name in ("llama-bpe", "llama3", "llama-v3"):
        return None, splits([LLAMA3]), True
    if name == "deepseek-v3":
        return None, splits(DEEPSEEK_V3), False
    if name == "tekken":
        return None, splits([TEKKEN]), True
    raise SystemExit(f"no published definition here of the pre-tokenizer {name!r}")


def generate_merges(vocab, scores, lowest_id):
    """Merges in the order in which transformers' converters write them: by score, then (newer ones) by the lengths of
    the left and right part."""
    merges = []
    for piece, score in scores.items():
        local = []
        for i in range(1, len(piece)):
            l, r = piece[:i], piece[i:]
            if l in vocab and r in vocab:
                local.append((l, r, score))
        merges += sorted(local, key=lambda m: (vocab[m[0]], vocab[m[1]]))
    key = (lambda m: m[2]) if lowest_id else (lambda m: (m[2], len(m[0]), len(m[1])))
    return [(l, r) for l, r, _ in sorted(merges, key=key, reverse=True)]


def from_gguf(path):
    """(Tokenizer, special token texts, fields) of a GGUF file."""
    from gguf import GGUFReader
    fields = {k: f for k, f in GGUFReader(path).fields.items() if k.startswith("tokenizer.")}
    get = lambda k, d=None: fields["tokenizer.ggml." + k].contents() if "tokenizer.ggml." + k in fields else d
    tokens, types = get("tokens"), get("token_type")
    kind = get("model")
    if kind == "gpt2":
        norm, pre, whole = pre_tokenizer(get("pre"))
        vocab = {t: i for i, t in enumerate(tokens) if types[i] != 5}
        merges = [tuple(m.split(" ", 1)) if m[0] != " " else (" " + m[1:].split(" ", 1)[0], m[1:].split(" ", 1)[1])
                  for m in get("merges")]
        tok = Tokenizer(models.BPE(vocab, merges, ignore_merges=whole))
        if norm:
            tok.normalizer = norm
        tok.pre_tokenizer = pre
        tok.decoder = decoders.ByteLevel()
    elif kind == "llama":
        prefix = get("add_space_prefix", True)
        blank = lambda t: t.strip("\n\t▁") == ""
        tokens = [t.replace(" ", "▁") if types[i] == 4 and t.strip(" ") == "" else t for i, t in enumerate(tokens)]
        # SentencePiece gives user-defined pieces score 0; converters to GGUF do not keep that.
        scores = {t: (0.0 if types[i] == 4 else s) for i, (t, s) in enumerate(zip(tokens, get("scores")))
                  if types[i] == 1 or (types[i] == 4 and blank(t))}
        vocab = {t: i for i, t in enumerate(tokens)}
        whitespace = any(types[i] == 4 and blank(t) and len(t) > 1 for i, t in enumerate(tokens))
        merges = generate_merges(vocab, scores, lowest_id=not whitespace)
        tok = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        space = normalizers.Replace(" ", "▁")
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), space]) if prefix else space
        if not prefix:
            tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
                                        + ([decoders.Strip(" ", 1, 0)] if prefix else []))
    else:
        raise SystemExit(f"{path}: tokenizer model {kind!r}")
    special = [tokens[i] for i in range(len(tokens)) if types[i] in (2, 3)]
    for i, t in enumerate(tokens):
        if types[i] in (2, 3):
            tok.add_special_tokens([AddedToken(t, normalized=False, special=True)])
        elif types[i] == 4:
            tok.add_tokens([AddedToken(t, normalized=False)])
    for i, t in enumerate(tokens):
        if types[i] in (2, 3, 4):
            assert tok.token_to_id(t) == i, (t, i, tok.token_to_id(t))
    return tok, special, fields


def torture(special=()):
    """One text with what breaks tokenizers. Every line is separated by a newline; it is valid UTF-8."""
    rng = random.Random(7)
    lines = [
        "", " ", "  ", "\t", "\t\t mixed \t tabs\t", "a\r\nb\r\n\r\nc\rd\n\r", "nul \0 inside\0\0 and \x01\x02\x1f\x7f",
        "don't DON'T I'LL i'Ll we'VE they're THEY'RE it'ſ 'S 's' ''' O'Neil's y'all'd've",
        "1 12 123 1234 12345 3.14159 1,000,000 0x1F ½ ² Ⅷ ١٢٣ १२३ 一二三 ①② ൰ 𝟘𝟙",
        "emoji 😀😃 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷🇯🇵 👍🏽 🧑🏿‍🚀 ❤️ ☺ ️ 🫠 🪿",
        "中文分词测试，没有空格。日本語のテキスト、カタカナ。ﾊﾝｶｸ 한국어 문장입니다 각 ㄱㅏ ᄒ\u1161ᆫ \u1112\u1161\u11ab\u1100\u1173\u11af",
        "combining e\u0301 a\u0308\u0323 o\u0323\u0308 q\u0307\u0323 Å \u212b \u2126 ﬁ ﬀ s\u0323\u0307 \u1e9b\u0323 \u0344 \u0958 \uf900 \u09c7\u09be",
        "zalgo " + "".join("z" + "".join(chr(0x300 + rng.randrange(0x70)) for _ in range(20)) for _ in range(5)),
        "marks alone \u0301\u0301 \u0300 \u20dd " + "".join(chr(0x300 + rng.randrange(0x70)) for _ in range(60)),
        "spaces\u00a0nbsp\u1680ogham\u2003em\u2009thin\u200bzero\u2028line\u2029para\u202fnnbsp\u205fmath\u3000ideographic\u180emvs\x85nel\x0bvt\x0cff\x1cfs\ufeffbom",
        "שלום עולם مرحبا بالعالم \u202eRTL override\u202c فارسی‌نیم‌فاصله ‏مثال‎",
        "हिन्दी में लिखा हुआ পাঠ্য தமிழ் ไทยไม่มีช่องว่าง ລາວ မြန်မာ ខ្មែរ ქართული Ελληνικά ΆΈ Кириллица ё й Ѐ Հայերեն አማርኛ ᏣᎳᎩ",
        "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠀀𠮷 𓀀 🜁 \U0001f9d1 \U000e0041 \U0010ffff \ufffd \ufffe \uffff \ue000 \U00031350 \U0002ebf0 \u1c89 \U00010d40 \U000105c0",
        "▁▁ literal marks ▁ and ▁▁▁ words▁joined ▁x  ▁  Ġ Ċ ĠĠ Ä <0x41> <0x0A> <0xZZ>",
        "def f(x):\n    if x:\n\t\treturn {'a': [1, 2], \"b\": None}  # comment\n\n\n    else:\n        pass\n\n\n\n\n",
        "https://example.com/a/b?c=d&e=f#g user@host.tld C:\\dir\\file.txt /usr/bin/env $HOME ~/.x `code` ```py\nx\n```",
        "!!!??? ... --- === *** ### <<<>>> (((]]] {}{} @@@ %%% ^^^ &&& ||| \\\\\\ ;;; ::: ,,, \"\"\" ''' ~~~ ___",
        "MixedCASE camelCase snake_case kebab-case SCREAMING_CASE iPhone12Pro x86_64 H2O CO₂ n² a1b2c3",
        "ends with spaces   ", "   starts with spaces", "a" + " " * 33 + "b" + " " * 70 + "c", "\n" * 35 + "x" + "\t" * 33 + "y",
        "newline space \n \n  \n   \n end", "word" * 300, "a" * 2000, "ab" * 700, " " * 1500 + "x", "=" * 999, "\n" * 200,
        "é" * 300, "字" * 500, "😀" * 200, "1" * 400, "aA" * 300, "\u0301" * 100, "." * 301 + "!" * 77, "▁" * 65, "\t" * 500,
        "<", "<|", "<|im_start", "<|im_start|", "|>", "<|im_start|><|im_end|>", "<|endoftext|>", "</s><s>", "<bos><eos>", "[INST] x [/INST]",
        "<start_of_turn>user\nhi<end_of_turn>\n", "<unused7><unused77><unused777>", "<table><tr><td>x</td></tr></table>", "<tool_call>{}</tool_call>",
    ]
    for s in list(special)[:40]:
        lines += [s, s + s, "x" + s + "y", " " + s + " ", "\n" + s + "\n", s[:-1], s[1:], s + s[:-1] + s]
    lines += ["".join(chr(rng.choice([rng.randrange(0x20, 0x7f), rng.randrange(0xa0, 0x250), rng.randrange(0x370, 0x600),
                                      rng.randrange(0x900, 0xd00), rng.randrange(0x3040, 0x3100), rng.randrange(0x4e00, 0x9fff),
                                      rng.randrange(0xac00, 0xd7a4), rng.randrange(0x1f300, 0x1f700), 0x20, 0x0a]))
                      for _ in range(rng.randrange(1, 60))) for _ in range(400)]
    lines += ["".join(rng.choice([" ", "  ", "\n", "\t", "\r\n", "a", "B", "1", "'s", "é", ".", "字", "\u0301", "▁"])
                      for _ in range(rng.randrange(1, 40))) for _ in range(400)]
    return "\n".join(lines)


def data_dir():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.environ.get("SLUICE_DATA", os.path.join(root, "..", "shared", "data"))


def data_texts(folder):
    """(name, text) of the public texts that are there."""
    def read(name):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            return None
        with (gzip.open if name.endswith(".gz") else open)(path, "rt", encoding="utf-8", newline="") as f:
            return f.read()
    text = read("wikitext-2-raw/wiki.test.raw")
    if text is not None:
        yield "wiki.test.raw", text
    text = read("HumanEval.jsonl.gz")
    if text is not None:
        rows = [json.loads(l) for l in text.splitlines()]
        yield "HumanEval", "\n".join(r["prompt"] + r["canonical_solution"] + r["test"] for r in rows)
    text = read("spec-bench/question.jsonl")
    if text is not None:
        yield "spec-bench", "\n".join(t for l in text.splitlines() for t in json.loads(l)["turns"])
