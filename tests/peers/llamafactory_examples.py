"""Runs every configuration in LLaMA-Factory 0.9.5's examples/, unchanged, with one or several
binaries, and lists which run and the messages of the others.

    llamafactory_examples.py --moonring [NAME=]PATH [...] [--oracle DIR] [--only PATTERN]

The models in the files are replaced by tiny models of the same architecture, in folders with these
names, so that nothing is downloaded; data sets on a hub are replaced by LLaMA-Factory's demo rows.
Only max_steps=2 and max_samples=8 (for generation: 2 rows, 8 tokens) are added on the command line.
Prints a table for docs/llamafactory.md, and counts.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy
import yaml
from safetensors.numpy import load_file, save_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
# Pattern of a model's name -> the golden folder whose model replaces it.
STAND_INS = [
    (r"Qwen3\.5-397B", "families/qwen3_5_moe_vision"),
    (r"Qwen3\.5", "families/qwen3_5_vision"),
    (r"Qwen3-VL-30B", "families/qwen3_vl_moe"),
    (r"Qwen3-VL", "families/qwen3_vl"),
    (r"Qwen3-(30B|235B)", "families/qwen3_moe"),
    (r"Qwen3", "families/qwen3"),
    (r"Qwen2|Qwen2\.5", "families/qwen2"),
    (r"DeepSeek", "families/deepseek_v3"),
    (r"[Ll]lama", "stages/model"),
]
# Architectures without a golden folder: config.json of the replacement names them.
NAMED = {
    "Qwen2-VL": ("Qwen2VLForConditionalGeneration", "qwen2_vl"),
    "Qwen2.5-VL": ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"),
    "DeepSeek-V2": ("DeepseekV2ForCausalLM", "deepseek_v2"),
}
QUANTISED = {"AQLM": "aqlm", "AWQ": "awq", "GPTQ": "gptq"}
# Data sets that are on a hub, or do not exist, and their replacements.
DATA = {
    "alpaca_zh": "alpaca_zh_demo",
    "llava_1k_en": "mllm_demo",
    "llava_1k_zh": "mllm_demo",
    "med": "alpaca_en_demo",
    "math": "alpaca_en_demo",
}


def resized(config, vocabulary):
    """Sets the number of tokens in config.json, also in the text model's section."""
    for part in (config, config.get("text_config", {})):
        if "vocab_size" in part:
            part["vocab_size"] = vocabulary
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            if part.get(name) is not None:
                part[name] = 2
    return config


def packed(tensors, method):
    """Returns the tensors that a checkpoint of GPTQ or a similar method has instead of a linear
    map's weight."""
    out = {}
    for name, tensor in tensors.items():
        if re.search(r"layers\.\d+\..*_proj\.weight$", name):
            stem = name[: -len("weight")]
            out[stem + ("codes" if method == "aqlm" else "qweight")] = tensor.astype("int32")
            out[stem + "scales"] = tensor[:, :1].copy()
        else:
            out[name] = tensor
    return out


def make_model(name, folder):
    source = GOLDEN / next(where for pattern, where in STAND_INS if re.search(pattern, name))
    tokenizer = GOLDEN / "stages" / "model"
    vocabulary = json.loads((tokenizer / "config.json").read_text())["vocab_size"]
    folder.mkdir(parents=True)
    config = resized(json.loads((source / "config.json").read_text()), vocabulary)
    for part, (architecture, kind) in NAMED.items():
        if part in name:
            config |= {"architectures": [architecture], "model_type": kind}
    chance, tensors = numpy.random.default_rng(3), {}
    for file in sorted(source.glob("*.safetensors")):
        if file.name != "value_head.safetensors":
            tensors |= load_file(file)
    for weight, tensor in tensors.items():
        if weight.endswith(("embed_tokens.weight", "lm_head.weight")):
            shape = (vocabulary, tensor.shape[1])
            tensors[weight] = (0.1 * chance.standard_normal(shape)).astype(tensor.dtype)
    for part, method in QUANTISED.items():
        if part in name:
            tensors = packed(tensors, method)
            config["quantization_config"] = {"quant_method": method, "bits": 4, "group_size": 128}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / file, folder / file)


