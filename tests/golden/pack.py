"""Packs and unpacks golden files. In the repository, large golden files are stored as NAME.xz, and
weights of small models as a seed in their golden.json (seeded_weights.py); Bazel creates both
(unpacked.bzl).

    pack.py                    packs files in FOLDERS that become smaller, removes the originals
    pack.py --unpack           writes NAME next to each NAME.xz, and the weights, for scripts that
                               run without Bazel
    pack.py --unpack FROM.xz TO [FROM.xz TO ...]      (called by unpacked.bzl)

The scripts that make golden files read and write NAME: unpack, run the script, pack. If both exist,
Bazel uses NAME. An .xz whose content is unchanged is not rewritten, because other versions of xz
may write other bytes.
"""

import json
import lzma
import os
import sys

import seeded_weights

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("data/text/tokenizer", "golden", "model/gguf", "trainer/golden", "trainer/rules/golden")
ENDINGS = (".json", ".jsonl", ".arrow", ".model", ".safetensors")
SMALLEST = 8192
WORTH_IT = 0.6
# Folders that are not packed: documented commands and scripts use their files from the repository.
PLAIN = ("data", "llamafactory_keys", "stages")
# Models whose weights are in the repository in addition to their seed: users copy these folders.
WITH_WEIGHTS = ("qwen3_5_vision", "qwen3_vl", "qwen3_vl_moe")


def files(*endings):
    for top in FOLDERS:
        for folder, inner, names in os.walk(os.path.join(TESTS, top)):
            inner[:] = sorted(name for name in inner if name not in PLAIN)
            yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(endings))


def seeded(golden):
    """Returns the description of the weights next to a golden.json, and their path; None if there
    is none."""
    if os.path.basename(golden) != "golden.json":
        return None, None
    with open(golden, encoding="utf-8") as file:
        content = json.load(file)
    weights = content.get("weights") if isinstance(content, dict) else None
    return weights, os.path.join(os.path.dirname(golden), "model.safetensors")


def drop_weights(golden):
    weights, path = seeded(golden)
    if not weights or not os.path.exists(path):
        return
    with open(path, "rb") as file:
        if file.read() != seeded_weights.safetensors(weights):
            sys.exit(f"{path} is not what the seed in {golden} gives")
    if os.path.basename(os.path.dirname(golden)) not in WITH_WEIGHTS:
        os.remove(path)


def pack(path):
    with open(path, "rb") as file:
        content = file.read()
    if len(content) < SMALLEST:
        return
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    if len(packed) > WORTH_IT * len(content):
        return
    if not os.path.exists(path + ".xz") or unpacked(path + ".xz") != content:
        with open(path + ".xz", "wb") as file:
            file.write(packed)
    os.remove(path)


def unpacked(path):
    with lzma.open(path) as file:
        return file.read()


def unpack(source, target):
    content = unpacked(source)
    with open(target, "wb") as file:
        file.write(content)


def main(words):
    if words[:1] == ["--unpack"]:
        pairs = words[1:] or [name for p in files(".xz") for name in (p, p.removesuffix(".xz"))]
        for source, target in zip(pairs[::2], pairs[1::2]):
            unpack(source, target)
        if not words[1:]:
            for golden in files(".json"):
                weights, path = seeded(golden)
                if weights:
                    seeded_weights.write(weights, path)
    elif words:
        sys.exit(__doc__)
    else:
        for golden in files(".json"):
            drop_weights(golden)
        for path in files(*ENDINGS):
            pack(path)


if __name__ == "__main__":
    main(sys.argv[1:])
