#!/usr/bin/env python3
"""Checks the pages at the top and under docs as texts: links, widths, lengths. Argument: a file at
the repository's root.

  links    the file of a relative link exists; for a page, the heading too
  labels   a Bazel label is an existing target or a folder of targets
  width    100 columns, except tables, links, and commands
  README   at most 900 words outside of fenced blocks; it shows scripts/own_loss.lua as a whole
  reached  README.md links every page at the top and of docs/, and each folder's README.md there,
           which links the folder's pages
  lengths  a page of the tutorial has at most 80 lines
  examples docs/scripting.md links each script in scripts/examples
  editors  the folders that .luarc.json names exist
"""

import json
import os
import re
import sys

import pages

LINK = re.compile(r"\]\(([^)\s]+)\)")
LABEL = re.compile(r"(?<![\w/:])//([a-z_]+(?:/[a-z_]+)*)?(?::([\w.]+)|(/\.\.\.))?(?![\w/])")
WIDTH, WORDS, LESSON = 100, 900, 80
# Pages at the top besides README.md, whose commands are not run.
TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def anchors(text: str) -> set[str]:
    """Returns the headings of a page in the form that links use."""
    found = set()
    for _, line in pages.prose(text):
        if line.startswith("#"):
            title = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(title.replace(" ", "-"))
    return found


def broken_link(root: str, page: str, link: str) -> str | None:
    if re.match(r"\w+:", link):
        return None
    path, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not os.path.exists(os.path.join(root, target)):
        return f"no file {target}"
    if anchor and anchor not in anchors(pages.read(root, target)):
        return f"no heading '{anchor}' in {target}"
    return None


def broken_label(root: str, folder: str, name: str | None, below: str | None) -> str | None:
    where = os.path.join(root, folder)
    if not os.path.isdir(where):
        return f"no folder {folder}"
    if below or not name:
        return None
    # The BUILD file contains only the name of the test itself: rerun.bzl (tests on the pretend
    # device, a simulated GPU) and cc_test of together.bzl add these suffixes.
    test = re.sub(r"_on_(one_|two_)?pretend_devices?$", "", name.removesuffix("_full"))
    build = pages.read(root, os.path.join(folder, "BUILD"))
    if any(f'name = "{written}"' in build for written in (name, test)):
        return None
    if folder == "tests/fuzz" and f'"{name}": [' in build:  # a key of TARGETS
        return None
    if os.path.exists(os.path.join(where, name)):
        return None
    return f"no target //{folder}:{name}"


def complaints_of(root: str, page: str) -> list[str]:
    text = pages.read(root, page)
    complaints = []
    for number, line in enumerate(text.split("\n"), 1):
        for folder, name, below in LABEL.findall(line):
            what = (folder or name) and broken_label(root, folder, name, below)
            if what:
                complaints.append(f"{page}:{number}: {what}")
    for number, line in pages.prose(text):
        for link in LINK.findall(line):
            what = broken_link(root, page, link)
            if what:
                complaints.append(f"{page}:{number}: {link}: {what}")
        if len(line) > WIDTH and not line.startswith("|") and not LINK.search(line):
            complaints.append(f"{page}:{number}: {len(line)} columns")
    for block in pages.blocks(page, text):
        for line in block.text.splitlines():
            free = block.language == "sh" or block.mark.startswith("same as")
            if len(line) > WIDTH and not free:
                complaints.append(f"{block.place}: a line of {len(line)} columns")
    return complaints


def complaints_of_readme(root: str) -> list[str]:
    text = pages.read(root, "README.md")
    complaints = []
    words = sum(len(line.split()) for _, line in pages.prose(text))
    if words > WORDS:
        complaints.append(f"README.md: {words} words outside of blocks, expected {WORDS} at most")
    marks = [block.mark for block in pages.blocks("README.md", text)]
    if "same as: scripts/own_loss.lua" not in marks:
        complaints.append("README.md: does not show scripts/own_loss.lua")
    return complaints


def complaints_of_reach(root: str) -> list[str]:
    complaints = []
    for page in [*pages.pages(root)[1:], *TOP]:
        folder, name = os.path.split(page)
        first = folder in ("", "docs") or name == "README.md"
        index = "README.md" if first else f"{folder}/README.md"
        links = {link.partition("#")[0] for link in LINK.findall(pages.read(root, index))}
        if os.path.relpath(page, os.path.dirname(index) or ".") not in links:
            complaints.append(f"{index}: does not link {page}")
        lines = pages.read(root, page).count("\n")
        if folder == "docs/tutorial" and lines > LESSON:
            complaints.append(f"{page}: {lines} lines, expected {LESSON} at most")
    return complaints


def complaints_of_scripts(root: str) -> list[str]:
    links = set(LINK.findall(pages.read(root, "docs/scripting.md")))
    complaints = [
        f"docs/scripting.md: does not link scripts/examples/{name}"
        for name in sorted(os.listdir(os.path.join(root, "scripts/examples")))
        if name.endswith(".lua") and f"../scripts/examples/{name}" not in links
    ]
    editors = json.loads(pages.read(root, ".luarc.json"))
    for folder in editors["workspace.library"]:
        if not os.path.isdir(os.path.join(root, folder)):
            complaints.append(f".luarc.json: no folder {folder}")
    return complaints


def main() -> int:
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    complaints = complaints_of_readme(root) + complaints_of_reach(root)
    complaints += complaints_of_scripts(root)
    for page in [*pages.pages(root), *TOP]:
        complaints += complaints_of(root, page)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


sys.exit(main())