def make_place(llamafactory, place):
    """Makes the folder in which the examples run: the examples, data, and the models that they
    name."""
    shutil.copytree(llamafactory / "examples", place / "examples")
    shutil.copytree(llamafactory / "data", place / "data")
    info = json.loads((place / "data/dataset_info.json").read_text())
    for name, other in DATA.items():
        info[name] = info[other]
    pairs = json.loads((place / "data/dpo_en_demo.json").read_text())  # RLHF-V's rows have images
    for row in pairs:
        row["images"] = ["mllm_demo_data/1.jpg"]
    (place / "data/rlhf_v.json").write_text(json.dumps(pairs))
    columns = info["dpo_en_demo"]["columns"] | {"images": "images"}
    info["rlhf_v"] = info["dpo_en_demo"] | {"file_name": "rlhf_v.json", "columns": columns}
    (place / "data/dataset_info.json").write_text(json.dumps(info))
    for path in (place / "examples").rglob("*.yaml"):
        keys = yaml.safe_load(path.read_text())
        name = keys.get("model_name_or_path", "")
        if name and not name.startswith("saves/") and not (place / name).exists():
            make_model(name, place / name)


def command_of(path, keys):
    """Returns the command by which LLaMA-Factory's README runs a file; None if it is not `train`,
    `chat` or `export`."""
    if re.search("/v1/|/accelerate/|/megatron/|tokens_cfg", path):
        return None
    if "export_dir" in keys:
        return "export"
    if "stage" not in keys:
        return "chat"
    return "train"


def words_of(command, keys):
    if command != "train":
        return ["max_new_tokens=8"] if command == "chat" else []
    if keys.get("do_predict"):
        return ["max_samples=2", "max_new_tokens=8"]
    return ["max_steps=2", "max_samples=8"]


def run(moonring, place, command, path, more):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [moonring, command, path, *more],
        cwd=place,
        input="hello\n",
        text=True,
        capture_output=True,
        env=environment,
        errors="replace",
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return done.returncode, lines


def last_words(lines):
    found = [line for line in lines if line.startswith("moonring: ")]
    return (found or lines or [""])[-1].removeprefix("moonring: ")


# Examples that require the result of another one, which their README runs before.
BEFORE = [
    ("examples/train_full/qwen3_full_sft.yaml", []),
    ("examples/train_lora/qwen3vl_lora_sft.yaml", ["dataset=identity"]),
    ("examples/train_lora/qwen3_lora_sft.yaml", []),
    ("examples/extras/loraplus/llama3_lora_sft.yaml", []),
]


def run_all(moonring, llamafactory, only):
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        make_place(llamafactory, place)
        for path, more in BEFORE:
            run(moonring, place, "train", path, words_of("train", {}) + more)
        for file in sorted((place / "examples").rglob("*.yaml")):
            path = str(file.relative_to(place))
            keys = yaml.safe_load(file.read_text())
            command = command_of(path, keys)
            if not command or not re.search(only, path):
                continue
            code, lines = run(moonring, place, command, path, words_of(command, keys))
            results[path] = (command, code, last_words(lines) if code else "")
            print(path, command, code, results[path][2], flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", nargs="+", required=True)
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument("--only", default="", help="files whose path this pattern finds")
    args = parser.parse_args()
    llamafactory = pathlib.Path(args.oracle) / "llamafactory-0.9.5"
    columns = {}
    for given in args.moonring:
        name, _, path = given.rpartition("=")
        columns[name or "moonring"] = run_all(os.path.abspath(path), llamafactory, args.only)
    print("\n| file | command |" + "".join(f" {name} |" for name in columns))
    print("|---|---|" + "---|" * len(columns))
    for path in next(iter(columns.values())):
        cells = [column[path] for column in columns.values()]
        words = ["runs" if code == 0 else f"exit {code}: {said}" for _, code, said in cells]
        print(f"| {path.removeprefix('examples/')} | {cells[0][0]} | " + " | ".join(words) + " |")
    for name, column in columns.items():
        ran = sum(code == 0 for _, code, _ in column.values())
        print(f"\n{name}: {ran} of {len(column)} run unchanged")


main()
