#!/usr/bin/env python3
"""Writes files.json and blocks.json: how the `gguf` package writes models and numbers, for
//tests/model/checkpoint:save_gguf_test and //tests/model/gguf:gguf_writer_test.

    make.py        (needs: gguf 0.19, torch, safetensors)

files.json: each golden family that GGUF can represent, written by ../../peers/gguf_families.py
(which uses the package's names, keys and writer, and reimplements llama.cpp's conversions), then
read by the package's reader: {model: {metadata: {key: value}, tensors: {name: {shape, fnv}}}}.
`shape` is in Hugging Face's order; `fnv` is the 64-bit FNV-1a hash of the tensor's F32 bytes, in
hexadecimal.

blocks.json: {type: [{numbers, bytes}]}: hexadecimal bytes of fp32 numbers, and of the blocks that
gguf.quants.quantize makes from them. Rows are random, zeros, subnormal numbers, large numbers,
numbers half-way between two steps, and rows whose largest number has either sign. `file` is a whole
file by GGUFWriter, with a value of each kind and a tensor of each type.
"""

import json
import os
import sys
import tempfile

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "peers"))
import gguf_families  # noqa: E402

TYPES = {"F16": "F16", "BF16": "BF16", "Q8_0": "Q8_0"}


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def described(path):
    reader = gguf.GGUFReader(path)
    metadata = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
    }
    tensors = {
        tensor.name: {
            "shape": [int(size) for size in reversed(tensor.shape)],
            "fnv": fnv(tensor.data.tobytes()),
        }
        for tensor in reader.tensors
    }
    # The script adds the layer that predicts a second token.
    if metadata.pop(f"{metadata['general.architecture']}.nextn_predict_layers", 0):
        key = f"{metadata['general.architecture']}.block_count"
        metadata[key] -= 1
        extra = f"blk.{metadata[key]}."
        tensors = {name: of for name, of in tensors.items() if not name.startswith(extra)}
    return {"metadata": metadata, "tensors": tensors}


def families():
    golden = {}
    for name in sorted(os.listdir(gguf_families.FAMILIES)):
        folder = os.path.join(gguf_families.FAMILIES, name)
        if not os.path.exists(os.path.join(folder, "golden.json")):
            continue
        config = json.load(open(os.path.join(folder, "config.json")))
        known = config["architectures"][0] in gguf_families.ARCHITECTURES
        # Experts in four bits are bf16 after they are read; DeepSeek's model without experts has no
        # GGUF file.
        if not known or name in gguf_families.CANNOT + ("gpt_oss_mxfp4", "deepseek_v3_whole"):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "x.gguf")
            gguf_families.write(folder, path)
            golden[name] = described(path)
    return golden


def rows():
    random = np.random.default_rng(11)
    plain = random.standard_normal((6, 32)).astype(np.float32)
    steps = np.arange(32, dtype=np.float32) / 2 - 8
    steps[0] = 127  # a scale of one, so that halves lie between two steps
    return np.concatenate(
        (
            plain,
            plain * np.float32(1e-6),
            plain * np.float32(1e4),
            np.zeros((1, 32), np.float32),
            steps[None],
            -steps[None],
            np.full((1, 32), 1e-40, np.float32),
            np.full((1, 32), 3e-39, np.float32) * random.standard_normal((1, 32)),
            np.full((1, 32), -6e-8, np.float32),
            plain[:1] * np.float32(2e-37),
        )
    ).astype(np.float32)


def blocks():
    with np.errstate(all="ignore"):
        golden = {
            name: [
                {
                    "numbers": row.tobytes().hex(),
                    "bytes": gguf.quants.quantize(
                        row[None], gguf.GGMLQuantizationType[kind]
                    )
                    .tobytes()
                    .hex(),
                }
                for row in rows()
            ]
            for name, kind in TYPES.items()
        }
    # Numbers that F16 cannot represent, and the largest that its scale can.
    large = rows()[:2] * np.float32(1e6)
    golden["Q8_0"] += [
        {
            "numbers": row.tobytes().hex(),
            "bytes": gguf.quants.quantize(row[None], gguf.GGMLQuantizationType.Q8_0)
            .tobytes()
            .hex(),
        }
        for row in large
    ]
    golden["file"] = whole_file()
    return golden


def whole_file():
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "x.gguf")
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint32("llama.block_count", 2)
        writer.add_float32("llama.rope.freq_base", 10000.0)
        writer.add_bool("tokenizer.ggml.add_bos_token", True)
        writer.add_string("general.name", "caf\u00e9")
        writer.add_array("tokenizer.ggml.tokens", ["a", "", "b c"])
        writer.add_array("tokenizer.ggml.token_type", [1, 3, -1])
        writer.add_array("tokenizer.ggml.scores", [0.5, -1.0])
        numbers = np.arange(3 * 64, dtype=np.float32).reshape(3, 64) / 8 - 10
        writer.add_tensor("odd", numbers[0, :5].copy())
        for name in ("F16", "BF16", "Q8_0"):
            kind = gguf.GGMLQuantizationType[name]
            writer.add_tensor(name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return open(path, "rb").read().hex()


def main():
    for name, golden in (("files.json", families()), ("blocks.json", blocks())):
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as out:
            json.dump(golden, out, indent=0, sort_keys=True)
            out.write("\n")


if __name__ == "__main__":
    main()
