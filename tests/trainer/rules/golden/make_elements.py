"""Writes elements.json: weights after 20 steps of optimizers that treat each element separately.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/rules/golden/make_elements.py

torch 2.11.0, lion-pytorch 0.2.5, bitsandbytes 0.50.2 (its reference of AdEMAMix), schedulefree
1.4.1 and badam 1.4, on a CPU.
"""

import badam
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


def badam_ratio(mask_mode, dtype):
    """Returns the weights after all steps of BAdam's ratio mode, which gets its gradients by hooks.
    A block is trained for 7 steps, and the order's seed is the weight's number."""
    parameters = {name: w.requires_grad_() for name, w in inputs.weights(dtype).items()}
    still = {name: torch.nn.Parameter(torch.ones(2)) for name in ("embed_tokens", "lm_head")}
    optimizer = badam.BlockOptimizerRatio(
        [{"params": list(parameters.values())}],
        list((parameters | still).items()),
        update_ratio=0.3,
        switch_every=7,
        preserve_threshold=0,  # below it, it adds 1e-9 to gradients
        mask_mode=mask_mode,
    )
    for number, parameter in enumerate(parameters.values()):
        optimizer.sparse_dict[parameter]["seed"] = number
    for step in range(inputs.STEPS):
        optimizer.param_groups[0]["lr"] = inputs.rate(step)
        gradients = inputs.gradients(step, dtype)
        loss = sum((parameters[name] * gradient).sum() for name, gradient in gradients.items())
        loss.backward()
        optimizer.step()
        for parameter in parameters.values():
            parameter.grad = None
    return {name: p.detach().flatten().tolist() for name, p in parameters.items()}


def main():
    golden = {
        name: inputs.of_both(inputs.after_steps, make, average=False)
        for name, make in (CASES | AVERAGED).items()
    }
    for name, make in AVERAGED.items():
        golden[name + "_average"] = inputs.of_both(inputs.after_steps, make, average=True)
    for mask_mode in ("adjacent", "scatter"):
        golden["badam_" + mask_mode] = inputs.of_both(badam_ratio, mask_mode)
    inputs.write("elements.json", golden)


if __name__ == "__main__":
    main()
