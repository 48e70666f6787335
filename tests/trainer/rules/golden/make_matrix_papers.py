"""Writes matrix_papers.json: weights after 20 steps of optimizers of matrices that have no package,
by transcriptions of their papers' algorithms.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/rules/golden/make_matrix_papers.py

In fp64; singular vectors in fp32, as their authors have them, by torch: their signs are LAPACK's.
"""

import json
import pathlib

import inputs
import numpy as np
import torch

BETA1, BETA2, EPS = 0.9, 0.99, 1e-8
RANK, GAP = 3, 7


class Adam:
    def __init__(self):
        self.m = self.v = 0.0
        self.t = 0

    def direction(self, g):
        self.m = BETA1 * self.m + (1 - BETA1) * g
        self.v = BETA2 * self.v + (1 - BETA2) * g**2
        self.t += 1
        return self.m / (np.sqrt(self.v) + EPS)

    def correction(self):
        return np.sqrt(1 - BETA2**self.t) / (1 - BETA1**self.t)


def basis(matrix, transposed):
    """Right singular vectors [n, ..]; of a transposed matrix out of those of the matrix itself."""
    whole = torch.tensor(matrix.T if transposed else matrix).float()
    u, _, vh = torch.linalg.svd(whole, full_matrices=False)
    return (u if transposed else vh.T).double().numpy()


def is_wide(weight):
    return weight.shape[0] < weight.shape[1]


def adam(weight, gradients, rates, decay, decays_before):
    state = Adam()
    for g, rate in zip(gradients, rates):
        if decays_before:
            weight = weight - rate * decay * weight
        direction = state.direction(g)
        weight = weight - rate * state.correction() * direction
        if not decays_before:
            weight = weight - rate * decay * weight
    return weight


def muon(weight, gradients, rates, decay):
    """torch.optim.Muon's equations in fp64."""
    a, b, c = 3.4445, -4.7750, 2.0315
    buffer = np.zeros_like(weight)
    for g, rate in zip(gradients, rates):
        buffer = 0.95 * buffer + 0.05 * g
        u = 0.05 * g + 0.95 * buffer
        tall = u.shape[0] > u.shape[1]
        x = u.T if tall else u
        x = x / np.linalg.norm(x)
        for _ in range(5):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        x = x.T if tall else x
        weight = weight * (1 - rate * decay)
        weight = weight - rate * np.sqrt(max(1, weight.shape[0] / weight.shape[1])) * x
    return weight


def fira(weight, gradients, rates, decay, transposed=False):
    """arXiv 2410.01623, equations 6 to 9, projected from the right."""
    alpha, state, last = 0.5, Adam(), None
    for t, (g, rate) in enumerate(zip(gradients, rates)):
        if t % GAP == 0:
            p = basis(g, transposed)[:, :RANK]
        low = g @ p
        direction = state.direction(low)
        factor = np.linalg.norm(direction, axis=1) / (np.linalg.norm(low, axis=1) + 1e-8)
        rest = (g - alpha * low @ p.T) * factor[:, None]
        norm = np.linalg.norm(rest)
        if last is not None:
            limiter = max(norm / (last + 1e-8), 1.01) / 1.01
            rest, norm = rest / limiter, norm / limiter
        last = norm
        weight = weight - rate * state.correction() * (alpha * direction @ p.T + rest)
        weight = weight - rate * decay * weight
    return weight


def conda(weight, gradients, rates, decay, transposed=False):
    """arXiv 2509.24218, algorithm 1, projected from the right."""
    m, v = np.zeros_like(weight), np.zeros_like(weight)
    for t, (g, rate) in enumerate(zip(gradients, rates)):
        m = BETA1 * m + (1 - BETA1) * g
        if t % GAP == 0:
            q = basis(m, transposed)
        v = BETA2 * v + (1 - BETA2) * (g @ q) ** 2
        update = 0.5 * (m @ q / (np.sqrt(v) + EPS)) @ q.T
        correction = np.sqrt(1 - BETA2 ** (t + 1)) / (1 - BETA1 ** (t + 1))
        weight = weight - rate * correction * update
        weight = weight - rate * decay * weight
    return weight


def online_subspace(weight, gradients, rates, decay, transposed=False):
    """arXiv 2408.12857, algorithm 1 with AdamW for both, projected from the right. The gradient of
    the projection's loss is autograd's.
    """
    state, p, optimizer = Adam(), None, None
    for g, rate in zip(gradients, rates):
        if p is None:
            p = torch.tensor(basis(g, transposed)[:, :RANK]).requires_grad_()
            optimizer = torch.optim.AdamW([p])
        else:
            h = torch.tensor(g / np.linalg.norm(g))
            optimizer.zero_grad()
            ((h @ p @ p.T - h) ** 2).sum().backward()
        q = p.detach().numpy().copy()
        direction = state.direction(g @ q)
        weight = weight - rate * state.correction() * 0.5 * direction @ q.T
        weight = weight - rate * decay * weight
        optimizer.param_groups[0]["lr"] = rate / inputs.rate(0) / 10
        optimizer.step()
    return weight


def on_the_side(algorithm, wide):
    """The algorithm for matrices that are wide, or not, as it is; others are transposed."""

    def either(weight, gradients, rates, decay):
        if is_wide(weight) == wide:
            return algorithm(weight, gradients, rates, decay)
        return algorithm(weight.T, [g.T for g in gradients], rates, decay, transposed=True).T

    return either


CASES = {
    "muon_fp64": muon,
    "fira": on_the_side(fira, wide=False),
    "fira_reverse_std": on_the_side(fira, wide=True),
    "conda": on_the_side(conda, wide=False),
    "online_subspace": on_the_side(online_subspace, wide=False),
}


def of_one(algorithm, name, weight, gradients, rates):
    decay = 0.0 if "norm" in name or "bias" in name else inputs.DECAY
    words = ("norm", "bias", "embed", "lm_head")
    is_matrix = weight.ndim > 1 and not any(word in name for word in words)
    if algorithm is muon and is_matrix and weight.ndim == 3:
        parts = [
            muon(weight[e], [g[e] for g in gradients], rates, decay) for e in range(len(weight))
        ]
        return np.stack(parts)
    if is_matrix and weight.ndim == 2:
        return algorithm(weight, gradients, rates, decay)
    return adam(weight, gradients, rates, decay, decays_before=algorithm is muon)


def after_steps(algorithm, dtype):
    rates = [inputs.rate(step) for step in range(inputs.STEPS)]
    after = {}
    for name, weight in inputs.weights(dtype, inputs.MATRICES).items():
        gradients = [
            inputs.gradients(step, dtype, inputs.MATRICES)[name].double().numpy()
            for step in range(inputs.STEPS)
        ]
        whole = of_one(algorithm, name, weight.double().numpy(), gradients, rates)
        after[name] = whole.ravel().tolist()
    return after


def main():
    torch.set_num_threads(1)
    golden = {
        name: {
            str(dtype).removeprefix("torch."): after_steps(algorithm, dtype)
            for dtype in (torch.float32, torch.float64)
        }
        for name, algorithm in CASES.items()
    }
    path = pathlib.Path(__file__).parent / "matrix_papers.json"
    path.write_text(json.dumps(golden, indent=0) + "\n")


if __name__ == "__main__":
    main()
