"""Compares what //:dist is made of with the table in third_party/licenses.bzl.

usage: check_licenses.py DIST LINKED TARGETS TABLE

Prints what lacks a licence, and ends with 1 if anything does. What is in the folder is taken from
sources that do not know the table:
  LINKED   the link commands of its programs (lua/dist/linked.bzl)
  TARGETS  all targets that it is built from, by Bazel's query: libraries of headers alone
  DIST     the ELF files in it, the libraries that these load (DT_NEEDED), and all other files
"""

import fnmatch
import functools
import json
import os
import re
import subprocess
import sys

# Files of Moonring's own; every other file must be in a row of the table.
OWN = (
    "LICENSE",
    "NOTICE",
    "README",
    "SHA256SUMS",
    "licenses/*.txt",
    "lua/embed.h",
    "lua/moonring/*.lua",
    "lua/report/trackers/*.py",
    "lua/rewards/*.py",
    "lua/moonring/build.txt",
    "lua/types/*.lua",
    "moonring",
    "scripts/*",
)
OWN_PROGRAMS = ("moonring-bin", "lib/libmoonring.so", "lib/libmoonring_arrow.so")
SOURCES = "debian_sources/"  # the repository with a folder for each package
COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z]+(?:-\d(?:\.\d)?)?)")


def name_of(library: str) -> str:
    """Returns NAME of -lNAME, -l:libNAME.a, some/libNAME.so.1 and ld-linux-x86-64.so.2."""
    name = library.removeprefix("-l").removeprefix(":").rpartition("/")[2]
    return re.sub(r"(\.a|\.so(\.[\d.]+)?)$", "", name).removeprefix("lib")


def files_of(folder: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
    )


def is_elf(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


@functools.lru_cache(maxsize=None)
def needed_by(path: str) -> list[str]:
    shown = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", shown.stdout)


def repository_of(label: str) -> str:
    """Returns the external repository of a target, with the package for Debian's sources; ""
    for other targets."""
    repository, package = re.match(r"(?:@([\w.-]+)//:?([\w.-]+/)?)?", label).groups()
    if repository != SOURCES.rstrip("/"):
        return repository or ""
    return SOURCES + package.rstrip("/") if package else ""


def matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def found_in(dist: str, linked: str, targets: str) -> list[tuple[str, str, str, str]]:
    """Returns what is in the folder: a field of the table, a name for it, how it is used, and where
    it was found."""
    found = []
    paths = files_of(dist)
    beside = {os.path.basename(path) for path in paths if path.startswith("lib/")}
    beside_names = {name_of(name) for name in beside}
    for line in linked.splitlines():
        program, word = line.split(" ", 1)
        name = name_of(word)
        use = "static" if word.endswith(".a") else "beside" if name in beside_names else "loaded"
        found.append(("links", name, use, f"{program} is linked with {word}"))
    for repository in sorted(set(map(repository_of, targets.splitlines())) - {"", "licenses"}):
        where = f"@{repository} is one of the repositories that it is built from"
        use = "static" if repository.startswith(SOURCES) else "headers"
        found.append(("repositories", repository, use, where))
    for path in paths:
        if is_elf(os.path.join(dist, path)):
            if path not in OWN_PROGRAMS:
                found.append(("links", name_of(path), "beside", f"{path} is in the folder"))
            for needed in needed_by(os.path.join(dist, path)):
                use = "beside" if needed in beside else "loaded"
                if not needed.startswith("libmoonring"):
                    found.append(("links", name_of(needed), use, f"{path} needs {needed}"))
        elif not matches(path, OWN):
            found.append(("packed", path, "data", f"{path} is in the folder"))
    return found


def complaints_of_texts(dist: str, rows: list[dict]) -> list[str]:
    complaints = []
    notice_path = os.path.join(dist, "NOTICE")
    notice = open(notice_path, encoding="utf-8").read() if os.path.exists(notice_path) else ""
    for row in rows:
        path = f"licenses/{row['name']}.txt"
        if not re.search(rf"^{re.escape(row['name'])} \d.*\n.*{re.escape(path)}", notice, re.M):
            complaints.append(f"NOTICE does not name {row['name']} with its version and {path}")
        if not os.path.exists(os.path.join(dist, path)):
            complaints.append(f"there is no {path}")
            continue
        text = open(os.path.join(dist, path), encoding="utf-8").read()
        if len(text) < 500 or not re.search("licen[cs]e|permission|redistribution", text, re.I):
            complaints.append(f"{path}: {len(text)} characters, expected the text of a licence")
        for common in sorted(set(COMMON.findall(text))):
            if not os.path.exists(os.path.join(dist, f"licenses/{common}.txt")):
                complaints.append(f"{path} refers to {common}: there is no licenses/{common}.txt")
    return complaints


def complaints_of(dist: str, linked: str, targets: str, table: dict) -> list[str]:
    rows = table["rows"]
    complaints, seen = [], {row["name"]: set() for row in rows}
    for field, name, use, where in found_in(dist, linked, targets):
        if field == "repositories" and name in table["not_packed"]:
            continue
        owners = [row for row in rows if matches(name, row.get(field, []))]
        if len(owners) != 1:
            what = "no row" if not owners else "rows " + ", ".join(row["name"] for row in owners)
            complaints.append(f"{where}: expected one row with '{name}' in '{field}', found {what}")
            continue
        seen[owners[0]["name"]].add(use)
        if use in ("static", "beside", "data") and use not in owners[0]["uses"]:
            complaints.append(f"{where}: expected '{use}' in the uses of {owners[0]['name']}")
    for row in rows:
        if not seen[row["name"]]:
            complaints.append(f"{row['name']} is in the table, and nothing of it is in the folder")
        for use in sorted({"static", "beside", "data"} & set(row["uses"]) - seen[row["name"]]):
            complaints.append(f"{row['name']}: '{use}' in its uses, and nothing is used so")
    return complaints + complaints_of_texts(dist, rows)


def main() -> int:
    dist, linked, targets, table = sys.argv[1:]
    with open(linked) as one, open(targets) as two, open(table) as three:
        complaints = complaints_of(dist, one.read(), two.read(), json.load(three))
    for complaint in complaints:
        print(complaint)
    if complaints:
        print("The table of licences is LICENSES in third_party/licenses.bzl.")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
