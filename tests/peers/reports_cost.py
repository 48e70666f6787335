"""Measures the cost of monitoring a run: of the reports, and of traced steps; and checks that the
weights have the same bytes with and without monitoring.

    reports_cost.py --moonring PATH [--model builtin:smollm2] [--steps 30] [--rounds 3] [--ranks 1]

The time of the same run varies by up to 20 % between processes (memory placement, other work), so a
cost of 1 % cannot be seen in the totals of two processes. Therefore it is measured within each
process:

- reports: `time/other` in the log, the time of a step that is not data, forward, backward,
  communication, optimizer, evaluation or saving. It includes logging and trackers, and the report's
  page in the step after an evaluation. Alternately with every report off, and with every report but
  traces on; shows the medians, and their difference as a share of the run.
- traces: the middle third of a run's steps is traced. Shows the median of its steps divided by the
  median of the other steps, and the time for writing the file.

Prints each run when it ends, then medians with minimum and maximum.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile

OFF = ["progress=off", "report_to=none", "report_html=false"]
ON = [
    "progress=json",
    "report_to=all",
    "report_command=cat > /dev/null",
    "report_html=true",
    "plot_loss=true",
]
PAGES = 2  # evaluations per run, with a page each
TRAINING = [
    "time/" + part for part in ("data", "forward", "backward", "communication", "optimizer")
]


def arguments():
    read = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    read.add_argument("--moonring", required=True)
    read.add_argument("--model", default="builtin:smollm2")
    read.add_argument("--template", default="smollm2")
    read.add_argument("--steps", type=int, default=30)
    read.add_argument("--rounds", type=int, default=3)
    read.add_argument("--ranks", type=int, default=1)
    read.add_argument("--tokens", type=int, default=256)
    return read.parse_args()


def talks(folder):
    """Writes 64 conversations of 20 to 200 words."""
    words = "the harbour waits for a copper bell while an old map hides seven stones".split()
    rows = []
    for i in range(64):
        answer = " ".join(words[(i * 5 + j * j) % len(words)] for j in range(20 + 37 * i % 180))
        rows.append({"instruction": f"What of number {i}?", "output": answer})
    with open(os.path.join(folder, "talks.json"), "w") as out:
        json.dump(rows, out)
    with open(os.path.join(folder, "dataset_info.json"), "w") as out:
        json.dump({"talks": {"file_name": "talks.json"}}, out)


class Run:
    """Runs one training and returns what its files say about time and weights. Times are in
    seconds.

    runtime             of the training
    step, page          time/other of a step, after no evaluation and after one
    traced, untraced    training time of a step inside and outside of the trace
    written             time/other of the step in which the trace file is written
    """

    def __init__(self, args, folder, more, trace):
        out = os.path.join(folder, "out")
        shutil.rmtree(out, ignore_errors=True)
        command = [
            args.moonring, "-n", str(args.ranks), "train", f"model_name_or_path={args.model}",
            f"dataset_dir={folder}", "dataset=talks", f"template={args.template}", "stage=sft",
            "finetuning_type=full", f"cutoff_len={args.tokens}", "packing=true",
            "per_device_train_batch_size=1", f"max_steps={args.steps}", "learning_rate=1e-5",
            f"sequence_parallel_size={args.ranks}", "logging_steps=1", "save_strategy=no",
            "val_size=4", "eval_strategy=steps", f"eval_steps={max(args.steps // PAGES, 1)}",
            f"output_dir={out}",
        ] + more  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(out, "train_results.json")) as found:
            self.runtime = json.load(found)["train_runtime"]
        with open(os.path.join(out, "model.safetensors"), "rb") as weights:
            self.digest = hashlib.sha256(weights.read()).hexdigest()
        with open(os.path.join(out, "trainer_log.jsonl")) as lines:
            logged = [json.loads(line) for line in lines]
        self.take_times([each for each in logged if "loss" in each], *trace)

    def take_times(self, logged, first, last):
        """Reads the times in the log's lines of steps. `first` and `last`: steps of the trace.
        The first step is a warm-up."""
        after = {True: [], False: []}  # whether there was an evaluation
        inside = {True: [], False: []}  # whether there was a trace
        for number, each in enumerate(logged, 1):
            evaluated = each["time/evaluation"] > 0
            if evaluated or number not in (1, last + 1):
                after[evaluated].append(each["time/other"])
            if number > 1:
                training = sum(value for key, value in each.items() if key in TRAINING)
                inside[first <= number <= last].append(training)
        self.step, self.page = statistics.median(after[False]), statistics.median(after[True])
        self.traced, self.untraced = (statistics.median(inside[key]) for key in (True, False))
        self.written = logged[last]["time/other"]

    def words(self, traced):
        shown = f"{self.runtime:7.2f} s; other, a step {1e3 * self.step:.2f} ms"
        shown += f", after an evaluation {1e3 * self.page:.1f} ms"
        if traced:
            shown += f"; a step traced {self.traced:.4f} s, not traced {self.untraced:.4f} s"
        return shown


def spread(values, form):
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{form} ({form} to {form})".format(middle, least, most)


def print_cost(args, runs):
    def more(part):
        on, off = ([getattr(run, part) for run in runs[name]] for name in ("on", "off"))
        return statistics.median(on) - statistics.median(off)

    every = [run for of in runs.values() for run in of]
    added = args.steps * more("step") + PAGES * more("page")
    share = added / statistics.median(run.runtime for run in every)
    ratios = [run.traced / run.untraced for run in runs["traced"]]
    written = [1e3 * run.written for run in runs["traced"]]
    print(f"reports: {100 * share:.3f} % of a run with {PAGES} evaluations")
    print(f"a traced step: {spread(ratios, '{:.4f}')} of one that is not")
    print(f"writing the trace: {spread(written, '{:.0f}')} ms, once")
    digests = {run.digest for run in every}
    print("weights:", "the same bytes in all" if len(digests) == 1 else "THEY DIFFER")


def main():
    args = arguments()
    first, last = args.steps // 3 + 1, args.steps // 3 * 2
    kinds = {"off": OFF, "on": ON, "traced": OFF + [f"trace={first}-{last}"]}
    runs = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as folder:
        talks(folder)
        for turn in range(args.rounds):
            for name, more in kinds.items():
                run = Run(args, folder, more, (first, last))
                runs[name].append(run)
                print(f"round {turn + 1}  {name:7} {run.words(name == 'traced')}", flush=True)
    print(f"{args.steps} steps of {args.tokens} tokens, {args.ranks} ranks, {args.rounds} rounds")
    for name, of in runs.items():
        print(
            f"{name:7} other, a step {spread([1e3 * run.step for run in of], '{:.2f}')} ms; "
            f"after an evaluation {spread([1e3 * run.page for run in of], '{:.1f}')} ms"
        )
    print_cost(args, runs)


if __name__ == "__main__":
    main()
