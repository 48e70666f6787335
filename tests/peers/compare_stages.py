"""Runs the same YAML with LLaMA-Factory and Moonring on a real model and LLaMA-Factory's demo data,
for every stage.

    compare_stages.py --moonring PATH [--oracle DIR] [--steps 8] [--cutoff 512] [--out FILE.json]
        [CASE ...]

LLaMA-Factory runs as in ../golden/stages/make.py (with unrounded logs, and pref_loss passed to
TRL). Prints for each case the greatest difference over all steps in the loss, in the gradient norm
(relative) and in each reward. With --out, LLaMA-Factory's results are stored in the file, and
reused if they exist.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STAGES = os.path.join(HERE, "..", "golden", "stages")
DPO, KTO = {"stage": "dpo", "dataset": "dpo_en_demo"}, {"stage": "kto", "dataset": "kto_en_demo"}
CASES = {
    "pt": {"stage": "pt", "dataset": "c4_demo", "packing": True},
    "sft": {"stage": "sft", "dataset": "alpaca_en_demo"},
    "rm": {"stage": "rm", "dataset": "dpo_en_demo"},
    "kto": KTO,
    "kto_lora": {
        **KTO,
        "finetuning_type": "lora",
        "adapter_name_or_path": "ADAPTER",
        "learning_rate": 1e-4,
    },
    "sigmoid": DPO,
    "lora": {
        **DPO,
        "finetuning_type": "lora",
        "adapter_name_or_path": "ADAPTER",
        "learning_rate": 1e-4,
    },
    "freeze": {**DPO, "finetuning_type": "freeze", "freeze_trainable_layers": 2},
    "orpo": {**DPO, "pref_loss": "orpo"},
    "simpo": {**DPO, "pref_loss": "simpo"},
    "ftx": {**DPO, "pref_ftx": 0.5},
    "cdpo": {**DPO, "dpo_label_smoothing": 0.1},
    "ld_alpha": {**DPO, "ld_alpha": 0.5},
    "hinge": {**DPO, "pref_loss": "hinge"},
    "ipo": {**DPO, "pref_loss": "ipo"},
    "nca_pair": {**DPO, "pref_loss": "nca_pair"},
    "robust": {**DPO, "pref_loss": "robust", "dpo_label_smoothing": 0.1},
}


def configuration(args, name):
    config = {
        "model_name_or_path": args.model,
        "finetuning_type": "full",
        "template": "chatml",
        "cutoff_len": args.cutoff,
        "max_steps": args.steps,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": 2,
        "learning_rate": 5e-6,
        "lr_scheduler_type": "constant",
        "disable_shuffling": True,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "do_train": True,
        "overwrite_output_dir": True,
        "dataset_dir": os.path.join(args.oracle, "data"),
        **CASES[name],
    }
    return {key: args.adapter if value == "ADAPTER" else value for key, value in config.items()}


def prepare(args, folder):
    """Prepares the model with a value head and summary_dropout_prob 0, and an adapter with B not
    zero."""
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    source = os.path.join(args.oracle, "smollm2")
    args.model, args.adapter = os.path.join(folder, "model"), os.path.join(folder, "adapter")
    os.makedirs(args.model, exist_ok=True)
    for file in os.listdir(source):
        if file != "config.json":
            os.symlink(os.path.join(source, file), os.path.join(args.model, file))
    config = json.load(open(os.path.join(source, "config.json")))
    json.dump(
        {**config, "summary_dropout_prob": 0.0}, open(os.path.join(args.model, "config.json"), "w")
    )
    torch.manual_seed(1)
    save_file(
        {
            "v_head.summary.weight": torch.randn(1, config["hidden_size"]) * 0.02,
            "v_head.summary.bias": torch.zeros(1),
        },
        os.path.join(args.model, "value_head.safetensors"),
    )
    base = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    adapted = get_peft_model(
        base,
        LoraConfig(
            r=8,
            lora_alpha=16,
            target_modules=[
                "q_proj",
                "k_proj",
                "v_proj",
                "o_proj",
                "gate_proj",
                "up_proj",
                "down_proj",
            ],
            task_type="CAUSAL_LM",
        ),
    )
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.002)
    adapted.save_pretrained(args.adapter)


def theirs(name, config):
    code = (
        f"import sys; sys.path.insert(0, {STAGES!r}); import json, make; print('GOLDEN ' + "
        f"json.dumps(make.run({name!r}, json.loads(sys.argv[1]))))"
    )
    environment = dict(
        os.environ,
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        HF_DATASETS_CACHE=tempfile.mkdtemp(),
    )
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(config)],
        env=environment,
        capture_output=True,
        text=True,
    )
    line = next((line for line in run.stdout.splitlines() if line.startswith("GOLDEN ")), None)
    if line is None:
        sys.exit(run.stderr[-3000:])
    return json.loads(line[7:])["steps"]


def ours(args, config, more):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "config.yaml")
    with open(path, "w") as f:
        f.writelines(
            f"{k}: {json.dumps(v)}\n"
            for k, v in {**config, "output_dir": os.path.join(folder, "out")}.items()
        )
    run = subprocess.run([args.moonring, "train", path, *more], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr[-3000:])
    return [
        line
        for line in map(json.loads, open(os.path.join(folder, "out", "trainer_log.jsonl")))
        if "loss" in line
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--cutoff", type=int, default=512)
    parser.add_argument("--out")
    parser.add_argument(
        "words",
        nargs="*",
        help="cases, and key=value words for Moonring alone (sequence_parallel_size=2)",
    )
    args = parser.parse_args()
    kept = json.load(open(args.out)) if args.out and os.path.exists(args.out) else {}
    more = [word for word in args.words if "=" in word]
    with tempfile.TemporaryDirectory() as folder:
        prepare(args, folder)
        for name in [word for word in args.words if "=" not in word] or CASES:
            config = configuration(args, name)
            key = f"{name} cutoff {args.cutoff} steps {args.steps}"
            if key not in kept:
                kept[key] = theirs(name, config)
                if args.out:
                    json.dump(kept, open(args.out, "w"), indent=1)
            worst = {}
            for a, b in zip(ours(args, config, more), kept[key], strict=True):
                for metric, value in b.items():
                    if (
                        metric in ("loss", "grad_norm")
                        or metric.startswith("rewards/")
                        and metric in a
                    ):
                        difference = abs(a[metric] - value) / (
                            abs(value) if metric == "grad_norm" else 1
                        )
                        worst[metric] = max(worst.get(metric, 0), difference)
            print(
                name, {metric: float(f"{value:.2g}") for metric, value in worst.items()}, flush=True
            )


if __name__ == "__main__":
    main()
