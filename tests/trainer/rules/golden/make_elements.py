"""Writes elements.json: weights after 20 steps of optimizers that look at one number at a time.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/rules/golden/make_elements.py

torch 2.11.0, lion-pytorch 0.2.5, bitsandbytes 0.50.2 (its reference of AdEMAMix) and schedulefree
1.4.1, on a CPU.
"""

import json
import pathlib

import bitsandbytes.optim.ademamix
import inputs
import lion_pytorch
import schedulefree
import torch

AdEMAMix = bitsandbytes.optim.ademamix._ReferenceAdEMAMix

CASES = {
    "sgd_momentum": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "sgd_nesterov": lambda groups: torch.optim.SGD(groups, momentum=0.8, nesterov=True),
    "sgd_dampening": lambda groups: torch.optim.SGD(groups, momentum=0.9, dampening=0.3),
    "adagrad": torch.optim.Adagrad,
    "adagrad_decay": lambda groups: torch.optim.Adagrad(
        groups, lr_decay=0.05, initial_accumulator_value=0.1, eps=1e-6
    ),
    "rmsprop": torch.optim.RMSprop,
    "rmsprop_centered": lambda groups: torch.optim.RMSprop(
        groups, alpha=0.9, momentum=0.5, centered=True
    ),
    "lion": lambda groups: lion_pytorch.Lion(groups, betas=(0.9, 0.99)),
    "ademamix": AdEMAMix,
    "ademamix_rising": lambda groups: AdEMAMix(
        groups, betas=(0.9, 0.99, 0.999), alpha=3.0, t_alpha=12, t_beta3=15
    ),
}

AVERAGED = {
    "schedule_free_adamw": lambda groups: schedulefree.AdamWScheduleFree(groups, warmup_steps=6),
    "schedule_free_sgd": lambda groups: schedulefree.SGDScheduleFree(
        groups, momentum=0.8, weight_lr_power=1.0, r=0.5
    ),
    "schedule_free_radam": lambda groups: schedulefree.RAdamScheduleFree(
        groups, betas=(0.9, 0.99)
    ),
}


def of_both(make, average=False):
    return {
        str(dtype).removeprefix("torch."): inputs.after_steps(make, dtype, average)
        for dtype in (torch.float32, torch.float64)
    }


def main():
    golden = {name: of_both(make) for name, make in (CASES | AVERAGED).items()}
    golden |= {name + "_average": of_both(make, True) for name, make in AVERAGED.items()}
    path = pathlib.Path(__file__).parent / "elements.json"
    path.write_text(json.dumps(golden, indent=0) + "\n")


if __name__ == "__main__":
    main()
