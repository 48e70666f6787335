"""Checks of speed and memory. Each check is a generator of rows (checks.py).

A speed is compared with the measured rate of the bf16 matrix product (of this call, or of the call
that --resume names), or with Transformers on the same GPU. The dry run does not judge speed.
"""

import dataclasses
import json
import math
import os
import re
import statistics
import sys

import correctness
import profiles
import roofline
from processes import Failed
from table import FAIL, PASS, Row, at_most, is_number, skipped
from workshop import Skip, find_tool, read_json

# Relative error bounds for bf16: twice (out) and three times (gradients) the error of LibTorch's
# bf16 kernel on the CPU, which is 2.0e-3 and 4.6e-3.
OUT_BOUND, GRADIENT_BOUND = 4e-3, 1.4e-2
HERE = os.path.dirname(os.path.abspath(__file__))
PEER_LOSS_BOUND = correctness.BF16_LOSS_BOUND


def attention_choice(shop):
    """Compares flash attention with cuDNN at three lengths, and measures the cost of a length that
    cuDNN has not seen before."""
    check = "attention choice"
    if shop.dry:
        yield skipped(check, "dry run: these are a GPU's kernels")
        return
    tests = shop.test_program("cuda_conformance_test", shop.device, "*KernelsAreTimed/BFloat16")
    good = tests and all(test["result"] != "SKIPPED" and not test.get("failures") for test in tests)
    told = tests[0] if tests else {}
    yield Row(
        check,
        PASS if good else FAIL,
        got=told.get("choice", ""),
        remark=correctness.failed_tests(tests) or told.get("timings", "it says no time"),
    )


def attention(shop):
    """Measures forward and backward of one document's attention in bf16. The last rows are compared
    with fp64."""
    for tokens in shop.sizes.attention_tokens:
        shape = shop.sizes.attention
        found = shop.measure(
            "attention",
            f"device={shop.device}",
            "dtype=bf16",
            f"tokens={tokens}",
            *(f"{key}={value}" for key, value in shape.items()),
        )
        errors = {
            "forward": (("out", OUT_BOUND),),
            "backward": (("dq", GRADIENT_BOUND), ("dk", GRADIENT_BOUND), ("dv", GRADIENT_BOUND)),
        }
        for way, factor in (("forward", 1.0), ("backward", 2.5)):
            seconds = found[way + "_seconds"]
            rate = factor * found["flops"] / seconds if seconds > 0 else math.nan
            worst = max(
                found[name] / bound if is_number(found[name]) else math.inf
                for name, bound in errors[way]
            )
            if is_number(rate):  # the rate of the longest documents
                shop.note_ceiling(f"attention {way} bf16", rate)
            row = at_most(
                f"attention {way}",
                worst,
                1.0,
                show="{:.2f}",
                tokens=tokens,
                ceiling=rate / shop.ceiling if shop.ceiling else None,
                remark=f"error over bound; {1e3 * seconds:.4g} ms, {rate / 1e12:.4g} TFLOP/s, "
                f"{shape['heads']}/{shape['kv_heads']} x {shape['head_dim']}",
            )
            if not is_number(rate):
                row.verdict = FAIL
            yield row


# Compared with Transformers


def flops_per_token(shape, tokens):
    """Returns operations per token, as MFU in the log and torchtitan count them: 6 per parameter
    (the tied embedding counts as the head), and 12 L h d T for attention. Recomputation does not
    count."""
    linear, attention = roofline.model_flops(shape, [tokens])
    return (linear + attention) / tokens


def mfu_rows(shop, shape, tokens, lines, rate):
    """Checks the MFU in the log. Fails if the log's lines imply different peak rates; in the dry
    run, whose peak is the measured rate of matrix products, also if it differs from the formula."""
    check = f"MFU of the log, {shape['layers']} layers"
    told = [line["mfu"] / line["tokens_per_second"] for line in lines if "mfu" in line]
    if shop.dry and not shop.ceiling:
        yield skipped(check, "no bf16 product was measured: run the check ceilings too")
        return
    if not told:
        yield skipped(check, "the log has no mfu: this device is in no table", tokens=tokens)
        return
    share = rate * told[-1]
    peak = flops_per_token(shape, tokens) / told[-1]  # equal for all lines
    good = max(told) - min(told) <= 1e-6 * max(told)
    if shop.dry:
        good = good and abs(peak / shop.ceiling - 1) < 1e-6
    yield Row(
        check,
        PASS if good else FAIL,
        tokens=tokens,
        got=f"{100 * share:.2f} %",
        wanted="the formula's" if shop.dry else "one peak rate in all lines",
        remark=f"of {peak / 1e12:.4g} TFLOP/s; attention halved "
        f"{100 * rate * lines[-1]['mfu_causal'] / lines[-1]['tokens_per_second']:.2f} %",
    )


