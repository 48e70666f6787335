"""A sketch of a gradient, stored in golden files instead of its numbers: its shape, its norm, and
PROJECTIONS sums of its elements with random signs, all in fp64.

For two tensors a and b, the square of the difference of their projections has the mean
||a - b||^2. The mean over the projections therefore estimates the distance of another program's
gradient, with a relative standard deviation of 1 / sqrt(2 * PROJECTIONS) = 18 % (Alon, Matias and
Szegedy, The space complexity of approximating the frequency moments, 1999, theorem 2.2; Achlioptas,
Database-friendly random projections, 2003).

Sign k of element i is bit k of the i-th output of the generator splitmix64 (Steele, Lea and Flood,
2014), whose initial state is the FNV-1a hash of the tensor's name, so that each tensor has its own
signs. tests/testing/gradient_sketch.cc computes the same.
"""

import torch

PROJECTIONS = 16
WORD = (1 << 64) - 1


def wrapped(x):
    """Converts to int64 with the same bits: torch cannot multiply unsigned 64-bit integers."""
    x &= WORD
    return x - (1 << 64) if x >> 63 else x


def shifted(z, by):
    """z >> by for unsigned numbers."""
    return (z >> by) & (WORD >> by)


def signs(name, count):
    """Returns the signs [count, PROJECTIONS], -1 or 1."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & WORD
    z = torch.arange(1, count + 1) * wrapped(0x9E3779B97F4A7C15) + wrapped(state)
    z = (z ^ shifted(z, 30)) * wrapped(0xBF58476D1CE4E5B9)
    z = (z ^ shifted(z, 27)) * wrapped(0x94D049BB133111EB)
    z = z ^ shifted(z, 31)
    return 1.0 - 2.0 * ((z[:, None] >> torch.arange(PROJECTIONS)) & 1).double()


def projections(name, tensor):
    flat = tensor.detach().double().flatten()
    return flat @ signs(name, len(flat))


def sketch(name, tensor):
    return {
        "shape": list(tensor.shape),
        "norm": tensor.detach().double().norm().item(),
        "projections": projections(name, tensor).tolist(),
    }


def distance(name, tensor, kept):
    """Returns an estimate of ||tensor - t||, where `kept` is the sketch of t."""
    off = projections(name, tensor) - torch.tensor(kept["projections"], dtype=torch.float64)
    return off.square().mean().sqrt().item()
