#!/usr/bin/env python3
"""Writes gguf_golden.json and gguf_types_golden.json: values that gguf-py reads from quantized
tensors (needs gguf and numpy).

usage: make_gguf_golden.py SmolLM2-135M-Instruct.Q4_1.gguf gguf_golden.json
       make_gguf_golden.py gguf_types_golden.json

gguf_golden.json has numbers of SmolLM2's tensors. For some tensors, under their Hugging Face names
and with q and k rows in Hugging Face's order: the first values, values spread over the tensor, and
sums in double precision. The values are exact in fp32, so a test may require equality; the last
digits of sums depend on the order of addition.

gguf_types_golden.json has a few blocks of each quantized type: {type: {id, elements, blocks,
values}}, the last two as hexadecimal bytes (values: little-endian fp32). The bytes of a block are
random except for its fp16 scales, which are of a common size, negative, or subnormal, and for
MXFP4's power of two: a common one, the two least, and the largest that gives finite values.
"""

import json
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

HEADS, KV_HEADS = 9, 3
TENSORS = {
    "token_embd.weight": ("model.embed_tokens.weight", 0),
    "output_norm.weight": ("model.norm.weight", 0),
    "blk.0.attn_q.weight": ("model.layers.0.self_attn.q_proj.weight", HEADS),
    "blk.7.attn_k.weight": ("model.layers.7.self_attn.k_proj.weight", KV_HEADS),
    "blk.7.attn_v.weight": ("model.layers.7.self_attn.v_proj.weight", 0),
    "blk.29.attn_output.weight": ("model.layers.29.self_attn.o_proj.weight", 0),
    "blk.15.attn_norm.weight": ("model.layers.15.input_layernorm.weight", 0),
    "blk.15.ffn_norm.weight": ("model.layers.15.post_attention_layernorm.weight", 0),
    "blk.15.ffn_gate.weight": ("model.layers.15.mlp.gate_proj.weight", 0),
    "blk.29.ffn_up.weight": ("model.layers.29.mlp.up_proj.weight", 0),
    "blk.29.ffn_down.weight": ("model.layers.29.mlp.down_proj.weight", 0),
}


def published_order(weight, heads):
    """Converts row (head, pair, half) of GGUF's interleaved rotary layout to row (head, half,
    pair)."""
    if heads == 0:
        return weight
    rows, columns = weight.shape
    return (
        weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


# Offsets of a block's fp16 scales.
SCALES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "IQ4_NL": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_XS": [0],
}


def figures(kind, blocks):
    values = dequantize(blocks, kind)
    assert values.dtype == np.float32 and np.isfinite(values).all()
    return {
        "id": int(kind),
        "elements": GGML_QUANT_SIZES[kind][0],
        "blocks": blocks.tobytes().hex(),
        "values": values.tobytes().hex(),
    }


def write_types(target):
    golden, random = {}, np.random.default_rng(7)
    for name, places in SCALES.items():
        kind = GGMLQuantizationType[name]
        scales = [0.0123, -0.25, 3e-6]
        blocks = random.integers(
            0, 256, (len(scales), GGML_QUANT_SIZES[kind][1]), dtype=np.uint8
        )
        for number, scale in enumerate(scales):
            for factor, place in enumerate(places, 1):
                blocks[number, place : place + 2] = np.array(
                    [scale * factor], dtype=np.float16
                ).view(np.uint8)
        golden[name] = figures(kind, blocks)
    powers = np.array([[121], [0], [1], [252]], dtype=np.uint8)
    halves = random.integers(0, 256, (len(powers), 16), dtype=np.uint8)
    golden["MXFP4"] = figures(GGMLQuantizationType.MXFP4, np.concatenate((powers, halves), 1))
    write(golden, target)


def write(golden, target):
    with open(target, "w", encoding="utf-8") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


def main(source, target):
    tensors = {tensor.name: tensor for tensor in GGUFReader(source).tensors}
    golden = {}
    for name, (published, heads) in TENSORS.items():
        weight = published_order(
            dequantize(tensors[name].data, tensors[name].tensor_type).astype(np.float32), heads
        )
        flat = np.ascontiguousarray(weight).reshape(-1)
        places = [int(i) for i in np.linspace(0, flat.size - 1, 23)]
        wide = flat.astype(np.float64)
        golden[published] = {
            "type": tensors[name].tensor_type.name,
            "shape": list(weight.shape),
            "first": [float(x) for x in flat[:8]],
            "places": places,
            "values": [float(flat[i]) for i in places],
            "sum": float(wide.sum()),
            "sum_of_squares": float((wide * wide).sum()),
            "sum_by_place": float((wide * (np.arange(flat.size) % 1009)).sum()),
        }
    write(golden, target)


if __name__ == "__main__":
    (main if len(sys.argv) == 3 else write_types)(*sys.argv[1:])