def chosen_by_run(tokens, run):
    """Returns the attention kernels that the run chose by measuring at its start."""
    check = "attention's kernels"
    said = re.search(r"attention_kernels: (.+)", run.process.text)
    if said is None:
        return skipped(check, "the run chose none", tokens=tokens)
    return Row(check, PASS, tokens=tokens, got=said.group(1), remark="measured by the run's rank 0")


def gib(count):
    return f"{count / 2**30:.2f} GiB" if count else "no GPU's peak"


def steps_of_peer(shop, shape, examples):
    """Returns the steps that peer_steps.py measured, its process, and torch's and Transformers'
    versions. Raises Skip if Transformers is missing.
    """
    path, versions = shop.peer
    process = shop.start(
        [
            sys.executable,
            os.path.join(HERE, "peer_steps.py"),
            shop.model(shape),
            examples,
            shop.device,
        ],
        threads=shop.cores,
        PYTHONPATH=path,
    )
    shop.wait([process])
    steps = [json.loads(line[5:]) for line in process.text.splitlines() if line.startswith("STEP ")]
    return steps, process, versions


def llama_run(shop, tokens):
    """Returns (data, keys) of the check."""
    return shop.documents([tokens + 64] * (shop.sizes.llama_steps + 1)), {
        "bf16": True,
        "per_device_train_batch_size": 1,
        "max_steps": shop.sizes.llama_steps + 1,
        "disable_shuffling": True,
        "learning_rate": 1e-5,
        "count": "targets",
        "preprocessing_num_workers": 1,
    }


def llama(shop):
    """Full fine-tuning in bf16 over fp32 weights, one document per step."""
    shape = shop.sizes.llama
    shop.model(shape)
    for tokens in shop.sizes.llama_tokens:
        data, keys = llama_run(shop, tokens)
        if shop.dry and shop.ceiling:  # no table has the peak of a CPU
            keys["peak_tflops"] = shop.ceiling / 1e12
        run = shop.train("device", shape, data, tokens, keys, threads=shop.cores)
        shop.finish(run)
        lines, rate, peak = run.lines(), rate_of(run), run.device_peak()
        shop.timed[tokens] = Timed(rate, lines[0]["loss"], peak)
        share = rate * flops_per_token(shape, tokens) / shop.ceiling if shop.ceiling else None
        yield Row(
            f"Llama width, {shape['layers']} layers",
            PASS if is_whole(lines, shop.sizes.llama_steps + 1) else FAIL,
            tokens=tokens,
            got=f"{rate:.0f} tokens/s",
            ceiling=share,
            peak=run.peak_beside_plan(),
            remark=f"bf16, the ceiling's share is MFU of it; peak {gib(peak)}",
        )
        yield from mfu_rows(shop, shape, tokens, lines, rate)
        yield chosen_by_run(tokens, run)
        shop.forget(run.out, data)


@dataclasses.dataclass
class Timed:
    """The measurements of a run with Llama's width, for comparison with other runs."""

    rate: float  # tokens per second
    loss: float  # of the first step
    peak: int  # bytes of the GPU's memory


def peer(shop):
    """Runs the same steps with Transformers, on the same ids."""
    if not shop.timed:
        yield from llama(shop)
    for tokens, timed in sorted(shop.timed.items()):
        yield beside_peer(shop, shop.sizes.llama, tokens, timed)


