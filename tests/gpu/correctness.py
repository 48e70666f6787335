"""Checks of the numerical results. Each check is a generator of rows (checks.py).

On a device everything is computed twice: on the device, and by the same code on the CPU. The CPU's
gradients are computed on that machine, its training losses when packing (references). A dry run
uses the CPU on both sides.
"""

import math
import os
import shutil

import diagnosis
import workshop
from processes import Failed, last_line
from table import PASS, FAIL, Row, at_most, skipped
from workshop import ONE_CARD, Training, read_json

MODES = ("zigzag-ring", "ulysses", "all-gather")


def worst_difference(got, want):
    """The maximum over steps of |a - b| / |b|; NaN if a value is NaN; infinite if the steps differ,
    there are none, or a value is missing.
    """
    if not want or sorted(got) != sorted(want) or None in (*got.values(), *want.values()):
        return math.inf
    differences = [abs(got[step] - want[step]) / abs(want[step]) for step in want]
    return math.nan if any(math.isnan(each) for each in differences) else max(differences)


def relative(got, want):
    """||a - b|| / ||b|| of nested lists of numbers."""

    def flat(value):
        return (
            [number for each in value for number in flat(each)]
            if isinstance(value, list)
            else [value]
        )

    a, b = flat(got), flat(want)
    if len(a) != len(b) or any(each is None for each in a + b):
        return math.inf
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b))


# The machine


def machine(shop):
    if shop.dry:
        yield skipped("GPU", "dry run: no GPU is asked")
        return
    name = "there is no nvidia-smi"
    if shutil.which("nvidia-smi"):
        asked = shop.start(
            ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        )
        shop.wait([asked])
        name = last_line(asked.text)
    yield Row(
        "GPU", PASS if shop.gpus > 0 else FAIL, got=f"{shop.gpus} seen", wanted=">= 1", remark=name
    )


