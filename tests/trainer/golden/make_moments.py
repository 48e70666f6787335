"""Writes moments.json: bitsandbytes' 8-bit codes, and a run of AdamW in fp64 whose two moments are
stored in these codes between steps.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/golden/make_moments.py

bitsandbytes 0.50.2 (create_dynamic_map, quantize_blockwise, dequantize_blockwise) with torch
2.11.0, on a CPU. Blocks of 256. The step itself is written out here, in fp64, so that it shares
nothing but the formula with the code that it tests. Numbers are printed with all their digits.
"""

import json
import pathlib

import torch
from bitsandbytes import functional

BLOCK, COUNT, STEPS = 256, 4096 + 300, 12
BETA1, BETA2, EPSILON, DECAY, LR = 0.9, 0.999, 1e-8, 0.1, 1e-2


def values(seed, count=COUNT):
    """Returns multiples of 2^-10 in [-2, 2), by an integer recurrence that the test also
    implements."""
    state, out = seed, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(((state >> 40) % 4096 - 2048) / 1024)
    return torch.tensor(out, dtype=torch.float64)


def held(moment, codes):
    quantised, state = functional.quantize_blockwise(
        moment.float(), code=codes, blocksize=BLOCK
    )
    return quantised, functional.dequantize_blockwise(quantised, state).double()


def main():
    signed = functional.create_dynamic_map(signed=True)
    unsigned = functional.create_dynamic_map(signed=False)
    example = values(7).float() * 2.0 ** -(torch.arange(COUNT) % 24)
    quantised, state = functional.quantize_blockwise(example, code=signed, blocksize=BLOCK)
    weight, mean, square = values(1), torch.zeros(COUNT).double(), torch.zeros(COUNT).double()
    for step in range(1, STEPS + 1):
        gradient = values(100 + step)
        weight = weight * (1 - LR * DECAY)
        mean = BETA1 * mean + (1 - BETA1) * gradient
        square = BETA2 * square + (1 - BETA2) * gradient**2
        root = square.sqrt() / (1 - BETA2**step) ** 0.5 + EPSILON
        weight = weight - LR / (1 - BETA1**step) * mean / root
        mean, square = held(mean, signed)[1], held(square, unsigned)[1]
    golden = {
        "signed": signed.tolist(),
        "unsigned": unsigned.tolist(),
        "codes": quantised.tolist(),
        "largest": state.absmax.tolist(),
        "steps": STEPS,
        "weight": weight.tolist(),
    }
    path = pathlib.Path(__file__).parent / "moments.json"
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
