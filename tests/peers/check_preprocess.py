"""Runs `moonring preprocess` for every golden configuration and compares the output with
LLaMA-Factory's, byte by byte.

    check_preprocess.py --moonring PATH [--oracle DIR] [--only PART_OF_NAME] [--digests]

With --digests, LLaMA-Factory's demo data (data/ of the oracle), which is not in the repository, is
processed too, and digests are compared.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "preprocess")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--digests", action="store_true")
    args = parser.parse_args()
    cases = [
        (c, os.path.join(GOLDEN, "data"))
        for file in ("cases.json", "added.json")
        for c in json.load(open(os.path.join(GOLDEN, file)))
    ]
    if args.digests:
        cases += [
            (c, os.path.join(args.oracle, "data"))
            for c in json.load(open(os.path.join(GOLDEN, "digests.json")))
        ]
    bad = 0
    for case, dataset_dir in cases:
        if args.only not in case["name"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            config, out = os.path.join(folder, "config.yaml"), os.path.join(folder, "out.jsonl")
            keys = {
                "model_name_or_path": os.path.join(args.oracle, "smollm2"),
                "stage": "sft",
                "do_train": True,
                "finetuning_type": "full",
                "dataset_dir": os.path.abspath(dataset_dir),
                "output_dir": os.path.join(folder, "out"),
                **case["config"],
            }
            with open(config, "w") as f:
                f.writelines(f"{k}: {json.dumps(v)}\n" for k, v in keys.items())
            done = subprocess.run(
                [args.moonring, "preprocess", config, "out=" + out], capture_output=True, text=True
            )
            if done.returncode != 0:
                bad += 1
                print(f"{case['name']}: exit {done.returncode}: {done.stderr[-500:]}")
                continue
            verdicts = [
                compare(case, "", out),
                compare(case, "eval_", os.path.join(folder, "out.eval.jsonl")),
            ]
        wrong = [verdict for verdict in verdicts if verdict]
        bad += bool(wrong)
        print(f"{case['name']}: {'; '.join(wrong) or 'equal'}")
    sys.exit(1 if bad else 0)


def compare(case, part, path):
    """Returns the differences of the rows for training (part "") or evaluation ("eval_"); "" if
    there are none."""
    if not os.path.exists(path):
        return f"{part}rows are missing" if part + "examples" in case else ""
    if part + "examples" not in case:
        return f"unexpected {part}rows"
    ours = open(path).read()
    if part + "file" in case:
        theirs = open(os.path.join(GOLDEN, case[part + "file"])).read()
        ours, theirs = ours.splitlines(), theirs.splitlines()
        wrong = [
            i for i in range(max(len(ours), len(theirs))) if ours[i : i + 1] != theirs[i : i + 1]
        ]
        return (
            f"{part}rows {wrong[:10]} differ ({len(ours)} against {len(theirs)})" if wrong else ""
        )
    if hashlib.sha256(ours.encode()).hexdigest() == case[part + "sha256"]:
        return ""
    rows = [json.loads(line) for line in ours.splitlines()]
    tokens = sum(
        len(ids)
        for row in rows
        for key, ids in row.items()
        if key.endswith("input_ids") and not key.startswith("kl_")
    )
    return (
        f"{part}rows differ: {len(rows)} against {case[part + 'examples']}, {tokens} tokens "
        f"against {case[part + 'tokens']}"
    )


if __name__ == "__main__":
    main()
