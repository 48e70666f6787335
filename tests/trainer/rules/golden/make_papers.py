"""Writes papers.json: weights after 20 steps of optimizers that have no package, implemented from
their papers' algorithms, in fp64.

    $MOONRING_ORACLE/venv/bin/python tests/trainer/rules/golden/make_papers.py
"""

import inputs
import numpy as np


def spam(weight, gradients, rates, decay, mask_of=None):
    """SPAM: arXiv 2501.06842, algorithm 1; theta 2, delta T 8, a warmup of 4 steps, gradients not
    clipped in the 2 steps after a reset. mask_of: of the number of a reset, what is trained
    after it.
    """
    theta, delta, warmup, quiet, beta1, beta2, eps = 2.0, 8, 4, 2, 0.9, 0.99, 1e-6
    m, v = np.zeros_like(weight), np.zeros_like(weight)
    since_reset = None
    for t, (gradient, rate) in enumerate(zip(gradients, rates), start=1):
        mask = np.ones(weight.shape, bool) if mask_of is None else mask_of(t // delta)
        g = np.where(mask, gradient, 0.0)
        if t % delta == 0:
            m[:], v[:], since_reset = 0.0, 0.0, 0
        if t % delta >= quiet:
            spikes = g**2 > theta * v
            g[spikes] = np.sign(g[spikes]) * np.sqrt(theta * v[spikes])
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        scale = 1.0
        if since_reset is not None:
            if since_reset < warmup:
                scale = 1 - 0.99 * (1 + np.cos(np.pi * since_reset / (warmup + 1))) / 2
            since_reset += 1
        corrected = (m / (1 - beta1**t)) / (np.sqrt(v) + eps) * np.sqrt(1 - beta2**t)
        weight = np.where(mask, weight - rate * scale * corrected, weight)
        weight = np.where(mask, weight - rate * decay * weight, weight)
    return weight


CASES = {"spam": spam}


def after_steps(algorithm, dtype):
    after = {}
    rates = [inputs.rate(step) for step in range(inputs.STEPS)]
    for name, weight in inputs.weights(dtype).items():
        gradients = [
            inputs.gradients(step, dtype)[name].double().numpy() for step in range(inputs.STEPS)
        ]
        decay = 0.0 if "norm" in name else inputs.DECAY
        after[name] = algorithm(weight.double().numpy(), gradients, rates, decay).ravel().tolist()
    return after


def main():
    inputs.write(
        "papers.json",
        {name: inputs.of_both(after_steps, algorithm) for name, algorithm in CASES.items()},
    )


if __name__ == "__main__":
    main()
