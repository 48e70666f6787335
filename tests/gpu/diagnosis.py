"""What a failed row leaves, so that the fault can be fixed without another look at the machine:
where two results part, and in what a process ended.
"""

import os

import inputs
from processes import Failed, Overdue, last_line

# Operators that a process that failed is asked for when it is run again.
OPERATORS = 40
# A layer after which two streams are so many times as far apart as before it is where they part.
PARTING = 20


def worst_number(found):
    """In words, of what `measure compare` says of two files."""
    return (
        f"worst in {found['name']}: {found['worst']:.1e}; element {found['at']}: "
        f"{found['got']:.6g}, wanted {found['want']:.6g}"
    )


def parting_layer(shop, model, tokens, keys):
    """After which layer the device's stream parts from the CPU's, in words. The tokens are those of
    `probe` (inputs.write_probe, seed 3).
    """
    folder = shop.fresh("layers")
    os.makedirs(folder)
    given = os.path.join(folder, "in.json")
    inputs.write_probe(given, tokens, inputs.vocabulary_of(model))
    out = {
        device: os.path.join(folder, f"{device}-streams.safetensors")
        for device in ("reference", "device")
    }
    started = [
        shop.start(
            shop.moonring(
                "cpu" if side == "reference" else shop.device,
                1,
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.lua"),
                f"model_name_or_path={model}",
                f"input={given}",
                f"out={path}",
                *keys,
            )
        )
        for side, path in out.items()
    ]
    shop.wait(started)
    for process in started:
        process.check()
    errors = shop.measure("compare", out["device"], out["reference"])[0]["each"]
    names = sorted(name for name in errors if name.startswith("layer ")) + ["norm"]
    before = None
    for name in names:
        error = errors[name]
        if before is not None and error > PARTING * max(before, 1e-12):
            return f"streams part at {name}: {error:.1e} apart, {before:.1e} before it"
        before = error
    return "streams of layers part nowhere: " + ", ".join(
        f"{name} {errors[name]:.0e}" for name in (names[0], names[-2], names[-1])
    )


def of_process(shop, process):
    """What a process says that has failed, run once more with each kernel awaited and the last
    operators kept; [line, ...].
    """
    if process.process.returncode == 0:
        return []
    lines = [f"exit {process.process.returncode}: {last_line(process.text)}"]
    again = shop.start(
        process.command, CUDA_LAUNCH_BLOCKING="1", MOONRING_LAST_OPERATORS=str(OPERATORS)
    )
    try:
        shop.wait([again])
    except Overdue as why:
        return lines + [f"again: {why}"]
    said = [line for line in again.text.splitlines() if line.strip()]
    return lines + ["again, with each kernel awaited:"] + said[-OPERATORS - 12 :]


def last_words(process, most=20):
    """The end of what a process that was cut off had said."""
    said = [line for line in (process.text or "").splitlines() if line.strip()]
    return [f"cut off: {' '.join(process.command)}"] + said[-most:]


def first_part(got, want, bound):
    """The first step at which two runs' numbers are further apart than `bound`, in words."""
    for step in sorted(want):
        if step not in got:
            return f"step {step} is missing"
        if not abs(got[step] - want[step]) <= bound * abs(want[step]):
            return f"first apart at step {step}: {got[step]:.9g}, wanted {want[step]:.9g}"
    return "apart nowhere"


def tried(make):
    """What `make` says, or why it says nothing: a diagnosis takes no row down."""
    try:
        found = make()
    except (Failed, Overdue, OSError, KeyError, ValueError) as why:
        return [f"no diagnosis: {type(why).__name__}: {why}"]
    return found if isinstance(found, list) else [found]
