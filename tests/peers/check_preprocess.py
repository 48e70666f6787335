"""Runs `moonring preprocess` for every golden configuration and compares ids and labels with LLaMA-Factory's.

    check_preprocess.py --moonring PATH [--oracle DIR] [--only PART_OF_NAME] [--digests]

--digests also runs LLaMA-Factory's demo data (oracle data/), which is not in the repository, and compares digests.
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--oracle", default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")))
    parser.add_argument("--only", default="")
    parser.add_argument("--digests", action="store_true")
    args = parser.parse_args()
    cases = [(c, os.path.join(GOLDEN, "data")) for c in json.load(open(os.path.join(GOLDEN, "cases.json")))]
    if args.digests:
        cases += [(c, os.path.join(args.oracle, "data")) for c in json.load(open(os.path.join(GOLDEN, "digests.json")))]
    bad = 0
    for case, dataset_dir in cases:
        if args.only not in case["name"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            config, out = os.path.join(folder, "config.yaml"), os.path.join(folder, "out.jsonl")
            keys = {"model_name_or_path": os.path.join(args.oracle, "smollm2"), "stage": "sft", "do_train": True, "finetuning_type": "full", "dataset_dir": os.path.abspath(dataset_dir),
                    "output_dir": os.path.join(folder, "out"), **case["config"]}
            with open(config, "w") as f:
                f.writelines(f"{k}: {json.dumps(v)}\n" for k, v in keys.items())
            done = subprocess.run([args.moonring, "preprocess", config, "out=" + out], capture_output=True, text=True)
            if done.returncode != 0:
                bad += 1
                print(f"{case['name']}: exit {done.returncode}: {done.stderr[-500:]}")
                continue
            ours = [json.loads(line) for line in open(out)]
        ours = [{"input_ids": row["input_ids"], "labels": row["labels"]} for row in ours]
        if "file" in case:
            theirs = [json.loads(line) for line in open(os.path.join(GOLDEN, case["file"]))]
            wrong = [i for i in range(max(len(ours), len(theirs))) if ours[i:i + 1] != theirs[i:i + 1]]
            verdict = "equal" if not wrong else f"rows {wrong[:10]} differ ({len(ours)} against {len(theirs)})"
        else:
            same = hashlib.sha256("".join(json.dumps(row) + "\n" for row in ours).encode()).hexdigest() == case["sha256"]
            wrong = not same
            verdict = "equal" if same else f"differ: {len(ours)} rows against {case['examples']}, {sum(len(r['input_ids']) for r in ours)} tokens against {case['tokens']}"
        bad += bool(wrong)
        print(f"{case['name']}: {verdict}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
