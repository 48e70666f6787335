#!/usr/bin/env python3
"""Compiles every kernel with nvcc for every supported GPU: none may spill a register.

Registers and sizes are printed. Skipped without a CUDA 13 toolkit (CUDA_HOME, or /usr/local/cuda).

Arguments: compile.sh, then the .cu files."""

import os
import re
import subprocess
import sys
import tempfile

ARCHITECTURES = {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120"}
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\d+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def toolkit() -> str | None:
    nvcc = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")
    if not os.path.exists(nvcc):
        print(f"SKIPPED: there is no {nvcc}")
        return None
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    if "release 13." not in said:
        print(f"SKIPPED: {nvcc} is not CUDA 13's: {said.splitlines()[-2]}")
        return None
    return nvcc


class Report:
    """Returns the output of ptxas for one source."""

    def __init__(self, text: str):
        self.kernels: dict[tuple[str, str], dict[str, int]] = {}
        at: dict[str, int] = {}
        for line in text.splitlines():
            if found := ENTRY.search(line):
                at = self.kernels.setdefault((found.group(1), found.group(2)), {})
            elif found := SPILLS.search(line):
                at["stack"], stores, loads = map(int, found.groups())
                at["spilled"] = stores + loads
            elif found := REGISTERS.search(line):
                at["registers"] = int(found.group(1))

    def faults(self) -> list[str]:
        faults = [
            f"{name} on {architecture} spills {numbers['spilled']} bytes"
            for (name, architecture), numbers in self.kernels.items()
            if numbers["spilled"] > 0
        ]
        of = {architecture for _, architecture in self.kernels}
        if of != ARCHITECTURES:
            faults.append(f"compiled for {sorted(of)}, expected {sorted(ARCHITECTURES)}")
        return faults


def fat_binary_bytes(path: str) -> int:
    said = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[1]) for line in said.splitlines() if "nv_fatbin" in line)


def compiled(compiler: str, nvcc: str, source: str, folder: str) -> tuple[Report, int]:
    name = os.path.basename(source)
    made, said = os.path.join(folder, name + ".o"), os.path.join(folder, name + ".ptxas")
    subprocess.run([compiler, nvcc, source, made, said], check=True)
    with open(said, encoding="utf-8") as file:
        return Report(file.read()), fat_binary_bytes(made)


def main() -> int:
    compiler, *sources = sys.argv[1:]
    assert sources, "no sources"
    nvcc = toolkit()
    if nvcc is None:
        return 0
    faults = []
    row = "{:<18}{:>9}  {:<34}{:>8}{:>12}"
    print(row.format("source", "kernels", "registers, least to most", "spills", "fat binary"))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        for source in sources:
            report, size = compiled(compiler, nvcc, source, folder)
            name = os.path.basename(source)
            faults += [f"{name}: {fault}" for fault in report.faults()]
            for architecture in sorted(ARCHITECTURES, key=lambda each: int(each[3:])):
                of = [n for (_, where), n in report.kernels.items() if where == architecture]
                if not of:
                    continue
                registers = sorted(numbers["registers"] for numbers in of)
                said = f"{architecture}: {registers[0]} to {registers[-1]}"
                spilled = sum(numbers["spilled"] for numbers in of)
                print(row.format(name, len(of), said, spilled, f"{size >> 10} KiB"))
                name = ""
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
