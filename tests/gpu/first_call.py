"""The first call: are the numbers right. Each check is a function that gives its rows as they come;
CHECKS at the end is their order, with the seconds that each may take.

On a device everything is computed twice, there and by the same build on the CPU. In the dry run
both sides are the CPU.
"""

import math
import os
import shutil

import workshop
from processes import Failed, last_line
from table import PASS, FAIL, Row, at_most, skipped
from workshop import ONE_CARD, read_json

MODES = ("zigzag-ring", "ulysses", "all-gather")


def worst_difference(got, want):
    """max over steps of |a - b| / |b|; infinite where the steps are not the same ones or there are
    none.
    """
    if not want or sorted(got) != sorted(want):
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
    """What matrix products and copies reach here. bf16: products are rounded once, to 2^-9 of a
    row's size at the most; fp32: sums of `size` terms.
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
            shop.ceiling, row.ceiling = found["flops_per_second"], 1.0
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
    """Each kernel of Moonring's own (comm/kernels) against fp64, and the bytes that it moves a
    second beside those of a copy; kernel_cases.cc has the definitions and bounds.
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


# Attention against its definition


def failed_tests(tests):
    failures = [
        f"{test['name']}: {last_line(test['failures'][0]['failure'])}"
        for test in tests
        if test.get("failures")
    ]
    return "; ".join(failures[:2])


def kernels(shop):
    """The kernels of a GPU in each dtype; cuda_conformance_test.cc has the bounds."""
    tests = shop.test_program("cuda_conformance_test", shop.device)
    for dtype in ("BFloat16", "Half", "Float", "Double"):
        of = [test for test in tests if test["name"].endswith("/" + dtype)]
        ran = [test for test in of if test["result"] != "SKIPPED"]
        good = [test for test in ran if not test.get("failures")]
        check = f"attention kernels {dtype}"
        if shop.dry and of and not ran:
            yield skipped(check, "dry run: these are a GPU's kernels")
            continue
        yield Row(
            check,
            PASS if ran and len(good) == len(ran) else FAIL,
            got=f"{len(good)} of {len(ran)} tests",
            wanted="all",
            remark=failed_tests(ran) or "against fp64",
        )


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
            row.verdict = FAIL
        yield row


# Gradients


def compared(shop, path, other):
    return shop.measure("compare", path, other)["error"]


