"""Weights of small models that are generated from a seed, so that golden.json stores one line per
tensor instead of the weights:

    "weights": {"seed": TEXT, "tensors": {NAME: {"shape": [...], "mean": x, "deviation": x}, ...}}

    seeded_weights.py GOLDEN.json MODEL.safetensors      writes the weights as fp32 (used by
                                                         unpacked.bzl)

A tensor is mean + deviation * sqrt(3) * u, with u uniform in [-1, 1) from a Mersenne Twister that
is seeded with the seed and the tensor's name. Every version of Python generates the same uniform
numbers.
"""

import json
import math
import random
import struct
import sys


def values(seed, name, shape, mean, deviation):
    count = math.prod(shape)
    bits = random.Random(f"{seed}/{name}").getrandbits(32 * count)
    words = struct.unpack(f"<{count}I", bits.to_bytes(4 * count, "little"))
    half_width = deviation * math.sqrt(3.0)
    return [mean + half_width * (word / 2**31 - 1.0) for word in words]


def safetensors(weights):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in sorted(weights["tensors"].items()):
        numbers = values(weights["seed"], name, **tensor)
        start = len(data)
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {
            "dtype": "F32",
            "shape": tensor["shape"],
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write(weights, path):
    with open(path, "wb") as file:
        file.write(safetensors(weights))


def fill_file(path, seed, drawn):
    """Replaces the numbers of each tensor of a .safetensors file by seeded ones. drawn(name, shape)
    returns {"shape", "mean", "deviation"}. Returns golden.json's `weights`."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    tensors = {name: drawn(name, header[name]["shape"]) for name in sorted(header)}
    weights = {"seed": seed, "tensors": tensors}
    write(weights, path)
    return weights


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as golden:
        write(json.load(golden)["weights"], sys.argv[2])
