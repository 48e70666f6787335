"""Writes matrix_papers.json: weights after 20 steps of optimizers of matrices that have no package,
implemented from their papers' algorithms.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/rules/golden/make_matrix_papers.py

In fp64, except singular vectors, which torch computes in fp32 as the authors do: their signs are
LAPACK's.
"""

import counters
import inputs
import make_papers
import numpy as np
import torch

BETA1, BETA2, EPS = 0.9, 0.99, 1e-8
RANK, GAP = 3, 7
SEED = 5


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
    """Returns the right singular vectors [n, ..]; for a transposed matrix, computes them from the
    matrix itself."""
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
    """Computes torch.optim.Muon's equations in fp64."""
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


def normalized(g):
    g = g - g.mean(axis=1, keepdims=True)
    return g / np.sqrt((g**2).mean(axis=1, keepdims=True))


def inverse_root_times(n, steps, beta):
    """Returns (N N^T)^(-1/2) N by the paper's coupled iteration."""
    n = n / np.linalg.norm(n)
    y, z, one = n @ n.T, np.eye(len(n)), np.eye(len(n))
    for _ in range(steps):
        left = 3 * one - z @ y
        y, z = beta * y @ left, beta * left @ z
    return z @ n


def polar(n):
    """Returns (N N^T)^(-1/2) N by the SVD, with the pseudoinverse if N does not have full rank."""
    u, s, vh = np.linalg.svd(n, full_matrices=False)
    kept = s > 1e-6 * s[0]
    return u[:, kept] @ vh[kept]


def swan(whiten, alpha):
    """arXiv 2412.13148: GradNorm, GradWhitening, and scaling to the norm of GradNorm's result."""

    def algorithm(weight, gradients, rates, decay):
        for g, rate in zip(gradients, rates):
            n = normalized(g)
            d = whiten(n.T).T if n.shape[0] > n.shape[1] else whiten(n)
            d = d * np.sqrt(n.size) / np.linalg.norm(d)
            weight = weight - rate * decay * weight
            weight = weight - rate * alpha * d
        return weight

    algorithm.stacks = algorithm.decays_before = True
    return algorithm


def grass(multinomial):
    """arXiv 2406.17660 with Adam, of columns: P^T G as G P, P of rows that are 0 or rho."""

    def algorithm(weight, gradients, rates, decay, name, transposed=False):
        for t, (g, rate) in enumerate(zip(gradients, rates)):
            if t % GAP == 0:
                squares = (g**2).sum(axis=0)
                p, state = np.zeros((g.shape[1], RANK)), Adam()
                if multinomial:
                    q = squares / squares.sum()
                    u = counters.initial_uniform(SEED, f"{name}/projection/{t // GAP}", RANK)
                    rows = [int(np.argmax(np.cumsum(q) > each)) for each in u]
                    p[rows, range(RANK)] = 1 / np.sqrt(RANK * q[rows])
                else:
                    p[np.argsort(-squares)[:RANK], range(RANK)] = 1
            direction = state.direction(g @ p)
            weight = weight - rate * state.correction() * 0.5 * direction @ p.T
            weight = weight - rate * decay * weight
        return weight

    algorithm.named = True
    return algorithm


def spam_density(weight, gradients, rates, decay, name):
    """arXiv 2501.06842, section 3.3: selects the 30 % of elements with the smallest random
    numbers."""

    def mask_of(number):
        key = counters.key_of(SEED, number, f"{name}/mask")
        order = np.argsort(counters.uniform(key, 0, weight.size), kind="stable")
        mask = np.zeros(weight.size, bool)
        mask[order[: round(0.3 * weight.size)]] = True
        return mask.reshape(weight.shape)

    return make_papers.spam(weight, gradients, rates, decay, mask_of)


spam_density.named = spam_density.flat = True
spam_density.others = make_papers.spam


def on_the_side(algorithm, wide):
    """The algorithm for matrices that are wide, or not, as it is; others are transposed."""

    def either(weight, gradients, rates, decay, **more):
        if is_wide(weight) == wide:
            return algorithm(weight, gradients, rates, decay, **more)
        turned = [g.T for g in gradients]
        return algorithm(weight.T, turned, rates, decay, transposed=True, **more).T

    either.named = getattr(algorithm, "named", False)
    return either


CASES = {
    "muon_fp64": muon,
    "fira": on_the_side(fira, wide=False),
    "fira_reverse_std": on_the_side(fira, wide=True),
    "conda": on_the_side(conda, wide=False),
    "online_subspace": on_the_side(online_subspace, wide=False),
    "swan": swan(lambda n: inverse_root_times(n, 20, 0.5), alpha=0.5),
    "swan_published": swan(lambda n: inverse_root_times(n, 10, 0.8), alpha=0.5),
    "swan_exact": swan(polar, alpha=0.5),
    "grass": on_the_side(grass(multinomial=False), wide=False),
    "grass_multinomial": on_the_side(grass(multinomial=True), wide=False),
    "spam_density": spam_density,
}


muon.stacks = muon.decays_before = True


def of_one(algorithm, name, weight, gradients, rates):
    """An algorithm may be of stacks too: `stacks`, one by one; `flat`, as they are."""
    decay = 0.0 if "norm" in name or "bias" in name else inputs.DECAY
    words = ("norm", "bias", "embed", "lm_head")
    is_matrix = weight.ndim > 1 and not any(word in name for word in words)
    more = {"name": name} if getattr(algorithm, "named", False) else {}
    if getattr(algorithm, "stacks", False) and is_matrix and weight.ndim == 3:
        parts = [
            algorithm(weight[e], [g[e] for g in gradients], rates, decay)
            for e in range(len(weight))
        ]
        return np.stack(parts)
    if is_matrix and (weight.ndim == 2 or getattr(algorithm, "flat", False)):
        return algorithm(weight, gradients, rates, decay, **more)
    if hasattr(algorithm, "others"):
        return algorithm.others(weight, gradients, rates, decay)
    before = getattr(algorithm, "decays_before", False)
    return adam(weight, gradients, rates, decay, decays_before=before)


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
    inputs.write(
        "matrix_papers.json",
        {name: inputs.of_both(after_steps, algorithm) for name, algorithm in CASES.items()},
    )


if __name__ == "__main__":
    main()
