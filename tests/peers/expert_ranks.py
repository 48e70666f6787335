"""A mixture of experts on 1, 2 and 4 ranks: with all experts on each rank, and with the experts
distributed over the ranks.

    expert_ranks.py [--moonring bazel-bin/moonring] [--rounds 2] [--ranks 1 2 4]

Writes a Qwen3-MoE model with random weights (4 layers, hidden size 512, 32 experts of 256 features,
4 per token; 57 million parameters, 50 of them in the experts). Prints a line for each number of
ranks: the difference of the gradients of `moonring probe` from one rank's (fp32, the greatest ||a -
b|| / ||b|| of a tensor); the best time of a step of 1024 tokens per rank, including AdamW; bytes of
weights, gradients and the optimizer's state on a rank; bytes that a rank sends for rows in a step.
Ranks are processes with one thread each. The two variants run alternately.
"""

import argparse
import json
import os
import subprocess
import tempfile

import torch
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, HIDDEN, INNER, EXPERTS, CHOSEN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = (
    4, 512, 256, 32, 4, 8, 4, 64, 2048)


def write_model(folder):
    torch.manual_seed(5)
    weights = {}

    def add(name, *shape):
        weights[name] = torch.randn(shape) * 0.03 if len(shape) > 1 else torch.ones(shape)

    add("model.embed_tokens.weight", VOCAB, HIDDEN)
    add("lm_head.weight", VOCAB, HIDDEN)
    add("model.norm.weight", HIDDEN)
    for layer in range(LAYERS):
        block = f"model.layers.{layer}."
        add(block + "input_layernorm.weight", HIDDEN)
        add(block + "post_attention_layernorm.weight", HIDDEN)
        add(block + "self_attn.q_proj.weight", HEADS * HEAD_DIM, HIDDEN)
        add(block + "self_attn.k_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        add(block + "self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        add(block + "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM)
        add(block + "self_attn.q_norm.weight", HEAD_DIM)
        add(block + "self_attn.k_norm.weight", HEAD_DIM)
        add(block + "mlp.gate.weight", EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            add(f"{block}mlp.experts.{expert}.gate_proj.weight", INNER, HIDDEN)
            add(f"{block}mlp.experts.{expert}.up_proj.weight", INNER, HIDDEN)
            add(f"{block}mlp.experts.{expert}.down_proj.weight", HIDDEN, INNER)
    save_file(weights, os.path.join(folder, "model.safetensors"))
    config = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
        "hidden_size": HIDDEN, "intermediate_size": 2 * INNER, "moe_intermediate_size": INNER,
        "num_experts": EXPERTS, "num_experts_per_tok": CHOSEN, "norm_topk_prob": True,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "vocab_size": VOCAB, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "float32",
        "attention_bias": False, "sliding_window": None, "use_sliding_window": False,
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "in.json"), "w") as file:
        ids = torch.randint(VOCAB, (1536,)).tolist()
        json.dump({"input_ids": ids, "labels": ids, "positions": []}, file)


def run(words):
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    return subprocess.run(words, check=True, capture_output=True, text=True,
                          env=environment).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moonring", default="bazel-bin/moonring")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 4])
    given = parser.parse_args()
    host = os.path.abspath(given.moonring)
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder)
        model = "model_name_or_path=" + folder

        def gradients(ranks, size):
            path = os.path.join(folder, "grads.safetensors")
            run([host, "-n", str(ranks), "probe", model, f"input={folder}/in.json",
                 f"out={folder}/out.json", "grads=" + path, f"sequence_parallel_size={ranks}",
                 f"expert_parallel_size={size}"])
            return load_file(path)

        def step(ranks, size):
            words = run([host, "-n", str(ranks), os.path.join(HERE, "expert_ranks.lua"), model,
                         "finetuning_type=full", f"expert_parallel_size={size}"]).split()
            return float(words[0]), int(words[1]), int(words[2])

        alone = gradients(1, 1)
        print("| ranks | gradients | all on each: step | bytes a rank | own alone: step "
              "| bytes a rank | rows sent |")
        print("|---|---|---|---|---|---|---|")
        for ranks in given.ranks:
            found = gradients(ranks, ranks)
            worst = max(float((found[name] - alone[name]).norm() / alone[name].norm())
                        for name in alone if alone[name].norm() > 0)
            whole, own = [], []
            for _ in range(given.rounds):
                whole.append(step(ranks, 1))
                own.append(step(ranks, ranks))
            mib = 2**20
            print(f"| {ranks} | {worst:.1e} | {min(whole)[0]:.2f} s | {whole[0][1] / mib:.0f} MiB "
                  f"| {min(own)[0]:.2f} s | {own[0][1] / mib:.0f} MiB "
                  f"| {own[0][2] / mib:.1f} MiB |", flush=True)


if __name__ == "__main__":
    main()
