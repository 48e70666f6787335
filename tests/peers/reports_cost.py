"""What watching a run costs: the same training with every report off, with every report but traces
on, and with its steps traced. Time in turns, and the weights, which have to be the same bytes.

    reports_cost.py --moonring PATH [--model builtin:smollm2] [--steps 20] [--rounds 3] [--ranks 1]

Two sources of time: `train_runtime` of train_results.json, evaluations and pages included, and the
CPU seconds of the process from its start, which a machine with other work disturbs less. Prints the
least of each over the rounds and its ratio to the run with nothing on.
"""

import argparse
import hashlib
import json
import os
import resource
import shutil
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


def arguments():
    read = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    read.add_argument("--moonring", required=True)
    read.add_argument("--model", default="builtin:smollm2")
    read.add_argument("--template", default="smollm2")
    read.add_argument("--steps", type=int, default=20)
    read.add_argument("--rounds", type=int, default=3)
    read.add_argument("--ranks", type=int, default=1)
    read.add_argument("--tokens", type=int, default=512)
    return read.parse_args()


def talks(folder):
    """64 conversations of 20 to 200 words."""
    words = "the harbour waits for a copper bell while an old map hides seven stones".split()
    rows = []
    for i in range(64):
        answer = " ".join(words[(i * 5 + j * j) % len(words)] for j in range(20 + 37 * i % 180))
        rows.append({"instruction": f"What of number {i}?", "output": answer})
    with open(os.path.join(folder, "talks.json"), "w") as out:
        json.dump(rows, out)
    with open(os.path.join(folder, "dataset_info.json"), "w") as out:
        json.dump({"talks": {"file_name": "talks.json"}}, out)


def run(args, folder, name, more):
    out = os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    command = [
        args.moonring, "-n", str(args.ranks), "train", f"model_name_or_path={args.model}",
        f"dataset_dir={folder}", "dataset=talks", f"template={args.template}", "stage=sft",
        "finetuning_type=full", f"cutoff_len={args.tokens}", "packing=true",
        "per_device_train_batch_size=1", f"max_steps={args.steps}", "learning_rate=1e-5",
        f"sequence_parallel_size={args.ranks}", "logging_steps=1", "save_strategy=no",
        "val_size=4", "eval_strategy=steps", f"eval_steps={max(args.steps // 2, 1)}",
        f"output_dir={out}",
    ] + more  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(out, "train_results.json")) as found:
        wall = json.load(found)["train_runtime"]
    with open(os.path.join(out, "model.safetensors"), "rb") as weights:
        digest = hashlib.sha256(weights.read()).hexdigest()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, digest


def main():
    args = arguments()
    kinds = {
        "all off": OFF,
        "all on but traces": ON,
        "all off, every step traced": OFF + [f"trace=1-{args.steps}"],
    }
    found = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as folder:
        talks(folder)
        for _ in range(args.rounds):
            for name, more in kinds.items():
                found[name].append(run(args, folder, name.replace(" ", "-"), more))
    digests = {each[2] for runs in found.values() for each in runs}
    base = [min(each[i] for each in found["all off"]) for i in range(2)]
    print(f"{args.steps} steps, {args.ranks} ranks, the least of {args.rounds} rounds")
    for name, runs in found.items():
        wall, cpu = (min(each[i] for each in runs) for i in range(2))
        spread = max(each[0] for each in runs) / wall
        print(
            f"{name:28} {wall:8.2f} s {wall / base[0]:.4f}  CPU {cpu:8.2f} s {cpu / base[1]:.4f}"
            f"  slowest round {spread:.3f} of it"
        )
    print("weights:", "the same bytes in all" if len(digests) == 1 else "THEY DIFFER")


if __name__ == "__main__":
    main()