def ceilings(shop):
    """Measured rates of matrix products and copies. Error bounds: a bf16 result is rounded once,
    relative error 2^-9 at most; an fp32 result is a sum of `size` terms.
    """
    for dtype, size, bound in (
        ("bf16", shop.sizes.matmul, 4e-3),
        ("fp32", shop.sizes.matmul // 2, 1e-5),
    ):
        found = shop.measure("matmul", f"device={shop.device}", f"dtype={dtype}", f"size={size}")
        row = at_most(
            f"matmul {dtype}",
            found["error"],
            bound,
            remark=f"{size} squared; the error is of some rows against fp64",
        )
        row.remark = f"{found['flops_per_second'] / 1e12:.3g} TFLOP/s; " + row.remark
        shop.note_ceiling(f"product {dtype}", found["flops_per_second"])
        if dtype == "bf16":
            row.ceiling = 1.0
        yield row
    found = shop.measure("copy", f"device={shop.device}", f"bytes={shop.sizes.copy_bytes}")
    shop.note_ceiling("bytes", found["device"])
    speeds = ", ".join(
        f"{words} {found[key] / 1e9:.4g} GB/s"
        for words, key in (
            ("on the device", "device"),
            ("to it", "to_device"),
            ("from it", "from_device"),
        )
    )
    yield Row(
        "copies",
        PASS if found["intact"] else FAIL,
        got="intact" if found["intact"] else "changed",
        wanted="intact",
        remark=speeds + " (on the device: read and written; the host's memory is pinned)",
    )


def own_kernels(shop):
    """Compares each of Moonring's own kernels with fp64, and the bytes that it moves per second
    with those of a copy; kernel_cases.cc has the definitions and bounds.
    """
    sizes = shop.sizes.kernels
    words = [f"{key}={value}" for key, value in sizes.items()]
    found = shop.measure("kernels", f"device={shop.device}", *words)
    if not found["kernels"] and shop.dry:
        yield skipped("kernels of our own", "dry run: these are a GPU's kernels")
        return
    if not found["kernels"] or found["without_case"]:
        without = ", ".join(found["without_case"])
        why = f"no case for {without}" if without else "there are none"
        yield Row("kernels of our own", FAIL, remark=why)
    for kernel in found["kernels"]:
        rate = kernel["bytes"] / kernel["seconds"]
        copies = shop.rates.get("bytes")
        yield at_most(
            f"kernel {kernel['operator'].split('::')[1]}",
            kernel["error"],
            1.0,
            show="{:.2f}",
            ceiling=rate / copies if copies else None,
            remark=f"error over bound, against fp64; {kernel['bytes'] / 1e6:.4g} MB in "
            f"{1e6 * kernel['seconds']:.4g} us, {rate / 1e9:.4g} GB/s; the ceiling is a copy's",
        )


# Attention compared with its definition


def failed_tests(tests):
    failures = [
        f"{test['name']}: {last_line(test['failures'][0]['failure'])}"
        for test in tests
        if test.get("failures")
    ]
    return "; ".join(failures[:2])


def failures_of(tests, most=20):
    """Returns the messages of failed tests, line by line."""
    texts = [each["failure"] for test in tests for each in test.get("failures", [])]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    return lines[:most] + ([f"and {len(lines) - most} lines more"] if len(lines) > most else [])


def attention_kernels(name, dtype, *chosen):
    """A check of a GPU's kernels in one dtype, by the tests that `chosen` names. Each is a process,
    so that a slow or crashing one does not affect another row. cuda_conformance_test.cc has the
    bounds.
    """

    def check(shop):
        tests = shop.test_program(
            "cuda_conformance_test",
            shop.device,
            ":".join(f"{each}/{dtype}" for each in chosen),
            threads=2,
        )
        ran = [test for test in tests if test["result"] != "SKIPPED"]
        good = [test for test in ran if not test.get("failures")]
        if shop.dry and tests and not ran:
            yield skipped(name, "dry run: these are a GPU's kernels")
            return
        yield Row(
            name,
            PASS if ran and len(good) == len(ran) else FAIL,
            got=f"{len(good)} of {len(ran)} tests",
            wanted="all",
            remark=failed_tests(ran) or "against fp64",
            diagnosis=failures_of(ran),
        )

    return check


# The slow tests of the 16-bit dtypes run separately: cuDNN builds a plan for each shape there.
ATTENTION_KERNELS = {
    name: attention_kernels(f"attention kernels {name}", name.split()[0], *chosen)
    for name, *chosen in (
        ("BFloat16 tiles", "*EachKindOfTile*"),
        ("BFloat16 bands", "*Bands*", "*FarBelow*"),
        ("BFloat16 documents", "*Dense*"),
        ("Half tiles", "*EachKindOfTile*"),
        ("Half bands", "*Bands*", "*FarBelow*"),
        ("Half documents", "*Dense*"),
        ("Float", "*"),
        ("Double", "*"),
    )
}


def modes(shop):
    """Every strategy on up to four ranks that are threads, in fp32 and bf16;
    modes_conformance_test.cc has the bounds.
    """
    tests = shop.test_program(
        "modes_conformance_test", shop.device, "*dense_on_1:*_on_2" if shop.dry else "*", **ONE_CARD
    )
    for mode in (
        "dense",
        "ulysses",
        "ring",
        "zigzag-ring",
        "all-gather",
        "double-ring",
        "usp",
        "auto",
    ):
        of = [
            test
            for test in tests
            if test["name"].split("/")[-1][5:].startswith(mode.replace("-", "_") + "_")
        ]
        shares = [float(test.get("error_over_bound", "inf")) for test in of]
        worst = (
            math.nan
            if any(math.isnan(share) for share in shares)
            else max(shares, default=math.inf)
        )
        row = at_most(
            f"attention {mode}",
            worst,
            1.0,
            remark=failed_tests(of) or f"{len(of)} cases against fp64: error over bound",
            show="{:.2f}",
        )
        if any(test.get("failures") for test in of):
            row.verdict, row.diagnosis = FAIL, failures_of(of)
        yield row


# Gradients


def diagnosed(row, *makers):
    """Returns the row. If it has failed, the output of each diagnosis function is added."""
    if row.verdict == FAIL:
        row.diagnosis = [line for make in makers for line in diagnosis.tried(make)]
    return row


def of_gradients(shop, row, found, model, tokens, keys):
    """Returns the row. If it has failed, the worst number and the layer at which hidden states
    diverge are added. `found`: the result of Workshop.compare for the gradients."""
    return diagnosed(
        row,
        lambda: diagnosis.worst_number(found),
        lambda: diagnosis.parting_layer(shop, model, tokens, keys),
    )


# fp32 sums in two different orders differ by about this much, even if neither is less exact: fp32
# has a precision of 6e-8, and the gradients of an H100 and of the CPU each differ from fp64 by
# 1.4e-6.
FP32_FLOOR = 3e-6


def gradients(shop):
    """Compares gradients and logits of a whole model, computed by `probe`, with the CPU's. fp64:
    within 1e-10. fp32: the distance from fp64 is at most twice the CPU's, or FP32_FLOOR. bf16: the
    distance from fp32 is at most 3 times (gradients) and 2 times (logits) the CPU's. TF32 is
    requested in the environment, which Moonring must override."""
    tokens, model = shop.sizes.gradient_tokens, shop.model(shop.sizes.gradients)
    keys = {"fp64": ["fp64=true"], "fp32": [], "bf16": ["bf16=true"]}
    threads = max(1, shop.cores // 3)
    runs = {
        (side, dtype): shop.probe(
            side, model, tokens, words, device, threads=threads, **workshop.TF32
        )
        for side, device in (("reference", "cpu"), ("device", shop.device))
        for dtype, words in keys.items()
    }
    shop.wait([process for process, _, _ in runs.values()])
    for process, _, _ in runs.values():
        process.check()
    outputs = {name: read_json(found) for name, (_, found, _) in runs.items()}
    paths = {name: path for name, (_, _, path) in runs.items()}

    pairs = [
        (side, dtype, truth)
        for dtype, truth in (("fp64", "fp64"), ("fp32", "fp64"), ("bf16", "fp32"))
        for side in ("device", "reference")
    ]
    apart = shop.compare(
        *((paths[side, dtype], paths["reference", truth]) for side, dtype, truth in pairs)
    )
    distance = {(side, dtype): found for (side, dtype, _), found in zip(pairs, apart)}

    def logits(dtype, truth):
        def of(output):
            return [output["logits"], output["logsumexp"], [output["loss"]]]

        return [
            relative(of(outputs[side, dtype]), of(outputs["reference", truth]))
            for side in ("device", "reference")
        ]

    parameters = f"{os.path.getsize(paths['reference', 'fp32']) / 4e6:.3g}M numbers"

    def row_of(dtype, bound, remark):
        found = distance["device", dtype]
        row = at_most(f"gradients {dtype}", found["error"], bound, remark, tokens=tokens)
        return of_gradients(shop, row, found, model, tokens, keys[dtype])

    yield row_of("fp64", 1e-10, parameters + ", device against CPU")
    yield at_most("logits fp64", logits("fp64", "fp64")[0], 1e-10, tokens=tokens)
    for dtype, truth, gradient_factor, logit_factor in (
        ("fp32", "fp64", 2, 2),
        ("bf16", "fp32", 3, 2),
    ):
        floor = FP32_FLOOR if dtype == "fp32" else 0.0
        own = distance["reference", dtype]["error"]
        remark = f"distance from {truth}; the CPU's is {own:.2e}"
        yield row_of(dtype, max(gradient_factor * own, floor), remark)
        device, own = logits(dtype, truth)
        remark = f"distance from {truth}; the CPU's is {own:.2e}"
        yield at_most(
            f"logits {dtype}", device, max(logit_factor * own, floor), remark, tokens=tokens
        )
    shop.forget(*(os.path.dirname(path) for path in paths.values()))


# Training

# The bound for losses of steps that differ only in the order of sums. After eight steps of a tiny
# model on the CPU, fp32 differs from fp64 by 2e-7. AdamW amplifies rounding errors of tiny
# gradients, and longer sums round more, so the bound is higher.
LOSS_BOUND = 2e-5
# On the CPU, the loss of one forward in bf16 differs from fp32 by 2e-4; the bound is ten times
# that.
BF16_LOSS_BOUND = 2e-3


def lengths(tokens, rows):
    """Returns varying document lengths, at most `tokens` each."""
    return [max(8, tokens - 30 - (i * i * 7) % (tokens // 2)) for i in range(rows)]


def training_runs(sizes):
    """Returns the runs of the check `training`, {dtype: Training}."""
    tokens, steps = sizes.training_tokens, sizes.training_steps
    keys = {"max_steps": steps, "learning_rate": 2e-5}
    rows = lengths(tokens, 2 * steps)
    return {
        dtype: Training(sizes.gradients, rows, tokens, keys | more)
        for dtype, more in (("fp32", {}), ("bf16", {"bf16": True}))
    }


def training(shop):
    """Full fine-tuning of the model of the gradient check, in fp32 and bf16, gives the CPU's
    losses."""
    tokens, steps = shop.sizes.training_tokens, shop.sizes.training_steps
    threads = max(1, shop.cores // 2)
    runs = {}
    for dtype, what in training_runs(shop.sizes).items():
        runs["reference", dtype] = shop.reference(what, threads)
        runs["device", dtype] = shop.start_training("device", what, shop.device, threads)
    shop.finish(*runs.values())
    losses = {name: run.losses() for name, run in runs.items()}
    peaks = {dtype: runs["device", dtype].peak_beside_plan() for dtype in ("fp32", "bf16")}
    said = (
        f"{len(losses['device', 'fp32'])} steps, loss "
        f"{list(losses['device', 'fp32'].values())[-1]:.4f} at the end"
    )
    complete = len(losses["reference", "fp32"]) == steps
    row = at_most(
        "training fp32",
        worst_difference(losses["device", "fp32"], losses["reference", "fp32"]),
        LOSS_BOUND,
        said + "; the greatest difference of a loss from the CPU's",
        tokens=tokens,
        peak=peaks["fp32"],
    )
    row.verdict = row.verdict if complete else FAIL

    def part_of(dtype, bound):
        return lambda: diagnosis.first_part(
            losses["device", dtype], losses["reference", dtype], bound
        )

    yield diagnosed(row, part_of("fp32", LOSS_BOUND))
    row = at_most(
        "training bf16",
        worst_difference(losses["device", "bf16"], losses["reference", "bf16"]),
        BF16_LOSS_BOUND,
        "the greatest difference of a loss from the CPU's in bf16",
        tokens=tokens,
        peak=peaks["bf16"],
    )
    yield diagnosed(row, part_of("bf16", BF16_LOSS_BOUND))


ADAPTER = {"finetuning_type": "lora", "lora_rank": 8, "lora_target": "all", "learning_rate": 1e-3}

# The kinds of training, by name, with their models and keys.
KINDS = (
    ("DPO", "kinds", {"stage": "dpo", "dataset": "pairs", "pref_beta": 0.1}),
    ("KTO", "kinds", {"stage": "kto", "dataset": "judged"}),
    ("LoRA", "kinds", ADAPTER),
    ("DoRA", "kinds", ADAPTER | {"use_dora": True}),
    ("QLoRA", "kinds", ADAPTER | {"quantization_bit": 4}),
    ("MoE", "mixture", {"moe_aux_loss_coef": 0.01}),
    ("dropout and NEFTune", "kinds", ADAPTER | {"lora_dropout": 0.1, "neftune_noise_alpha": 5.0}),
)


def kinds_runs(sizes):
    """Returns the runs of the check `kinds of training`, {name: Training}."""
    tokens, steps = sizes.kind_tokens, sizes.kind_steps
    return {
        name: Training(
            getattr(sizes, shape), lengths(tokens, 2 * steps), tokens, {"max_steps": steps} | keys
        )
        for name, shape, keys in KINDS
    }


def references(sizes):
    """Returns the runs whose losses on the CPU are computed when the folder is packed."""
    return [*training_runs(sizes).values(), *kinds_runs(sizes).values()]


def ended(shop, check, why, tokens):
    """Returns the row of a run that ended with an error."""
    row = Row(check, FAIL, tokens=tokens, remark=str(why))
    return diagnosed(row, lambda: diagnosis.of_process(shop, why.process))


def beside(shop, check, run, other, bound, remark, tokens):
    """Returns the row of a run whose losses must equal those of another run, which has ended."""
    try:
        shop.finish(run)
    except Failed as why:
        return ended(shop, check, why, tokens)
    losses = run.losses(), other.losses()
    row = at_most(
        check,
        worst_difference(*losses),
        bound,
        remark,
        tokens=tokens,
        peak=run.peak_beside_plan(),
    )
    return diagnosed(row, lambda: diagnosis.first_part(*losses, bound))


def kinds(shop):
    """Compares losses and gradient norms of a few steps on the device with the CPU's, in fp32."""
    tokens, steps = shop.sizes.kind_tokens, shop.sizes.kind_steps
    threads = max(1, shop.cores // 6)
    started = {
        name: (
            shop.start_training("device", what, shop.device, threads),
            shop.reference(what, threads),
        )
        for name, what in kinds_runs(shop.sizes).items()
    }
    for name, (device, reference) in started.items():
        try:
            shop.finish(device, reference)
        except Failed as why:
            yield ended(shop, name, why, tokens)
            continue
        norms = [
            {line["current_steps"]: line["grad_norm"] for line in run.lines()}
            for run in (device, reference)
        ]
        differences = [
            worst_difference(device.losses(), reference.losses()),
            worst_difference(*norms) / 10,
        ]
        worst = math.nan if any(map(math.isnan, differences)) else max(differences)
        row = at_most(
            name,
            worst,
            LOSS_BOUND,
            f"{steps} steps: losses, and gradient norms to ten times as much",
            tokens=tokens,
            peak=device.peak_beside_plan(),
        )
        losses = device.losses(), reference.losses()
        yield diagnosed(
            row,
            lambda: "losses: " + diagnosis.first_part(*losses, LOSS_BOUND),
            lambda: "norms: " + diagnosis.first_part(*norms, 10 * LOSS_BOUND),
        )


def offload(shop):
    """Offload must not change the losses. Runs in fp32 with full_determinism, so that sums have a
    fixed order."""
    tokens, steps = shop.sizes.kind_tokens, shop.sizes.kind_steps
    data = shop.documents(lengths(tokens, 2 * steps))
    ways = {
        "activation_offload cpu": {"activation_offload": "cpu"},
        "offload_optimizer cpu": {"offload_optimizer": "cpu"},
        "offload_optimizer disk": {"offload_optimizer": "disk"},
    }
    common = {"max_steps": steps, "full_determinism": True}
    plain = shop.train("device", shop.sizes.kinds, data, tokens, common)
    runs = {
        name: shop.train("device", shop.sizes.kinds, data, tokens, common | keys)
        for name, keys in ways.items()
    }
    shop.finish(plain)
    for name, run in runs.items():
        yield beside(shop, name, run, plain, 1e-7, "losses beside those without it", tokens)


# Several ranks


def one_card(shop):
    """Two ranks share the first GPU and exchange through the host. The gradients with sp 2 equal
    those with sp 1 within 1e-5, for a small model in fp32."""
    tokens, model = shop.sizes.kind_tokens, shop.model(shop.sizes.kinds)
    alone = shop.probe("device", model, tokens)
    shared = {
        mode: shop.probe(
            "device",
            model,
            tokens,
            ["sequence_parallel_size=2", f"sequence_parallel_mode={mode}"],
            ranks=2,
            **ONE_CARD,
        )
        for mode in MODES
    }
    shop.wait([alone[0]])
    alone[0].check()
    for mode, (process, _, path) in shared.items():
        check = f"two ranks on one card, {mode}"
        shop.wait([process])
        if process.process.returncode != 0:
            row = Row(check, FAIL, tokens=tokens, remark=last_line(process.text))
            yield diagnosed(row, lambda: diagnosis.of_process(shop, process))
            continue
        yield at_most(
            check,
            shop.compare((path, alone[2]))[0]["error"],
            1e-5,
            "gradients of sp 2 beside sp 1's",
            tokens=tokens,
        )


def several(shop):
    """Runs several ranks over NCCL with one GPU per rank; in the dry run over Gloo."""
    names = ("NCCL sp 2", "NCCL dp 2", "NCCL ZeRO-3", "NCCL kill and resume")
    if not shop.dry and shop.gpus < 2:
        for name in names:
            yield skipped(name, "one GPU")
        return
    tokens, steps, shape = shop.sizes.kind_tokens, shop.sizes.kind_steps, shop.sizes.kinds
    data = shop.documents(lengths(tokens, 4 * steps))
    whole = {"max_steps": steps, "per_device_train_batch_size": 2}
    alone = shop.train("reference", shape, data, tokens, whole)
    shop.finish(alone)
    halves = whole | {"per_device_train_batch_size": 1}
    for name, keys in (
        (names[0], whole | {"sequence_parallel_size": 2}),
        (names[1], halves),
        (names[2], halves | {"zero_stage": 3}),
    ):
        run = shop.train("device", shape, data, tokens, keys, ranks=2)
        remark = f"{steps} steps: losses beside one rank's"
        yield beside(shop, name, run, alone, LOSS_BOUND, remark, tokens)
    yield resumed(shop, names[3], ranks=2, keys=halves | {"zero_stage": 3}, data=data)


# Interrupted runs and monitored runs


def resumed(shop, check, ranks, keys, data):
    """A run that is killed after its first checkpoint and resumed has the losses of an
    uninterrupted run."""
    tokens, steps, shape = shop.sizes.kind_tokens, shop.sizes.resume_steps, shop.sizes.kinds
    keys = keys | {
        "max_steps": steps,
        "save_strategy": "steps",
        "save_steps": 4,
        "save_total_limit": 2,
        "full_determinism": True,
    }
    alone = shop.train(
        "reference", shape, data, tokens, keys | {"save_strategy": "no"}, ranks=ranks
    )
    killed = shop.train("device", shape, data, tokens, keys, ranks=ranks)

    def saved():
        return os.path.exists(os.path.join(killed.out, "checkpoint-4", "manifest.json"))

    shop.wait([killed.process], until=saved)
    if not killed.process.running():
        killed.process.check()
        raise Failed("the run ended before it could be killed")
    killed.process.kill()
    killed.process.end("killed, as was expected")
    before = max(killed.losses(), default=0)
    again = shop.train(
        "device",
        shape,
        data,
        tokens,
        keys,
        ranks=ranks,
        config=killed.config,
        words=["resume_from_checkpoint=true", "overwrite_output_dir=true"],
    )
    shop.finish(alone, again)
    row = at_most(
        check,
        worst_difference(again.losses(), alone.losses()),
        1e-7,
        f"{steps} steps, killed at {before}: losses beside an uninterrupted run's",
        tokens=tokens,
    )
    if before == 0 or before >= steps:
        row.verdict, row.remark = (
            FAIL,
            f"killed after step {before} of {steps}: nothing was interrupted",
        )
    return row


def kill_and_resume(shop):
    data = shop.documents(lengths(shop.sizes.kind_tokens, 24))
    yield resumed(shop, "kill and resume", 1, {}, data)


# Families whose steps use most of Moonring's kernels that Llama does not use.
WATCHED = ("qwen3_next", "kimi_linear")


def sanitizer(shop):
    """Runs some steps under compute-sanitizer's memcheck, which checks each memory access of
    Moonring's own kernels (with LibTorch's kernels it would take minutes)."""
    check = "compute-sanitizer"
    tool = workshop.find_tool("compute-sanitizer")
    if shop.dry:
        yield skipped(check, "dry run: there are no kernels to watch")
        return
    if tool is None:
        yield skipped(check, "there is no compute-sanitizer on PATH nor in /usr/local/cuda/bin")
        return
    watched = [
        tool,
        "--tool",
        "memcheck",
        "--target-processes",
        "all",
        "--kernel-regex",
        "kns=moonring",
        "--report-api-errors",
        "no",
        "--error-exitcode",
        "99",
    ]
    tokens = 64
    data = shop.documents([tokens] * 2)
    keys = {"max_steps": 1, "bf16": True}
    run = shop.train("device", workshop.DRY.kinds, data, tokens, keys, before=watched)
    started = {"a training step": run.process} | {
        name: shop.probe(
            name, os.path.join(shop.pack, "families", name), tokens, ["bf16=true"], before=watched
        )[0]
        for name in WATCHED
    }
    shop.wait(list(started.values()))
    for name, process in started.items():
        row = sanitized(f"{check}, {name}", process, tokens)
        if process is run.process and row.verdict == PASS and len(run.losses()) != 1:
            row.verdict, row.remark = FAIL, f"{len(run.losses())} steps of 1"
        yield row


def sanitized(check, process, tokens):
    if "not supported" in process.text:
        lines = process.text.splitlines()
        why = next(line for line in lines if "not supported" in line)
        return skipped(check, "the tool refuses this device: " + why)
    summaries = [
        line.split("ERROR SUMMARY:")[1].strip()
        for line in process.text.splitlines()
        if "ERROR SUMMARY:" in line
    ]
    code = process.process.returncode
    clean = code == 0 and summaries and all(each.startswith("0 errors") for each in summaries)
    return Row(
        check,
        PASS if clean else FAIL,
        tokens=tokens,
        got=summaries[-1] if summaries else f"exit {code}",
        wanted="0 errors",
        remark="memcheck of our own kernels, in bf16" if clean else last_line(process.text),
    )


# The bound for a token's log-probs from the sampler and from the trainer, whose kernels (for one
# query and for many) add in different orders.
LOG_PROB_BOUND = 1e-4


def rollouts(shop):
    """GRPO: the completions that the model generates on the device, token by token, have the same
    log-probs when the trainer computes them."""
    check, tokens = "rollouts", shop.sizes.kind_tokens
    data = shop.documents([tokens // 2] * 16)
    keys = {
        "stage": "grpo",
        "reward_funcs": [{"length": {"target": 8}}],
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "max_completion_length": 16,
        "max_steps": 3,
        "learning_rate": 1e-5,
    }
    run = shop.train("device", shop.sizes.kinds, data, tokens, keys)
    shop.finish(run)
    logged = run.lines()
    name = "sampling/logp_difference/max"
    apart = [line[name] for line in logged if name in line]
    yield at_most(
        check,
        max(apart, default=math.inf),
        LOG_PROB_BOUND,
        f"{len(apart)} rollouts: the greatest difference of a log-prob between sampler and trainer",
        tokens=tokens,
    )
