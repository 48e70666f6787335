"""Checks each model family with tiny, random weights: its gradients on the device equal the CPU's,
in fp64, fp32 and bf16. This covers architecture-specific code on the device: linear attention,
experts, softcaps, windows, norms in other dtypes."""

import os

import diagnosis
from correctness import diagnosed, of_gradients
from processes import last_line
from table import FAIL, PASS, Row, is_number

TOKENS = 96
SIDES = (("reference", "cpu"), ("device", None))
DTYPES = (("fp64", ("fp64=true",)), ("fp32", ()), ("bf16", ("bf16=true",)))
# The allowed distance from fp64 on the CPU: the bound, or this many times the CPU's distance in the
# same dtype, because random models differ in how much they amplify rounding errors.
BOUNDS = {"fp64": (1e-10, 3), "fp32": (1e-5, 5), "bf16": (2e-2, 3)}


def probes(shop, names):
    """Starts all probes, at most one process per core at a time. Returns {(family, dtype, side):
    (process, out, gradients)}.
    """
    started = {}
    for name in names:
        for dtype, keys in DTYPES:
            for side, device in SIDES:
                running = [process for process, _, _ in started.values() if process.running()]
                shop.wait(running, until=lambda: count(running) < shop.cores)
                started[name, dtype, side] = shop.probe(
                    f"{name}-{dtype}-{side}",
                    family(shop, name),
                    TOKENS,
                    keys,
                    device,
                    threads=1,
                )
    return started


def count(processes):
    return sum(process.running() for process in processes)


def first_failure(started, name):
    """The first failed process of a family: (side and dtype, process); None if all succeeded."""
    for (family, dtype, side), (process, _, _) in started.items():
        if family == name and process.process.returncode != 0:
            return f"{side}, {dtype}", process
    return None


def families(shop):
    names = sorted(os.listdir(os.path.join(shop.pack, "families")))
    if shop.dry:
        names = names[:2]
    started = probes(shop, names)
    shop.wait([process for process, _, _ in started.values()])
    whole = [name for name in names if first_failure(started, name) is None]
    keys = [(name, dtype, side) for name in whole for dtype, _ in DTYPES for side, _ in SIDES]
    apart = shop.compare(
        *((started[key][2], started[key[0], "fp64", "reference"][2]) for key in keys)
    )
    distance = dict(zip(keys, apart))
    for name in names:
        failed = first_failure(started, name)
        if failed is not None:
            where, process = failed
            remark = f"{where}: {last_line(process.text)}"
            row = Row(f"family {name}", FAIL, got="ended", tokens=TOKENS, remark=remark)
            yield diagnosed(row, lambda: diagnosis.of_process(shop, process))
            continue
        got = [distance[name, dtype, "device"]["error"] for dtype in BOUNDS]
        own = [distance[name, dtype, "reference"]["error"] for dtype in BOUNDS]
        wanted = [max(floor, factor * cpu) for (floor, factor), cpu in zip(BOUNDS.values(), own)]
        wrong = [
            dtype
            for dtype, each, bound in zip(BOUNDS, got, wanted)
            if not (is_number(each) and each <= bound)
        ]
        row = Row(
            f"family {name}",
            FAIL if wrong else PASS,
            tokens=TOKENS,
            got=numbers(got),
            wanted="<= " + numbers(wanted),
            remark=f"gradients in {', '.join(BOUNDS)} from the CPU's in fp64; the CPU's own: "
            f"{numbers(own)}",
        )
        shown = wrong[0] if wrong else "fp64"
        found, folder = distance[name, shown, "device"], family(shop, name)
        yield of_gradients(shop, row, found, folder, TOKENS, dict(DTYPES)[shown])


def family(shop, name):
    return os.path.join(shop.pack, "families", name)


def numbers(values):
    return ", ".join(f"{value:.0e}" if is_number(value) else str(value) for value in values)
