"""The initial weights and, for each step, the gradients and learning rate of all golden files of
optimizers. They are given by formulas, which ../rule_check.cc also implements."""

import json
import pathlib

import torch

STEPS = 20
DECAY = 0.1
SHAPES = {
    "model.layers.0.mlp.up_proj.weight": [12, 7],
    "model.layers.0.mlp.down_proj.weight": [5, 16],
    "model.norm.weight": [7],  # does not decay
}
# Weights that optimizers of matrices treat in different ways.
MATRICES = SHAPES | {
    "model.embed_tokens.weight": [9, 8],
    "model.layers.0.self_attn.q_proj.weight": [8, 8],
    "model.layers.0.self_attn.q_proj.bias": [8],  # does not decay
    "model.layers.0.self_attn.k_proj.weight": [4, 8],
    "model.layers.0.mlp.experts.down_proj": [3, 5, 4],
    "lm_head.weight": [9, 8],
}


def chirp(shape, factor, phase, dtype):
    count = torch.Size(shape).numel()
    place = torch.arange(count, dtype=torch.float64)
    return torch.sin(place * place * factor + phase).reshape(shape).to(dtype)


def weights(dtype, shapes=SHAPES):
    return {
        name: chirp(shape, 0.37, number, dtype)
        for number, (name, shape) in enumerate(shapes.items())
    }


def gradients(step, dtype, shapes=SHAPES):
    return {
        name: chirp(shape, 0.61, 1.3 * step + 0.5 * number, dtype)
        for number, (name, shape) in enumerate(shapes.items())
    }


def rate(step):
    return 1e-2 * (1 - step / 40)


def after_steps(make, dtype, average=False):
    """Returns the weights by name after all steps of make(groups), a torch optimizer.

    average: returns a schedule-free optimizer's averaged weights, which are used for evaluation.
    """
    parameters = {name: w.requires_grad_() for name, w in weights(dtype).items()}
    optimizer = make(
        [
            {"params": [p], "weight_decay": 0.0 if "norm" in name else DECAY}
            for name, p in parameters.items()
        ]
    )
    if hasattr(optimizer, "train"):
        optimizer.train()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        for name, gradient in gradients(step, dtype).items():
            parameters[name].grad = gradient
        optimizer.step()
    if average:
        optimizer.eval()
    return {name: p.detach().flatten().tolist() for name, p in parameters.items()}


def of_both(weights_after, *args, **options):
    """weights_after(*args, dtype, **options) of both dtypes, by their names."""
    return {
        str(dtype).removeprefix("torch."): weights_after(*args, dtype, **options)
        for dtype in (torch.float32, torch.float64)
    }


def write(name, golden):
    path = pathlib.Path(__file__).parent / name
    path.write_text(json.dumps(golden, indent=0) + "\n")
