"""Random quantised matrices whose values are known: gguf.quants.dequantize says what the bytes mean."""

import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES, quants

# Byte offsets of the half-precision scales in one block: every other byte of a block may hold anything.
SCALES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.IQ4_NL: [0], T.IQ4_XS: [0],
          T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
MINIMUM_ADDED = {T.Q4_1, T.Q5_1}  # their second scale is a signed offset that is added


def random_matrix(rng, kind, rows, cols, std):
    """(bytes [rows][row bytes] as uint8, values [rows][cols] float32) with values of about that deviation."""
    block, size = GGML_QUANT_SIZES[kind]
    assert cols % block == 0, (kind, cols)
    n = rows * cols // block
    raw = rng.integers(0, 256, size=(n, size), dtype=np.uint8)
    if kind == T.Q8_0:
        raw[:, 2:] = np.where(raw[:, 2:] == 128, 127, raw[:, 2:])  # -128 is never written
    spread = rng.uniform(0.6, 1.4, size=n)

    def put(scale):
        d = (scale * spread).astype(np.float16)
        for i, at in enumerate(SCALES[kind]):
            half = d if i == 0 else (d * (-8 if kind in MINIMUM_ADDED else 1)).astype(np.float16)
            raw[:, at:at + 2] = half.reshape(-1, 1).view(np.uint8)

    put(1.0)
    wide = quants.dequantize(raw.reshape(rows, -1), kind)
    put(std / float(np.sqrt(np.mean(np.square(wide)))))
    data = raw.reshape(rows, -1)
    return data, quants.dequantize(data, kind).astype(np.float32).reshape(rows, cols)
