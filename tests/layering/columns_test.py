#!/usr/bin/env python3
"""No hand-written line is longer than 100 characters. Argument: a file at the repository's root.

To fix C++, run `clang-format -i FILE` (.clang-format); Python, `ruff format`.
"""

import os
import re
import sys

import hand_written

WIDEST = 100
ENDINGS = (".bzl", ".c", ".cc", ".h", ".lua", ".md", ".py", ".sh", "BUILD", "accept")
ROOT = (".bazelrc", ".ci/run", ".luacheckrc", "BUILD", "README.md", "WORKSPACE", "bazelw")

# Files that may have longer lines, and why.
EXCEPTIONS = {
    "tests/golden/": "data, and the programs and texts of other projects that make it",
}
UNBROKEN = (
    re.compile(r'^\s*"[^"]+": "[^"]+",$'),  # a file or wheel with its checksum or path
    re.compile(r"^[\w:]+ --[\w=]\S*$"),  # an option of .bazelrc
)
MARKDOWN = {
    "table": re.compile(r"^\s*\|"),  # a row is one line
    "link": re.compile(r"\]\([^)]*\)|https?://"),  # cannot be broken
}


def too_long(path: str, lines) -> list[tuple[int, int]]:
    """Returns numbers and lengths of the lines that are too long, except in code blocks of
    Markdown, which are run."""
    found, in_code = [], False
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if path.endswith(".md"):
            in_code ^= line.lstrip().startswith("```")
            if in_code or any(pattern.search(line) for pattern in MARKDOWN.values()):
                continue
        if len(line) > WIDEST and not any(pattern.match(line) for pattern in UNBROKEN):
            found.append((number, len(line)))
    return found


def main() -> int:
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    complaints, files = 0, 0
    for path in sorted([*ROOT, *hand_written.paths(root, ENDINGS, tuple(EXCEPTIONS))]):
        files += 1
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, length in too_long(path, file):
                complaints += 1
                print(f"{path}:{number}: {length} columns, expected {WIDEST} at most")
    if files < 500:
        print(f"only {files} sources were found: is this the repository's root? {root}")
        return 1
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
