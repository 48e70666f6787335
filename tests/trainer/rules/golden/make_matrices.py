"""Writes matrices.json: weights after 20 steps of optimizers that treat whole matrices.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/rules/golden/make_matrices.py

torch 2.11.0, LLaMA-Factory 0.9.5 (its Muon), galore-torch 1.0, apollo-torch 1.0.3, adam-mini 1.1.1
and Transformers 4.57.6 (its Adafactor), on a CPU with one thread. Optimizers that do not support
stacks of matrices get the matrices of a stack one by one.
"""

import adam_mini
import apollo_torch.apollo
import galore_torch
import inputs
import torch
import transformers.optimization
from llamafactory.third_party import muon

BETAS = (0.9, 0.99)
NO_DECAY = ("norm", "bias")


def is_matrix(name):
    return not any(word in name for word in (*NO_DECAY, "embed", "lm_head"))


def is_linear(name, targets):
    if not name.endswith(".weight") or "norm" in name or "embed" in name:
        return False
    return any(word in name for word in targets) if targets else "lm_head" not in name


def decay_of(name):
    return 0.0 if any(word in name for word in NO_DECAY) else inputs.DECAY


def after_steps(make, dtype, stacks=False):
    """Returns the weights after all steps of make({name: parameter}), a list of torch optimizers.

    stacks: whether they support stacks of matrices.
    """
    parts = {}
    for name, weight in inputs.weights(dtype, inputs.MATRICES).items():
        split = weight.dim() == 3 and not stacks
        for number, part in enumerate(weight.unbind() if split else [weight]):
            parts[name, number] = part.clone().requires_grad_()
    optimizers = make(parts)
    for step in range(inputs.STEPS):
        for (name, number), part in parts.items():
            gradient = inputs.gradients(step, dtype, inputs.MATRICES)[name]
            part.grad = gradient if gradient.shape == part.shape else gradient[number].clone()
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = inputs.rate(step)
            optimizer.step()
    after = {name: [] for name in inputs.MATRICES}
    for (name, _), part in parts.items():
        after[name] += part.detach().flatten().tolist()
    return after


def by_decay(named):
    for decay in (inputs.DECAY, 0.0):
        group = [part for (name, _), part in named.items() if decay_of(name) == decay]
        if group:
            yield decay, group


def llamafactory_muon(named, matrices):
    return [
        muon.Muon(
            wd=decay,
            muon_params=group if matrices else [],
            adamw_params=[] if matrices else group,
            adamw_betas=BETAS,
        )
        for decay, group in by_decay(named)
    ]


def split(named, chosen):
    ours = {key: part for key, part in named.items() if chosen(key[0])}
    return ours, {key: part for key, part in named.items() if key not in ours}


def torch_muon(**options):
    def make(named):
        ours, others = split(named, is_matrix)
        first = torch.optim.Muon(list(ours.values()), weight_decay=inputs.DECAY, **options)
        return [first, *llamafactory_muon(others, matrices=False)]

    return make


def use_muon(named):
    ours, others = split(named, is_matrix)
    return llamafactory_muon(ours, True) + llamafactory_muon(others, False)


def low_rank(make, targets=(), **options):
    def groups(named):
        # A stack is no linear module's weight, so Adam updates it, element by element.
        ours, others = split(named, lambda name: is_linear(name, targets))
        all_groups = [{"params": group, "weight_decay": decay} for decay, group in by_decay(others)]
        all_groups.append({"params": list(ours.values()), "weight_decay": inputs.DECAY, **options})
        return [make(all_groups)]

    return groups


def galore(proj_type, targets=()):
    def make(groups):
        return galore_torch.GaLoreAdamW(groups, betas=BETAS, eps=1e-8, no_deprecation_warning=True)

    return low_rank(make, targets, rank=3, update_proj_gap=7, scale=0.5, proj_type=proj_type)


class Projector(apollo_torch.apollo.GradientProjector):
    """Returns numbers of a formula (a chirp) instead of random numbers, as ../matrices_test.cc
    does."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.number = 0

    def get_orthogonal_matrix(self, weights, rank, type, seed):
        rows, columns = weights.shape
        shape = [rows, rank] if type == "left" else [rank, columns]
        self.number += 1
        return inputs.chirp(shape, 0.43, 0.9 * self.number, weights.dtype)


def apollo(scale_front=False, targets=(), **options):
    def make(groups):
        return apollo_torch.apollo.AdamW(groups, betas=BETAS, eps=1e-8, scale_front=scale_front)

    defaults = {"rank": 3, "update_proj_gap": 7, "scale": 4.0, "proj_type": "std"}
    return low_rank(make, targets, **defaults | {"proj": "random"} | options)


def adafactor(make):
    def groups(named):
        return [
            make([{"params": group, "weight_decay": decay} for decay, group in by_decay(named)])
        ]

    return groups


def mini(named):
    pairs = [(name, part) for (name, _), part in named.items()]
    return [
        adam_mini.Adam_mini(
            pairs, betas=BETAS, weight_decay=inputs.DECAY, dim=8, n_heads=4, n_kv_heads=2,
            verbose=False,
        )
    ]


CASES = {
    "muon_original": torch_muon(),
    "muon_match": torch_muon(adjust_lr_fn="match_rms_adamw", nesterov=False, momentum=0.9),
    "use_muon": use_muon,
    "galore_std": galore("std"),
    "galore_reverse_std": galore("reverse_std"),
    "galore_left": galore("left"),
    "galore_right": galore("right"),
    "galore_full": galore("full"),
    "galore_targets": galore("std", ["q_proj", "lm_head"]),
    "apollo_channel": apollo(scale_type="channel"),
    "apollo_mini": apollo(scale_type="tensor", rank=1, scale_front=True),
    "apollo_svd": apollo(scale_type="channel", proj="svd"),
    "apollo_left": apollo(scale_type="channel", proj_type="left", targets=["down_proj", "k_proj"]),
    "adam_mini": mini,
}
WITH_STACKS = {
    "adafactor": adafactor(
        lambda groups: transformers.optimization.Adafactor(
            groups, lr=1.0, scale_parameter=False, relative_step=False
        )
    ),
    "adafactor_torch": adafactor(torch.optim.Adafactor),
}


def main():
    torch.set_num_threads(1)
    apollo_torch.apollo.GradientProjector = Projector
    golden = {
        name: inputs.of_both(after_steps, make, stacks=name in WITH_STACKS)
        for name, make in (CASES | WITH_STACKS).items()
    }
    inputs.write("matrices.json", golden)


if __name__ == "__main__":
    main()