def beside_peer(shop, shape, tokens, timed):
    check, rate = f"beside Transformers, {shape['layers']} layers", timed.rate
    data, keys = llama_run(shop, tokens)
    config, _ = shop.config("peer", shape, data, tokens, keys)
    examples = shop.fresh("examples.jsonl")
    words = ["preprocess", config, f"out={examples}"]
    shop.run(shop.moonring("cpu", 1, *words), threads=shop.cores)
    try:
        steps, process, versions = steps_of_peer(shop, shape, examples)
    except Skip as why:
        return skipped(check, str(why), tokens=tokens)
    if process.process.returncode != 0 and "out of memory" in process.text.lower():
        return Row(
            check,
            PASS,
            tokens=tokens,
            got=f"{rate:.0f} tokens/s",
            wanted="out of memory there",
            remark=versions,
        )
    process.check()
    theirs = statistics.median(tokens / step["seconds"] for step in steps[1:])
    apart = abs(timed.loss - steps[0]["loss"]) / abs(steps[0]["loss"])
    good = apart <= PEER_LOSS_BOUND and (shop.dry or rate >= theirs)
    share = flops_per_token(shape, tokens) / shop.ceiling if shop.ceiling else math.nan
    remark = (
        f"MFU of the ceiling {100 * rate * share:.2f} beside {100 * theirs * share:.2f} %; "
        f"first losses {apart:.1e} apart, expected <= {PEER_LOSS_BOUND:g}; peak "
        f"{gib(timed.peak)} beside {gib(steps[-1]['peak_bytes'])}; torch, Transformers "
        f"{versions}"
    )
    return Row(
        check,
        PASS if good else FAIL,
        tokens=tokens,
        got=f"{rate:.0f} tokens/s",
        wanted=f">= {theirs:.0f}",
        ceiling=rate * share,
        remark=("dry run: speed is not judged; " if shop.dry else "") + remark,
    )


# Other models and tasks


def is_whole(lines, steps):
    """Whether a log has this many steps, each with a loss."""
    return len(lines) == steps and all(is_number(line["loss"]) for line in lines)


def rate_of(run):
    """Returns tokens per second: the median over all steps but the first."""
    return statistics.median(line["tokens_per_second"] for line in run.lines()[1:])