def gradients(shop):
    """Of a whole model, through `probe`. fp64 is the proof: 1e-10. fp32: no further from fp64 than
    twice what the CPU is. bf16: its distance from fp32 at most 3 times (gradients)
    and 2 times (logits) the CPU's."""
    tokens, shape = shop.sizes.gradient_tokens, shop.sizes.gradients
    shop.model(shape)
    keys = {"fp64": ["fp64=true"], "fp32": [], "bf16": ["bf16=true"]}
    threads = max(1, shop.cores // 3)
    runs = {
        (side, dtype): shop.probe(side, shape, tokens, words, device, threads=threads)
        for side, device in (("reference", "cpu"), ("device", shop.device))
        for dtype, words in keys.items()
    }
    shop.wait([process for process, _, _ in runs.values()])
    for process, _, _ in runs.values():
        process.check()
    outputs = {name: read_json(found) for name, (_, found, _) in runs.items()}
    paths = {name: path for name, (_, _, path) in runs.items()}

    def distances(dtype, truth):
        return [
            compared(shop, paths[side, dtype], paths["reference", truth])
            for side in ("device", "reference")
        ]

    def logits(dtype, truth):
        def of(output):
            return [output["logits"], output["logsumexp"], [output["loss"]]]

        return [
            relative(of(outputs[side, dtype]), of(outputs["reference", truth]))
            for side in ("device", "reference")
        ]

    parameters = f"{os.path.getsize(paths['reference', 'fp32']) / 4e6:.3g}M numbers"
    yield at_most(
        "gradients fp64",
        distances("fp64", "fp64")[0],
        1e-10,
        parameters + ", device against CPU",
        tokens=tokens,
    )
    yield at_most("logits fp64", logits("fp64", "fp64")[0], 1e-10, tokens=tokens)
    for dtype, truth, gradient_factor, logit_factor in (
        ("fp32", "fp64", 2, 2),
        ("bf16", "fp32", 3, 2),
    ):
        device, reference = distances(dtype, truth)
        yield at_most(
            f"gradients {dtype}",
            device,
            gradient_factor * reference,
            f"distance from {truth}; the CPU's is {reference:.2e}",
            tokens=tokens,
        )
        device, reference = logits(dtype, truth)
        yield at_most(
            f"logits {dtype}",
            device,
            logit_factor * reference,
            f"distance from {truth}; the CPU's is {reference:.2e}",
            tokens=tokens,
        )
    shop.forget(*(os.path.dirname(path) for path in paths.values()))


# Training

# Of losses of steps that differ in the order of sums alone. On the CPU fp32 is 2e-7 from fp64 after
# eight steps of a tiny model; AdamW turns a rounding of a tiny gradient into one
# of the step, and longer sums round more.
LOSS_BOUND = 2e-5
# In bf16 one forward is 2e-4 from fp32 there: ten times that.
BF16_LOSS_BOUND = 2e-3


def lengths(shop, tokens, rows):
    """Of documents, uneven, all within `tokens`."""
    return [max(8, tokens - 30 - (i * i * 7) % (tokens // 2)) for i in range(rows)]


def training(shop):
    """Full fine-tuning of the gradients' model, in fp32 and in bf16: the CPU's losses."""
    tokens, steps, shape = (
        shop.sizes.training_tokens,
        shop.sizes.training_steps,
        shop.sizes.gradients,
    )
    data = shop.documents(lengths(shop, tokens, 2 * steps))
    keys = {"max_steps": steps, "learning_rate": 2e-5}
    threads = max(1, shop.cores // 2)
    runs = {
        (side, dtype): shop.train(side, shape, data, tokens, keys | more, device, threads=threads)
        for side, device in (("reference", "cpu"), ("device", shop.device))
        for dtype, more in (("fp32", {}), ("bf16", {"bf16": True}))
    }
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
    yield row
    yield at_most(
        "training bf16",
        worst_difference(losses["device", "bf16"], losses["reference", "bf16"]),
        BF16_LOSS_BOUND,
        "the greatest difference of a loss from the CPU's in bf16",
        tokens=tokens,
        peak=peaks["bf16"],
    )


ADAPTER = {"finetuning_type": "lora", "lora_rank": 8, "lora_target": "all", "learning_rate": 1e-3}

# What is trained, by name: the model, the keys.
KINDS = (
    ("DPO", "kinds", {"stage": "dpo", "dataset": "pairs", "pref_beta": 0.1}),
    ("KTO", "kinds", {"stage": "kto", "dataset": "judged"}),
    ("LoRA", "kinds", ADAPTER),
    ("DoRA", "kinds", ADAPTER | {"use_dora": True}),
    ("MoE", "mixture", {"moe_aux_loss_coef": 0.01}),
    ("dropout and NEFTune", "kinds", ADAPTER | {"lora_dropout": 0.1, "neftune_noise_alpha": 5.0}),
)


def kinds(shop):
    """Losses and gradient norms of a few steps, on the device and on the CPU, in fp32."""
    tokens, steps = shop.sizes.kind_tokens, shop.sizes.kind_steps
    data = shop.documents(lengths(shop, tokens, 2 * steps))
    started = {}
    for name, shape, keys in KINDS:
        started[name] = [
            shop.train(
                side,
                getattr(shop.sizes, shape),
                data,
                tokens,
                {"max_steps": steps} | keys,
                device,
                threads=max(1, shop.cores // 6),
            )
            for side, device in (("device", shop.device), ("reference", "cpu"))
        ]
        if len(started) % 3 == 0:  # six processes at a time
            shop.wait([run.process for runs in started.values() for run in runs])
    for name, _, _ in KINDS:
        device, reference = started[name]
        try:
            shop.finish(device, reference)
        except Failed as why:
            yield Row(name, FAIL, tokens=tokens, remark=str(why))
            continue
        norms = [
            {line["current_steps"]: line["grad_norm"] for line in run.lines()}
            for run in (device, reference)
        ]
        worst = max(
            worst_difference(device.losses(), reference.losses()), worst_difference(*norms) / 10
        )
        yield at_most(
            name,
            worst,
            LOSS_BOUND,
            f"{steps} steps: losses, and gradient norms to ten times as much",
            tokens=tokens,
            peak=device.peak_beside_plan(),
        )


def offload(shop):
    """What offload moves is where it was when it comes back: the losses are those without it. In
    fp32, whose sums no kernel makes in a changing order but the embedding's.
    """
    tokens, steps = shop.sizes.kind_tokens, shop.sizes.kind_steps
    data = shop.documents(lengths(shop, tokens, 2 * steps))
    ways = {
        "activation_offload cpu": {"activation_offload": "cpu"},
        "offload_optimizer cpu": {"offload_optimizer": "cpu"},
        "offload_optimizer disk": {"offload_optimizer": "disk"},
    }
    plain = shop.train("device", shop.sizes.kinds, data, tokens, {"max_steps": steps})
    runs = {
        name: shop.train("device", shop.sizes.kinds, data, tokens, {"max_steps": steps} | keys)
        for name, keys in ways.items()
    }
    shop.finish(plain)
    for name, run in runs.items():
        try:
            shop.finish(run)
        except Failed as why:
            yield Row(name, FAIL, tokens=tokens, remark=str(why))
            continue
        yield at_most(
            name,
            worst_difference(run.losses(), plain.losses()),
            1e-5,
            "losses beside those without it",
            tokens=tokens,
            peak=run.peak_beside_plan(),
        )


# Several ranks


def one_card(shop):
    """Two ranks that share the first GPU and exchange through the host: gradients of sp 2 are those
    of sp 1. A small model in fp32: 1e-5.
    """
    tokens, shape = shop.sizes.kind_tokens, shop.sizes.kinds
    alone = shop.probe("device", shape, tokens)
    shared = {
        mode: shop.probe(
            "device",
            shape,
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
            yield Row(check, FAIL, tokens=tokens, remark=last_line(process.text))
            continue
        yield at_most(
            check,
            compared(shop, path, alone[2]),
            1e-5,
            "gradients of sp 2 beside sp 1's",
            tokens=tokens,
        )


def several(shop):
    """Over NCCL, a GPU a rank; in the dry run over Gloo."""
    names = ("NCCL sp 2", "NCCL dp 2", "NCCL ZeRO-3", "NCCL kill and resume")
    if not shop.dry and shop.gpus < 2:
        for name in names:
            yield skipped(name, "one GPU")
        return
    tokens, steps, shape = shop.sizes.kind_tokens, shop.sizes.kind_steps, shop.sizes.kinds
    data = shop.documents(lengths(shop, tokens, 4 * steps))
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
        try:
            shop.finish(run)
        except Failed as why:
            yield Row(name, FAIL, tokens=tokens, remark=str(why))
            continue
        yield at_most(
            name,
            worst_difference(run.losses(), alone.losses()),
            LOSS_BOUND,
            f"{steps} steps: losses beside one rank's",
            tokens=tokens,
            peak=run.peak_beside_plan(),
        )
    yield resumed(shop, names[3], ranks=2, keys=halves | {"zero_stage": 3}, data=data)


# Interrupted and watched


def resumed(shop, check, ranks, keys, data):
    """A run that is killed after its first checkpoint and goes on from it has the losses of one
    that was left alone.
    """
    tokens, steps, shape = shop.sizes.kind_tokens, shop.sizes.resume_steps, shop.sizes.kinds
    keys = keys | {
        "max_steps": steps,
        "save_strategy": "steps",
        "save_steps": 4,
        "save_total_limit": 2,
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
    killed.process.end("killed, as was wanted")
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
        1e-5,
        f"{steps} steps, killed at {before}: losses beside a run's that was left alone",
        tokens=tokens,
    )
    if before == 0 or before >= steps:
        row.verdict, row.remark = (
            FAIL,
            f"killed after step {before} of {steps}: nothing was interrupted",
        )
    return row


def kill_and_resume(shop):
    data = shop.documents(lengths(shop, shop.sizes.kind_tokens, 24))
    yield resumed(shop, "kill and resume", 1, {}, data)


def sanitizer(shop):
    """compute-sanitizer's memcheck over one step: it sees each access of each kernel."""
    check = "compute-sanitizer"
    tool = shutil.which("compute-sanitizer") or next(
        (path for path in ("/usr/local/cuda/bin/compute-sanitizer",) if os.path.exists(path)), None
    )
    if shop.dry:
        yield skipped(check, "dry run: there are no kernels to watch")
        return
    if tool is None:
        yield skipped(check, "there is no compute-sanitizer on PATH nor in /usr/local/cuda/bin")
        return
    tokens = 64
    data = shop.documents([tokens] * 2)
    run = shop.train(
        "device",
        workshop.DRY.kinds,
        data,
        tokens,
        {"max_steps": 1, "bf16": True},
        before=[
            tool,
            "--tool",
            "memcheck",
            "--target-processes",
            "all",
            "--report-api-errors",
            "no",
            "--error-exitcode",
            "99",
        ],
    )
    shop.wait([run.process])
    summaries = [
        line.split("ERROR SUMMARY:")[1].strip()
        for line in run.process.text.splitlines()
        if "ERROR SUMMARY:" in line
    ]
    if "not supported" in run.process.text and not run.losses():
        yield skipped(
            check,
            "the tool refuses this device: "
            + next(line for line in run.process.text.splitlines() if "not supported" in line),
        )
        return
    clean = (
        run.process.process.returncode == 0
        and summaries
        and all(each.startswith("0 errors") for each in summaries)
        and len(run.losses()) == 1
    )
    yield Row(
        check,
        PASS if clean else FAIL,
        tokens=tokens,
        got=summaries[-1] if summaries else f"exit {run.process.process.returncode}",
        wanted="0 errors",
        remark="memcheck over one bf16 step" if clean else last_line(run.process.text),
    )


# (name, the most seconds, the check)
CHECKS = (
    ("GPU", 30, machine),
    ("ceilings", 60, ceilings),
    ("kernels", 90, own_kernels),
    ("attention kernels", 90, kernels),
    ("attention modes", 90, modes),
    ("gradients", 120, gradients),
    ("training", 120, training),
    ("kinds of training", 120, kinds),
    ("two ranks on one card", 60, one_card),
    ("offload", 60, offload),
    ("kill and resume", 60, kill_and_resume),
    ("compute-sanitizer", 120, sanitizer),
    ("several GPUs", 120, several),
)
