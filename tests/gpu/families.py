"""Each family of models, tiny, with random weights: its gradients on the device are the CPU's, in
fp64, fp32 and bf16. Here whatever an architecture has of its own meets the device: linear
attention, experts, soft caps, windows, norms of other dtypes.
"""

import os

from correctness import compared
from processes import last_line
from table import FAIL, PASS, Row

TOKENS = 96
SIDES = (("reference", "cpu"), ("device", None))
DTYPES = (("fp64", ("fp64=true",)), ("fp32", ()), ("bf16", ("bf16=true",)))
# How far from fp64 on the CPU: the bound, or so many times what the CPU is in the same dtype, since
# random models differ in how far they carry a rounding.
BOUNDS = {"fp64": (1e-10, 3), "fp32": (1e-5, 5), "bf16": (2e-2, 3)}


def probes(shop, names):
    """{(family, dtype, side): (process, out, gradients)}, a process a core at a time."""
    started = {}
    for name in names:
        folder = os.path.join(shop.pack, "families", name)
        for dtype, keys in DTYPES:
            for side, device in SIDES:
                running = [process for process, _, _ in started.values() if process.running()]
                shop.wait(running, until=lambda: count(running) < shop.cores)
                started[name, dtype, side] = shop.probe(
                    f"{name}-{dtype}-{side}", folder, TOKENS, keys, device, threads=1
                )
    return started


def count(processes):
    return sum(process.running() for process in processes)


def ended(started, name):
    """Of the family's processes the first that failed, in its words; None where all are there."""
    for (family, dtype, side), (process, _, _) in started.items():
        if family == name and process.process.returncode != 0:
            return f"{side}, {dtype}: {last_line(process.text)}"
    return None


def families(shop):
    names = sorted(os.listdir(os.path.join(shop.pack, "families")))
    if shop.dry:
        names = names[:2]
    started = probes(shop, names)
    shop.wait([process for process, _, _ in started.values()])
    whole = [name for name in names if ended(started, name) is None]
    keys = [(name, dtype, side) for name in whole for dtype, _ in DTYPES for side, _ in SIDES]
    apart = compared(
        shop, *((started[key][2], started[key[0], "fp64", "reference"][2]) for key in keys)
    )
    distance = dict(zip(keys, apart))
    for name in names:
        why = ended(started, name)
        if why is not None:
            yield Row(f"family {name}", FAIL, got="ended", tokens=TOKENS, remark=why)
            continue
        got = [distance[name, dtype, "device"] for dtype in BOUNDS]
        own = [distance[name, dtype, "reference"] for dtype in BOUNDS]
        wanted = [max(floor, factor * cpu) for (floor, factor), cpu in zip(BOUNDS.values(), own)]
        good = all(each <= bound for each, bound in zip(got, wanted))
        yield Row(
            f"family {name}",
            PASS if good else FAIL,
            tokens=TOKENS,
            got=numbers(got),
            wanted="<= " + numbers(wanted),
            remark=f"gradients in {', '.join(BOUNDS)} from the CPU's in fp64; the CPU's own: "
            f"{numbers(own)}",
        )


def numbers(values):
    return ", ".join(f"{value:.0e}" for value in values)
