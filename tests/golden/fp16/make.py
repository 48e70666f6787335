"""fp16 as PyTorch computes it: by torch.autocast on a CPU, and torch.amp.GradScaler.

    make.py [scaler] [gradients] [curves]      default: all three

scaler.json     GradScaler's scale and growth tracker over a given sequence of steps, some of which
                overflow.
gradients.json  for models of tests/golden/model: how far each gradient under autocast to fp16 is
                from the one in fp64 (relative, by the norms of their sketches), and the loss scale:
                65536, halved until nothing overflows.
curves.json     20 steps of the case `sft` of tests/golden/stages in fp32 and in fp16: losses,
                gradient norms, learning rates and scales. In some steps a gradient is made
                infinite. The loop is that of Transformers' Trainer with accelerate (which itself
                refuses fp16 on a CPU); its first step in fp32 is that of LLaMA-Factory's run.
"""

import json
import math
import os
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..")
sys.path.insert(0, GOLDEN)
import sketch  # noqa: E402

MODELS = {"gqa_tied": ("packed_long",), "uneven_6_3": ("packed",)}
STEPS, ROWS, POISONED = 20, 4, (2, 12)  # steps from 1


def scaler():
    """Runs of consecutive steps: their number, whether they overflow, and the scaler's state after
    the last one."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu")
    script = [
        (3, True),
        (1, False),
        (1, True),
        (1999, False),
        (1, True),
        (1999, False),
        (1, False),
        (2500, False),
        (2, True),
        (6000, False),
        (20, True),
        (2000, False),
        (1, True),
        # The scale grows up to the largest fp32 number, and beyond.
        (250000, False),
        (1, True),
        (2000, False),
    ]
    runs, skipped = [], 0
    for count, overflows in script:
        for _ in range(count):
            weight.grad = None
            scaler.scale(weight.sum()).backward()
            if overflows:
                weight.grad[1] = math.inf
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            skipped += scaler.get_scale() < before
        runs.append(
            {
                "count": count,
                "overflows": overflows,
                "scale": scaler.get_scale(),
                "tracker": scaler._get_growth_tracker(),
                "skipped": skipped,
            }
        )
    save("scaler.json", runs)


def documents(case):
    start = 0
    for length in case["input"].get("lengths") or [len(case["input"]["input_ids"])]:
        yield (
            case["input"]["input_ids"][start : start + length],
            case["input"]["labels"][start : start + length],
        )
        start += length


def gradients_of(folder, case, dtype, scale=1.0):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64 if dtype == torch.float64 else torch.float32,
        attn_implementation="eager",
    )
    count = sum(sum(label != -100 for label in labels[1:]) for _, labels in documents(case))
    for ids, labels in documents(case):
        if all(label == -100 for label in labels[1:]):
            continue
        with torch.autocast("cpu", dtype=torch.float16, enabled=dtype == torch.float16):
            logits = model(torch.tensor([ids])).logits
        logits = logits if dtype == torch.float64 else logits.float()
        loss = torch.nn.functional.cross_entropy(
            logits[0, :-1], torch.tensor(labels[1:]), ignore_index=-100, reduction="sum"
        )
        (loss / count * scale).backward()
    return {name: p.grad.double() / scale for name, p in model.named_parameters()}


def gradients():
    result = {}
    for model, names in MODELS.items():
        folder = os.path.join(GOLDEN, "model", model)
        for name in names:
            cases = json.load(open(os.path.join(folder, "golden.json")))["cases"]
            case = next(each for each in cases if each["name"] == name)
            exact = case["gradients"]
            scale = 65536.0
            half = gradients_of(folder, case, torch.float16, scale)
            while not all(bool(g.isfinite().all()) for g in half.values()):
                scale /= 2
                half = gradients_of(folder, case, torch.float16, scale)
            single = gradients_of(folder, case, torch.float32)
            off = {}
            for key, want in exact.items():
                assert sketch.distance(key, single[key], want) <= 1e-4 * want["norm"], key
                off[key] = sketch.distance(key, half[key], want)
            result[f"{model}/{name}"] = {
                "scale": scale,
                "each": {key: off[key] / want["norm"] for key, want in exact.items()},
                "all": math.hypot(*off.values()) / case["output"]["grad_norm_total"],
            }
    save("gradients.json", result)


def rows():
    """The examples of the case `sft`, as LLaMA-Factory tokenizes them."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    spec = json.load(open(os.path.join(GOLDEN, "stages", "cases.json")))
    keys = spec["base"] | spec["cases"]["sft"]
    keys["model_name_or_path"] = os.path.join(GOLDEN, "stages", "model")
    keys["dataset_dir"] = os.path.join(GOLDEN, "stages", "data")
    keys["output_dir"] = tempfile.mkdtemp()
    model_args, data_args, training_args, _, _ = get_train_args(keys)
    loaded = load_tokenizer(model_args)
    template = get_template_and_fix_tokenizer(loaded["tokenizer"], data_args)
    dataset = get_dataset(template, model_args, data_args, training_args, "sft", **loaded)
    return [(row["input_ids"], row["labels"]) for row in dataset["train_dataset"]], keys


