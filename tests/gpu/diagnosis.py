"""Additional information for a failed row, so that the fault can be fixed without access to the
machine: where two results diverge, and in what a process ended.
"""

import os

from processes import Failed, Overdue, last_line

HERE = os.path.dirname(os.path.abspath(__file__))
# The number of operators, before the failure, that a failed process reports when it is run again.
OPERATORS = 40
# The hidden states of two runs count as diverging at a layer in which their difference grows by
# this factor.
PARTING = 20


def worst_number(found):
    """Describes the result of `measure compare` for two files."""
    return (
        f"worst in {found['name']}: {found['worst']:.1e}; element {found['at']}: "
        f"{found['got']:.6g}, expected {found['want']:.6g}"
    )


def parting_layer(shop, model, tokens, keys):
    """Describes the layer after which the device's hidden states diverge from the CPU's. The tokens
    are those of `probe` (inputs.write_probe, seed 3).
    """
    folder, given = shop.probe_input("layers", model, tokens)
    paths = [os.path.join(folder, f"{side}.safetensors") for side in ("device", "reference")]
    started = [
        shop.start(
            shop.moonring(
                device,
                1,
                os.path.join(HERE, "layers.lua"),
                f"model_name_or_path={model}",
                f"input={given}",
                f"out={path}",
                *keys,
            )
        )
        for device, path in zip((shop.device, "cpu"), paths)
    ]
    shop.wait(started)
    for process in started:
        process.check()
    errors = shop.compare(paths)[0]["each"]
    names = sorted(name for name in errors if name.startswith("layer ")) + ["norm"]
    before = None
    for name in names:
        error = errors[name]
        # `not <=`, so that NaN counts as a difference.
        if before is not None and not error <= PARTING * max(before, 1e-12):
            return f"streams part at {name}: {error:.1e} apart, {before:.1e} before it"
        before = error
    return "streams of layers part nowhere: " + ", ".join(
        f"{name} {errors[name]:.0e}" for name in (names[0], names[-2], names[-1])
    )


def of_process(shop, process):
    """Runs a failed process once more, synchronizing after each kernel and recording the last
    operators, and returns its output lines."""
    if process.process.returncode == 0:
        return []
    lines = [f"exit {process.process.returncode}: {last_line(process.text)}"]
    # Otherwise the run would reject its output folder, which already exists.
    words = ["overwrite_output_dir=true"] if "train" in process.command else []
    again = shop.start(
        [*process.command, *words],
        CUDA_LAUNCH_BLOCKING="1",
        MOONRING_LAST_OPERATORS=str(OPERATORS),
    )
    try:
        shop.wait([again])
    except Overdue as why:
        return lines + [f"again: {why}"]
    said = [line for line in again.text.splitlines() if line.strip()]
    return lines + ["again, with each kernel awaited:"] + said[-OPERATORS - 12 :]


def last_words(process, most=20):
    """The end of the output of a process that was stopped."""
    said = [line for line in (process.text or "").splitlines() if line.strip()]
    return [f"cut off: {' '.join(process.command)}"] + said[-most:]


def first_part(got, want, bound):
    """Describes the first step at which two runs' numbers differ by more than `bound`."""
    for step in sorted(want):
        if got.get(step) is None or want[step] is None:
            return f"step {step} has no number"
        if not abs(got[step] - want[step]) <= bound * abs(want[step]):
            return f"first apart at step {step}: {got[step]:.9g}, expected {want[step]:.9g}"
    return "apart nowhere"


def tried(make):
    """Returns the result of `make`, or the reason why it failed: a diagnosis must not make a row
    fail."""
    try:
        found = make()
    except (Failed, Overdue, OSError, KeyError, ValueError) as why:
        return [f"no diagnosis: {type(why).__name__}: {why}"]
    return found if isinstance(found, list) else [found]
