"""Compares step time and peak memory of DPO by `moonring train` with TRL's DPOTrainer: full
fine-tuning, one pair per step, with a live and with a cached reference.

    dpo_vs_trl.py --moonring PATH --model DIR [--tokens 1024,4096] [--steps 2] [--threads N]
        [--dtype fp32] [--reference live,cached] [--limit-gib 24]

--tokens: of a pair; each document has half of them, and half of these are the prompt. TRL runs with
gradient checkpointing, sdpa, AdamW (fused), the ids that `moonring preprocess` writes, and for the
cached reference precompute_ref_log_probs. Both run as separate processes with the same number of
threads; the first step of each is excluded (the caching pass of both is before it). Memory is
measured as in step_vs_transformers.py. First losses are ln 2; the last losses are printed: if they
differ, the two did not do the same work. At the end, prints the memory per token between the two
greatest lengths. A program that fails within --limit-gib of data is not run with greater lengths.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from step_vs_transformers import Failed, text_of, watch, write_config  # noqa: E402


def trl_child(args):
    import time

    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import DPOConfig, DPOTrainer

    torch.set_num_threads(args.threads)

    class Prepared(DPOTrainer):
        def _prepare_dataset(self, dataset, *unused):
            return dataset

    class Clock(TrainerCallback):
        def on_step_begin(self, *unused, **more):
            self.begin = time.perf_counter()

        def on_step_end(self, *unused, **more):
            self.seconds = time.perf_counter() - self.begin

        def on_log(self, arguments, state, control, logs, **more):
            if "loss" in logs:
                print(
                    "\nSTEP "
                    + json.dumps(
                        {
                            "loss": logs["loss"],
                            "margin": logs["rewards/margins"],
                            "seconds": self.seconds,
                        }
                    ),
                    flush=True,
                )

    rows = []
    for line in open(args.child_rows):
        row = json.loads(line)
        start = next(i for i, label in enumerate(row["chosen_labels"]) if label != -100)
        rows.append(
            {
                "prompt_input_ids": row["chosen_input_ids"][:start],
                "chosen_input_ids": row["chosen_input_ids"][start:],
                "rejected_input_ids": row["rejected_input_ids"][start:],
            }
        )

    def model():
        return AutoModelForCausalLM.from_pretrained(
            args.model, dtype=torch.float32, attn_implementation="sdpa"
        )

    config = DPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=1,
        max_steps=args.steps + 1,
        learning_rate=1e-5,
        lr_scheduler_type="constant",
        logging_steps=1,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        gradient_checkpointing=True,
        max_length=None,
        max_prompt_length=None,
        beta=0.1,
        bf16=args.dtype == "bf16",
        precompute_ref_log_probs=args.child == "cached",
        precompute_ref_batch_size=1,
        remove_unused_columns=False,
        disable_tqdm=True,
        optim="adamw_torch_fused",
    )
    policy = model()
    policy.config.use_cache = False
    trainer = Prepared(
        model=policy,
        ref_model=model(),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(args.model),
        callbacks=[Clock()],
    )
    if args.child == "cached":
        trainer.get_train_dataloader()
        trainer.ref_model = None
    trainer._get_train_sampler = lambda *unused: torch.utils.data.SequentialSampler(
        trainer.train_dataset
    )
    trainer.train()


def run_trl(args, reference, rows, environment, folder):
    text, peak = watch(
        [
            sys.executable,
            os.path.abspath(__file__),
            "--model",
            args.model,
            "--steps",
            str(args.steps),
            "--threads",
            str(args.threads),
            "--dtype",
            args.dtype,
            "--child",
            reference,
            "--child-rows",
            rows,
        ],
        environment,
        os.path.join(folder, "trl.log"),
        args.limit_gib,
    )
    steps = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("STEP ")]
    return {
        "losses": [s["loss"] for s in steps],
        "seconds": [s["seconds"] for s in steps[1:]],
        "anon": peak[0],
        "rss": peak[1],
    }


def prepare(args, tokens, folder):
    answer = tokens // 4
    pairs = [
        {
            "conversations": [{"from": "human", "value": text_of(10 * i, answer)}],
            "chosen": {"from": "gpt", "value": text_of(10 * i + 1, answer)},
            "rejected": {"from": "gpt", "value": text_of(10 * i + 2, answer)},
        }
        for i in range(args.steps + 1)
    ]
    with open(os.path.join(folder, "pairs.json"), "w") as f:
        json.dump(pairs, f)
    with open(os.path.join(folder, "dataset_info.json"), "w") as f:
        json.dump(
            {
                "pairs": {
                    "file_name": "pairs.json",
                    "formatting": "sharegpt",
                    "ranking": True,
                    "columns": {
                        "messages": "conversations",
                        "chosen": "chosen",
                        "rejected": "rejected",
                    },
                }
            },
            f,
        )
    keys = {
        "model_name_or_path": os.path.abspath(args.model),
        "stage": "dpo",
        "do_train": True,
        "finetuning_type": "full",
        "dataset": "pairs",
        "dataset_dir": folder,
        "template": "chatml",
        "cutoff_len": tokens // 2,
        "per_device_train_batch_size": 1,
        "learning_rate": 1e-5,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1.0,
        "max_steps": args.steps + 1,
        "logging_steps": 1,
        "disable_shuffling": True,
        "save_strategy": "no",
        "report_to": "none",
        "bf16": args.dtype == "bf16",
    }
    config = os.path.join(folder, "config.yaml")
    write_config(config, keys)
    rows = os.path.join(folder, "rows.jsonl")
    subprocess.run(
        [args.moonring, "preprocess", config, "out=" + rows], check=True, capture_output=True
    )
    return config, rows


def run_moonring(args, reference, config, environment, folder):
    out = os.path.join(folder, reference)
    _, peak = watch(
        [
            os.path.abspath(args.moonring),
            "-n",
            "1",
            "train",
            config,
            "output_dir=" + out,
            "precompute_ref_log_probs=" + str(reference == "cached").lower(),
        ],
        environment,
        os.path.join(folder, "moonring.log"),
        args.limit_gib,
    )
    lines = [
        line
        for line in map(json.loads, open(os.path.join(out, "trainer_log.jsonl")))
        if "loss" in line
    ]
    return {
        "losses": [line["loss"] for line in lines],
        "seconds": [
            (line["tokens"] - before["tokens"]) / line["tokens_per_second"]
            for before, line in zip(lines, lines[1:])
        ],
        "anon": peak[0],
        "rss": peak[1],
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", default="4096")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--reference", default="live,cached")
    parser.add_argument("--limit-gib", type=float, help="of each process's data")
    parser.add_argument("--child")
    parser.add_argument("--child-rows")
    args = parser.parse_args()
    if args.child:
        return trl_child(args)
    environment = dict(
        os.environ,
        OMP_NUM_THREADS=str(args.threads),
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
    )
    points, failed = {}, set()
    for tokens in map(int, args.tokens.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            config, rows = prepare(args, tokens, folder)
            print(
                f"{tokens} tokens a pair, {args.dtype}, {args.threads} threads, {args.steps} steps"
            )
            for reference in args.reference.split(","):
                sides = {
                    "moonring": lambda: run_moonring(args, reference, config, environment, folder),
                    "trl": lambda: run_trl(args, reference, rows, environment, folder),
                }
                done = {}
                for name, side in sides.items():
                    if (reference, name) in failed:
                        continue
                    try:
                        one = done[name] = side()
                    except Failed as why:
                        failed.add((reference, name))
                        print(
                            f"  {reference:6} {name:8} fails: "
                            f"{str(why).strip().splitlines()[-1][:200]}",
                            flush=True,
                        )
                        continue
                    points.setdefault((reference, name), []).append((tokens, one["anon"]))
                    print(
                        f"  {reference:6} {name:8} {statistics.median(one['seconds']):7.2f} "
                        f"s/step   anon {one['anon'] / 2**30:5.2f} GiB   rss "
                        f"{one['rss'] / 2**30:5.2f} GiB   "
                        f"losses {' '.join(f'{loss:.6f}' for loss in one['losses'])}",
                        flush=True,
                    )
                if len(done) == 2:
                    ours, theirs = done["moonring"], done["trl"]
                    seconds = [statistics.median(one["seconds"]) for one in (ours, theirs)]
                    print(
                        f"  {reference:6} ratio    {seconds[0] / seconds[1]:7.2f}        "
                        f"anon {ours['anon'] / theirs['anon']:5.2f}       "
                        f"rss {ours['rss'] / theirs['rss']:5.2f}",
                        flush=True,
                    )
    for (reference, name), measured in points.items():
        if len(measured) > 1:
            (t0, m0), (t1, m1) = measured[-2:]
            print(
                f"  {reference:6} {name:8} {(m1 - m0) / (t1 - t0):.0f} bytes a token from {t0} "
                f"to {t1}"
            )


if __name__ == "__main__":
    main()
