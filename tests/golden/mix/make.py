"""golden.json: orders of datasets.interleave_datasets, and rows drawn with numpy's global
generator.

    make.py                         the strategies under and over, as datasets 4.0.0 orders rows,
                                    and the draws
    PYTHONPATH=FOLDER make.py       in addition the strategy once, which needs a later datasets in
                                    FOLDER (pip install --no-deps --target FOLDER datasets==4.8.4)

Entries that the installed datasets cannot compute stay unchanged.
"""

import json
import os

import datasets
import numpy
from datasets import Dataset, interleave_datasets

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.json")
STRATEGIES = {
    "interleave_under": "first_exhausted",
    "interleave_over": "all_exhausted",
    "interleave_once": "all_exhausted_without_replacement",
}
CASES = [
    ([3, 4, 5], None, 42),
    ([5, 1, 3], None, 42),
    ([2, 2], None, 1),
    ([7], None, 1),
    ([3, 4, 5], [0.5, 0.3, 0.2], 42),
    ([10, 2, 6], [0.1, 0.1, 0.8], 7),
    ([40, 25], [0.7, 0.3], 0),
    ([1, 1], [0.5, 0.5], 123456789012),
    ([900, 400, 300], [0.2, 0.3, 0.5], 3),  # more than one block of a thousand draws
]


def mixes(known):
    for strategy, name in STRATEGIES.items():
        for lengths, probabilities, seed in CASES:
            case = {
                "strategy": strategy,
                "rows": lengths,
                "probabilities": probabilities,
                "seed": seed,
            }
            sources = [
                Dataset.from_dict({"at": [[d, row] for row in range(n)]})
                for d, n in enumerate(lengths)
            ]
            try:
                order = (
                    sources[0]
                    if len(sources) == 1
                    else interleave_datasets(
                        sources, probabilities=probabilities, seed=seed, stopping_strategy=name
                    )
                )
                yield {**case, "datasets": datasets.__version__, "order": order["at"][:]}
            except ValueError:  # a strategy that this version lacks
                yield from (
                    each for each in known if all(each[key] == value for key, value in case.items())
                )


def samples():
    for seed in (42, 0, 2**32 - 1):
        numpy.random.seed(seed)
        drawn = []
        for n, wanted in (
            (10, 4),
            (5, 12),
            (1, 3),
            (300, 300),
            (4, 4),
        ):  # one after another from one generator
            rows = numpy.random.permutation(n)[:wanted].tolist()
            if wanted > len(rows):
                rows += numpy.random.choice(n, wanted - len(rows)).tolist()
            drawn.append({"rows": n, "wanted": wanted, "drawn": rows})
        yield {"seed": seed, "draws": drawn}


def main():
    known = json.load(open(PATH))["mixes"] if os.path.exists(PATH) else []
    golden = {"numpy": numpy.__version__, "mixes": list(mixes(known)), "samples": list(samples())}
    with open(PATH, "w") as f:
        f.write(
            json.dumps(golden, indent=0)
            .replace("\n", "")
            .replace('{"strategy"', '\n{"strategy"')
            .replace('{"seed"', '\n{"seed"')
            + "\n"
        )


if __name__ == "__main__":
    main()
