#!/usr/bin/env python3
"""`./bazelw affected [REV]`: builds and runs the tests that depend on the files changed since REV.

REV is a commit; the default is HEAD, that is, the uncommitted changes. Tests of single libraries
run first, and tests that run the host run last, so that failures show early. Affected tests of the
full tier are listed at the end and are not run.

With --list it prints the labels and runs nothing: "fast //a:b" and "full //a:b", one per line.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Files that affect the whole build; Bazel's graph does not contain them.
EVERYTHING = (".bazelrc", "WORKSPACE", "bazelw", "third_party/")
# The packages with tests that run the host, or a virtual machine with all libraries.
LAST = ("//tests/scripts", "//tests/lua", "//tests/docs", "//tests/dist", "//tests/hub")
# The exit code of `bazel test` if its targets contain no test.
NO_TESTS = 4


def run(command, **options):
    return subprocess.run(command, cwd=ROOT, text=True, **options)


def changed_files(revision):
    """The files that differ from the revision, and untracked files."""
    names = []
    for command in (
        ["git", "diff", "--name-only", "--no-renames", revision, "--"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    ):
        result = run(command, capture_output=True)
        if result.returncode:
            sys.exit(f"affected: {result.stderr.strip()}")
        names += result.stdout.split("\n")
    return sorted(name for name in names if name)


def sources_of(names):
    """Returns these files' labels for Bazel's query, or None if all targets are affected."""
    labels = []
    for name in names:
        if name.endswith(".bzl") or (name.startswith(EVERYTHING) and not name.endswith(".md")):
            return None
        package = pathlib.PurePosixPath(name).parent
        while package != package.parent and not (ROOT / package / "BUILD").exists():
            package = package.parent
        label = "" if str(package) == "." else str(package)
        if name == str(package / "BUILD") or not (ROOT / name).exists():
            labels.append(f"//{label}:all")  # deleted: used by its package
        else:
            labels.append(f"//{label}:{pathlib.PurePosixPath(name).relative_to(package)}")
    return labels


def tests_reached(labels):
    """The tests of both tiers that depend on these labels: fast, full."""
    if labels is None:
        within = "//..."
    elif labels:
        within = f"rdeps(//..., set({' '.join(labels)}))"
    else:
        return [], []
    tests = f"tests({within}) except attr(tags, '[\\[ ](manual|gpu)[,\\]]', //...)"
    found = []
    for expression in (f"({tests}) except attr(tags, '[\\[ ]full[,\\]]', //...)",
                       f"({tests}) intersect attr(tags, '[\\[ ]full[,\\]]', //...)"):
        # --keep_going: a label that is not a target (docs, or a file that no target uses) is not an
        # error.
        result = run(["./bazelw", "query", "--keep_going", "--noshow_progress", expression],
                     capture_output=True)
        if result.returncode not in (0, 3):
            sys.exit(f"affected: bazel query failed:\n{result.stderr}")
        found.append(sorted(result.stdout.split()))
    return found


def main():
    parser = argparse.ArgumentParser(
        prog="bazelw affected",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("revision", nargs="?", default="HEAD", metavar="REV")
    parser.add_argument("--list", action="store_true", help="print the tests and run none")
    options = parser.parse_args()
    names = changed_files(options.revision)
    fast, full = tests_reached(sources_of(names))
    if options.list:
        print("\n".join([f"fast {test}" for test in fast] + [f"full {test}" for test in full]))
        return
    print(f"affected: {len(names)} files changed since {options.revision}; they reach"
          f" {len(fast)} tests, and {len(full)} of the full tier", flush=True)
    code = 0
    units = [test for test in fast if not test.startswith(LAST)]
    for tests in (units, [test for test in fast if test not in units]):
        if tests:
            done = run(["./bazelw", "test", "--keep_going", *tests]).returncode
            code = code or (0 if done == NO_TESTS else done)
    if full:
        print("affected: of the full tier the change reaches, not run here:")
        print("  ./bazelw test --config=full " + " ".join(full))
    sys.exit(code)


if __name__ == "__main__":
    main()
