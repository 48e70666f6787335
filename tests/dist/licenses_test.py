#!/usr/bin/env python3
"""Tests that //:dist has the licences of all that is in it, and that check_licenses.py notices what
has none. Arguments: as check_licenses.py."""

import copy
import json
import os
import shutil
import sys
import tempfile

from check_licenses import complaints_of


def expect(what: str, complaints: list[str], part: str) -> list[str]:
    """Returns [] if a complaint contains `part`, otherwise a message."""
    if any(part in each for each in complaints):
        return []
    return [f"{what}: expected a complaint with '{part}', got {complaints}"]


def faults(dist: str, linked: str, targets: str, table: dict) -> list[str]:
    """Returns what the check does not notice."""
    failures = []
    for name, part in {
        "zlib": "moonring is linked with -l:libz.a",
        "nlohmann_json": "@nlohmann_json is one of the repositories",
        "highway": "lib/libhwy.so.1 is in the folder",
        "jieba": "data/similarity/words.txt is in the folder",
        "gcc": "needs libgcc_s.so.1",
    }.items():
        less = copy.deepcopy(table)
        less["rows"] = [row for row in less["rows"] if row["name"] != name]
        failures += expect(f"without {name}", complaints_of(dist, linked, targets, less), part)
    more = copy.deepcopy(table)
    more["rows"].append(dict(more["rows"][0], name="gone", links=["gone"], repositories=[]))
    failures += expect(
        "a row too many", complaints_of(dist, linked, targets, more), "gone is in the table"
    )
    for line in ("moonring -l:libjpeg.a", "moonring bazel-out/bin/external/webp/libwebp.so.7"):
        failures += expect(
            line, complaints_of(dist, linked + line + "\n", targets, table), line.split()[1]
        )
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as work:
        other = os.path.join(work, "dist")
        shutil.copytree(os.path.realpath(dist), other, copy_function=os.symlink)
        for path in ("licenses/luajit.txt", "licenses/Apache-2.0.txt"):
            os.unlink(os.path.join(other, path))
        shutil.copy(os.path.join(dist, "LICENSE"), os.path.join(other, "scripts.css"))
        found = complaints_of(other, linked, targets, table)
        failures += expect("a text that is missing", found, "there is no licenses/luajit.txt")
        failures += expect("a text that is missing", found, "licenses/abseil.txt refers to Apache")
        failures += expect("a file of someone", found, "scripts.css is in the folder")
    return failures


def main() -> int:
    dist, *paths = sys.argv[1:]
    texts = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    linked, targets, table = texts[0], texts[1], json.loads(texts[2])
    failures = complaints_of(dist, linked, targets, table)
    failures = failures or faults(dist, linked, targets, table)
    for failure in failures:
        print(failure)
    if failures:
        print("The table of licences is LICENSES in third_party/licenses.bzl.")
    return 1 if failures else 0


sys.exit(main())
