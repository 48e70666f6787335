"""Collects the licence texts of third-party software, for licenses.bzl, in the current folder.

usage: collect_licenses.py NOTICE

Reads table.json; writes licenses/NAME.txt for each row, and NOTICE: the text of the given file and
a list of the rows. Debian's texts refer to licences in /usr/share/common-licenses: these are copied
once each, under their names there.
"""

import json
import os
import re
import subprocess
import sys
import textwrap

DOC, COMMON = "/usr/share/doc", "/usr/share/common-licenses"
REFERENCE = re.compile(COMMON + r"/([A-Za-z]+(?:-\d(?:\.\d)?)?)")
WORDS = {
    "static": "linked into the programs",
    "beside": "a shared library in lib/",
    "loaded": "a shared library of the machine",
    "headers": "its headers, compiled into the programs",
    "data": "data",
}


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def paragraph_of(text: str, licence: str) -> str:
    """Returns the text of a licence in a machine-readable copyright file of Debian: a paragraph
    that begins with its name (the paragraphs of files end with it)."""
    for paragraph in re.split(r"\n\s*\n", text):
        first, _, rest = paragraph.lstrip("\n").partition("\n")
        if first == f"License: {licence}" and rest:
            lines = (line.removeprefix(" ") for line in rest.split("\n"))
            return "\n".join("" if line == "." else line for line in lines) + "\n"
    sys.exit(f"no paragraph 'License: {licence}'")


def debian(package: str) -> tuple[str, str]:
    """Returns the version of a package, and its source package with its version."""
    shown = "${Version}|${source:Package} ${source:Version}"
    done = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={shown}", package],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0 or "|" not in done.stdout:
        sys.exit(f"{package} is not installed: ./bazelw installs it. {done.stderr}")
    version, source = done.stdout.split("|")
    return version, source


def text_of(row: dict) -> str:
    if "debian" not in row:
        return "\n".join(read(path) for path in row["files"])
    path = f"{DOC}/{row['debian']}/copyright"
    if not os.path.exists(path):
        sys.exit(f"{row['name']}: no {path}; it is a file of the package {row['debian']}")
    text = read(path)
    return paragraph_of(text, row["paragraph"]) if "paragraph" in row else text


def entry_of(row: dict, version: str, source: str) -> str:
    how = "; ".join(WORDS[use] for use in row["uses"])
    if "packed" in row:
        how += " (" + ", ".join(row["packed"]) + ")"
    lines = [f"{row['name']} {version}", f"Licence: {row['licence']}, licenses/{row['name']}.txt"]
    lines.append(f"Used: {how}")
    if source:
        lines.append(f"Source: Debian's source package {source}")
    if "note" in row:
        lines.append(row["note"])
    indented = [textwrap.fill(line, 96, initial_indent="    ", subsequent_indent="      ")
                for line in lines[1:]]
    return "\n".join([lines[0], *indented])


def main() -> None:
    with open("table.json", encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    os.makedirs("licenses", exist_ok=True)
    for name in os.listdir("licenses"):
        os.unlink(os.path.join("licenses", name))
    entries, common = [], set()
    for row in rows:
        text = text_of(row)
        referred = set(REFERENCE.findall(text))
        common |= referred
        if referred:
            names = ", ".join(f"{name}.txt" for name in sorted(referred))
            text = f"[Licences in {COMMON} are in this folder too: {names}.]\n\n{text}"
        version, source = debian(row["debian"]) if "debian" in row else (row["version"], "")
        entries.append(entry_of(row, version, source))
        with open(f"licenses/{row['name']}.txt", "w", encoding="utf-8") as out:
            out.write(text)
    for name in sorted(common):
        with open(f"licenses/{name}.txt", "w", encoding="utf-8") as out:
            out.write(read(f"{COMMON}/{name}"))
    with open("NOTICE", "w", encoding="utf-8") as out:
        out.write(read(sys.argv[1]) + "\n")
        out.write("Software of others in this folder, or used by it\n")
        out.write("================================================\n\n")
        out.write("\n\n".join(entries) + "\n")


main()
