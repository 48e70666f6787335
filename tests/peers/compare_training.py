"""Compares a trainer_log.jsonl of `moonring train` with a golden run of LLaMA-Factory, step by
step.

    compare_training.py OUTPUT_DIR/trainer_log.jsonl tests/golden/train/NAME.json [--loss 5e-4]
        [--grad-norm 1e-3]

--loss is absolute, --grad-norm relative; learning rates and epochs must agree to 1e-9 relative.
Exits with 1 if one does not. The second file may also be another trainer_log.jsonl, to compare two
runs of Moonring (--relative then makes --loss relative too).
"""

import argparse
import json
import sys


def read(path):
    text = open(path).read()
    try:
        steps = json.loads(text)["steps"]
    except (ValueError, KeyError, TypeError):
        steps = [
            {"step": line["current_steps"], **line}
            for line in map(json.loads, text.splitlines())
            if line.get("loss") is not None
        ]
    return {s["step"]: s for s in steps}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log")
    parser.add_argument("golden")
    parser.add_argument("--loss", type=float, default=5e-4)
    parser.add_argument("--grad-norm", type=float, default=1e-3)
    parser.add_argument("--relative", action="store_true")
    args = parser.parse_args()
    ours, theirs, bad = read(args.log), read(args.golden), []
    if sorted(ours) != sorted(theirs):
        bad.append(f"steps {sorted(ours)} against {sorted(theirs)}")
    worst = {"loss": 0.0, "grad_norm": 0.0}
    for step in sorted(set(ours) & set(theirs)):
        a, b = ours[step], theirs[step]
        d = abs(a["loss"] - b["loss"]) / (abs(b["loss"]) if args.relative else 1.0)
        g = (
            abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"]
            if a.get("grad_norm") is not None and b.get("grad_norm") is not None
            else 0.0
        )
        worst = {"loss": max(worst["loss"], d), "grad_norm": max(worst["grad_norm"], g)}
        print(
            f"{step:4d}  loss {a['loss']:.7f} {b['loss']:.7f} {d:.2e}   grad_norm "
            f"{a.get('grad_norm')} {b.get('grad_norm')} {g:.2e}   lr {a['lr']:.6e} {b['lr']:.6e}"
        )
        if not d <= args.loss:
            bad.append(f"step {step}: loss")
        if not g <= args.grad_norm or (a.get("grad_norm") is None) != (b.get("grad_norm") is None):
            bad.append(f"step {step}: grad_norm")
        for key in ("lr", "epoch"):
            if not abs(a[key] - b[key]) <= 1e-9 * abs(b[key]) + 1e-15:
                bad.append(f"step {step}: {key} {a[key]} against {b[key]}")
    print(f"worst: loss {worst['loss']:.3e}, grad_norm {worst['grad_norm']:.3e}")
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
