"""Compares two sets of tensors by name: relative Frobenius distance ||a - b|| / ||b||, in float64.

    compare_gradients.py A B [--base W0] [--tolerance 1e-5] [--worst 10]

A and B are .safetensors files or folders of them (sharded or not). With --base, the tensors of W0
are first subtracted from both: after one step of `optim: sgd` with learning rate 1 and without
clipping, the weights minus W0 are the negative gradients. Exits with 1 if a tensor differs by more
than --tolerance or is only in one set.
"""

import argparse
import glob
import os
import sys

from safetensors import safe_open


def tensors(path):
    files = (
        sorted(glob.glob(os.path.join(path, "model*.safetensors")))
        if os.path.isdir(path)
        else [path]
    )
    if not files:
        sys.exit(f"{path}: no model*.safetensors")
    return {key: f for f in (safe_open(name, "pt") for name in files) for key in f.keys()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--base")
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--worst", type=int, default=10)
    args = parser.parse_args()
    a, b, base = tensors(args.a), tensors(args.b), tensors(args.base) if args.base else None

    missing = sorted(set(a) ^ set(b))
    for name in missing:
        print(f"only in {args.a if name in a else args.b}: {name}")
    rows, difference, total = [], 0.0, 0.0
    for name in sorted(set(a) & set(b)):
        x, y = a[name].get_tensor(name).double(), b[name].get_tensor(name).double()
        if x.shape != y.shape:
            print(f"{name}: {tuple(x.shape)} against {tuple(y.shape)}")
            missing.append(name)
            continue
        if base is not None:
            w = base[name].get_tensor(name).double()
            x, y = x - w, y - w
        d, n = (x - y).norm().item(), y.norm().item()
        rows.append((d / n if n else (0.0 if d == 0 else float("inf")), n, name))
        difference, total = difference + d * d, total + n * n
    rows.sort(key=lambda r: (r[0] == r[0], -r[0]))
    for relative, norm, name in rows[: args.worst]:
        print(f"{relative:.3e}  norm {norm:.6e}  {name}")
    worst = rows[0][0] if rows else float("nan")
    print(
        f"{len(rows)} tensors, worst {worst:.3e}, all together "
        f"{(difference / total) ** 0.5 if total else float('nan'):.3e}"
    )
    if missing or not rows or (args.tolerance is not None and not worst <= args.tolerance):
        sys.exit(1)


if __name__ == "__main__":
    main()
