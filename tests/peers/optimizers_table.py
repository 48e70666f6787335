"""Compares the optimizers of docs/optimizers.md on one model and data set: bytes of state per
weight, tokens per second compared with AdamW, and the evaluation loss after a fixed number of
steps.

    optimizers_table.py --moonring PATH --model DIR --data DIR [--only NAME;...] [--steps 40]
        [--batch 8] [--rows 100] [--factors 0.3,1,3] [--bf16] [--timing] [--threads N]

Full fine-tuning in fp32 (with --bf16: products in bf16) on alpaca_en_demo (LLaMA-Factory's demo
data, --data), --batch rows per step in the order of one seed, with a constant rate after 4 steps;
--rows rows are held out for the evaluation. Each optimizer runs with its rate in ROWS times each of
--factors; the best result is shown with its rate. Bytes are those of the optimizer's state in a
checkpoint, divided by the number of weights. Tokens per second are those of the median step.

--timing only measures time: AdamW runs again alternately with each optimizer, so that both are
measured at the same time. The machine should be idle.
"""

import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from step_vs_transformers import write_config  # noqa: E402

GALORE = {"galore_rank": 64, "galore_update_interval": 20}
APOLLO = {"apollo_rank": 64, "apollo_update_interval": 20}
MINI = {
    **APOLLO,
    "apollo_rank": 1,
    "apollo_scale_type": "tensor",
    "apollo_scale": 128.0,
}

# name, learning rate, keys
ROWS = [
    ("adamw_torch", 2e-5, {}),
    ("adamw_torch, bf16 state", 2e-5, {"optimizer_state": "bf16"}),
    ("adamw_8bit", 2e-5, {}),
    ("sgd", 1e-2, {}),
    ("sgd_momentum", 3e-3, {}),
    ("adagrad", 1e-4, {}),
    ("rmsprop", 2e-5, {}),
    ("lion_32bit", 5e-6, {}),
    ("ademamix", 2e-5, {"optim_args": "t_alpha=40, t_beta3=40"}),
    ("schedule_free_adamw", 5e-5, {}),
    ("schedule_free_sgd", 3e-2, {}),
    ("spam", 2e-5, {"optim_args": "warmup=10"}),
    ("spam, density 0.25", 2e-5, {"optim_args": "warmup=10, density=0.25"}),
    ("muon", 2e-4, {}),
    ("use_muon", 2e-5, {"use_muon": True}),
    ("use_galore", 2e-5, {"use_galore": True, **GALORE}),
    ("use_apollo", 2e-5, {"use_apollo": True, **APOLLO}),
    ("use_apollo, mini", 2e-5, {"use_apollo": True, **MINI}),
    ("fira", 2e-5, {"optim_args": "rank=64, update_proj_gap=20"}),
    ("conda", 2e-5, {"optim_args": "update_proj_gap=20"}),
    ("online_subspace", 2e-5, {"optim_args": "rank=64, update_proj_gap=5"}),
    ("swan", 2e-4, {}),
    ("grass", 2e-5, {"optim_args": "rank=64, update_proj_gap=20"}),
    (
        "grass, multinomial",
        2e-5,
        {"optim_args": "rank=64, update_proj_gap=20, sampling=multinomial"},
    ),
    ("use_adam_mini", 2e-5, {"use_adam_mini": True}),
    ("adafactor", 2e-5, {}),
    ("adafactor_torch", 1e-3, {}),
    ("use_badam, layer", 2e-5, {"use_badam": True, "badam_switch_interval": 5}),
    (
        "use_badam, ratio",
        2e-5,
        {"use_badam": True, "badam_mode": "ratio", "badam_update_ratio": 0.05},
    ),
]


def alpaca(args, folder, steps, more):
    """Returns the keys of a run on LLaMA-Factory's demo data with the chatml template."""
    return {
        "model_name_or_path": os.path.abspath(args.model),
        "stage": "sft",
        "do_train": True,
        "dataset": "alpaca_en_demo",
        "dataset_dir": os.path.abspath(args.data),
        "template": "chatml",
        "gradient_accumulation_steps": 1,
        "max_steps": steps,
        "logging_steps": 1,
        "report_to": "none",
        "output_dir": os.path.join(folder, "out"),
        **more,
    }


