#!/usr/bin/env python3
"""Prints comments drawn at random, each with its place and the code below it, for a reader who does
not know the project to say which are clear at once:

    python3 tests/draw_comments.py --seed 56 --count 60 [FOLDER...]

Of the C++ and Lua that git tracks, tests too where no folder is named.
"""

import argparse
import random
import re
import subprocess
import sys

GENERATED = ("lua/types/operators.lua", "lua/types/configuration.lua")
BEGINS = {".h": "//", ".cc": "//", ".cu": "//", ".lua": "--"}
SHOWN_OF_CODE = 4


def blocks(path: str):
    """(line, comment's lines, the code's lines below): comments of whole lines, of a sentence."""
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
            yield at + 1, said, lines[end : end + SHOWN_OF_CODE]
        at = max(end, at + 1)


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
    print(f"{len(drawn)} of {len(found)} comments, seed {given.seed}", file=sys.stderr)
    return 0


sys.exit(main())
