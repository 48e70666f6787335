"""The families' golden models as GGUF files (F32), through `moonring probe`: the same losses and
gradients as from the folders.

    gguf_families.py --moonring BINARY [--only NAME ...] [--keep DIR]

Keys and tensor names are the gguf package's own (its writer and its map of names by architecture);
what llama.cpp's converter does to the weights
besides is done here: rows of q and k interleaved (llama, granite, smollm3, internlm2), 1 added to
norms (gemma), LFM2's taps without their middle dim and its number of features as it comes out,
experts of a layer in one tensor, InternLM2's
wqkv in three, llama3's and longrope's factors as tensors.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = os.path.join(HERE, "..", "golden", "families")
ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "MixtralForCausalLM": "llama",
    "SmolLM3ForCausalLM": "smollm3",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3",
    "Phi3ForCausalLM": "phi3",
    "Olmo2ForCausalLM": "olmo2",
    "GraniteForCausalLM": "granite",
    "Glm4ForCausalLM": "glm4",
    "InternLM2ForCausalLM": "internlm2",
    "Qwen2MoeForCausalLM": "qwen2moe",
    "Qwen3MoeForCausalLM": "qwen3moe",
    "Lfm2ForCausalLM": "lfm2",
}
INTERLEAVED = ("llama", "granite", "smollm3", "internlm2")
# What a GGUF file does not say: windows by layer, layers that turn nothing, dynamic scaling,
# mscale, query_pre_attn_scalar, another activation than Gemma's own, constants of
# llama3 that were never published.
CANNOT = (
    "gemma2",
    "smollm3",
    "smollm3_window",
    "mistral_window",
    "qwen2_window",
    "qwen2_moe",
    "qwen2_moe_norm",
    "rope_dynamic",
    "internlm2",
    "rope_yarn_mscale",
    "qwen2_yarn",
    "gemma3",
    "gemma3_linear",
    "llama3_rope",
    "rope_yarn",
    "qwen3_moe",
)


def interleave(weight, heads):
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


def lfm2_features(config):
    features = int(config["block_ffn_dim_multiplier"] * int(2 * config["intermediate_size"] / 3))
    multiple = config["block_multiple_of"]
    return -(-features // multiple) * multiple


def write(folder, path):
    config = json.load(open(os.path.join(folder, "config.json")))
    arch = ARCHITECTURES[config["architectures"][0]]
    heads, kv = (
        config["num_attention_heads"],
        config.get("num_key_value_heads", config["num_attention_heads"]),
    )
    width = config.get("head_dim") or config["hidden_size"] // heads
    out = gguf.GGUFWriter(path, arch)
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(
        lfm2_features(config) if arch == "lfm2" else config["intermediate_size"]
    )
    out.add_head_count(heads)
    if arch == "lfm2":
        out.add_head_count_kv([kv if kind != "conv" else 0 for kind in config["layer_types"]])
        out.add_shortconv_l_cache(config["conv_L_cache"])
    else:
        out.add_head_count_kv(kv)
    out.add_key_length(width)
    out.add_value_length(width)
    out.add_layer_norm_rms_eps(config.get("norm_eps") or config["rms_norm_eps"])
    out.add_rope_freq_base(config["rope_theta"])
    out.add_rope_dimension_count(int(width * config.get("partial_rotary_factor", 1.0)))
    if config.get("pad_token_id") is not None:
        out.add_pad_token_id(config["pad_token_id"])
    if config.get("sliding_window") and arch in ("gemma2", "phi3"):
        out.add_sliding_window(config["sliding_window"])
    if arch == "gemma2":
        out.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        out.add_final_logit_softcapping(config["final_logit_softcapping"])
    if arch == "granite":
        out.add_attention_scale(config["attention_multiplier"])
        out.add_embedding_scale(config["embedding_multiplier"])
        out.add_residual_scale(config["residual_multiplier"])
        out.add_logit_scale(config["logits_scaling"])
    experts = config.get("num_local_experts") or config.get("num_experts")
    if experts:
        out.add_expert_count(experts)
        out.add_expert_used_count(config["num_experts_per_tok"])
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        out.add_rope_scaling_factor(scaling["factor"])
    if kind == "longrope":
        out.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
        out.add_tensor(
            "rope_factors_long.weight", np.array(scaling["long_factor"], dtype=np.float32)
        )
        out.add_tensor(
            "rope_factors_short.weight", np.array(scaling["short_factor"], dtype=np.float32)
        )
    names = gguf.get_tensor_name_map(
        {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[arch],
        config["num_hidden_layers"],
    )
    stacked = {}
    for name, tensor in load_file(os.path.join(folder, "model.safetensors")).items():
        data = tensor.to(torch.float32).numpy()
        if ".experts." in name:
            before, after = name.split(".experts.")
            stacked.setdefault(f"{before}.experts.{after.split('.', 1)[1]}", {})[
                int(after.split(".")[0])
            ] = data
            continue
        if arch in INTERLEAVED and ".q_proj." in name:
            data = interleave(data, heads)
        if arch in INTERLEAVED and ".k_proj." in name:
            data = interleave(data, kv)
        if ".conv.conv.weight" in name:
            data = data.squeeze(1)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            data = data + 1
        out.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(data))
    for name, by_expert in stacked.items():
        out.add_tensor(
            names.get_name(name, (".weight",)),
            np.stack([by_expert[e] for e in range(len(by_expert))]),
        )
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--keep")
    options = parser.parse_args()
    wrong = 0
    for name in options.only or sorted(os.listdir(FAMILIES)):
        folder = os.path.join(FAMILIES, name)
        if not os.path.isdir(folder) or name in CANNOT:
            continue
        if (
            json.load(open(os.path.join(folder, "config.json")))["architectures"][0]
            not in ARCHITECTURES
        ):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(options.keep or scratch, name + ".gguf")
            write(folder, path)
            case = next(
                c
                for c in json.load(open(os.path.join(folder, "golden.json")))["cases"]
                if c["name"] == "packed"
            )
            files = [os.path.join(scratch, x) for x in ("in.json", "out.json", "g.safetensors")]
            json.dump(case["input"], open(files[0], "w"))
            run = subprocess.run(
                [
                    options.moonring,
                    "probe",
                    f"model_name_or_path={path}",
                    f"input={files[0]}",
                    f"out={files[1]}",
                    f"grads={files[2]}",
                    "fp64=true",
                ],
                capture_output=True,
                text=True,
            )
            if run.returncode:
                wrong += 1
                print(f"{name:20} {run.stderr.strip()}")
                continue
            ours, wanted = json.load(open(files[1])), case["output"]
            loss = abs(ours["loss"] - wanted["loss"]) / wanted["loss"]
            norms = max(
                abs(ours["grad_norm"][key] - norm) / max(norm, 1e-9)
                for key, norm in wanted["grad_norm"].items()
            )
            wrong += loss > 1e-7 or norms > 1e-5
            print(f"{name:20} loss {loss:.1e}  gradient norms {norms:.1e}")
    sys.exit(1 if wrong else 0)


main()
