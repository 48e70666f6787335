"""Compares GGUF files of models with a gated delta rule, written with the `gguf` package, with the
Hugging Face folders of the same models: `moonring probe` gives the same loss and gradients.

    delta_gguf.py --moonring BINARY [--keep DIR]

The models are small ones of tests/golden/families, whose layers are in an order that GGUF can
express (softmax attention in the last one of every few layers), with experts in each layer if there
are any. The tensors are transformed as by llama.cpp's converter (conversion/qwen.py), but by
independent code: it is a second source for model/gguf/gguf_model.cc. Prints a line for each model;
exits with 1 if a difference exceeds rounding.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import gguf
import torch
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = os.path.join(HERE, "..", "golden", "families")
ARCHITECTURES = {
    "qwen3_next": ("qwen3next", gguf.MODEL_ARCH.QWEN3NEXT),
    "qwen3_5": ("qwen35", gguf.MODEL_ARCH.QWEN35),
    "qwen3_5_moe": ("qwen35moe", gguf.MODEL_ARCH.QWEN35MOE),
}
# Bounds: fp32 stores (w + 1) - 1 and log(exp(w)).
LOSS, NORMS = 1e-7, 1e-4


def variant(name):
    """Returns config.json and the tensors."""
    folder = os.path.join(FAMILIES, name)
    config = json.load(open(os.path.join(folder, "config.json")))
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    if name == "qwen3_next":  # replaces its dense layer by one with experts
        tensors = {k: t for k, t in tensors.items() if not k.startswith("model.layers.0.mlp.")}
        first = "model.layers.1.mlp."
        for key in [key for key in tensors if key.startswith(first)]:
            tensors[key.replace(first, "model.layers.0.mlp.")] = tensors[key].flip(0).contiguous()
        config["mlp_only_layers"] = []
    if name == "qwen3_5":  # swaps its first two layers
        swapped = {"0": "1", "1": "0"}

        def place(key):
            start, layers, rest = key.partition(".layers.")
            number, dot, module = rest.partition(".")
            return start + layers + swapped.get(number, number) + dot + module

        tensors = {place(key): t for key, t in tensors.items()}
        types = config["layer_types"]
        types[0], types[1] = types[1], types[0]
    return config, tensors


def metadata(writer, c):
    rope = c.get("rope_parameters") or c
    layers = c.get("layer_types")
    turning = int(c["head_dim"] * rope.get("partial_rotary_factor", 0.25))
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_key_length(c["head_dim"])
    writer.add_value_length(c["head_dim"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(turning)
    if "mrope_section" in rope:
        writer.add_rope_dimension_sections(rope["mrope_section"] + [0])
    writer.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(c["linear_key_head_dim"])
    writer.add_ssm_group_count(c["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(c["linear_num_value_heads"])
    writer.add_ssm_inner_size(c["linear_num_value_heads"] * c["linear_value_head_dim"])
    writer.add_full_attention_interval(
        c.get("full_attention_interval") or layers.index("full_attention") + 1
    )
    for key, add in (
        ("intermediate_size", writer.add_feed_forward_length),
        ("num_experts", writer.add_expert_count),
        ("num_experts_per_tok", writer.add_expert_used_count),
        ("moe_intermediate_size", writer.add_expert_feed_forward_length),
        ("shared_expert_intermediate_size", writer.add_expert_shared_feed_forward_length),
        ("bos_token_id", writer.add_bos_token_id),
        ("eos_token_id", writer.add_eos_token_id),
        ("pad_token_id", writer.add_pad_token_id),
    ):
        if c.get(key) is not None:
            add(c[key])


def tiled(x, c, first, width, dim=0):
    """Reorders value heads from `first` on: the first value head of every key head, then the second
    ones, and so on."""
    groups = c["linear_num_key_heads"]
    each = c["linear_num_value_heads"] // groups
    order = [
        first + (g * each + r) * width + i
        for r in range(each)
        for g in range(groups)
        for i in range(width)
    ]
    return x.index_select(dim, torch.tensor(list(range(first)) + order))


def converted(key, x, c, tiles):
    """Returns the tensors of the file that a weight becomes, by the names in the package's
    table."""
    groups, dk, dv = (
        c[f"linear_{name}"] for name in ("num_key_heads", "key_head_dim", "value_head_dim")
    )
    each = c["linear_num_value_heads"] // groups
    module = key.rpartition(".linear_attn.")[2]
    if tiles and module != key:
        if module.startswith(("in_proj_qkv.", "conv1d.")):
            x = tiled(x, c, 2 * groups * dk, dv)
        elif module.startswith("in_proj_z."):
            x = tiled(x, c, 0, dv)
        elif module.startswith("out_proj."):
            x = tiled(x, c, 0, dv, dim=1)
        elif not module.startswith("norm."):  # beta, decay, A and its bias
            x = tiled(x, c, 0, 1)
    if module == "A_log":
        return {key: -x.exp()}
    if module == "dt_bias":
        return {key.replace("dt_bias", "dt_proj") + ".bias": x}
    if module == "conv1d.weight":
        return {key: x.squeeze(1)}
    if module == "in_proj_qkvz.weight":
        parts = x.view(groups, -1, x.shape[1]).split([dk, dk, each * dv, each * dv], dim=1)
        q, k, v, z = (part.reshape(-1, x.shape[1]) for part in parts)
        return {key.replace("qkvz", "qkv"): torch.cat([q, k, v]), key.replace("qkvz", "z"): z}
    if key.endswith("norm.weight") and module != "norm.weight":
        return {key: x + 1}
    if key.endswith("shared_expert_gate.weight"):
        return {key: x.squeeze(0)}
    if key.endswith(".experts.gate_up_proj"):
        gate, up = x.chunk(2, dim=1)
        stem = key.removesuffix("gate_up_proj")
        return {f"{stem}gate_proj.weight": gate, f"{stem}up_proj.weight": up}
    if key.endswith(".experts.down_proj"):
        return {f"{key}.weight": x}
    return {key: x}


def write_gguf(path, name, c, tensors):
    architecture, number = ARCHITECTURES[name]
    table = gguf.get_tensor_name_map(number, c["num_hidden_layers"])
    writer = gguf.GGUFWriter(path, architecture)
    metadata(writer, c)
    experts, whole = {}, {}
    for key, x in tensors.items():
        stem, found, rest = key.partition(".mlp.experts.")
        if found and rest[0].isdigit():
            expert, _, rest = rest.partition(".")
            experts.setdefault(f"{stem}{found}{rest}", {})[int(expert)] = x
        else:
            whole |= converted(key, x, c, tiles=name != "qwen3_next")
    whole |= {key: torch.stack([of[e] for e in sorted(of)]) for key, of in experts.items()}
    for key, x in whole.items():
        stem, _, kind = key.rpartition(".")
        stem, suffix = (stem, f".{kind}") if kind in ("weight", "bias") else (key, "")
        writer.add_tensor(table.get_name(stem) + suffix, x.contiguous().float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def probe(moonring, model, stream, folder):
    given, out = os.path.join(folder, "in.json"), os.path.join(folder, "out.json")
    json.dump(stream, open(given, "w"))
    words = f"model_name_or_path={model}", f"input={given}", f"out={out}", "fp64=true"
    subprocess.run([moonring, "probe", *words], check=True, capture_output=True)
    return json.load(open(out))


def compare(moonring, name, folder):
    config, tensors = variant(name)
    plain = os.path.join(folder, name)
    os.makedirs(plain, exist_ok=True)
    json.dump(config, open(os.path.join(plain, "config.json"), "w"))
    save_file(tensors, os.path.join(plain, "model.safetensors"), {"format": "pt"})
    write_gguf(plain + ".gguf", name, config, tensors)
    golden = json.load(open(os.path.join(FAMILIES, name, "golden.json")))
    stream = golden["cases"][1]["input"]
    wanted, found = (probe(moonring, m, stream, folder) for m in (plain, plain + ".gguf"))
    loss = abs(found["loss"] / wanted["loss"] - 1)
    assert found["grad_norm"].keys() == wanted["grad_norm"].keys()
    norms = max(
        abs(found["grad_norm"][key] - norm) / (norm or 1.0)
        for key, norm in wanted["grad_norm"].items()
    )
    right = loss < LOSS and norms < NORMS
    print(f"{name:12} loss {loss:.1e} norms {norms:.1e}{'' if right else ' WRONG'}", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True, help="the host binary")
    parser.add_argument("--keep", metavar="DIR", help="leave the files there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        moonring, folder = os.path.abspath(args.moonring), args.keep or scratch
        right = [compare(moonring, name, folder) for name in ARCHITECTURES]
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
