"""Compares `moonring probe` with every golden case of a folder of models (tests/golden/families, or
another folder that its make.py wrote).

    compare_families.py --moonring BINARY [FOLDER] [--only NAME,...] [-n RANKS] [--mode MODE]
        [--tolerances 1e-5 1e-4 1e-4] [key=value ...]

Prints for each case: the relative difference of the loss; the worst one of logits and logsumexp (|a
- b| / max(1, |b|)); and the worst tensor's gradient difference ||a - b|| / ||b|| (by its sketch)
with its name (without gradients in the golden file: the difference of norms, marked ~). A tensor
whose gradient is below 1e-7 of the total is compared with that. With -n, RANKS ranks share the
sequence; key=value is passed to probe (for example fp64=true). A case with moe_aux_loss_coef is run
with it. Exits with 1 if a difference exceeds its tolerance, a tensor is missing or unexpected, or a
run fails.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "golden"))
import sketch  # noqa: E402


def gradient_difference(got, case):
    """Returns (difference, tensor) of the worst tensor, and the names that only one side has."""
    norms, floor = case["output"]["grad_norm"], 1e-7 * case["output"]["grad_norm_total"]
    if "gradients" in case:
        want = case["gradients"]
        assert set(want) == set(norms)
        same_shape = {key for key in want if key in got and [*got[key].shape] == want[key]["shape"]}
        rows = [
            (sketch.distance(key, got[key], want[key]) / max(norms[key], floor), key)
            for key in same_shape
        ]
        wrong = [
            f"{key} has the shape {tuple(got[key].shape)}"
            for key in want
            if key in got and key not in same_shape
        ]
    else:
        rows = [
            (abs(got[key].double().norm().item() - norm) / max(norm, floor), "~ " + key)
            for key, norm in norms.items()
            if key in got
        ]
        wrong = []
    wrong += [f"no {key}" for key in norms if key not in got] + [
        f"also {key}" for key in got if key not in norms
    ]
    return max(rows, key=lambda row: (row[0] != row[0], row[0]), default=(float("nan"), "")), wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--only", type=lambda names: names.split(","), metavar="NAME,...")
    parser.add_argument("-n", type=int, default=1, metavar="RANKS")
    parser.add_argument("--mode", metavar="MODE", help="sequence_parallel_mode")
    parser.add_argument(
        "--tolerances",
        type=float,
        nargs=3,
        default=[1e-5, 1e-4, 1e-4],
        metavar=("LOSS", "LOGITS", "GRADIENTS"),
    )
    parser.add_argument("words", nargs="*", metavar="FOLDER or key=value")
    args = parser.parse_intermixed_args()
    folders = [word for word in args.words if "=" not in word] or [
        os.path.join(HERE, "..", "golden", "families")
    ]
    more = [word for word in args.words if "=" in word]
    failures, ran = 0, 0
    print(f"{'':26} {'loss':>8} {'logits':>8} {'gradient':>8}")
    for folder in folders:
        for model in sorted(os.listdir(folder)):
            path = os.path.join(folder, model)
            if not os.path.exists(os.path.join(path, "golden.json")) or (
                args.only and model not in args.only
            ):
                continue
            for case in json.load(open(os.path.join(path, "golden.json")))["cases"]:
                ran += 1
                with tempfile.TemporaryDirectory() as scratch:
                    files = {
                        key: os.path.join(scratch, key)
                        for key in ("input.json", "out.json", "grads.safetensors")
                    }
                    with open(files["input.json"], "w") as f:
                        json.dump(case["input"], f)
                    command = [os.path.abspath(args.moonring)] + (
                        ["-n", str(args.n)] if args.n > 1 else []
                    )
                    command += [
                        "probe",
                        f"model_name_or_path={os.path.abspath(path)}",
                        f"input={files['input.json']}",
                        f"out={files['out.json']}",
                        f"grads={files['grads.safetensors']}",
                    ]
                    command += [f"sequence_parallel_size={args.n}"] if args.n > 1 else []
                    command += [f"sequence_parallel_mode={args.mode}"] if args.mode else []
                    command += (
                        [f"moe_aux_loss_coef={case['moe_aux_loss_coef']}"]
                        if "moe_aux_loss_coef" in case
                        else []
                    )
                    done = subprocess.run(
                        command + more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                    )
                    label = f"{model} {case['name']}"
                    if done.returncode:
                        failures += 1
                        said = done.stdout.strip().splitlines()[-1:]
                        print(f"{label:26} exit {done.returncode}: {''.join(said)}", flush=True)
                        continue
                    got, want = json.load(open(files["out.json"])), case["output"]
                    (gradient, where), wrong = gradient_difference(
                        load_file(files["grads.safetensors"]), case
                    )
                loss = abs(got["loss"] - want["loss"]) / abs(want["loss"])
                pairs = [
                    (a, b)
                    for x, y in zip(got["logits"], want["logits"], strict=True)
                    for a, b in zip(x, y, strict=True)
                ]
                pairs += list(zip(got["logsumexp"], want["logsumexp"], strict=True))
                differences = [abs(a - b) / max(1.0, abs(b)) for a, b in pairs]
                logits = next((d for d in differences if d != d), max(differences))
                bad = wrong or not all(
                    d <= tolerance
                    for d, tolerance in zip((loss, logits, gradient), args.tolerances)
                )
                failures += bool(bad)
                print(
                    f"{label:26} {loss:8.1e} {logits:8.1e} {gradient:8.1e} "
                    f"{where}{'  BEYOND' if bad else ''}",
                    flush=True,
                )
                for line in wrong:
                    print(f"{'':26} {line}")
    print(f"{ran} cases, {failures} beyond the tolerances or failed")
    sys.exit(1 if failures or not ran else 0)


if __name__ == "__main__":
    main()
