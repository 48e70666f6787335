"""Writes golden/optimizers.json and golden/schedules.json: numbers of torch.optim and of
Transformers' schedulers.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/make_golden.py

Numbers are printed with all their digits, so that reading gives the same doubles.
"""

import json
import pathlib

import torch
import transformers
from transformers import get_scheduler

FOLDER = pathlib.Path(__file__).parent / "golden"


def values(count, seed, dtype):
    return torch.randn(
        count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def optimizer_case(name, make, dtype, lrs, decay):
    weights = [values(19, 1, dtype).requires_grad_(), values(7, 2, dtype).requires_grad_()]
    optimizer = make(
        [
            {"params": [weights[0]], "weight_decay": decay},
            {"params": [weights[1]], "weight_decay": 0.0},
        ]
    )
    case = {
        "name": name,
        "dtype": str(dtype).removeprefix("torch."),
        "weight_decay": decay,
        "lrs": lrs,
        "parameters": ["model.layers.0.mlp.up_proj.weight", "model.norm.weight"],
        "start": [w.tolist() for w in weights],
        "gradients": [],
        "weights": [],
    }
    for step, lr in enumerate(lrs):
        for group in optimizer.param_groups:
            group["lr"] = lr
        gradients = [
            values(19, 100 + step, dtype) * 10.0 ** (step - 2),
            values(7, 200 + step, dtype),
        ]
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient.clone()
        optimizer.step()
        case["gradients"].append([g.tolist() for g in gradients])
        case["weights"].append([w.detach().tolist() for w in weights])
    return case


def optimizers():
    lrs = [0.0, 1e-3, 1e-2, 0.1, 1e-4]
    cases = []
    for dtype in (torch.float64, torch.float32):
        for fused in (False, True):
            for betas, eps, decay in (((0.9, 0.999), 1e-8, 0.0), ((0.8, 0.95), 1e-6, 0.1)):
                case = optimizer_case(
                    "adamw",
                    lambda groups: torch.optim.AdamW(
                        groups, lr=1.0, betas=betas, eps=eps, fused=fused, foreach=False
                    ),
                    dtype,
                    lrs,
                    decay,
                )
                cases.append(
                    case | {"beta1": betas[0], "beta2": betas[1], "epsilon": eps, "fused": fused}
                )
        for decay in (0.0, 0.1):
            cases.append(
                optimizer_case(
                    "sgd",
                    lambda groups: torch.optim.SGD(groups, lr=1.0, foreach=False),
                    dtype,
                    lrs,
                    decay,
                )
            )
    return cases


def stable_decay(total, warmup, options):
    """Returns the options that LLaMA-Factory adds: a third of the steps after the warm-up are
    stable, the others decay."""
    rest = total - warmup
    return {"num_stable_steps": rest // 3, "num_decay_steps": rest - rest // 3, **options}


def schedules():
    cases = []
    kinds = [
        ("linear", {}),
        ("cosine", {}),
        ("cosine", {"num_cycles": 1.5}),
        ("constant", {}),
        ("constant_with_warmup", {}),
        ("cosine_with_restarts", {}),
        ("cosine_with_restarts", {"num_cycles": 3}),
        ("cosine_with_min_lr", {"min_lr": 1e-5}),
        ("cosine_with_min_lr", {"min_lr_rate": 0.2, "num_cycles": 1.0}),
        ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}),
        ("cosine_warmup_with_min_lr", {"min_lr": 2e-5, "warmup_lr_rate": 0.3}),
        ("polynomial", {}),
        ("polynomial", {"lr_end": 1e-5, "power": 2.5}),
        ("inverse_sqrt", {}),
        ("warmup_stable_decay", {}),
        (
            "warmup_stable_decay",
            {
                "num_stable_steps": 1,
                "num_decay_steps": 2,
                "min_lr_ratio": 0.25,
                "decay_type": "1-sqrt",
                "warmup_type": "cosine",
            },
        ),
        (
            "warmup_stable_decay",
            {"decay_type": "linear", "warmup_type": "1-sqrt", "min_lr_ratio": 0.1},
        ),
        ("warmup_stable_decay", {"num_cycles": 1.5}),
    ]
    for kind, options in kinds:
        for total, warmup_steps, warmup_ratio in (
            (10, 0, 0.0),
            (10, 3, 0.0),
            (33, 0, 0.1),
            (7, 0, 0.5),
            (5, 5, 0.0),
            (4, 9, 0.0),
            (1, 0, 0.0),
            (100, 0, 0.07),
        ):
            arguments = transformers.TrainingArguments(
                output_dir="unused",
                warmup_steps=warmup_steps,
                warmup_ratio=warmup_ratio,
                use_cpu=True,
                report_to=[],
            )
            warmup = arguments.get_warmup_steps(total)
            if kind == "polynomial" and total <= warmup:
                continue  # Transformers divides by zero
            if kind == "warmup_stable_decay" and total < warmup:
                continue  # a negative number of steps
            optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=3e-4)
            more = (
                stable_decay(total, warmup, options) if kind == "warmup_stable_decay" else options
            )
            scheduler = get_scheduler(
                kind,
                optimizer,
                num_warmup_steps=warmup,
                num_training_steps=total,
                scheduler_specific_kwargs=dict(more),
            )
            lrs = []
            for _ in range(total + 2):
                lrs.append(scheduler.get_last_lr()[0])
                optimizer.step()
                scheduler.step()
            cases.append(
                {
                    "kind": kind,
                    "learning_rate": 3e-4,
                    "total_steps": total,
                    "warmup_steps": warmup_steps,
                    "warmup_ratio": warmup_ratio,
                    "options": options,
                    "lrs": lrs,
                }
            )
    return cases


def decays():
    """Returns the names for which Transformers' Trainer applies weight decay, in a model with these
    parameter names."""
    names = [
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.norm.weight",
        "lm_head.weight",
        "model.layers.0.RMSNorm.weight",
        "model.normal.weight",
        "transformer.final_norm.weight",
        "model.layers.0.norm_gate.weight",
        "model.layers.0.mlp.score_bias",
        "normalizer.weight",
        "layers.0.Norm.scale",
    ]
    root = torch.nn.Module()
    for name in names:
        module = root
        *folders, leaf = name.split(".")
        for folder in folders:
            if folder not in dict(module.named_children()):
                module.add_module(folder, torch.nn.Module())
            module = getattr(module, folder)
        module.register_parameter(leaf, torch.nn.Parameter(torch.zeros(1)))
    kept = transformers.Trainer.get_decay_parameter_names(None, root)
    return {name: name in kept for name in names}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    (FOLDER / "optimizers.json").write_text(
        json.dumps({"versions": versions, "cases": optimizers()}) + "\n"
    )
    (FOLDER / "schedules.json").write_text(
        json.dumps({"versions": versions, "cases": schedules(), "decays": decays()}) + "\n"
    )
