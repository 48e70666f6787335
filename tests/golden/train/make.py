"""Losses, gradient norms and learning rates of LLaMA-Factory 0.9.5's own runs, in full precision.

    make.py [--oracle DIR] [NAME ...]          default: every NAME.yaml next to this file, and
                                               schedules.json
    make.py [--oracle DIR] --noise NAME ...    noise.json: the same steps with micro-batches of one
                                               row each

Each run is LLaMA-Factory's `run_exp`; only the model, data and output folders are replaced. Two
methods of the Trainer are wrapped, to read values that its logs round or omit; nothing that is
computed changes.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(name, oracle, single_rows=False):
    import torch
    import transformers
    import yaml
    from llamafactory.train.tuner import run_exp
    from safetensors import safe_open
    from transformers import Trainer

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    config = yaml.safe_load(open(os.path.join(HERE, name + ".yaml")))
    if single_rows:
        config["gradient_accumulation_steps"] *= config["per_device_train_batch_size"]
        config["per_device_train_batch_size"] = 1
    out = tempfile.mkdtemp()
    model = os.path.join(oracle, "smollm2")
    own = all(
        d in json.load(open(os.path.join(HERE, "..", "preprocess", "data", "dataset_info.json")))
        for d in config["dataset"].split(",")
    )
    config.update(
        model_name_or_path=model,
        output_dir=out,
        dataset_dir=os.path.join(HERE, "..", "preprocess", "data")
        if own
        else os.path.join(oracle, "data"),
    )
    steps, windows, facts, seen = [], [], {}, {}

    get_batch_samples, log_save = Trainer.get_batch_samples, Trainer._maybe_log_save_evaluate

    def recording_get_batch_samples(self, *args, **kwargs):
        batches, count = get_batch_samples(self, *args, **kwargs)
        if not seen:
            for i, row in enumerate(self.train_dataset):
                assert tuple(row["input_ids"]) not in seen or name.startswith("own_prompt"), i
                seen.setdefault(tuple(row["input_ids"]), i)
        rows = [
            [
                seen[tuple(ids[mask == 1].tolist())]
                for ids, mask in zip(b["input_ids"], b["attention_mask"])
            ]
            for b in batches
        ]
        windows.append(
            {
                "rows": rows,
                "labels_counted": int(count),
                "tokens": int(sum(b["attention_mask"].sum() for b in batches)),
                "padded_lengths": [b["input_ids"].shape[1] for b in batches],
            }
        )
        return batches, count

    def recording_log(self, tr_loss, grad_norm, *args, **kwargs):
        if self.control.should_log and self.state.global_step > self._globalstep_last_logged:
            loss = tr_loss.item() / (self.state.global_step - self._globalstep_last_logged)
            steps.append(
                {
                    "step": self.state.global_step,
                    "loss": loss,
                    "grad_norm": None if grad_norm is None else float(grad_norm),
                    "lr": kwargs.get("learning_rate", args[-1]),
                    "epoch": self.state.epoch,
                }
            )
            facts.update(
                total_steps=self.state.max_steps,
                num_train_epochs=self.state.num_train_epochs,
                num_examples=len(self.train_dataset),
            )
        return log_save(self, tr_loss, grad_norm, *args, **kwargs)

    Trainer.get_batch_samples, Trainer._maybe_log_save_evaluate = (
        recording_get_batch_samples,
        recording_log,
    )
    run_exp(config)

    if single_rows:
        note_noise(name, steps)
        shutil.rmtree(out)
        return
    for step in steps:
        step.update(windows[step["step"] - 1])
    every = config["logging_steps"]
    log = [json.loads(line) for line in open(os.path.join(out, "trainer_log.jsonl"))]
    for line in log:
        line.pop("elapsed_time", None), line.pop("remaining_time", None)
    results = json.load(open(os.path.join(out, "train_results.json")))
    before, after, change = (
        safe_open(os.path.join(model, "model.safetensors"), "pt"),
        safe_open(os.path.join(out, "model.safetensors"), "pt"),
        {},
    )
    for key in after.keys():
        a, b = before.get_tensor(key).double(), after.get_tensor(key).double()
        change[key] = (b - a).norm().item()
    golden = {
        **facts,
        "logging_steps": every,
        "transformers": transformers.__version__,
        "steps": steps,
        "windows": windows if every > 1 else None,
        "train_loss": results["train_loss"],
        "epoch": results["epoch"],
        "trainer_log": log,
        "saved_files": sorted(os.listdir(out)),
        "saved_special": json.load(open(os.path.join(out, "generation_config.json"))),
        "change_norm": {
            k: change[k]
            for k in sorted(change)
            if any(
                part in k
                for part in ("embed", "model.norm", "layers.0.", "layers.15.", "layers.29.")
            )
        },
        "change_norm_total": sum(x * x for x in change.values()) ** 0.5,
    }
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        f.write(
            "{\n"
            + ",\n".join(
                json.dumps(k)
                + ": "
                + (
                    "[\n" + ",\n".join(map(json.dumps, v)) + "\n]"
                    if isinstance(v, list) and v and isinstance(v[0], dict)
                    else json.dumps(v)
                )
                for k, v in golden.items()
                if v is not None
            )
            + "\n}\n"
        )
    print(
        name,
        facts,
        [round(s["loss"], 5) for s in steps],
        [s["grad_norm"] and round(s["grad_norm"], 4) for s in steps],
    )
    shutil.rmtree(out)


def note_noise(name, steps):
    path = os.path.join(HERE, "noise.json")
    noise = json.load(open(path)) if os.path.exists(path) else {}
    golden = json.load(open(os.path.join(HERE, name + ".json")))["steps"]
    assert len(golden) == len(steps)
    noise[name] = {
        "loss": [abs(a["loss"] - b["loss"]) for a, b in zip(steps, golden)],
        "grad_norm_relative": [
            abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"] for a, b in zip(steps, golden)
        ],
    }
    with open(path, "w") as f:
        f.write(
            "{\n"
            + ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in sorted(noise.items()))
            + "\n}\n"
        )
    print(name, {k: max(v) for k, v in noise[name].items()})


def schedules():
    """The factor of the learning rate at each step, by transformers.get_scheduler."""
    import torch
    from transformers import get_scheduler

    out = []
    for kind in ("linear", "cosine", "constant", "constant_with_warmup"):
        for total, warmup in ((10, 0), (10, 1), (10, 3), (1, 0), (2, 1), (7, 7), (100, 10)):
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
            schedule = get_scheduler(
                kind, optimizer, num_warmup_steps=warmup, num_training_steps=total
            )
            factors = []
            for _ in range(total):
                factors.append(schedule.get_last_lr()[0])
                optimizer.step()
                schedule.step()
            out.append(
                {
                    "lr_scheduler_type": kind,
                    "total_steps": total,
                    "warmup_steps": warmup,
                    "factors": factors,
                }
            )
    from transformers import TrainingArguments

    ratios = [
        {
            "total_steps": n,
            "warmup_ratio": r,
            "warmup_steps": TrainingArguments(
                output_dir="unused", warmup_ratio=r, use_cpu=True, report_to="none"
            ).get_warmup_steps(n),
        }
        for n in (1, 7, 10, 12, 19, 20, 21, 99, 100)
        for r in (0.0, 0.03, 0.05, 0.1, 0.3)
    ]
    with open(os.path.join(HERE, "schedules.json"), "w") as f:
        f.write(
            '{\n"schedules": [\n'
            + ",\n".join(map(json.dumps, out))
            + '\n],\n"warmup": [\n'
            + ",\n".join(map(json.dumps, ratios))
            + "\n]\n}\n"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument("--here", action="store_true", help="run the one NAME in this process")
    parser.add_argument(
        "--noise", action="store_true", help="with rows one by one, into noise.json"
    )
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    if args.here:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["HF_DATASETS_CACHE"] = cache
            run(args.names[0], args.oracle, args.noise)
        return
    names = args.names or sorted(
        os.path.basename(p)[:-5] for p in glob.glob(os.path.join(HERE, "*.yaml"))
    )
    for name in names:
        subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--here", "--oracle", args.oracle, name]
            + ["--noise"] * args.noise,
            check=True,
        )
    if not args.names:
        schedules()


if __name__ == "__main__":
    main()
