"""Compares the golden families as GGUF files (F32) with their folders: `moonring probe` gives the
same losses and gradients.

    gguf_families.py --moonring BINARY [--only NAME ...] [--keep DIR]

Keys and tensor names are those of the gguf package (its writer and its table of names by
architecture). Other transformations of llama.cpp's converter are made in this file: rows of q and k
interleaved (llama, granite, smollm3, internlm2), 1 added to norms (gemma), LFM2's taps without
their middle dim and with the resulting number of features, a layer's experts in one tensor,
InternLM2's wqkv split in three, llama3's and longrope's factors as tensors; gpt-oss's gate and up
separate, its experts in MXFP4 in llama.cpp's order; GLM-4.5 with a layer that predicts a second
token; DeepSeek-V3's kv_b_proj whole as in older files and split as in newer ones, with rotated
features in adjacent pairs.
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
    "GptOssForCausalLM": "gpt-oss",
    "Glm4MoeForCausalLM": "glm4moe",
    "DeepseekV3ForCausalLM": "deepseek2",
}
INTERLEAVED = ("llama", "granite", "smollm3", "internlm2")
# Features that GGUF cannot express: windows by layer (gpt-oss's first layer has one), layers
# without rotary embedding, dynamic scaling, mscale (unlike DeepSeek's mscale_all_dim),
# query_pre_attn_scalar, another activation than Gemma's, and constants of llama3 that were never
# published.
CANNOT = (
    "gemma2",
    "smollm3",
    "smollm3_window",
    "mistral_window",
    "qwen2_window",
    "qwen2_moe",
    "qwen2_moe_norm",
    "qwen2_moe_layers",
    "rope_dynamic",
    "internlm2",
    "rope_yarn_mscale",
    "qwen2_yarn",
    "gemma3",
    "gemma3_linear",
    "llama3_rope",
    "rope_yarn",
    "qwen3_moe",
    "gpt_oss_yarn",
    "deepseek_v3_yarn",
)


def interleave(weight, heads):
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


# Reorders the rotated features at the end of each head from halves to adjacent pairs.
def pair_ends(weight, heads, turning):
    by_head = weight.reshape(heads, weight.shape[0] // heads, -1).copy()
    ends = by_head[:, -turning:]
    by_head[:, -turning:] = interleave(ends.reshape(heads * turning, -1), heads).reshape(ends.shape)
    return by_head.reshape(weight.shape)


# Converts blocks [E, R, G, 16] and scales [E, R, G] with two numbers per byte, the lower four bits
# first, to llama.cpp's format: the scale, then numbers 0 to 15 in the lower four bits and 16 to 31
# in the upper.
def mxfp4(blocks, scales):
    numbers = np.stack((blocks & 15, blocks >> 4), -1).reshape(*blocks.shape[:-1], 32)
    packed = numbers[..., :16] | numbers[..., 16:] << 4
    return np.concatenate((scales[..., None], packed), -1).reshape(*blocks.shape[:2], -1)


def add_gpt_oss_experts(out, block, weights):
    for name, data in weights.items():
        what = name.rsplit(".", 1)[1]
        if what.endswith("_scales"):
            continue
        if what.endswith("_blocks"):
            data = mxfp4(data, weights[name.replace("_blocks", "_scales")])
            kind = gguf.GGMLQuantizationType.MXFP4
        else:
            kind = None
            if not what.endswith("_bias"):
                data = data.swapaxes(1, 2)
        end = ".bias" if what.endswith("_bias") else ".weight"
        parts = {"down": data}
        if what.startswith("gate_up"):
            parts = {"gate": data[:, ::2], "up": data[:, 1::2]}
        for part, rows in parts.items():
            out.add_tensor(
                f"{block}.ffn_{part}_exps{end}", np.ascontiguousarray(rows), raw_dtype=kind
            )


def add_latent(out, config):
    rank, turning = config["kv_lora_rank"], config["qk_rope_head_dim"]
    if config["q_lora_rank"] is not None:
        out.add_q_lora_rank(config["q_lora_rank"])
    out.add_kv_lora_rank(rank)
    out.add_rope_dimension_count(turning)


# Adds the sizes of heads and kv_b_proj in the form of newer or of older files.
def add_latent_heads(out, config, newer):
    rank, turning = config["kv_lora_rank"], config["qk_rope_head_dim"]
    key, value = config["qk_nope_head_dim"] + turning, config["v_head_dim"]
    out.add_head_count_kv(1 if newer else config["num_attention_heads"])
    out.add_key_length(rank + turning if newer else key)
    out.add_value_length(rank if newer else value)
    if newer:
        out.add_key_length_mla(key)
        out.add_value_length_mla(value)


def add_grouped_experts(out, config):
    out.add_expert_feed_forward_length(config["moe_intermediate_size"])
    out.add_expert_shared_count(config["n_shared_experts"])
    out.add_leading_dense_block_count(config["first_k_dense_replace"])
    out.add_expert_group_count(config["n_group"])
    out.add_expert_group_used_count(config["topk_group"])
    out.add_expert_weights_scale(config["routed_scaling_factor"])
    out.add_expert_weights_norm(config["norm_topk_prob"])
    out.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def lfm2_features(config):
    features = int(config["block_ffn_dim_multiplier"] * int(2 * config["intermediate_size"] / 3))
    multiple = config["block_multiple_of"]
    return -(-features // multiple) * multiple


def write(folder, path, newer=True):
    config = json.load(open(os.path.join(folder, "config.json")))
    arch = ARCHITECTURES[config["architectures"][0]]
    heads, kv = (
        config["num_attention_heads"],
        config.get("num_key_value_heads", config["num_attention_heads"]),
    )
    width = config.get("head_dim") or config["hidden_size"] // heads
    predicting = 1 if arch == "glm4moe" else 0
    rope = config.get("rope_parameters") or config
    out = gguf.GGUFWriter(path, arch)
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"] + predicting)
    out.add_feed_forward_length(
        lfm2_features(config) if arch == "lfm2" else config["intermediate_size"]
    )
    out.add_head_count(heads)
    if arch == "lfm2":
        out.add_head_count_kv([kv if kind != "conv" else 0 for kind in config["layer_types"]])
        out.add_shortconv_l_cache(config["conv_L_cache"])
    elif arch != "deepseek2":
        out.add_head_count_kv(kv)
    if arch == "deepseek2":
        add_latent(out, config)
        add_latent_heads(out, config, newer)
    else:
        out.add_key_length(width)
        out.add_value_length(width)
        out.add_rope_dimension_count(int(width * config.get("partial_rotary_factor", 1.0)))
    out.add_layer_norm_rms_eps(config.get("norm_eps") or config["rms_norm_eps"])
    out.add_rope_freq_base(rope["rope_theta"])
    if config.get("pad_token_id") is not None:
        out.add_pad_token_id(config["pad_token_id"])
    if config.get("sliding_window") and arch in ("gemma2", "phi3", "gpt-oss"):
        out.add_sliding_window(config["sliding_window"])
    if arch == "gemma2":
        out.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        out.add_final_logit_softcapping(config["final_logit_softcapping"])
    if arch == "granite":
        out.add_attention_scale(config["attention_multiplier"])
        out.add_embedding_scale(config["embedding_multiplier"])
        out.add_residual_scale(config["residual_multiplier"])
        out.add_logit_scale(config["logits_scaling"])
    experts = (
        config.get("num_local_experts")
        or config.get("num_experts")
        or config.get("n_routed_experts")
    )
    if "n_routed_experts" in config:
        add_grouped_experts(out, config)
    if arch == "gpt-oss":
        out.add_expert_feed_forward_length(config["intermediate_size"])
    if experts:
        out.add_expert_count(experts)
        out.add_expert_used_count(config["num_experts_per_tok"])
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        out.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        out.add_rope_scaling_factor(scaling["factor"])
        out.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
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
    stacked, of_gpt_oss = {}, {}
    for name, tensor in load_file(os.path.join(folder, "model.safetensors")).items():
        data = (tensor if tensor.dtype == torch.uint8 else tensor.to(torch.float32)).numpy()
        if arch == "gpt-oss" and ".experts." in name:
            of_gpt_oss.setdefault(f"blk.{name.split('.')[2]}", {})[name] = data
            continue
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
        if arch == "deepseek2" and not config["rope_interleave"]:
            turning = config["qk_rope_head_dim"]
            if ".q_proj." in name or ".q_b_proj." in name:
                data = pair_ends(data, heads, turning)
            if ".kv_a_proj_with_mqa." in name:
                data = pair_ends(data, 1, turning)
        if newer and ".kv_b_proj." in name:
            plain = config["qk_nope_head_dim"]
            by_head = data.reshape(heads, -1, data.shape[-1])
            for part, rows in (
                ("k", by_head[:, :plain].swapaxes(1, 2)),
                ("v", by_head[:, plain:]),
            ):
                out.add_tensor(
                    names.get_name(name.replace("kv_b", f"{part}_b"), (".weight",)),
                    np.ascontiguousarray(rows),
                )
            continue
        if name.endswith(".sinks"):
            name += ".weight"
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            data = data + 1
        out.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(data))
    for name, by_expert in stacked.items():
        out.add_tensor(
            names.get_name(name, (".weight",)),
            np.stack([by_expert[e] for e in range(len(by_expert))]),
        )
    for block, weights in of_gpt_oss.items():
        add_gpt_oss_experts(out, block, weights)
    for layer in range(config["num_hidden_layers"], config["num_hidden_layers"] + predicting):
        out.add_nextn_predict_layers(predicting)
        for name in ("attn_norm", "nextn.enorm", "nextn.hnorm"):
            out.add_tensor(
                f"blk.{layer}.{name}.weight", np.ones(config["hidden_size"], dtype=np.float32)
            )
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def compare(options, name, folder, newer):
    title = name if newer else name + " (older)"
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(options.keep or scratch, name + ".gguf")
        write(folder, path, newer)
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
            print(f"{title:24} {run.stderr.strip()}")
            return False
        ours, wanted = json.load(open(files[1])), case["output"]
        loss = abs(ours["loss"] - wanted["loss"]) / wanted["loss"]
        norms = max(
            abs(ours["grad_norm"][key] - norm) / max(norm, 1e-9)
            for key, norm in wanted["grad_norm"].items()
        )
        print(f"{title:24} loss {loss:.1e}  gradient norms {norms:.1e}")
        return loss <= 1e-7 and norms <= 1e-5


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
        deepseek = name.startswith("deepseek")
        for newer in (True, False) if deepseek else (True,):
            wrong += not compare(options, name, folder, newer)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
