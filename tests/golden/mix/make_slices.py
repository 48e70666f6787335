"""Writes slices.json: the rows of the split train that datasets 4.0.0 selects for each text, or
null if it rejects the text.

make_slices.py
"""

import json
import os

import datasets
from datasets.arrow_reader import ReadInstruction

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slices.json")
SPECS = [
    "train",
    "train[:3]",
    "train[3:]",
    "train[2:5]",
    "train[-3:]",
    "train[:-3]",
    "train[-5:-2]",
    "train[:]",
    "train[5:2]",
    "train[:1000]",
    "train[-1000:2]",
    "train[1000:]",
    "train[:10%]",
    "train[10%:20%]",
    "train[-15%:]",
    "train[:-5%]",
    "train[33%:66%]",
    "train[5%:5]",
    "train[50%:]",
    "train[:100%]",
    "train[:50%](closest)",
    "train[:10%](pct1_dropremainder)",
    "train[7%:9%](pct1_dropremainder)",
    "train[-3%:](pct1_dropremainder)",
    "train[:2]+train[-2:]",
    "train[:10%] + train[4:6]",
    "train[:2]+train[:2]",
    # invalid
    "train[:101%]",
    "train[3]",
    "train[a:b]",
    "train[:3",
    "train(closest)",
    "train[:3](closest)",
    "train[:10%](floor)",
    "test",
    "train[:3]+test",
    "train[1:2:3]",
    "",
    "train[:1.5]",
    "train[:+3]",
]


def rows(spec, n):
    try:
        instruction = ReadInstruction.from_spec(spec).to_absolute({"train": n})
    except (ValueError, AttributeError):
        return None
    return [row for part in instruction for row in range(part.from_, part.to)]


def main():
    cases = [
        {"split": spec, "rows": n, "taken": rows(spec, n)}
        for n in (1, 7, 25, 130, 250)
        for spec in SPECS
    ]
    with open(PATH, "w") as f:
        f.write(
            json.dumps({"datasets": datasets.__version__, "cases": cases}).replace(
                '{"split"', '\n{"split"'
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
