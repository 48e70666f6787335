"""Reads the times of a step's kernels from the output of NVIDIA's profilers."""

import csv
import io
import re

KINDS = (
    ("attention", re.compile(r"flash|fmha|attention", re.I)),
    ("matmul", re.compile(r"gemm|cutlass|xmma|nvjet|cublas|wgmma", re.I)),
)


def rows_from(text, header):
    """Returns the rows of a CSV text after the header line, which contains `header`."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if header in line and "," in line), None)
    return [] if first is None else list(csv.DictReader(io.StringIO("\n".join(lines[first:]))))


def from_nsys(text):
    """Parses the output of `nsys stats --report cuda_gpu_kern_sum --format csv` to [(name, seconds,
    calls)]."""
    return [
        (row["Name"], float(row["Total Time (ns)"]) * 1e-9, int(row["Instances"]))
        for row in rows_from(text, "Total Time (ns)")
        if row.get("Name")
    ]


def from_ncu(text):
    """Parses the output of `ncu --csv --page raw --print-units base --metrics
    gpu__time_duration.sum` to [(name, seconds, calls)]. It has one row per launch, after a row of
    units."""
    found = {}
    for row in rows_from(text, "Kernel Name"):
        try:
            nanoseconds = float(row["gpu__time_duration.sum"].replace(",", ""))
        except (KeyError, AttributeError, ValueError):
            continue  # the row of units
        seconds, calls = found.get(row["Kernel Name"], (0.0, 0))
        found[row["Kernel Name"]] = (seconds + nanoseconds * 1e-9, calls + 1)
    return [(name, seconds, calls) for name, (seconds, calls) in found.items()]


def kind_of(name):
    return next((kind for kind, pattern in KINDS if pattern.search(name)), "other")


def shares(kernels):
    """Returns {kind: share of the seconds}."""
    total = sum(seconds for _, seconds, _ in kernels)
    return {
        kind: sum(seconds for name, seconds, _ in kernels if kind_of(name) == kind) / total
        for kind in ("matmul", "attention", "other")
    }


def listing(kernels, most=40):
    total = sum(seconds for _, seconds, _ in kernels)
    ordered = sorted(kernels, key=lambda kernel: -kernel[1])
    lines = [
        f"{100 * seconds / total:6.2f} % {1e3 * seconds:10.3f} ms {calls:7d} x  {name[:160]}"
        for name, seconds, calls in ordered[:most]
    ]
    return "\n".join(
        [f"{1e3 * total:.3f} ms in {sum(calls for _, _, calls in kernels)} kernels", *lines, ""]
    )
