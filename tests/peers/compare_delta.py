"""The gated delta rule of one layer by length: Moonring on 1, 2 and 4 ranks, Transformers'
torch_chunk_gated_delta_rule, and Moonring's softmax attention with the same heads.

    compare_delta.py --moonring PATH [--tokens 1024,4096] [--rounds 3]

4 key and 8 value heads of dim 64 (Qwen3-Next's proportions), fp32, forward and backward, one thread
per rank; needs Transformers 5. All run alternately, `rounds` times, and the best times are printed.
If there are more ranks than cores, wall times are meaningless; CPU seconds are printed for all
ranks. Memory is the increase of a rank at its peak. A length is skipped if the memory that
Transformers took for the previous one shows that it does not fit.

`sent` is the number of bytes that all ranks send forward and backward; if it differs from
moonring.mixing.cost, the script ends with an error.
"""

import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KEY_HEADS, VALUE_HEADS, DIM = 4, 8, 64
MODES = [(1, "auto")] + [(sp, mode) for sp in (2, 4) for mode in ("heads", "spans", "relay")]


def read_status(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024


def theirs(tokens, repeats):
    import time

    import torch
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    torch.set_num_threads(1)

    def leaf(x):
        return x.requires_grad_()

    q, k = (leaf(torch.randn(1, tokens, KEY_HEADS, DIM)) for _ in range(2))
    v = leaf(torch.randn(1, tokens, VALUE_HEADS, DIM))
    g = leaf(-torch.rand(1, tokens, VALUE_HEADS))
    beta = leaf(torch.rand(1, tokens, VALUE_HEADS))
    gradient = torch.randn(1, tokens, VALUE_HEADS, DIM)
    result = {"seconds": 1e9, "cpu_seconds": 1e9, "peak_bytes": 0}
    for _ in range(repeats):
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        there, began, cpu = read_status("VmRSS"), time.perf_counter(), time.process_time()
        out, _ = torch_chunk_gated_delta_rule(
            q, k, v, g, beta, use_qk_l2norm_in_kernel=True, output_final_state=False
        )
        torch.autograd.grad(out, (q, k, v, g, beta), gradient)
        result["seconds"] = min(result["seconds"], time.perf_counter() - began)
        result["cpu_seconds"] = min(result["cpu_seconds"], time.process_time() - cpu)
        result["peak_bytes"] = max(result["peak_bytes"], read_status("VmHWM") - there)
        del out
    print(json.dumps(result))


def run(command):
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{command}: exit {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def available_bytes():
    with open("/proc/meminfo") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024


def least(rounds):
    return {
        "seconds": min(each["seconds"] for each in rounds),
        "cpu_seconds": min(each["cpu_seconds"] for each in rounds),
        "peak_bytes": max(each["peak_bytes"] for each in rounds),
        **{key: rounds[0][key] for key in ("bytes", "counted") if key in rounds[0]},
    }


def measure(args, tokens, with_theirs):
    ours = [args.moonring, os.path.join(HERE, "delta_times.lua"), f"tokens={tokens}", "repeats=1"]
    commands = {"softmax": ours + ["kind=softmax"]} if tokens <= args.softmax else {}
    for sp, mode in MODES:
        commands[sp, mode] = ours + [f"sp={sp}", f"mode={mode}"]
    if with_theirs:
        commands["theirs"] = [sys.executable, __file__, "--theirs", str(tokens)]
    rounds = {name: [] for name in commands}
    for _ in range(args.rounds):
        for name, command in commands.items():
            rounds[name].append(run(command))
    return {name: least(each) for name, each in rounds.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", help="the host binary")
    parser.add_argument("--tokens", default="1024,4096,16384,65536", help="lengths, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--softmax", type=int, default=16384, help="the longest that softmax takes part in"
    )
    parser.add_argument("--theirs", type=int, metavar="TOKENS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.theirs:
        theirs(args.theirs, repeats=1)
        return
    args.moonring = os.path.abspath(args.moonring)
    print(
        f"{'tokens':>6} {'what':18} {'s':>8} {'CPU s':>8} {'a rank':>8} {'MiB':>7} "
        f"{'CPU/theirs':>10} {'MiB/theirs':>10} {'CPU/softmax':>11} {'sent MB':>8} {'counted':>8}"
    )
    before = None
    for tokens in [int(n) for n in args.tokens.split(",")]:
        wanted = before and 1.2 * before[1] * tokens / before[0]
        fits = not wanted or wanted < available_bytes()
        found = measure(args, tokens, fits)
        peer, softmax = found.get("theirs"), found.get("softmax")
        if peer:
            before = tokens, peer["peak_bytes"]
        else:
            print(f"{tokens:>6} theirs: left out, it would take {wanted / 2**30:.0f} GiB")
        for name, each in found.items():
            sp = name[0] if isinstance(name, tuple) else 1
            if each.get("bytes", 0) != each.get("counted", each.get("bytes", 0)):
                sys.exit(f"{name}: sent {each['bytes']} bytes, counted {each['counted']}")
            label = f"sp {sp} {name[1] if sp > 1 else ''}" if isinstance(name, tuple) else name
            beside = f"{each['cpu_seconds'] / softmax['cpu_seconds']:.2f}" if softmax else "-"
            print(
                f"{tokens:>6} {label:18} {each['seconds']:8.3f} {each['cpu_seconds']:8.3f} "
                f"{each['cpu_seconds'] / sp:8.3f} {each['peak_bytes'] / 2**20:7.0f} "
                + (
                    f"{each['cpu_seconds'] / peer['cpu_seconds']:10.2f} "
                    f"{each['peak_bytes'] / peer['peak_bytes']:10.2f} "
                    if peer
                    else f"{'-':>10} {'-':>10} "
                )
                + f"{beside:>11} {each.get('bytes', 0) / 1e6:8.2f} "
                + f"{each.get('counted', 0) / 1e6:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
