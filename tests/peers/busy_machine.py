#!/usr/bin/env python3
"""Step times on an idle machine and beside k processes that keep k cores busy, of one binary or of several in turn.

    busy_machine.py --moonring NAME=PATH [--moonring NAME=PATH ...] [--rounds 3] [--only tiny,smollm2]

T_fair = T_idle x max(1, (c + k) / cores) is what a machine that shares its cores evenly gives c computing threads beside k
busy ones. Prints a Markdown table: the mean step in seconds, the least over the rounds, and its ratio to T_fair. Binaries
take turns within a round, so that what else the machine does falls on all of them.
"""

import argparse
import multiprocessing
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "..", "golden", "families", "qwen3")
# name: model, tokens, steps
CASES = {"tiny": (TINY, 64, 200), "smollm2": ("builtin:smollm2", 1024, 2)}


def spin() -> None:
    while True:
        pass


def mean_step(binary: str, case: str, sp: int) -> float:
    model, tokens, steps = CASES[case]
    command = [binary] + (["-n", str(sp)] if sp > 1 else []) + [
        os.path.join(HERE, "step_times.lua"), f"model={model}", f"tokens={tokens}", f"steps={steps}", f"sp={sp}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moonring", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--sp", default="1,2")
    parser.add_argument("--busy", default="0,1,2,4")
    args = parser.parse_args()
    binaries = dict(each.split("=", 1) for each in args.moonring)
    cores = os.cpu_count()
    busy = [int(k) for k in args.busy.split(",")]
    print(f"| model | sp | busy | {' | '.join(f'{name}, s | / T_fair' for name in binaries)} |")
    print("|---|---|---|" + "---|---|" * len(binaries))
    for case in args.only.split(","):
        for sp in (int(each) for each in args.sp.split(",")):
            idle = {}
            for k in busy:
                hogs = [multiprocessing.Process(target=spin, daemon=True) for _ in range(k)]
                for hog in hogs:
                    hog.start()
                seconds = {name: [] for name in binaries}
                for _ in range(args.rounds):
                    for name, path in binaries.items():
                        seconds[name].append(mean_step(path, case, sp))
                for hog in hogs:
                    hog.kill()
                cells = []
                for name in binaries:
                    least = min(seconds[name])
                    idle.setdefault(name, least)
                    fair = idle[name] * max(1, (max(cores, sp) + k) / cores)
                    cells.append(f"{least:.4f} | {least / fair:.2f}")
                print(f"| {case} | {sp} | {k} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