def lengths(shop):
    """Documents of many lengths, four per step. The kernels that the run chose at its start are at
    least 0.95 times as fast as the better one of flash attention and cuDNN."""
    shape, longest = shop.sizes.llama, shop.sizes.longest_of_many
    count = 4 * (shop.sizes.llama_steps + 1)
    data = shop.documents([max(16, longest * (1 + i * 7 % count) // count) for i in range(count)])
    rates, said = {}, {}
    for kernels in ("auto", "flash", "cudnn"):
        keys = {
            "bf16": True,
            "per_device_train_batch_size": 4,
            "max_steps": count // 4,
            "disable_shuffling": True,
            "attention_kernels": kernels,
        }
        run = shop.train("device", shape, data, longest, keys, threads=shop.cores)
        shop.finish(run)
        rates[kernels] = rate_of(run)
        chosen = re.search(r"attention_kernels: (.+)", run.process.text)
        said[kernels] = chosen.group(1).strip() if chosen else ""
    best = max(rates["flash"], rates["cudnn"])
    yield Row(
        "documents of all lengths",
        PASS if shop.dry or rates["auto"] >= 0.95 * best else FAIL,
        tokens=longest,
        got=f"{rates['auto']:.0f} tokens/s",
        wanted=f">= {0.95 * best:.0f}",
        remark=f"auto: {said['auto']}; flash {rates['flash']:.0f}, cuDNN {rates['cudnn']:.0f}",
    )


def hybrid(shop):
    """Linear attention and experts, with the width of a real model."""
    shape, tokens = shop.sizes.hybrid, shop.sizes.hybrid_tokens
    data = shop.documents([tokens + 64] * (shop.sizes.llama_steps + 1))
    keys = {
        "bf16": True,
        "train_from_scratch": True,
        "per_device_train_batch_size": 1,
        "max_steps": shop.sizes.llama_steps + 1,
    }
    run = shop.train("device", shape, data, tokens, keys, threads=shop.cores)
    shop.finish(run)
    lines = run.lines()
    yield Row(
        f"Qwen3.5-MoE width, {shape['layers']} layers",
        PASS if is_whole(lines, shop.sizes.llama_steps + 1) else FAIL,
        tokens=tokens,
        got=f"{rate_of(run):.0f} tokens/s",
        peak=run.peak_beside_plan(),
        remark=f"bf16, {shape['experts']} experts; losses {lines[0]['loss']:.4f} to "
        f"{lines[-1]['loss']:.4f}; peak {gib(run.device_peak())}",
    )


def memory_runs_out(shop):
    """A step that does not fit in the GPU's memory is repeated with smaller micro-batches
    (auto_find_batch_size), and the run ends as usual.
    """
    shape = shop.sizes.llama | {"layers": 2}
    keys = {
        "bf16": True,
        "max_steps": 1,
        "auto_find_batch_size": True,
        "memory_check": "off",
    } | shop.sizes.too_many
    tokens, count = keys["cutoff_len"], keys["per_device_train_batch_size"]
    data = shop.documents([tokens + 64] * count)
    run = shop.train("device", shape, data, tokens, keys, threads=shop.cores)
    shop.finish(run)
    found = re.search(r"memory ran out .*", run.process.text)
    yield Row(
        "memory runs out",
        PASS if len(run.losses()) == 1 and (found or shop.dry) else FAIL,
        tokens=tokens * count,
        got="a step" if run.losses() else "no step",
        wanted="a step",
        remark=found.group(0) if found else "it did not run out",
    )


def decoding(shop):
    """Generation by a model with Llama's width: tokens per second, and the distance between the
    log-probs of the sampler and of the trainer, in bf16."""
    shape, most = shop.sizes.llama, shop.sizes.completion_tokens
    data = shop.documents([512 if not shop.dry else 24] * 16)
    keys = {
        "stage": "grpo",
        "bf16": True,
        "reward_funcs": [{"length": {"target": 8}}],
        "num_generations": 8,
        "per_device_train_batch_size": 16,
        "max_completion_length": most,
        "max_steps": 2,
        "learning_rate": 1e-6,
    }
    run = shop.train("device", shape, data, 1024, keys, threads=shop.cores)
    shop.finish(run)
    steps = [line for line in run.lines() if "runtime/rollouts" in line]
    sequences = keys["per_device_train_batch_size"]
    last = steps[-1]
    rate = sequences * last["completions/mean_length"] / last["runtime/rollouts"]
    yield Row(
        f"decoding, {shape['layers']} layers",
        PASS if len(steps) == keys["max_steps"] else FAIL,
        tokens=most,
        got=f"{rate:.0f} tokens/s",
        remark=f"{sequences} sequences at once, {last['runtime/rollouts']:.3g} s; log-probs of "
        f"sampler and trainer {last['sampling/logp_difference/mean']:.1e} apart",
    )


# The longest document


def planned(shop, config, *words):
    """Returns the prediction of `moonring plan`."""
    found = shop.fresh("plan.json")
    shop.run(
        shop.moonring(
            shop.device,
            1,
            os.path.join(HERE, "plan_of.lua"),
            config,
            f"device={shop.device}",
            f"out={found}",
            *words,
        )
    )
    return read_json(found)


def one_long_step(shop, shape, tokens):
    """Runs a short step, which creates the optimizer's states, and then a step on a document of
    this many tokens."""
    data = shop.documents([256, tokens + 64])
    keys = {
        "bf16": True,
        "per_device_train_batch_size": 1,
        "max_steps": 2,
        "disable_shuffling": True,
        "memory_check": "warn",
    }
    run = shop.train("device", shape, data, tokens, keys, threads=shop.cores)
    shop.finish(run)
    if len(run.losses()) != 2:
        raise Failed(f"{len(run.losses())} of 2 steps at {tokens} tokens")
    return run


def longest(shop):
    """A step with the longest document that, according to `plan`, fits into this much memory takes
    that much memory. The limit is below the card's memory, because a step that fills the card takes
    minutes."""
    shape, memory = shop.sizes.deep, shop.sizes.deep_memory
    config, _ = shop.config(
        "plan", shape, shop.documents([64]), 1024, {"bf16": True, "per_device_train_batch_size": 1}
    )
    tokens = int(planned(shop, config, f"memory={memory}")["longest"])
    if shop.dry:  # would take hours on a CPU
        tokens = min(tokens, 1024)
    run = one_long_step(shop, shape, tokens)
    ratio = run.peak_beside_plan()
    yield Row(
        f"longest T in {memory}, {shape['layers']} layers",
        PASS if shop.dry or (is_number(ratio) and 0.9 <= ratio <= 1.05) else FAIL,
        tokens=tokens,
        got="" if ratio is None else f"{ratio:.3f}",
        wanted="0.9 to 1.05",
        peak=ratio,
        remark=f"the step's peak over plan's; bf16, recompute: block; {gib(run.device_peak())}",
    )


# A profile


def with_nsys(shop, tool, command):
    report = shop.fresh("step")
    shop.run(
        [
            tool,
            "profile",
            "--trace",
            "cuda",
            "--output",
            report,
            "--force-overwrite",
            "true",
            *command,
        ],
        threads=shop.cores,
    )
    return profiles.from_nsys(
        shop.run(
            [
                tool,
                "stats",
                "--report",
                "cuda_gpu_kern_sum",
                "--format",
                "csv",
                report + ".nsys-rep",
            ]
        )
    )


def with_ncu(shop, tool, command):
    return profiles.from_ncu(
        shop.run(
            [
                tool,
                "--metrics",
                "gpu__time_duration.sum",
                "--clock-control",
                "none",
                "--csv",
                "--page",
                "raw",
                "--print-units",
                "base",
                "--target-processes",
                "all",
                "--launch-count",
                "20000",
                *command,
            ],
            threads=shop.cores,
        )
    )


# The least allowed ratio of the predicted time to the measured time. Below it, some kernel is too
# slow.
LEAST_OF_PREDICTED = 0.7


def beside_prediction(shop, kernels):
    """Compares the time of a step with roofline.py's prediction from its counts and the measured
    rates."""
    rates = roofline.RATES | shop.rates
    shape = shop.sizes.llama | {"tied": True}
    for tokens, timed in sorted(shop.timed.items()):
        measured = tokens / timed.rate
        counted = shop.counted.get(str(tokens))
        if counted is None:
            continue
        peak = rates["product bf16"]
        predicted = roofline.predict(counted, shape, [tokens], rates, peak)["seconds"]
        ratio = predicted / measured
        longest = sorted(kernels, key=lambda kernel: -kernel[1])[:5]
        yield Row(
            f"step beside its roofline, {shape['layers']} layers",
            PASS if ratio >= LEAST_OF_PREDICTED else FAIL,
            tokens=tokens,
            got=f"{ratio:.2f}",
            wanted=f">= {LEAST_OF_PREDICTED}",
            remark=f"predicted {1e3 * predicted:.0f} ms, measured {1e3 * measured:.0f} ms",
            diagnosis=[
                f"{1e3 * seconds:.2f} ms {calls} x {name}" for name, seconds, calls in longest
            ]
            if ratio < LEAST_OF_PREDICTED
            else [],
        )


def profile(shop):
    """Lists the GPU time by kernel for a run of one step, including loading: by nsys, or by ncu,
    which runs kernels one at a time."""
    check, tokens = "profile of a step", shop.sizes.profile_tokens
    if shop.dry:
        yield skipped(check, "dry run: there are no kernels to time", tokens=tokens)
        return
    shape = shop.sizes.llama | {"layers": 2}
    config, out = shop.config(
        "device",
        shape,
        shop.documents([tokens + 64]),
        tokens,
        {"bf16": True, "per_device_train_batch_size": 1, "max_steps": 1},
    )
    command, whys = shop.moonring(shop.device, 1, "train", config, "overwrite_output_dir=true"), []
    for name, by in (("nsys", with_nsys), ("ncu", with_ncu)):
        tool = find_tool(name)
        if tool is None:
            whys.append(f"there is no {name}")
            continue
        try:
            kernels = by(shop, tool, command)
        except Failed as why:
            whys.append(f"{name}: {why}")
            continue
        if not kernels:
            whys.append(f"{name} reported no kernel")
            continue
        with open(os.path.join(shop.out, "profile.txt"), "w", encoding="utf-8") as f:
            f.write(
                f"{name}, 2 layers of Llama's width, {tokens} tokens, bf16, loading and one step\n"
                + profiles.listing(kernels)
            )
        shares = ", ".join(
            f"{kind} {100 * share:.0f} %" for kind, share in profiles.shares(kernels).items()
        )
        yield Row(
            check,
            PASS,
            tokens=tokens,
            got=f"{1e3 * sum(seconds for _, seconds, _ in kernels):.1f} ms of kernels",
            remark=f"{shares}; by {name}, profile.txt",
        )
        yield from beside_prediction(shop, kernels)
        return
    yield skipped(check, "; ".join(whys), tokens=tokens)
