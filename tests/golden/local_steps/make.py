"""Local SGD in PyTorch: Transformers' model and torch.optim.AdamW in fp64, two groups in one
process, and our own code for the outer optimizer. Transformers casts to fp32 in norms and the
rotary table, whatever the weights' dtype is; here the names of fp32 are replaced by fp64.

  python make.py MOONRING     writes golden.json; MOONRING: the program, used only for `preprocess`

Data: the small model and the conversations of ../stages, in their order. The examples of a step are
assigned to groups by the rule of data/steps/packer.h: the most expensive example first, each to the
group with the least work so far. A group's loss is the sum over its shifted labels, divided by the
number of its unshifted labels.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile

import torch
from transformers import LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
STAGES = os.path.join(HERE, "..", "stages")
GROUPS, BATCH, LOCAL, STEPS, ROWS = 2, 2, 4, 11, 37
LR, DECAY, CLIP = 1e-3, 0.1, 0.5
CASES = {
    "averaged": dict(a=1.0, b=0.0, nesterov=False, clip=None, overlap=False),
    "slowmo": dict(a=0.9, b=0.6, nesterov=False, clip=None, overlap=False),
    "diloco": dict(a=0.7, b=0.9, nesterov=True, clip=None, overlap=False),
    "co2": dict(a=0.8, b=0.5, nesterov=False, clip=1e-3, overlap=True),
}


def examples(program: str) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "talks.jsonl")
        words = [f"model_name_or_path={STAGES}/model", f"dataset_dir={STAGES}/data",
                 "dataset=talks", "template=chatml", "cutoff_len=160", "stage=sft",
                 f"max_samples={ROWS}", f"out={out}"]
        subprocess.run([program, "preprocess", *words], check=True)
        with open(out, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def steps(rows: list[dict]) -> list[list[list[dict]]]:
    """Returns [step][group] -> its examples."""
    made, at = [], 0
    while len(made) < STEPS:
        taken = rows[at:at + BATCH * GROUPS]
        at = at + BATCH * GROUPS if at + BATCH * GROUPS < len(rows) else 0
        cost = [len(row["input_ids"]) + len(row["input_ids"]) ** 2 / 16384 for row in taken]
        groups, loads = [[] for _ in range(GROUPS)], [0.0] * GROUPS
        for place in sorted(range(len(taken)), key=lambda place: (-cost[place], place)):
            group = loads.index(min(loads))
            groups[group].append(taken[place])
            loads[group] += cost[place]
        made.append(groups)
    return made


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    parts = {True: [], False: []}
    for name, parameter in model.named_parameters():
        parts["norm" not in name and "bias" not in name].append(parameter)
    return torch.optim.AdamW([{"params": parts[True], "weight_decay": DECAY},
                              {"params": parts[False], "weight_decay": 0.0}], lr=LR)


def inner(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rows: list[dict]):
    """Makes one group's own step. Returns the sum of its loss, its count and its gradient norm;
    None if the group has nothing to train on."""
    count = sum(label != -100 for row in rows for label in row["labels"])
    if count == 0:
        return None
    model.zero_grad()
    total = 0.0
    for row in rows:
        logits = model(torch.tensor([row["input_ids"]])).logits[0]
        labels = torch.tensor(row["labels"])
        loss = torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=-100,
                                                 reduction="sum")
        (loss / count).backward()
        total += loss.item()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
    optimizer.step()
    return total, count, norm


def run(start: torch.nn.Module, plan, rule: dict) -> dict:
    models = [copy.deepcopy(start) for _ in range(GROUPS)]
    optimizers = [optimizer_of(model) for model in models]
    common = {name: weight.detach().clone() for name, weight in start.named_parameters()}
    momentum = {name: torch.zeros_like(weight) for name, weight in common.items()}
    travelling, losses, norms = None, [], []

    def act(mean):
        for name in common:
            m = momentum[name] = rule["b"] * momentum[name] + mean[name]
            if rule["clip"]:
                m = momentum[name] = m.clamp(-rule["clip"], rule["clip"])
            move = mean[name] + rule["b"] * m if rule["nesterov"] else m
            common[name] = common[name] - rule["a"] * move

    for k, groups in enumerate(plan):
        told = [inner(model, optimizer, rows)
                for model, optimizer, rows in zip(models, optimizers, groups)]
        told = [each for each in told if each]
        losses.append(sum(each[0] for each in told) / sum(each[1] for each in told))
        norms.append((sum(each[2] ** 2 for each in told) / len(told)) ** 0.5)
        if (k + 1) % LOCAL and k + 1 < len(plan):
            continue
        of_models = [dict(model.named_parameters()) for model in models]
        mean = {name: sum(common[name] - weights[name].detach() for weights in of_models) / GROUPS
                for name in common}
        if not rule["overlap"]:
            act(mean)
        else:
            if travelling is not None:
                act(travelling)
            travelling = mean
        with torch.no_grad():
            for weights in of_models:
                for name in common:
                    weights[name].copy_(common[name])
    if travelling is not None:
        act(travelling)
    moved = {name: common[name] - weight.detach() for name, weight in start.named_parameters()}
    return {
        "loss": losses,
        "grad_norm": norms,
        "moved": {name: delta.norm().item() for name, delta in moved.items()},
        "first": {name: weight.flatten()[:8].tolist() for name, weight in common.items()},
    }


def main() -> None:
    torch.set_num_threads(1)
    loaded = LlamaForCausalLM.from_pretrained(f"{STAGES}/model", dtype=torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    loaded.config._attn_implementation = "eager"
    model = LlamaForCausalLM(loaded.config).eval()
    model.load_state_dict(loaded.state_dict())
    assert all(x.dtype == torch.float64 for x in (*model.parameters(), *model.buffers()))
    rows = examples(sys.argv[1])
    plan = steps(rows)
    golden = {"groups": GROUPS, "batch": BATCH, "local": LOCAL, "steps": STEPS, "rows": ROWS,
              "lr": LR, "decay": DECAY, "clip": CLIP,
              "shares": [[len(group) for group in step] for step in plan],
              "cases": {name: {**rule, **run(model, plan, rule)} for name, rule in CASES.items()}}
    with open(os.path.join(HERE, "golden.json"), "w", encoding="utf-8") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
