#!/usr/bin/env python3
"""Writes text.json and text.safetensors: tensors, and their texts as printed by PyTorch.

    python3 make_text.py        (torch 2.11.0 and safetensors)
"""

import json
import os

import torch
from safetensors.torch import save_file

torch.manual_seed(0)
TENSORS = [
    torch.tensor(3), torch.tensor(2.5), torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]),
    torch.randn(3, 4), torch.randn(2, 3, 4), torch.arange(2000.0), torch.arange(30),
    torch.arange(-700, 700), torch.randn(2, 1100), torch.zeros(11, 12, 13), torch.randn(40),
    torch.tensor([1e10, 1.0]), torch.tensor([1e-8, 1.0]), torch.tensor([1e5, 99.5]),
    torch.tensor([float("nan"), float("inf"), 1.0]), torch.tensor([-float("inf"), 0.5, 12345.0]),
    torch.tensor([0.0, -0.0]), torch.tensor([True, False]), torch.zeros(0), torch.zeros(0, 3),
    torch.randn(3, 3).to(torch.float64), torch.randn(3).to(torch.bfloat16),
    torch.randn(2, 2).to(torch.float16), torch.arange(6).to(torch.int32).view(2, 3),
    torch.tensor([[1, -100], [20, 3]]), torch.randn(2, 30), torch.tensor([[0.001, 123.0]]),
    torch.full((3, 1), 1e-5), torch.randn(1, 1, 1, 2), torch.arange(6).to(torch.uint8),
    torch.randn(13, 2) * 100, torch.tensor([123456.0, 0.25]), torch.zeros(3, 0),
    torch.zeros(0, dtype=torch.int64), torch.randn(1001, 2),
]

here = os.path.dirname(os.path.abspath(__file__))
save_file({str(i): each.contiguous() for i, each in enumerate(TENSORS)},
          os.path.join(here, "text.safetensors"))
with open(os.path.join(here, "text.json"), "w", encoding="utf-8") as file:
    json.dump([str(each) for each in TENSORS], file, indent=0)
    file.write("\n")
