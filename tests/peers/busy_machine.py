#!/usr/bin/env python3
"""Measures step times on an idle machine, and while k processes keep k cores busy, of one or
several binaries.

    busy_machine.py --moonring NAME=PATH [--moonring NAME=PATH ...] [--rounds 3]
        [--only tiny,smollm2]

T_fair = T_idle x max(1, (c + k) / cores) is the step time of c computing threads next to k busy
processes on a machine that shares its cores evenly. c is counted in a run on the idle machine: the
threads of all ranks that use more than a tenth of the busiest thread's user time in the second half
of the run. Prints a Markdown table: the mean step in seconds (the least over the rounds), c, and
the ratio to T_fair. Binaries run alternately in each round, so that other work affects all of them.
"""

import argparse
import multiprocessing
import os
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "..", "golden", "families", "qwen3")
# name: model, tokens, steps
CASES = {"tiny": (TINY, 64, 200), "smollm2": ("builtin:smollm2", 1024, 2)}


def spin() -> None:
    while True:
        pass


def command_of(binary: str, case: str, sp: int) -> list[str]:
    model, tokens, steps = CASES[case]
    return (
        [binary]
        + (["-n", str(sp)] if sp > 1 else [])
        + [
            os.path.join(HERE, "step_times.lua"),
            f"model={model}",
            f"tokens={tokens}",
            f"steps={steps}",
            f"sp={sp}",
        ]
    )


def mean_step(binary: str, case: str, sp: int) -> float:
    command = command_of(binary, case, sp)
    return float(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]
    )


def stat(path: str) -> list[str]:
    """Returns the fields of a /proc stat file after the name, which may contain any character;
    empty if the process has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def family(root: int) -> set[int]:
    """Returns a process and all its descendants."""
    parents = {
        int(name): int((stat(f"/proc/{name}/stat") or ["", "0"])[1])
        for name in os.listdir("/proc")
        if name.isdigit()
    }
    found, more = set(), {root}
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in found} - found
    return found


def computing_threads(binary: str, case: str, sp: int) -> int:
    used, samples = {}, []  # (process, thread) -> user time so far, in ticks
    command = command_of(binary, case, sp)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        for pid in family(process.pid):
            try:
                threads = os.listdir(f"/proc/{pid}/task")
            except OSError:  # it has ended
                continue
            for thread in threads:
                fields = stat(f"/proc/{pid}/task/{thread}/stat")
                if fields:
                    used[pid, thread] = int(fields[11])
        samples.append(dict(used))
        time.sleep(0.05)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    begun = samples[len(samples) // 2]  # the first half loads libraries and weights
    ticks = [total - begun.get(thread, 0) for thread, total in used.items()]
    return max(1, sum(10 * each > max(ticks) for each in ticks))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--sp", default="1,2")
    parser.add_argument("--busy", default="0,1,2,4")
    args = parser.parse_args()
    binaries = dict(each.split("=", 1) for each in args.moonring)
    cores = os.cpu_count()
    busy = [int(k) for k in args.busy.split(",")]
    print(f"| model | sp | busy | {' | '.join(f'{name}, s | c | / T_fair' for name in binaries)} |")
    print("|---|---|---|" + "---|---|---|" * len(binaries))
    for case in args.only.split(","):
        for sp in (int(each) for each in args.sp.split(",")):
            idle = {}
            threads = {name: computing_threads(path, case, sp) for name, path in binaries.items()}
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
                    fair = idle[name] * max(1, (threads[name] + k) / cores)
                    cells.append(f"{least:.4f} | {threads[name]} | {least / fair:.2f}")
                print(f"| {case} | {sp} | {k} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