def train(examples, keys, half):
    """Trains. The loss of a step is summed over its rows and divided by the number of their labels
    other than -100 before the shift, as in LLaMA-Factory. A skipped step does not advance the
    schedule."""
    from transformers import AutoModelForCausalLM, get_scheduler

    model = AutoModelForCausalLM.from_pretrained(
        keys["model_name_or_path"], dtype=torch.float32, attn_implementation="eager"
    )
    model.train()
    named = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(named.values(), lr=1e-3, weight_decay=0.0)
    schedule = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=STEPS)
    scaler = torch.amp.GradScaler("cpu", enabled=half)
    steps, place = [], 0
    for k in range(1, STEPS + 1):
        chosen = [examples[(place + i) % len(examples)] for i in range(ROWS)]
        place += ROWS
        count = sum(label != -100 for _, labels in chosen for label in labels)
        value = 0.0
        for ids, labels in chosen:
            with torch.autocast("cpu", dtype=torch.float16, enabled=half):
                logits = model(torch.tensor([ids])).logits
            loss = torch.nn.functional.cross_entropy(
                logits.float()[0, :-1], torch.tensor(labels[1:]), ignore_index=-100, reduction="sum"
            )
            value += loss.item() / count
            scaler.scale(loss / count).backward()
        if k in POISONED:
            named["model.norm.weight"].grad[3] = math.inf
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(named.values(), 1.0).item()
        rate = schedule.get_last_lr()[0]
        if half:
            scaler.step(optimizer)
            scaler.update()
        elif k not in POISONED:
            optimizer.step()
        if k not in POISONED:
            schedule.step()
        optimizer.zero_grad()
        step = {"loss": value, "lr": rate}
        if math.isfinite(norm):
            step["grad_norm"] = norm
        if half:
            step["loss_scale"] = scaler.get_scale()
        steps.append(step)
    return steps


def curves():
    examples, keys = rows()
    single = train(examples, keys, half=False)
    golden = json.load(open(os.path.join(GOLDEN, "stages", "golden", "sft.json")))["steps"]
    assert abs(single[0]["loss"] / golden[0]["loss"] - 1) < 1e-6, (single[0], golden[0])
    assert abs(single[0]["grad_norm"] / golden[0]["grad_norm"] - 1) < 1e-5
    save(
        "curves.json",
        {"poisoned": POISONED, "fp32": single, "fp16": train(examples, keys, half=True)},
    )


def save(name, value):
    with open(os.path.join(HERE, name), "w") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    torch.set_num_threads(2)
    for name in sys.argv[1:] or ("scaler", "gradients", "curves"):
        globals()[name]()
