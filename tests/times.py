#!/usr/bin/env python3
"""Shows where the minutes of a build and of its tests go: prints tables from Bazel's output.

  ./bazelw test --profile=/tmp/profile.gz //...
  python3 tests/times.py --profile /tmp/profile.gz --tests --bytes

Tables of compile seconds by folder and by source, link seconds, test seconds by folder, target and
case, and bytes of tracked files by folder. Seconds of an action include the effect of other actions
that ran at the same time. A test with a cached result counts with the seconds of the run that
produced it.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Bazel's names of actions: the first word of their line on the terminal.
KINDS = {"Compiling": "compile", "Precompiling": "compile", "Linking": "link", "Testing": "test"}


def read_profile(path):
    """Returns a profile's actions, each as (kind, what it works on, seconds), and the build's
    seconds."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    actions = []
    last = 0
    for event in events:
        last = max(last, event.get("ts", 0) + event.get("dur", 0))
        if event.get("cat") == "action processing" and event.get("ph") == "X":
            word, _, what = event["name"].partition(" ")
            actions.append((KINDS.get(word, "other"), what, event["dur"] / 1e6))
    return actions, last / 1e6


def read_tests(folder):
    """Returns the tests in a folder of test logs: {target: (seconds, {case: seconds})}, summed over
    shards."""
    tests = {}
    for path in sorted(folder.rglob("test.xml")):
        parts = list(path.relative_to(folder).parent.parts)
        if parts[-1].startswith("shard_"):
            parts.pop()
        target = "//" + "/".join(parts[:-1]) + ":" + parts[-1]
        seconds, cases = tests.setdefault(target, [0.0, collections.Counter()])
        try:
            suites = xml.etree.ElementTree.parse(path).getroot()
        except xml.etree.ElementTree.ParseError:
            print(f"times.py: {path} is no XML: left out", file=sys.stderr)
            continue
        for case in suites.iter("testcase"):
            took = float(case.get("time") or 0)
            if took:
                cases[f"{case.get('classname')}.{case.get('name')}"] += took
            seconds += took
        tests[target][0] = seconds
    return tests


def table(title, rows, top):
    """Prints the `top` rows with most seconds or bytes: (name, amount, count)."""
    total = sum(amount for _, amount, _ in rows)
    print(f"\n| {title} | {total:,.0f} | {sum(count for _, _, count in rows):,} |\n|---|---:|---:|")
    for name, amount, count in sorted(rows, key=lambda row: -row[1])[:top]:
        print(f"| {name} | {amount:,.1f} | {count:,} |")


def by(pairs, key):
    """Adds up rows of (name, seconds) by key(name)."""
    amounts, counts = collections.Counter(), collections.Counter()
    for name, amount in pairs:
        amounts[key(name)] += amount
        counts[key(name)] += 1
    return [(name, amounts[name], counts[name]) for name in amounts]


def print_profile(path, top):
    actions, whole = read_profile(path)
    print(f"{path}: {whole:,.0f} s from its beginning to its end")
    table("actions, s", by([(kind, took) for kind, _, took in actions], str), top)
    compiled = [(what, took) for kind, what, took in actions if kind == "compile"]
    table("compiled by folder, s", by(compiled, os.path.dirname), top)
    table("compiled by source, s", by(compiled, str), top)
    linked = [(what, took) for kind, what, took in actions if kind == "link"]
    table("linked, s", by(linked, str), top)


def print_tests(top):
    folder = ROOT / "bazel-testlogs"
    if not folder.exists():
        sys.exit(f"times.py: there is no {folder}: run ./bazelw test first")
    tests = read_tests(folder.resolve())
    targets = [(target, seconds) for target, (seconds, _) in tests.items()]
    table("tests by folder, s", by(targets, lambda target: target.partition(":")[0]), top)
    table("tests by target, s", by(targets, str), top)
    cases = [
        (f"{target} {case}", took)
        for target, (_, taken) in tests.items()
        for case, took in taken.items()
    ]
    table("tests by case, s", by(cases, str), top)


def print_bytes(top):
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    files = [(name, (ROOT / name).lstat().st_size) for name in listed if name]
    table("tracked files by folder, bytes", by(files, lambda name: name.partition("/")[0]), top)
    golden = [(name, size) for name, size in files if name.startswith("tests/golden/")]
    table("tests/golden by folder, bytes", by(golden, lambda name: name.split("/")[2]), top)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", help="what bazel --profile=FILE wrote")
    parser.add_argument("--tests", action="store_true", help="the tests of bazel-testlogs")
    parser.add_argument("--bytes", action="store_true", help="the bytes of tracked files")
    parser.add_argument("--top", type=int, default=20, help="rows of a table (20)")
    options = parser.parse_args()
    if not (options.profile or options.tests or options.bytes):
        parser.error("nothing to print: --profile FILE, --tests or --bytes")
    if options.profile:
        print_profile(options.profile, options.top)
    if options.tests:
        print_tests(options.top)
    if options.bytes:
        print_bytes(options.top)


if __name__ == "__main__":
    main()
