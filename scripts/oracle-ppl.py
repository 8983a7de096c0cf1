#!/usr/bin/env python3
"""Perplexity of a GGUF model in PyTorch FP32 on the dequantised weights, over the windows that infer-eval uses.

usage: oracle-ppl.py MODEL.gguf IDS [--ctx 2048] [--windows N] [--skip 1] [--log FILE] [--threads N]

IDS: what `infer-run -m MODEL --tokenize TEXT` prints. One line per window goes to stdout (and --log): window, scored
tokens, sum of their negative log-likelihoods, perplexity so far. With --log, windows that are already in FILE are not
computed again."""

import argparse
import math
import os
import sys
import time

import torch

import oracle_model


def window_nll(model, ids, skip):
    """(scored tokens, sum of -log p) of one window; log-softmax in double."""
    x = torch.tensor([ids])
    with torch.no_grad():
        h = model.model(input_ids=x, use_cache=False).last_hidden_state[0]
        nll, n = 0.0, 0
        for a in range(0, len(ids) - 1, 256):
            b = min(a + 256, len(ids) - 1)
            rows = model.lm_head(h[a:b]).double()
            target = x[0, a + 1:b + 1]
            part = torch.logsumexp(rows, 1) - rows.gather(1, target[:, None])[:, 0]
            keep = torch.arange(a + 1, b + 1) >= skip
            nll += part[keep].sum().item()
            n += int(keep.sum())
    return n, nll


def read_log(path, key):
    done = {}
    if path and os.path.exists(path):
        for line in open(path, encoding="utf-8"):
            if line.startswith("#"):
                if line.strip() != key:
                    raise SystemExit(f"oracle-ppl: {path} is of another run: {line.strip()}")
            else:
                f = line.split()
                done[int(f[0])] = (int(f[1]), float(f[2]))
    return done


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("ids")
    p.add_argument("--ctx", type=int, default=2048)
    p.add_argument("--windows", type=int)
    p.add_argument("--skip", type=int, default=1)
    p.add_argument("--log")
    p.add_argument("--threads", type=int)
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    model, g = oracle_model.load(a.model)
    windows = oracle_model.windows_of(oracle_model.read_ids(a.ids), g, a.ctx, a.windows)
    key = f"# {os.path.basename(a.model)} ctx {a.ctx} skip {a.skip}"
    done = read_log(a.log, key)
    log = open(a.log, "a", encoding="utf-8") if a.log else None
    if log and not done:
        print(key, file=log, flush=True)
    total_n, total = 0, 0.0
    t0 = time.monotonic()
    for i, w in enumerate(windows):
        new = i not in done
        n, nll = window_nll(model, w, max(a.skip, 1)) if new else done[i]
        total_n, total = total_n + n, total + nll
        line = f"{i}\t{n}\t{nll:.6f}\t{math.exp(total / total_n):.6f}"
        print(line, flush=True)
        if log and new:
            print(line, file=log, flush=True)
    print(f"# {len(windows)} windows, {total_n} tokens, nll_mean {total / total_n:.8f}, "
          f"perplexity {math.exp(total / total_n):.6f}, {time.monotonic() - t0:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
