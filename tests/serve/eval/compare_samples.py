#!/usr/bin/env python3
"""Compares what lm-eval logged of two models (--log_samples --output_path): log-likelihoods, greedy
flags and generated texts.   compare_samples.py FOLDER OTHER [--most DIFFERENCE]
Exits with 1 if a log-likelihood differs by more than DIFFERENCE, or if a text differs."""

import argparse
import glob
import json
import sys


def samples(folder):
    """Returns {(task, document): sample} of the newest run in a folder."""
    newest = {}
    for path in sorted(glob.glob(f"{folder}/**/samples_*.jsonl", recursive=True)):
        task = path.rsplit("/samples_", 1)[1].rsplit("_", 1)[0]
        newest[task] = path
    found = {}
    for task, path in newest.items():
        with open(path, encoding="utf-8") as file:
            for line in file:
                sample = json.loads(line)
                found[task, sample["doc_id"]] = sample
    if not found:
        sys.exit(f"{folder}: no samples_*.jsonl")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs=2)
    parser.add_argument("--most", type=float, default=1e-3)
    given = parser.parse_args()
    first, second = (samples(folder) for folder in given.folders)
    if first.keys() != second.keys():
        sys.exit(f"other documents: {sorted(first.keys() ^ second.keys())[:5]}")
    worst, scores, flags, texts, same = 0.0, 0, 0, 0, 0
    for key, sample in first.items():
        for a, b in zip(sample["resps"], second[key]["resps"], strict=True):
            a, b = a[0], b[0]
            if isinstance(a, str):
                texts, same = texts + 1, same + (a == b)
                if a != b:
                    print(f"{key}: {a!r}, {b!r}")
                continue
            scores += 1
            difference = abs(float(a[0]) - float(b[0]))
            worst = max(worst, difference)
            flags += str(a[1]) != str(b[1])
    print(f"{scores} log-likelihoods: largest difference {worst:.2g}, other greedy flags: {flags}")
    print(f"{texts} texts, {same} the same")
    return int(worst > given.most or flags > 0 or same < texts)


sys.exit(main())
