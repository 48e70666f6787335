"""Writes step_settings.json: torch.optim.AdamW whose param_groups change before each step.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/golden/make_step_settings.py

All weights decay. The gradients of one step are zeros. Numbers are printed with all their digits.
"""

import json
import pathlib

import torch

SETTINGS = [  # lr, beta1, beta2, epsilon, weight_decay
    (1e-2, 0.9, 0.95, 1e-12, 0.0),
    (2e-2, 0.8, 0.999, 1e-8, 0.1),
    (1e-2, 0.0, 0.5, 1e-6, 0.3),
    (3e-3, 0.95, 0.0, 1e-3, 0.0),
    (5e-3, 0.9, 0.95, 1e-12, 0.2),
    (1e-1, 0.7, 0.9, 1e-8, 0.5),
]
WITHOUT_GRADIENT = 4


def values(count, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64).to(dtype)


def case(dtype):
    weights = [values(6, 1, dtype).requires_grad_(), values(3, 2, dtype).requires_grad_()]
    optimizer = torch.optim.AdamW(weights, lr=1.0, fused=True)
    made = {
        "dtype": str(dtype).removeprefix("torch."),
        "start": [w.tolist() for w in weights],
        "gradients": [],
        "weights": [],
    }
    for step, (lr, beta1, beta2, eps, decay) in enumerate(SETTINGS):
        for group in optimizer.param_groups:
            group.update(lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay)
        factor = 0.0 if step == WITHOUT_GRADIENT else 10.0 ** (step - 2)
        for i, weight in enumerate(weights):
            weight.grad = values(weight.numel(), 100 * (i + 1) + step, dtype) * factor
        made["gradients"].append([w.grad.tolist() for w in weights])
        optimizer.step()
        made["weights"].append([w.detach().tolist() for w in weights])
    return made


names = ("lr", "beta1", "beta2", "epsilon", "weight_decay")
golden = {
    "settings": [dict(zip(names, each)) for each in SETTINGS],
    "without_gradient": WITHOUT_GRADIENT,
    "parameters": ["model.layers.0.mlp.up_proj.weight", "model.norm.weight"],
    "cases": [case(torch.float64), case(torch.float32)],
}
path = pathlib.Path(__file__).parent / "step_settings.json"
path.write_text(json.dumps(golden, indent=1) + "\n")
