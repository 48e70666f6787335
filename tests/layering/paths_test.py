#!/usr/bin/env python3
"""Checks that each path in a comment or page exists. Argument: a file at the repository's root.

A path is FOLDER/.../NAME.ENDING, relative to the repository's root, to lua/moonring, or to a parent
folder of the file that contains it.
"""

import os
import re
import sys

import hand_written

ENDINGS = (".bzl", ".cc", ".cu", ".h", ".lua", ".md", ".py", ".sh", "BUILD")
GOLDEN = ("tests/golden/", "docs/lua/")
COMMENT = {".lua": r"--.*", ".py": r"#.*", ".sh": r"#.*", ".bzl": r"#.*", "BUILD": r"#.*"}
PATH = re.compile(r"(?<![\w/.$}<-])([a-z_]+(?:/[\w-]+)*/[\w-]+\.(?:cc|cu|h|lua|py|sh))(?![\w/])")


def rooms(root: str) -> set[str]:
    folder = os.path.join(root, "lua", "moonring")
    return {name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))}


def is_there(root: str, folder: str, path: str) -> bool:
    if os.path.exists(os.path.join(root, "lua", "moonring", path)):
        return True
    while True:
        if os.path.exists(os.path.join(root, folder, path)):
            return True
        if not folder:
            return False
        folder = os.path.dirname(folder)


def main() -> int:
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    firsts = set(hand_written.FOLDERS) | rooms(root)
    complaints, read = [], 0
    for path in [*hand_written.PAGES, *hand_written.paths(root, ENDINGS, GOLDEN)]:
        ending = "BUILD" if path.endswith("/BUILD") else os.path.splitext(path)[1]
        pattern = ".*" if ending == ".md" else COMMENT.get(ending, r"//.*")
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                for comment in re.findall(pattern, line):
                    for named in PATH.findall(comment):
                        if named.split("/")[0] not in firsts:
                            continue
                        read += 1
                        if not is_there(root, os.path.dirname(path), named):
                            complaints.append(f"{path}:{number}: no file {named}")
    if read < 300:
        complaints.append(f"only {read} paths were read: this test does not work")
    if is_there(root, "lua", "run/no_such_file.lua"):
        complaints.append("a missing file is found: this test does not work")
    for each in complaints:
        print(each)
    return 1 if complaints else 0


sys.exit(main())
