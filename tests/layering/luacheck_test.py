#!/usr/bin/env python3
"""Checks that luacheck has no warning for any Lua file: no undefined global, no unused variable, no
shadowing. Argument: a file at the repository's root, whose .luacheckrc contains the settings."""

import os
import re
import shutil
import subprocess
import sys

# Example texts with a file name and the warning that luacheck must give; "": none.
PROOFS = [
    ("return undefined_name\n", "lua/moonring/made_up.lua", "W113"),
    ("local unused = 1\n", "tests/lua/made_up.lua", "W211"),
    ("local x = 1\nreturn function(x) return x end, x\n", "scripts/made_up.lua", "W431"),
    ("print = nil\n", "lua/moonring/run/made_up.lua", "W121"),
    ("print = nil\n", "lua/moonring/sandbox/patterns.lua", "W121"),
    ("print = nil\n", "lua/moonring/sandbox/outlet.lua", ""),
    ("local M = {}\nfunction M.f(argument) end\nreturn M\n", "docs/made_up.lua", "W212"),
    ("local M = {}\nfunction M.f(argument) end\nreturn M\n", "lua/types/made_up.lua", ""),
]


def lua_files(root: str) -> list[str]:
    found = []
    for parent, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "bazel-"))]
        found += [
            os.path.relpath(os.path.join(parent, name), root)
            for name in names
            if name.endswith(".lua")
        ]
    return sorted(found)


def luacheck(root: str, words: list[str], text: str = "") -> tuple[int, str]:
    """Returns exit code and output: 0 and a line of totals if there is no warning."""
    done = subprocess.run(
        ["luacheck", "--config", ".luacheckrc", "--codes", "--no-color", "-q", *words],
        cwd=root,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def main() -> int:
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    if not shutil.which("luacheck"):
        print("there is no luacheck here: it comes with Debian's package lua-check, which bazelw")
        print("installs (apt-get install lua-check)")
        return 1
    complaints = []
    files = lua_files(root)
    code, said = luacheck(root, files)
    if code != 0:
        complaints.append(said + "Mend the code; what is meant is written in .luacheckrc.")
    read = re.search(r"in (\d+) files", said)
    if len(files) < 300 or not read or int(read.group(1)) != len(files):
        complaints.append(f"of {len(files)} files it read so many: {said}this test does not work")
    for text, name, wanted in PROOFS:
        code, said = luacheck(root, ["-", "--filename", name], text)
        codes = re.findall(r"\((\w\d+)\)", said)
        if codes != ([wanted] if wanted else []) or (code != 0) != bool(wanted):
            complaints.append(
                f"{text}as {name}: expected '{wanted}', got: {said}this test does not work"
            )
    for each in complaints:
        print(each)
    return 1 if complaints else 0


sys.exit(main())
