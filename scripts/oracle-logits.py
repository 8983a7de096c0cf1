#!/usr/bin/env python3
"""Logits of a GGUF model in PyTorch FP32 on the dequantised weights against those that infer-eval wrote.

usage: infer-eval -m MODEL.gguf -d TEXT --ctx 512 --windows 1 --exact --kv-type f32 --dump-logits DUMP.h5
       oracle-logits.py MODEL.gguf DUMP.h5 [--max 2e-3] [--double] [--rows N]

Prints one line per window: the largest and the mean absolute difference, where the largest is, the mean
Kullback-Leibler divergence, and how often the most likely token agrees. Exit status 2 when a difference exceeds --max.
--double computes the oracle in FP64, which tells rounding of the oracle from an error. Needs h5py besides what
oracle_model.py needs."""

import argparse
import sys

import h5py
import numpy as np
import torch

import oracle_model


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("dump")
    p.add_argument("--max", type=float, default=2e-3)
    p.add_argument("--double", action="store_true")
    p.add_argument("--rows", type=int, help="compare the first N positions of each window only")
    a = p.parse_args()
    model, _ = oracle_model.load(a.model)
    if a.double:
        model = model.double()
    worst = 0.0
    print("# window  rows   max_diff  mean_diff  at_row  at_token   kl_mean  top1_agreement")
    with h5py.File(a.dump, "r") as f:
        name = f.attrs["format"]
        if (name.decode() if isinstance(name, bytes) else name) != "sluice-logits-full":
            raise SystemExit(f"oracle-logits: {a.dump}: not a dump of logits")
        for i in range(f["tokens"].shape[0]):
            tokens = f["tokens"][i]
            n = min(a.rows or len(tokens), len(tokens))
            with torch.no_grad():
                want = model(input_ids=torch.from_numpy(tokens[None, :n].astype(np.int64)), use_cache=False).logits[0]
            have = torch.from_numpy(f["logits"][i, :n]).double()
            want = want.double()
            diff = (want - have).abs()
            diff[torch.isnan(diff)] = torch.inf
            at = int(diff.argmax())
            lp, lq = torch.log_softmax(want, 1), torch.log_softmax(have, 1)
            kl = (lp.exp() * (lp - lq)).sum(1).mean().item()
            agree = (want.argmax(1) == have.argmax(1)).double().mean().item()
            worst = max(worst, diff.max().item())
            print(f"{i:8} {n:5} {diff.max().item():10.3e} {diff.mean().item():10.3e} {at // diff.shape[1]:7} "
                  f"{at % diff.shape[1]:9} {kl:9.2e} {agree:15.5f}", flush=True)
    return 2 if worst > a.max else 0


if __name__ == "__main__":
    sys.exit(main())
