"""The prediction of `moonring plan` compared with the memory of training, for configurations of
many kinds: full, LoRA, freeze, precisions, recompute, offload, ranks, ZeRO, DPO.

    plan_vs_runs.py --moonring PATH --model DIR [--only NAME,...] [--threads N] [--folder DIR]

Each configuration trains two steps with memory_report: true. A line shows, for the rank with the
greatest peak: the peak that the kernel counts (anonymous and shared memory, minus that of the
process after its start), the plan's prediction, their ratio, and the share of the increase that the
account explains. Weights that are mapped pages of their file are in none of them. The model's
tokenizer must have the special tokens of the chatml template.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from step_vs_transformers import text_of, write_config  # noqa: E402

LORA = {"finetuning_type": "lora", "lora_rank": 8, "lora_target": "all"}
DPO = {"stage": "dpo", "dataset": "pairs"}
SP2 = {"sequence_parallel_size": 2}

# name, ranks, tokens of a document, keys
CONFIGURATIONS = [
    ("fp32", 1, 2048, {}),
    ("fp32_4k", 1, 4096, {}),
    ("fp32_8k", 1, 8192, {}),
    ("no_tiles", 1, 2048, {"tile_mib": 0}),
    ("bf16", 1, 4096, {"bf16": True}),
    ("pure_bf16", 1, 4096, {"pure_bf16": True}),
    ("selective", 1, 4096, {"recompute": "selective"}),
    ("none", 1, 1024, {"recompute": "none"}),
    ("auto", 1, 2048, {"recompute": "auto", "memory_limit": "4GiB"}),
    ("disk", 1, 8192, {"activation_offload": "disk"}),
    ("optimizer_on_disk", 1, 2048, {"offload_optimizer": "disk"}),
    ("accumulation", 1, 1024, {"gradient_accumulation_steps": 2}),
    ("sgd", 1, 2048, {"optim": "sgd"}),
    ("lora", 1, 4096, LORA),
    ("lora_bf16", 1, 4096, {**LORA, "bf16": True}),
    ("freeze", 1, 2048, {"finetuning_type": "freeze", "freeze_trainable_layers": 4}),
    ("sp2_ring", 2, 4096, {"sequence_parallel_size": 2, "sequence_parallel_mode": "zigzag-ring"}),
    ("sp2_gather", 2, 4096, {"sequence_parallel_size": 2, "sequence_parallel_mode": "all-gather"}),
    # For models with linear attention (make a small one with --make-linear).
    ("lora_4k", 1, 4096, LORA),
    ("lora_4k_none", 1, 4096, {**LORA, "recompute": "none"}),
    ("lora_4k_bf16", 1, 4096, {**LORA, "bf16": True}),
    ("sp2_heads", 2, 4096, {**LORA, **SP2, "linear_attention_mode": "heads"}),
    ("sp2_spans", 2, 4096, {**LORA, **SP2, "linear_attention_mode": "spans"}),
    ("sp2_relay", 2, 4096, {**LORA, **SP2, "linear_attention_mode": "relay"}),
    ("zero2", 2, 1024, {"zero_stage": 2}),
    ("zero3", 4, 1024, {"zero_stage": 3}),
    ("zero3_sp2_bf16", 4, 2048, {"zero_stage": 3, "sequence_parallel_size": 2, "bf16": True}),
    ("dpo", 1, 1024, DPO),
    ("dpo_cached", 1, 1024, {**DPO, "precompute_ref_log_probs": True}),
]


def write_data(folder, tokens):
    rows = [{"instruction": "Copy.", "input": "", "output": text_of(i, tokens)} for i in range(16)]
    pairs = [
        {
            "conversations": [{"from": "human", "value": "Copy."}],
            "chosen": {"from": "gpt", "value": text_of(2 * i, tokens)},
            "rejected": {"from": "gpt", "value": text_of(2 * i + 1, tokens)},
        }
        for i in range(16)
    ]
    info = {
        "copy": {"file_name": "copy.json"},
        "pairs": {
            "file_name": "pairs.json",
            "formatting": "sharegpt",
            "ranking": True,
            "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"},
        },
    }
    for name, content in (("copy.json", rows), ("pairs.json", pairs), ("dataset_info.json", info)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f)


def make_linear(folder, tokenizer):
    """Writes a small Qwen3.5 with random weights and the tokenizer of another folder. Requires
    Transformers 5."""
    from transformers import AutoTokenizer, Qwen3_5ForCausalLM, Qwen3_5TextConfig

    words = AutoTokenizer.from_pretrained(tokenizer)
    config = Qwen3_5TextConfig(
        vocab_size=len(words),
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        linear_num_key_heads=4,
        linear_num_value_heads=8,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
        tie_word_embeddings=True,
        eos_token_id=words.eos_token_id,
    )
    Qwen3_5ForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


def measure(args, ranks, tokens, keys):
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        write_data(folder, tokens)
        keys = {
            "model_name_or_path": os.path.abspath(args.model),
            "stage": "sft",
            "do_train": True,
            "finetuning_type": "full",
            "dataset": "copy",
            "dataset_dir": folder,
            "template": "chatml",
            "cutoff_len": tokens,
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 1,
            "learning_rate": 1e-5,
            "max_steps": 2,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "memory_report": True,
            "output_dir": os.path.join(folder, "out"),
            **keys,
        }
        config = os.path.join(folder, "config.yaml")
        write_config(config, keys)
        environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, args.threads // ranks))}
        run = subprocess.run(
            [os.path.abspath(args.moonring), "-n", str(ranks), "train", config],
            env=environment,
            capture_output=True,
            text=True,
        )
        if run.returncode != 0:
            sys.exit(f"exit {run.returncode}: {run.stdout[-1000:]}{run.stderr[-2000:]}")
        return json.load(open(os.path.join(folder, "out", "memory_report.json")))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", help="the host binary")
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--only", default="", help="names of configurations, with commas")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of all ranks together"
    )
    parser.add_argument(
        "--folder", help="where the runs' folders are made: on a disk, for what is offloaded"
    )
    parser.add_argument(
        "--make-linear",
        metavar="DIR",
        help="write a small Qwen3.5 with random weights and --model's tokenizer there, and end",
    )
    args = parser.parse_args()
    if args.make_linear:
        make_linear(args.make_linear, args.model)
        return
    only = [name for name in args.only.split(",") if name]
    unknown = set(only) - {name for name, *_ in CONFIGURATIONS}
    if unknown:
        sys.exit(
            f"--only: no configuration is called {', '.join(sorted(unknown))}; there are "
            f"{', '.join(name for name, *_ in CONFIGURATIONS)}"
        )
    print(
        f"{'configuration':18} {'ranks':>5} {'tokens':>6} {'peak MiB':>9} {'plan MiB':>9} "
        f"{'peak/plan':>9} {'explained':>9} {'held MiB':>8}"
    )
    for name, ranks, tokens, keys in CONFIGURATIONS:
        if only and name not in only:
            continue
        report = measure(args, ranks, tokens, keys)
        totals, plan = report["worst"]["totals"], report["plan"]
        peak, predicted = totals["kernel"] + totals["start_level"], plan["total"] + plan["process"]
        print(
            f"{name:18} {ranks:>5} {tokens:>6} {peak / 2**20:9.0f} {predicted / 2**20:9.0f} "
            f"{peak / predicted:9.3f} {totals['explained'] / totals['kernel']:9.3f} "
            f"{report['worst']['parts']['held_by_allocator'] / 2**20:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