def keys_of(args, name, rate, more, folder, steps):
    optim = {} if name.startswith("use_") else {"optim": name.split(",")[0]}
    budget = {
        "finetuning_type": "full",
        "cutoff_len": 512,
        "val_size": args.rows,
        "per_device_train_batch_size": args.batch,
        "learning_rate": rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 4,
        "bf16": args.bf16,
    }
    return alpaca(args, folder, steps, {**budget, **optim, **more})


def run(args, keys):
    """Runs a training and returns its log, line by line. The configuration is written next to
    output_dir."""
    config = keys["output_dir"] + ".yaml"
    write_config(config, keys)
    done = subprocess.run(
        [os.path.abspath(args.moonring), "train", config],
        env={**os.environ, "OMP_NUM_THREADS": str(args.threads)},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"exit {done.returncode}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    with open(os.path.join(keys["output_dir"], "trainer_log.jsonl")) as lines:
        return [json.loads(line) for line in lines]


def median_speed(lines):
    """Returns tokens per second: the median of the steps after the second one."""
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return statistics.median(speeds[2:])


def speed(args, keys):
    return median_speed(run(args, keys))


def tensors_of(path):
    """Returns the entries of a safetensors file's header."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: of for name, of in header.items() if name != "__metadata__"}


def state_bytes(output_dir):
    """Returns the bytes of the optimizer's state. A checkpoint's states also contain the
    weights."""
    total = 0
    for path in glob.glob(os.path.join(output_dir, "checkpoint-*", "states-*.safetensors")):
        for name, of in tensors_of(path).items():
            if not name.startswith("weight/"):
                total += of["data_offsets"][1] - of["data_offsets"][0]
    return total


def learn(args, name, rate, more):
    with tempfile.TemporaryDirectory() as folder:
        keys = keys_of(args, name, rate, more, folder, args.steps)
        keys |= {"eval_strategy": "steps", "eval_steps": args.steps}
        keys |= {"save_strategy": "steps", "save_steps": args.steps}
        lines = run(args, keys)
        losses = [line["eval_loss"] for line in lines if "eval_loss" in line]
        return losses[-1], state_bytes(keys["output_dir"]), median_speed(lines)


def speed_of(args, name, rate, more):
    with tempfile.TemporaryDirectory() as folder:
        return speed(args, keys_of(args, name, rate, {**more, "save_strategy": "no"}, folder, 8))


def weights_of(model):
    tensors = tensors_of(os.path.join(model, "model.safetensors")).values()
    return sum(math.prod(of["shape"]) for of in tensors)


def parser_of(description):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True, help="the host binary")
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--data", required=True, help="LLaMA-Factory's data folder")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--only", default="", help="names of rows, with semicolons")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8, help="rows of a step")
    parser.add_argument("--rows", type=int, default=100, help="of the evaluation")
    parser.add_argument("--factors", default="0.3,1,3", help="of each row's learning rate")
    parser.add_argument("--bf16", action="store_true", help="products in bf16")
    parser.add_argument("--timing", action="store_true")
    args = parser.parse_args()
    only = [name for name in args.only.split(";") if name]
    unknown = set(only) - {name for name, *_ in ROWS}
    if unknown:
        sys.exit(f"--only: no row is called {', '.join(sorted(unknown))}")
    weights = weights_of(args.model)
    if not args.timing:
        name, _, more = ROWS[0]
        start, _, beside = learn(args, name, 0.0, more)
        print(f"{'no step':24} {'':14} {start:.4f}  {beside:.0f} tokens/s", flush=True)
    for name, rate, more in ROWS:
        if only and name not in only:
            continue
        if args.timing:
            mine, beside = speed_of(args, name, rate, more), speed_of(args, *ROWS[0])
            print(f"{name:24} {mine:8.0f} tokens/s {mine / beside:6.3f} of adamw's", flush=True)
            continue
        best = None
        for factor in args.factors.split(","):
            at = rate * float(factor)
            last, held, mine = learn(args, name, at, more)
            print(f"  {name} at {at:.1e}: {last:.4f}", file=sys.stderr, flush=True)
            if best is None or last < best[0]:
                best = (last, at, held, mine)
        last, at, held, mine = best
        if name == ROWS[0][0]:
            beside = mine
        line = f"{name:24} {held / weights:7.3f} bytes  {last:.4f} at {at:.1e}"
        print(f"{line}  {mine / beside:6.3f} of adamw's tokens/s", flush=True)


if __name__ == "__main__":
    main()
