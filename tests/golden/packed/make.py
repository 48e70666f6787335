#!/usr/bin/env python3
"""Writes packed.safetensors: weights as bitsandbytes 0.50.2 quantizes and dequantizes them on a
CPU.

    $MOONRING_ORACLE/venv/bin/python tests/golden/packed/make.py

A case has CASE.weight, and for nf4 and fp4: CASE.nf4.codes and .scales; for double quantization
CASE.nf4_double.scale_codes, .scale_scales and .mean (the codes are those of nf4); and .unpacked in
fp32 (for double quantization also .unpacked_bf16). It also has CASE.int8.codes, .scales and
.unpacked in fp32, by LLM.int8()'s own dequantization for CPUs. The large cases lack unpacked and
int8; bf16 is not doubly quantized, because the mean of its scales is beyond fp32.

  small..    shapes with short last blocks and odd rows, in bf16, fp16 and fp32
  edge       blocks of zeros, of -0, of one number, of huge and of tiny numbers, in fp32
  ties       numbers half-way between two steps, and the next numbers on both sides
  bf16       every finite bf16 number, in the order of its bits; no .weight
  unit       the bf16 numbers within [-1, 1], 63 of them and a 1 in each block; no .weight
  scales     more than 256 blocks
  many       4 million numbers of LibTorch's randint: a digest of each part

dynamic: the 8-bit code in which scales are stored.
"""

import os

import bitsandbytes.functional as F
import torch
from bitsandbytes.autograd._functions import MatmulLtState, MatMul8bitFp
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.manual_seed(0)
tensors = {"dynamic": F.create_dynamic_map()}


def parts(weight, kind, double):
    codes, state = F.quantize_4bit(weight, quant_type=kind, compress_statistics=double)
    if not double:
        return state, codes, {"codes": codes, "scales": state.absmax}
    assert state.blocksize == 64 and state.state2.blocksize == 256
    assert torch.equal(state.state2.code, tensors["dynamic"])
    return state, codes, {
        "codes": codes,
        "scale_codes": state.absmax,
        "scale_scales": state.state2.absmax,
        "mean": state.offset,
    }


def four_bits(case, weight, unpacked=True, doubles=(False, True)):
    for kind in ("nf4", "fp4"):
        for double in doubles:
            name = f"{case}.{kind}" + ("_double" if double else "")
            state, codes, made = parts(weight, kind, double)
            for key, value in made.items():
                value = value.reshape(-1)
                if double and key == "codes":  # the codes are those of single quantization
                    assert torch.equal(value, tensors[f"{case}.{kind}.codes"])
                else:
                    tensors[f"{name}.{key}"] = value.contiguous().clone()
            if not unpacked:
                continue
            for dtype, suffix in ((torch.float32, ""), (torch.bfloat16, "_bf16")):
                state.dtype = dtype
                if dtype == torch.float32 or double:
                    tensors[f"{name}.unpacked{suffix}"] = F.dequantize_4bit(codes, state).clone()


def eight_bits(case, weight):
    codes, scales, _ = F.int8_vectorwise_quant(weight.to(torch.float16))
    tensors[f"{case}.int8.codes"] = codes.reshape(-1).clone()
    tensors[f"{case}.int8.scales"] = scales.clone()
    # Dequantizes as in bitsandbytes' matrix product: multiplies with the unit matrix.
    state = MatmulLtState()
    state.CB, state.SCB, state.has_fp16_weights = codes, scales, False
    product = MatMul8bitFp.apply(torch.eye(weight.shape[1]), codes, None, None, state)
    tensors[f"{case}.int8.unpacked"] = product.t().contiguous()


def case(name, weight):
    tensors[f"{name}.weight"] = weight
    four_bits(name, weight)
    eight_bits(name, weight)


case("small_bf16", torch.randn(3, 50).to(torch.bfloat16))
case("small_fp16", torch.randn(8, 64).to(torch.float16))
case("small_odd", torch.randn(5, 7))
case("small_fp32", torch.randn(9, 130) * 0.02)
edge = torch.zeros(10, 64)
edge[1] = -0.0
edge[2, 3] = -1e-3
edge[3] = (torch.randn(64) * 2e4).clamp(-6e4, 6e4)
edge[4] = torch.randn(64) * 1e-6
edge[5] = torch.randn(64) * 1e-40
edge[6, ::2] = -0.0
edge[6, 1::4] = 3e-5
edge[7] = 0.37
edge[8] = torch.linspace(-1, 1, 64)
edge[9] = torch.linspace(-1, 1, 64) ** 3
case("edge", edge)
four_bits("huge", edge * 1e33)
tensors["huge.weight"] = edge * 1e33

rows = []
for kind in ("nf4", "fp4"):
    steps = F.get_4bit_type(kind, device="cpu").sort().values
    halves = (steps[1:] + steps[:-1]) / 2
    up, down = torch.tensor(9.0), torch.tensor(-9.0)
    for values in (halves, halves.nextafter(up), halves.nextafter(down), steps):
        row = torch.zeros(64)
        row[: len(values)] = values
        row[20 : 20 + len(values)] = values * 0.25
        row[63] = 1
        rows.append(row)
case("ties", torch.stack(rows))

bits = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
finite = bits[bits.isfinite()]
four_bits("bf16", finite, unpacked=False, doubles=(False,))
unit = finite[finite.abs() <= 1]
unit = torch.cat([unit, unit.new_zeros(-len(unit) % 63)]).view(-1, 63)
four_bits("unit", torch.cat([unit, torch.ones(len(unit), 1)], 1).to(torch.bfloat16), unpacked=False)

scales = torch.randn(280, 64) * torch.rand(280, 1)
tensors["scales.weight"] = scales.to(torch.bfloat16)
four_bits("scales", tensors["scales.weight"], unpacked=False)

torch.manual_seed(1)
many = sum(torch.randint(-(2**20), 2**20, (1 << 22,)) for _ in range(4)).to(torch.float32) * 2.0**-25
for kind in ("nf4", "fp4"):
    for key, value in parts(many, kind, True)[2].items():
        value = value.reshape(-1)
        if value.dtype == torch.uint8:
            places = torch.arange(len(value)) * 40503 % 65521 + 1
            value = (value.to(torch.int64) * places).sum()
        tensors[f"many.{kind}_double.{key}"] = value.reshape(-1).clone()

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "packed.safetensors")
save_file({key: value.contiguous() for key, value in tensors.items()}, path)
print(sum(value.nbytes for value in tensors.values()), "bytes")
