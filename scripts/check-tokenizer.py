#!/usr/bin/env python3
"""Compares token ids with Hugging Face tokenizers, offline.

usage: check-tokenizer.py -m MODEL [--tool build/release/infer-run] [--random N] [FILE...]

MODEL is a GGUF file, from whose vocabulary the Hugging Face tokenizer is built here, or a folder with tokenizer.json.
Without FILEs: wiki.test.raw, HumanEval and Spec-Bench from SLUICE_DATA (default ../shared/data), the torture text, long
lines, N random texts (default 300) and random bytes. Each text is compared with special tokens recognised and without;
decoding must give the text back (after the model's own normalisation, and but for bytes the vocabulary lacks).
Needs Python with `tokenizers` and `gguf`. The last line is 'N passed, N failed'."""
import argparse
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import token_oracle as oracle
from tokenizers import Tokenizer


def run(tool, model, args, data):
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        p = subprocess.run([tool, "-m", model, *args, f.name], capture_output=True)
    if p.returncode:
        raise SystemExit(f"{tool}: {p.stderr.decode()}")
    return p.stdout


def load(path):
    """(Tokenizer, special token texts)."""
    if not os.path.isdir(path):
        return oracle.from_gguf(path)[:2]
    tok = Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
    return tok, [t.content for t in tok.get_added_tokens_decoder().values() if t.special]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("-m", "--model", required=True)
    ap.add_argument("--tool", default="build/release/infer-run")
    ap.add_argument("--random", type=int, default=300)
    ap.add_argument("files", nargs="*")
    a = ap.parse_args()
    tok, special = load(a.model)
    if a.files:
        texts = [(f, open(f, encoding="utf-8", newline="").read()) for f in a.files]
    else:
        rng = random.Random(1)
        texts = list(oracle.data_texts(oracle.data_dir()))
        texts.append(("torture", oracle.torture(special)))
        texts.append(("letters, 1 MB", "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(1000000))))
        texts.append(("one letter, 200 kB", "a" * 200000))
        texts.append(("spaces, 100 kB", " " * 100000 + "x" + " " * 33))
        pool = oracle.torture(special)
        parts = []
        for _ in range(a.random):
            i, n = rng.randrange(len(pool)), rng.randrange(1, 200)
            parts.append(pool[i:i + n])
            parts.append("".join(chr(c) for c in (rng.randrange(0x30000) for _ in range(20)) if not 0xd800 <= c < 0xe000))
        texts.append((f"{a.random} random texts", "".join(parts)))
    passed = failed = 0

    def note(ok, what):
        nonlocal passed, failed
        passed, failed = passed + ok, failed + (not ok)
        print(("ok   " if ok else "FAIL ") + what, flush=True)

    for name, text in texts:
        data = text.encode()
        for flag in (True, False):
            tok.encode_special_tokens = not flag
            want = tok.encode(text, add_special_tokens=False).ids
            got = [int(x) for x in run(a.tool, a.model, (["--special"] if flag else []) + ["--tokenize"], data).split()]
            at = next((i for i, (x, y) in enumerate(zip(want, got)) if x != y), min(len(want), len(got)))
            note(want == got, f"{name}: {len(data)} bytes, {len(want)} ids{', special' if flag else ''}")
            if want != got:
                print(f"     first difference at id {at}: expected {[(i, tok.id_to_token(i)) for i in want[at:at + 6]]}, "
                      f"got {[(i, tok.id_to_token(i)) for i in got[at:at + 6]]}")
                print(f"     after {tok.decode(want[max(0, at - 8):at], skip_special_tokens=False)!r}")
        back = run(a.tool, a.model, ["--detokenize"], "\n".join(map(str, got)).encode())
        expect = tok.decode(want, skip_special_tokens=False).encode()
        note(back == expect, f"{name}: decoding" + ("" if expect == data else " (differs from the text, as it does there)"))
    if not a.files:
        raw = bytes(random.Random(2).randrange(256) for _ in range(100000)) + "é 字".encode()[:-1] + b"\xf0\x9f\x98 \xed\xa0\x80"
        ids = run(a.tool, a.model, ["--tokenize"], raw)
        back = run(a.tool, a.model, ["--detokenize"], ids)
        same = back == raw
        if not same:  # a vocabulary without some bytes, or one that normalises
            from tokenizers import pre_tokenizers
            have = {b for b in range(256) if run(a.tool, a.model, ["--tokenize"], bytes([b])).strip()}
            same = back == bytes(b for b in raw if b in have)
            name = f"100000 random bytes, of which {256 - len(have)} values have no token"
        else:
            name = "100000 random bytes"
        note(same, name)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
