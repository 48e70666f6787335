#!/usr/bin/env python3
"""Prints comments drawn at random, each with its position, the code below it and the comment with
which its file begins (of X.cc, that of X.h), so that a reader who does not know the project can say
which of them are clear at once:

    python3 tests/draw_comments.py --seed 56 --count 60 [FOLDER...]

The comments are those of C++ and Lua files that git tracks; without a folder, tests are included.
"""

import argparse
import os
import random
import re
import subprocess
import sys

GENERATED = ("lua/types/operators.lua", "lua/types/configuration.lua")
BEGINS = {".h": "//", ".cc": "//", ".cu": "//", ".lua": "--"}
SHOWN_OF_CODE = 4
SHOWN_OF_HEAD = 30


def blocks(path: str):
    """Yields (line, comment's lines, the lines of code below) for whole-line comments of some
    length."""
    begin = BEGINS[path[path.rindex(".") :]]
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].strip().startswith(begin):
            end += 1
        said = [line for line in lines[at:end] if not re.match(r"\s*---@", line)]
        if len(" ".join(re.findall(r"\w+", " ".join(said)))) > 30:
            yield at + 1, lines[at:end], lines[end : end + SHOWN_OF_CODE]
        at = max(end, at + 1)


def head(path: str) -> tuple[int, list[str]]:
    """The comment with which a file, or its header, begins: its line, and its lines."""
    begin = BEGINS[path[path.rindex(".") :]]
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")
    at = 0
    while at < len(lines) and (not lines[at] or lines[at].startswith(("#ifndef", "#define"))):
        at += 1
    end = at
    while end < len(lines) and lines[end].startswith(begin):
        end += 1
    header = path[: path.rindex(".")] + ".h"
    if end == at and path.endswith((".cc", ".cu")) and os.path.exists(header):
        return 0, head(header)[1]
    return at + 1, lines[at:end]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("folders", nargs="*")
    given = parser.parse_args()
    files = subprocess.check_output(["git", "ls-files", *given.folders], text=True).split("\n")
    found = [
        (path, *block)
        for path in sorted(files)
        if path.endswith(tuple(BEGINS)) and "golden/" not in path and path not in GENERATED
        for block in blocks(path)
    ]
    drawn = random.Random(given.seed).sample(found, min(given.count, len(found)))
    for number, (path, line, comment, code) in enumerate(drawn, 1):
        print(f"## {number}. {path}:{line}\n")
        print("\n".join(comment + code) + "\n")
        first, begins = head(path)
        if begins and first != line:
            print("The file begins:")
            print("\n".join("| " + text for text in begins[:SHOWN_OF_HEAD]) + "\n")
    print(f"{len(drawn)} of {len(found)} comments, seed {given.seed}", file=sys.stderr)
    return 0


sys.exit(main())
