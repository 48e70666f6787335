"""Orders of examples by Transformers 4.57.6's get_length_grouped_indices, each with a generator
that is seeded with seed + epoch. (LengthGroupedSampler itself uses torch's global generator, in
whatever state that is.)

    make.py     writes orders.json. Lengths follow a rule (length_of), so that many are equal
"""

import json
import os

import torch
from transformers.trainer_pt_utils import get_length_grouped_indices

HERE = os.path.dirname(os.path.abspath(__file__))


def length_of(example, most):
    return (example * 7919 + 13) % 1009 % most + 1


def main():
    cases = []
    for n, batch, most, seed, epoch in (
        (1, 4, 50, 42, 0),
        (7, 2, 50, 42, 1),
        (30, 4, 6, 7, 0),
        (100, 4, 80, 42, 0),
        (100, 4, 80, 42, 3),
        (1000, 3, 1000, 5, 2),  # groups of 50 batches
        (1000, 4, 9, 5, 2),
    ):
        lengths = [length_of(i, most) for i in range(n)]
        order = get_length_grouped_indices(
            lengths, batch, generator=torch.Generator().manual_seed(seed + epoch)
        )
        assert sorted(order) == list(range(n))
        cases.append(
            {
                "n": n,
                "batch": batch,
                "most": most,
                "seed": seed,
                "epoch": epoch,
                "order": order,
            }
        )
    with open(os.path.join(HERE, "orders.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")


if __name__ == "__main__":
    main()
