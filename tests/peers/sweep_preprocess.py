"""Prepares LLaMA-Factory's demo data with random configurations in both programs, and compares them
row by row.

    sweep_preprocess.py --moonring PATH --models FOLDER [FOLDER ...] [--templates NAME,NAME]
        [--count 100] [--seed 0] [--oracle DIR]

FOLDER: a model's folder, of which only config.json and the tokenizer are read. A configuration has
a random stage, data sets of this stage and their mixing, template, cutoff_len, and keys that change
ids or labels. If LLaMA-Factory rejects one, Moonring must reject it too. Prints a line for each
configuration; exits with 1 if two differ.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "golden", "preprocess"))
import make  # noqa: E402

DATASETS = {
    "sft": [
        "alpaca_en_demo",
        "alpaca_zh_demo",
        "identity",
        "glaive_toolcall_en_demo",
        "glaive_toolcall_zh_demo",
    ],
    "dpo": ["dpo_en_demo", "dpo_zh_demo"],
    "rm": ["dpo_en_demo", "dpo_zh_demo"],
    "kto": ["kto_en_demo"],
    "pt": ["c4_demo", "wiki_demo", "alpaca_en_demo"],
}


def draw(rng, templates):
    stage = rng.choice(["sft"] * 6 + ["dpo", "rm", "kto", "pt"])
    names = rng.sample(DATASETS[stage], rng.choice([1, 1, 1, 2]) if len(DATASETS[stage]) > 1 else 1)
    keys = {
        "stage": stage,
        "dataset": ",".join(names),
        "template": rng.choice(templates),
        "cutoff_len": rng.choice([24, 64, 200, 512, 1024, 2048, 4096]),
    }

    def perhaps(chance, **more):
        if rng.random() < chance:
            keys.update(more)

    if len(names) > 1 and rng.random() < 0.7:
        keys["mix_strategy"] = rng.choice(["interleave_under", "interleave_over"])
        perhaps(0.6, interleave_probs=rng.choice(["0.7,0.3", "0.5,0.5", "0.1,0.9"]))
    perhaps(0.4, max_samples=rng.choice([20, 100, 250]))
    perhaps(0.25, val_size=rng.choice([0.1, 0.3, 17]))
    perhaps(0.25, default_system=rng.choice(["Speak like a sailor.", "你是一个助手。"]))
    perhaps(0.3, seed=rng.choice([1, 7, 1234]))
    if stage == "sft":
        keys.update(rng.choice([{}, {}, {"train_on_prompt": True}, {"mask_history": True}]))
        # LLaMA-Factory's packing requires a multiple of 8 tokens.
        keys.update(
            rng.choice(
                [{}, {}, {"packing": True}]
                + ([] if keys.get("train_on_prompt") else [{"neat_packing": True}])
            )
        )
    if stage == "pt":
        keys.update(rng.choice([{}, {"packing": False}]))
    if stage in ("sft", "kto", "pt"):
        perhaps(0.2, preprocessing_batch_size=rng.choice([10, 64, 333]))
    perhaps(0.2, enable_thinking=rng.choice([True, False]))
    return keys


def theirs(model, data, keys):
    """Returns both parts as lines, or the reason why LLaMA-Factory rejects the configuration."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            parts = make.prepare(model, data, keys, scratch)
        except (Exception, SystemExit) as error:  # with any error, there are no rows
            return None, f"{type(error).__name__}: {error}"
    return [part and make.lines(part) for part in parts], ""


def ours(moonring, model, data, keys):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.jsonl")
        words = [
            f"{name}={json.dumps(value) if isinstance(value, bool) else value}"
            for name, value in keys.items()
        ]
        done = subprocess.run(
            [
                moonring,
                "preprocess",
                "model_name_or_path=" + model,
                "dataset_dir=" + data,
                "out=" + out,
            ]
            + words,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[
                -1
            ] if done.stderr.strip() else f"exit {done.returncode}"
        return [
            open(path).read() if os.path.exists(path) else None
            for path in (out, out.replace(".jsonl", ".eval.jsonl"))
        ], ""


def verdict(expected, got):
    for part, wanted, had in zip(("train", "eval"), expected, got):
        if wanted == had:
            continue
        if wanted is None or had is None:
            return f"{part}: rows of one program alone"
        wanted, had = wanted.splitlines(), had.splitlines()
        wrong = [
            i for i in range(max(len(wanted), len(had))) if wanted[i : i + 1] != had[i : i + 1]
        ]
        return (
            f"{part}: {len(wrong)} of {len(wanted)} rows differ ({len(had)} here), the first "
            f"is row {wrong[0]}"
        )
    return ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument(
        "--templates",
        default="default,chatml,smollm2,empty,alpaca,vicuna,deepseek3,mistral,llama2,phi4,glm4,"
        "zephyr",
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    args = parser.parse_args()
    os.environ.update(
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        HF_DATASETS_CACHE=os.path.join(tempfile.mkdtemp(), "cache"),
    )
    data, rng, rows, bad, refused, beyond = (
        os.path.join(args.oracle, "data"),
        random.Random(args.seed),
        0,
        0,
        0,
        0,
    )
    for number in range(args.count):
        model, keys = rng.choice(args.models), draw(rng, args.templates.split(","))
        expected, why = theirs(model, data, keys)
        if (
            "was not found, please check and update your model file" in why
            or "The features can't be aligned" in why
        ):
            # a template for images or audio requires its processor; or rows of two shapes in one
            # table
            beyond += 1
            continue
        got, reason = ours(args.moonring, model, data, keys)
        if expected is None or got is None:
            same = expected is None and got is None
            refused += same
            said = (
                f"both refuse ({why[:80]} | {reason[:80]})"
                if same
                else f"one alone refuses: LLaMA-Factory: {why[:160] or 'no'}; Moonring: "
                f"{reason[:200] or 'no'}"
            )
        else:
            said = verdict(expected, got)
            same = not said
            rows += sum(len(part.splitlines()) for part in expected if part)
        bad += not same
        print(
            f"{number} {os.path.basename(model)} {json.dumps(keys, ensure_ascii=False)}: "
            f"{said or 'equal'}",
            flush=True,
        )
    print(
        f"{args.count} configurations, {rows} rows, {refused} refused by both, {beyond} that "
        f"LLaMA-Factory cannot prepare, {bad} differ"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
