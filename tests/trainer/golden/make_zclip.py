#!/usr/bin/env python3
"""Writes zclip.json: norms, and the norms after clipping by the authors' own ZClip.

venv/bin/pip install zclip==1.0.0; venv/bin/python tests/trainer/golden/make_zclip.py
"""

import json
import math
import random
from pathlib import Path

import torch
from zclip import ZClip


class OneNumber(torch.nn.Module):
    """A model whose gradient has a given norm."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))


def main():
    random.seed(7)
    norms = [math.exp(-k / 60) * (1 + 0.1 * random.gauss(0, 1)) for k in range(120)]
    for place, factor in ((10, 2), (40, 3), (41, 5), (70, 100), (95, 1.4), (110, 0.01)):
        norms[place] *= factor
    model, clip, clipped = OneNumber(), ZClip(max_grad_norm=None), []
    for norm in norms:
        model.weight.grad = torch.tensor([norm], dtype=torch.float64)
        clip.step(model)
        clipped.append(model.weight.grad.item())
    with open(Path(__file__).parent / "zclip.json", "w", encoding="utf-8") as out:
        json.dump({"norms": norms, "clipped": clipped}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
