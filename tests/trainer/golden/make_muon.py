"""Writes muon.json: matrices before and after each step of torch.optim.Muon.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/golden/make_muon.py

torch 2.11.0, on a CPU. Numbers are printed with all their digits, so that reading gives the same
doubles. The rate is adjusted to AdamW's (match_rms_adamw), momentum is Nesterov's, everything else
is torch's default.
"""

import json
import pathlib

import torch

SHAPES = [[6, 4], [4, 6], [5, 5], [3, 16]]
LRS = [1e-2, 1e-2, 8e-3, 6e-3, 4e-3, 2e-3, 1e-3, 5e-4]
DECAY = 0.1


def values(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def main():
    cases = []
    for number, shape in enumerate(SHAPES):
        weight = values(shape, number).requires_grad_()
        muon = torch.optim.Muon([weight], weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")
        case = {"shape": shape, "start": weight.tolist(), "gradients": [], "weights": []}
        for step, lr in enumerate(LRS):
            weight.grad = values(shape, 100 * (number + 1) + step)
            muon.param_groups[0]["lr"] = lr
            muon.step()
            case["gradients"].append(weight.grad.tolist())
            case["weights"].append(weight.tolist())
        cases.append(case)
    golden = {"torch": torch.__version__, "weight_decay": DECAY, "lrs": LRS, "cases": cases}
    path = pathlib.Path(__file__).parent / "muon.json"
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
