#!/usr/bin/env python3
"""Checks that each folder of lua/moonring only requires modules of lower layers. Argument: a file
at the repository's root."""

import os
import re
import sys

# The layers, from the lowest to the highest. A folder may require folders of lower layers, and
# itself.
FLOORS = [
    ["base"],
    ["nn", "sandbox"],
    ["choices"],
    ["config"],
    ["hub"],
    ["data", "model"],
    ["plan"],
    ["report", "rewards"],
    ["run"],
    ["serve"],
    ["prompt"],
    ["commands"],
]
# init.lua (`require "moonring"`) is the whole API, above all folders. These two files pass it to
# scripts.
HAND_OUT_THE_API = {"prompt/init.lua", "sandbox/init.lua"}

REQUIRE = re.compile(r"""require\s*\(?\s*["'](moonring[\w.]*)["']""")


def floor_of(room: str) -> int:
    return next((i for i, rooms in enumerate(FLOORS) if room in rooms), -1)


def complaint(path: str, required: str) -> str:
    """Returns the error of a file (FOLDER/FILE.lua) that requires a module; empty if it is
    allowed."""
    room = path.split("/")[0]
    names = required.split(".")
    if len(names) == 1:
        return "" if path in HAND_OUT_THE_API else "requires the whole API"
    other = names[1]
    if other in ("native", room):
        return ""
    if floor_of(other) < 0:
        return f"requires {required}, of no floor: FLOORS in lua_rooms_test.py names them"
    if floor_of(other) >= floor_of(room):
        return f"requires {required}, and {other} is not below {room}"
    return ""


def main() -> int:
    root = os.path.join(os.path.dirname(os.path.realpath(sys.argv[1])), "lua", "moonring")
    complaints, seen = [], 0
    for parent, _, names in os.walk(root):
        for name in names:
            path = os.path.relpath(os.path.join(parent, name), root)
            if path == "init.lua" or not name.endswith(".lua"):
                continue
            if floor_of(path.split("/")[0]) < 0:
                complaints.append(f"{path} is on no floor: FLOORS in lua_rooms_test.py names them")
                continue
            with open(os.path.join(parent, name), encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    for required in REQUIRE.findall(line.split("--", 1)[0]):
                        seen += 1
                        wrong = complaint(path, required)
                        if wrong:
                            complaints.append(f"lua/moonring/{path}:{number}: {wrong}")
    if seen < 500:
        complaints.append(f"only {seen} requires were read: this test does not work")
    if not complaint("config/keys/run.lua", "moonring.run.step"):
        complaints.append("a require that points up is not found: this test does not work")
    for each in complaints:
        print(each)
    return 1 if complaints else 0


sys.exit(main())
