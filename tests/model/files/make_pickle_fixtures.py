#!/usr/bin/env python3
"""Writes files with torch.save into pickles/, and their contents to pickles/golden.json (needs
torch 2.11 and transformers 4.57).

usage: make_pickle_fixtures.py pickles

golden.json: {file: {tensor: {dtype, shape, values}}}, with torch's values as doubles. Tests damage
single.bin; a reader must reject the other files (evil_*.bin, list.bin, ...).
"""

import collections
import json
import os
import sys
import zipfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def numbers(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return ((torch.arange(count, dtype=torch.float64) - 5) / 8).reshape(shape).to(dtype)


def plain():
    """Returns tensors in every way in which a state dict may store them."""
    tensors = torch.nn.Linear(3, 2).state_dict()  # an OrderedDict with _metadata
    tensors["weight"], tensors["bias"] = numbers(2, 3), numbers(2)
    for dtype in (
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.bool,
        torch.uint16,
        torch.float8_e4m3fn,
    ):
        tensors[str(dtype).removeprefix("torch.")] = numbers(5).abs().to(dtype)
    base = numbers(4, 6)
    tensors["base"] = base
    tensors["tied"] = base
    tensors["transposed"] = base.t()
    tensors["rows"] = base[1:3]
    tensors["columns"] = base[:, 2:5:2]
    tensors["permuted"] = numbers(2, 3, 4).to(torch.bfloat16).permute(2, 0, 1)
    tensors["scalar"] = numbers(1)[0]
    tensors["empty"] = torch.empty(0, 4)
    tensors["parameter"] = torch.nn.Parameter(numbers(3))
    tensors["parameter.with_state"] = torch.nn.Parameter(numbers(2, 2))
    tensors["parameter.with_state"].tag = {"sharded": True}
    tensors["named.\N{LATIN SMALL LETTER E WITH ACUTE}"] = numbers(1)
    return tensors


def tiny_llama():
    config = LlamaConfig(
        vocab_size=12,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    for number, parameter in enumerate(model.parameters()):
        parameter.data = numbers(*parameter.shape) + number
    return model


class Call:
    """An object that is pickled as a call of `function`, which an unsafe reader would execute."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def write_refused(folder):
    weight = numbers(2, 2)

    def save(name, thing, **options):
        torch.save(thing, os.path.join(folder, name + ".bin"), **options)

    save("evil_system", {"weight": weight, "x": Call(os.system, "false")})
    save("evil_eval", collections.OrderedDict(weight=Call(eval, "1 / 0")))
    save("evil_protocol4", {"weight": Call(exec, "1 / 0")}, pickle_protocol=4)
    save("evil_class", {"weight": weight, "config": collections.Counter()})
    save(
        "checkpoint",
        {"epoch": 3, "state_dict": collections.OrderedDict(weight=weight), "optimizer": {}},
    )
    save("list", [weight])
    save("number", {"weight": weight, "step": 7})
    save("expanded", {"weight": numbers(1, 3).expand(1000, 3)})
    save("sparse", {"weight": weight.to_sparse()})
    save("before_1_6", {"weight": weight}, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(os.path.join(folder, "other.zip"), "w") as archive:
        archive.writestr("readme.txt", "not a model")
    packed = zipfile.ZipFile(os.path.join(folder, "compressed.bin"), "w", zipfile.ZIP_DEFLATED)
    with packed, zipfile.ZipFile(os.path.join(folder, "number.bin")) as stored:
        for name in stored.namelist():
            packed.writestr(name, stored.read(name))


def described(tensors):
    return {
        name: {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "values": tensor.detach().double().flatten().tolist(),
        }
        for name, tensor in tensors.items()
    }


def main(folder):
    os.makedirs(folder, exist_ok=True)
    golden = {}
    for name, options in (("plain.bin", {}), ("plain_protocol5.bin", {"pickle_protocol": 5})):
        torch.save(plain(), os.path.join(folder, name), **options)
        golden[name] = described(plain())
    torch.save({"weight": numbers(2, 2)}, os.path.join(folder, "single.bin"))
    model = tiny_llama()
    model.save_pretrained(
        os.path.join(folder, "sharded"), safe_serialization=False, max_shard_size="2KB"
    )
    os.remove(os.path.join(folder, "sharded", "generation_config.json"))
    golden["sharded"] = described(model.state_dict())
    write_refused(folder)
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as out:
        json.dump(golden, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
