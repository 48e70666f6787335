"""Moments of the weights that Transformers initializes from a config.json alone (from_config), over
SEEDS seeds, for the models of ../families.

    make.py        with 4.57.6: the models that it has; with 5.23.0: the newer ones. Each version
                   leaves the other's rows of moments.json unchanged

moments.json: by model and by weight (numbers of layers and experts are replaced by %), over all
values of these weights: n, mean, deviation, least, most, outside (the fraction of values beyond one
deviation from the mean); and `zero_row`, the row of an embedding that is zero for every seed, which
the moments exclude. Names are those that save_pretrained writes.
"""

import json
import os
import re
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = os.path.join(HERE, "..", "families")
SEEDS = 48
OLDER = """llama_bias mistral_window smollm3 qwen2 qwen3 gemma gemma2 gemma3 phi3 olmo2 olmo3 granite
glm glm4 seed_oss mixtral qwen2_moe qwen3_moe qwen3_next lfm2 glm4_moe gpt_oss deepseek_v3
granite_hybrid""".split()
NEWER = """gemma4_moe gemma4_shared internlm3 qwen3_5 qwen3_5_moe olmo_hybrid kimi_linear ministral3
nemotron_h nemotron_h_experts""".split()


def pattern(name):
    return re.sub(r"\.\d+(?=\.)", ".%", name)


def config_of(name):
    """The config of ../families, except that Transformers' own InternLM3 cannot have biases of
    queries, keys and values alone: then all of its linear maps have one."""
    with open(os.path.join(FAMILIES, name, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if config["model_type"] == "internlm3":
        config["bias"] = config["qkv_bias"]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        return transformers.AutoConfig.from_pretrained(folder)


def draw(config, seed):
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(os.path.join(folder, "model.safetensors"))


def zero_row(tables):
    """The row that is zero in all tables [V, D], one table per seed."""
    if tables[0].dim() != 2 or len({table.shape for table in tables}) > 1:  # layers may differ
        return None
    rows = torch.stack([(table == 0).all(dim=1) for table in tables]).all(dim=0).nonzero().flatten()
    return rows.item() if len(rows) == 1 else None


def moments(tables):
    zero = zero_row(tables)
    if zero is not None:
        tables = [torch.cat([table[:zero], table[zero + 1 :]]) for table in tables]
    values = torch.cat([table.double().flatten() for table in tables])
    mean, deviation = values.mean(), values.std(unbiased=False)
    return {
        "n": values.numel(),
        "mean": mean.item(),
        "deviation": deviation.item(),
        "least": values.min().item(),
        "most": values.max().item(),
        "outside": ((values - mean).abs() > deviation).double().mean().item(),
        "zero_row": zero,
    }


def main():
    newer = transformers.__version__.startswith("5.")
    path = os.path.join(HERE, "moments.json")
    found = json.load(open(path)) if os.path.exists(path) else {}
    for name in NEWER if newer else OLDER:
        config = config_of(name)
        tables = {}
        for seed in range(SEEDS):
            for weight, values in draw(config, seed).items():
                tables.setdefault(pattern(weight), []).append(values)
        found[name] = {weight: moments(drawn) for weight, drawn in sorted(tables.items())}
        print(name, len(found[name]), file=sys.stderr)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(sorted(found.items())), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
