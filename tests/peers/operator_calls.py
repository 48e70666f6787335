#!/usr/bin/env python3
"""Measures an operator call from PyTorch's Python in microseconds: the rows of
tests/lua/operator_calls_benchmark.cc.

    python3 operator_calls.py        (torch 2.11.0)
"""

import time

import torch

CALLS, ROUNDS = 200_000, 5
ROWS = {
    "add(x, y)": "torch.add(x, y)", "x + y": "x + y", "x + 1": "x + 1", "x.relu()": "x.relu()",
    "x.matmul(y)": "x.matmul(y)", "x.sum(1, keepdim)": "x.sum(1, keepdim=True)",
    "x.view(4)": "x.view(4)", "x[1]": "x[1]", "x.softmax(-1)": "x.softmax(-1)",
    "x.add_(y, alpha=0)": "x.add_(y, alpha=0)",
}

torch.set_num_threads(1)
print("| call | Python |\n|---|---|")
for name, call in ROWS.items():
    scope = {"torch": torch, "x": torch.ones(2, 2), "y": torch.ones(2, 2)}
    exec(f"def run():\n for _ in range({CALLS}): {call}", scope)
    best = 1e9
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        scope["run"]()
        best = min(best, (time.perf_counter() - begin) / CALLS * 1e6)
    print(f"| {name} | {best:.2f} |")
