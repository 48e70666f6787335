#!/usr/bin/env python3
"""Runs recipes of tinker-cookbook against a service, offline:

    recipes.py --url URL --key KEY --work FOLDER --model DIR [--only sl_loop,dpo] [--scale N]

The cookbook finds renderers by the model's name, tokenizers by the same name, and data by hub
names; it takes folders of these names in the working directory. This program makes them in --work:
Qwen/Qwen3-4B-Instruct-2507 is a link to the model's folder (a model with a ChatML template), the
data is made here. The service must be started in --work with
model_name_or_path=Qwen/Qwen3-4B-Instruct-2507. Nothing of the recipes is changed: they get an
address, a key, sizes. `--prepare` makes the folders and ends.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import time

NAME = "Qwen/Qwen3-4B-Instruct-2507"  # of a model whose renderer is ChatML
THINGS = "apples pears coins cups books stones keys maps pens shells".split()
NAMES = "Sam Ann Tom Eve Bob Kim Max Ida Leo Zoe".split()
COLOURS = "red green blue yellow white black grey brown pink golden".split()
CARD = """\
---
configs:
- config_name: main
  data_files:
  - split: train
    path: train.jsonl
  - split: test
    path: test.jsonl
---
"""


def write(path: pathlib.Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def conversation(random_: random.Random) -> dict:
    thing, colour = random_.choice(THINGS), random_.choice(COLOURS)
    return {
        "messages": [
            {"role": "user", "content": f"Which colour have the {thing}? They are {colour}."},
            {"role": "assistant", "content": f"The {thing} are {colour}."},
        ]
    }


def count_question(random_: random.Random) -> dict:
    """A question so easy that a small model is sometimes right before it is trained."""
    name, thing, number = random_.choice(NAMES), random_.choice(THINGS), random_.randint(2, 4)
    return {
        "question": f"{name} has {number} {thing}. How many {thing} does {name} have?",
        "answer": f"{name} has {number} {thing}.\n#### {number}",
    }


def comparison(random_: random.Random) -> dict:
    thing = random_.choice(THINGS)
    asked = f"\n\nHuman: Do you like {thing}?\n\nAssistant:"
    return {
        "chosen": f"{asked} Yes, I like {thing} very much.",
        "rejected": f"{asked} No.",
    }


def prepare(work: pathlib.Path, model: pathlib.Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    link = work / NAME
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(model.resolve())
    random_ = random.Random(1)
    for name, make, test in (
        ("HuggingFaceH4/no_robots", conversation, 8),
        ("openai/gsm8k", count_question, 8),
        ("Anthropic/hh-rlhf", comparison, 8),
    ):
        write(work / name / "train.jsonl", [make(random_) for _ in range(512)])
        write(work / name / "test.jsonl", [make(random_) for _ in range(test)])
    # The recipe takes 1024 rows to evaluate with; it leaves out those that are no conversations.
    with (work / "Anthropic/hh-rlhf/test.jsonl").open("a") as file:
        file.write((json.dumps({"chosen": "", "rejected": "\n\nHuman: ?"}) + "\n") * 1016)
    # The recipe asks for the configuration "main" of this one.
    (work / "openai/gsm8k/README.md").write_text(CARD)


def sl_loop(scale: int) -> list[str]:
    return [
        "tinker_cookbook.recipes.sl_loop",
        "batch_size=8",
        f"max_steps={5 * scale}",
        "lora_rank=8",
        "learning_rate=1e-3",
        "save_every=3",
    ]


def rl_loop(scale: int) -> list[str]:
    return [
        "tinker_cookbook.recipes.rl_loop",
        "loss_fn=importance_sampling",
        "batch_size=2",
        "group_size=16",
        "max_tokens=32",
        f"max_steps={3 * scale}",
        "lora_rank=8",
        "learning_rate=5e-4",
        "save_every=2",
    ]


def math_rl(scale: int) -> list[str]:
    return [
        "tinker_cookbook.recipes.math_rl.train",
        "loss_fn=importance_sampling",
        "env=arithmetic",
        "group_size=4",
        "groups_per_batch=4",
        "max_tokens=5",
        "learning_rate=2e-4",
        "lora_rank=8",
        f"max_steps={3 * scale}",
        "eval_every=0",
        "save_every=2",
        "behavior_if_log_dir_exists=delete",
    ]


def chat_sl(scale: int) -> list[str]:
    return [
        "tinker_cookbook.recipes.chat_sl.train",
        "dataset=no_robots",
        "batch_size=8",
        f"max_steps={5 * scale}",
        "learning_rate=1e-3",
        "lora_rank=8",
        "max_length=256",
        "eval_every=3",
        "save_every=3",
        "behavior_if_log_dir_exists=delete",
    ]


def dpo(scale: int) -> list[str]:
    return [
        "tinker_cookbook.recipes.preference.dpo.train",
        "dataset=hhh",
        "batch_size=8",
        f"max_steps={4 * scale}",
        "learning_rate=5e-4",
        "max_length=256",
        "behavior_if_log_dir_exists=delete",
    ]


RECIPES = {"sl_loop": sl_loop, "rl_loop": rl_loop, "math_rl": math_rl, "chat_sl": chat_sl}
RECIPES["dpo"] = dpo
CURVES = ("train_mean_nll", "reward/total", "env/all/reward/total", "dpo_loss", "margin")


def metrics_of(log: pathlib.Path) -> list[dict]:
    path = log / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(options, name: str) -> dict:
    log = options.work / "logs" / name
    words = RECIPES[name](options.scale)
    line = [sys.executable, "-m", words[0], f"model_name={NAME}", f"log_path={log}"] + words[1:]
    environment = os.environ | {
        "TINKER_BASE_URL": options.url,
        "TINKER_API_KEY": options.key,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(options.work / "cache"),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
    }
    began = time.monotonic()
    done = subprocess.run(
        line,
        cwd=options.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=options.seconds,
    )
    assert done.returncode == 0, f"{' '.join(line)}: {done.stdout[-6000:]}"
    rows = metrics_of(log)
    assert rows, f"{name} wrote no metrics: {done.stdout[-3000:]}"
    curves = {
        key: [round(row[key], 4) for row in rows if key in row]
        for key in sorted({key for row in rows for key in row})
        if any(word in key for word in CURVES)
    }
    saved = (log / "checkpoints.jsonl").read_text().splitlines()
    assert any('"final"' in line for line in saved), f"{name} has no final checkpoint: {saved}"
    return {
        "command": " ".join(line[1:]),
        "minutes": round((time.monotonic() - began) / 60, 2),
        "curves": curves,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=os.environ.get("TINKER_BASE_URL"))
    parser.add_argument("--key", default=os.environ.get("TINKER_API_KEY"))
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--only", default=",".join(RECIPES))
    parser.add_argument("--scale", type=int, default=1, help="so many times the usual steps")
    parser.add_argument("--seconds", type=float, default=3600, help="limit of a recipe")
    parser.add_argument("--prepare", action="store_true")
    options = parser.parse_args()
    options.work = options.work.resolve()
    prepare(options.work, options.model)
    if options.prepare:
        return
    for name in options.only.split(","):
        print(json.dumps({name: run(options, name)}, indent=1), flush=True)


if __name__ == "__main__":
    main()
