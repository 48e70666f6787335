#!/usr/bin/env python3
"""Each claim of tests/README.md has a first case in the fast tier, and each large suite belongs to
a tier.

Argument: a file at the repository's root. BUILD files are parsed as Python, whose syntax they have.
A first case is a target of tests/ and, for a C++ test, one of its cases: "comm:layout_test
LayoutTest.OneRank"; for another test, one of the arguments of the fast tier. Cases that are run by
hand are written as "by hand: COMMAND".
"""

import ast
import fnmatch
import os
import re
import sys

BY_HAND = ("attack", "benchmarks", "container", "peers")
LARGE = ("large", "enormous")
RERUN = "rerun_on_pretend_device"


class Target:
    """A test that a BUILD file declares, and the settings that determine its tier."""

    def __init__(self, package: str, call: ast.Call):
        given = {}
        for word in call.keywords:
            try:
                given[word.arg] = ast.literal_eval(word.value)
            except ValueError:
                given[word.arg] = None  # computed by an expression
        self.rule = call.func.id
        self.package = package
        self.name = str(given.get("name"))
        self.label = f"//tests/{package}:{self.name}"
        self.sources = given.get("srcs") or [f"{self.name}.cc"]
        self.fast, self.full = given.get("fast") or [], given.get("full") or []
        self.arguments = given.get("args") or self.fast
        self.tags = given.get("tags") or []
        self.size = given.get("size")

    def is_test(self) -> bool:
        return self.rule.endswith("_test")

    def is_in_fast_tier(self) -> bool:
        return not {"full", "manual"} & set(self.tags) and self.full != ["*"]

    def has_in_fast_tier(self, case: str) -> bool:
        if self.fast:
            return any(matches(pattern, case) for pattern in self.fast)
        return not any(matches(pattern, case) for pattern in self.full)


def matches(pattern: str, case: str) -> bool:
    """Matches like fnmatch with FNM_EXTMATCH, of which only !(x|y) is supported."""
    without = re.fullmatch(r"(.*?)!\((.*?)\)(.*)", pattern)
    if not without:
        return fnmatch.fnmatchcase(case, pattern)
    before, others, after = without.groups()
    return any(
        fnmatch.fnmatchcase(case[:begin], before)
        and matches(after, case[end:])
        and not any(fnmatch.fnmatchcase(case[begin:end], other) for other in others.split("|"))
        for begin in range(len(case) + 1)
        for end in range(begin, len(case) + 1)
    )


def calls_of(tests: str):
    """Yields the package and the syntax tree of each call with named arguments in BUILD files."""
    for folder, _, names in os.walk(tests):
        if "BUILD" not in names:
            continue
        with open(os.path.join(folder, "BUILD"), encoding="utf-8") as file:
            calls = ast.walk(ast.parse(file.read()))
        for call in calls:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.keywords:
                yield os.path.relpath(folder, tests), call


def targets(tests: str) -> dict[str, Target]:
    found = {}
    for package, call in calls_of(tests):
        target = Target(package, call)
        if target.is_test():
            found[f"{target.package}:{target.name}"] = target
    return found


def idle_reruns(tests: str, known: dict[str, Target]) -> list[str]:
    """Returns the errors of reruns with a pattern of --gtest_filter that selects no case."""
    complaints = []
    for package, call in calls_of(tests):
        if call.func.id != RERUN:
            continue
        given = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        target = known[f"{package}:{given['name']}"]
        with open(os.path.join(tests, package, target.sources[0]), encoding="utf-8") as file:
            declared = re.findall(r"TEST(?:_F|_P)?\((\w+),\s+(\w+)\)", file.read())
        for pattern in f"{given.get('only', '*')}:{given.get('full', '')}".split(":"):
            # "-" begins the patterns of excluded cases; "/" precedes a parameter's name.
            chosen = pattern.split("-")[0].split("/")[0]
            if chosen and not any(fnmatch.fnmatchcase(".".join(case), chosen) for case in declared):
                complaints.append(f'{target.label}: the rerun\'s "{pattern}" selects no case')
    return complaints


def claims(page: str) -> list[tuple[str, str]]:
    """Returns the kind and the first case in each row of the table of claims."""
    rows = [line.strip("|\n").split(" | ") for line in page.split("\n") if line.startswith("| ")]
    return [(row[0].strip(), row[-1].strip()) for row in rows[1:]]


def fault_of(kind: str, first: str, known: dict[str, Target], tests: str) -> str | None:
    """Returns the error of a claim's first case; None if there is none."""
    if first.startswith("by hand: "):
        return None if kind in BY_HAND else "is run by hand: it requires a case in the fast tier"
    name, _, case = first.strip("`").partition(" ")
    if name not in known:
        return f'has no first case: "{first}" names no test of tests/'
    target = known[name]
    if not target.is_in_fast_tier():
        return f"{target.label} is not of the fast tier"
    if not target.sources[0].endswith(".cc"):
        missing = case and case not in target.arguments
        return f'"{case}" is not among the arguments of {target.label}' if missing else None
    path = os.path.join(tests, target.package, target.sources[0])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if "RegisterTest(" in text:
        return None  # its cases are generated when it runs
    suite, _, test = case.partition(".")
    declared = rf"TEST(_F|_P)?\({suite.split('/')[-1]},\s+{test.split('/')[0]}\)"
    if not re.search(declared, text):
        return f"{path} has no case {case}"
    in_full = not target.has_in_fast_tier(case)
    return f"{case} of {target.label} is of the full tier" if in_full else None


def main() -> int:
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    tests = os.path.join(root, "tests")
    known = targets(tests)
    with open(os.path.join(tests, "README.md"), encoding="utf-8") as file:
        rows = claims(file.read())
    complaints = [
        f"tests/README.md, {kind}: {fault}"
        for kind, first in rows
        if (fault := fault_of(kind, first, known, tests))
    ]
    complaints += [
        f"{target.label} has the size {target.size}: name the cases of its fast tier or of its"
        " full one (third_party/precompiled/together.bzl), and give it the size medium"
        for target in known.values()
        if target.size in LARGE and target.is_in_fast_tier()
    ]
    complaints += idle_reruns(tests, known)
    if len(rows) < 20 or len(known) < 200:
        complaints.append(f"only {len(rows)} claims and {len(known)} tests were found in {tests}")
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
