#!/usr/bin/env python3
"""Writes delta_rule.safetensors: what Transformers 5.23 computes for the gated delta rule.

    $MOONRING_ORACLE/t5/python tests/golden/mixers/make.py

qwen3_next is torch_chunk_gated_delta_rule (two value heads for each key head), kimi is
chunk_kimi_delta_attention (one decay for each channel). Both run in fp32, normalize q and k, and
start from a given state. Each has the inputs, out, the last state, and the gradients of all inputs
for given gradients of out and of the last state. There is one document of 100 tokens; the batch dim
is removed, and states are transposed to [H, d_v, d_k].
"""

import os

import torch
from safetensors.torch import save_file
from transformers.models.kimi_linear.modeling_kimi_linear import chunk_kimi_delta_attention
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

TOKENS, KEY_HEADS, KEYS, VALUES = 100, 2, 8, 6
torch.manual_seed(0)
tensors = {}


def run(name, function, heads, decay_shape):
    inputs = {
        "q": torch.randn(TOKENS, KEY_HEADS, KEYS),
        "k": torch.randn(TOKENS, KEY_HEADS, KEYS),
        "v": torch.randn(TOKENS, heads, VALUES),
        "g": -torch.nn.functional.softplus(2 * torch.randn(decay_shape) - 2),
        "beta": torch.rand(TOKENS, heads),
        "initial": torch.randn(1, heads, VALUES, KEYS),
    }
    leaves = {key: value.requires_grad_() for key, value in inputs.items()}
    out, final = function(
        *(leaves[key].unsqueeze(0) for key in ("q", "k", "v", "g", "beta")),
        initial_state=leaves["initial"].mT,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )
    outputs = {"out": out[0], "final": final.mT}
    d_outputs = {key: torch.randn_like(value) for key, value in outputs.items()}
    torch.autograd.backward(list(outputs.values()), list(d_outputs.values()))
    for key, value in (leaves | outputs).items():
        tensors[f"{name}.{key}"] = value.detach().contiguous()
    for key, value in d_outputs.items():
        tensors[f"{name}.d_{key}"] = value.contiguous()
    for key, value in leaves.items():
        tensors[f"{name}.d_{key}"] = value.grad.contiguous()


run("qwen3_next", torch_chunk_gated_delta_rule, 4, (TOKENS, 4))
run("kimi", chunk_kimi_delta_attention, KEY_HEADS, (TOKENS, KEY_HEADS, KEYS))
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "delta_rule.safetensors")
save_file(tensors, path)
os.chmod(path, 0o644)
