#!/usr/bin/env python3
"""Checks that sources use the terms of docs/glossary.md. Argument: a file at the repository's root.

The words in the glossary's columns "not" are refused in hand-written sources and pages, as whole
words, lower case or capitalized. Golden files and templates contain other people's words. A message
says `expected X, got Y`.
"""

import os
import re
import sys

import hand_written

ENDINGS = (".bzl", ".c", ".cc", ".h", ".in", ".lua", ".md", ".py", ".sh", ".yaml", "BUILD")
OTHERS = ("tests/golden/", "lua/moonring/templates/", "lua/moonring/data/named_templates/")
# Files that must contain such a word, because it is another project's name.
ALLOWED = {
    "docs/glossary.md": None,  # all of them: here they are named
    # a folder's name in huggingface_hub
    "lua/hub/repository_folder.h": ("snapshots",),
    "tests/hub/download_test.py": ("snapshots",),
    "tests/layering/words_test.py": ("snapshots", "logprob", "logprobs"),
}
# Folders and files whose names of fields are those of other APIs: Tinker's and OpenAI's.
FOREIGN = (
    "docs/completions.md",
    "docs/evaluation.md",
    "docs/lua/serve.md",
    "docs/serve.md",
    "lua/bindings/bind_serve",
    "lua/moonring/serve/",
    "lua/serve/",
    "lua/types/serve.lua",
    "tests/lua/serve/",
    "tests/scripts/",
    "tests/serve/",
)
LOGGED = "goes on after step"  # a line of the log that programs look for
# A message with this word. A variable may have the name.
WANTED = re.compile(r'(?:"|[,:;] )wanted (?:an? |at |one |more |\d|%|")')


def refused(root: str) -> list[str]:
    """Returns the words in the column "not" of all tables with three columns."""
    words, inside = [], False
    with open(os.path.join(root, "docs/glossary.md"), encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|"):
                inside = False
            elif len(cells) == 3 and cells[2] == "not":
                inside = True
            elif inside and not cells[2].startswith("---"):
                words += [word.strip() for word in cells[2].split(",") if word.strip()]
    return words


def main() -> int:
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    words = refused(root)
    choices = "|".join(f"[{word[0].upper()}{word[0]}]{re.escape(word[1:])}" for word in words)
    pattern = re.compile(rf"(?<![\w-])(?:{choices})s?(?![\w-])")
    complaints, read = [], 0
    for path in sorted([*hand_written.PAGES, *hand_written.paths(root, ENDINGS, OTHERS)]):
        allowed = ALLOWED.get(path, ())
        if allowed is None:
            continue
        if path.startswith(FOREIGN):
            allowed += ("logprob", "logprobs")
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            read += 1
            for number, line in enumerate(file, 1):
                if WANTED.search(line):
                    complaints.append(f"{path}:{number}: 'wanted' in a message: expected")
                for word in pattern.findall(line.replace(LOGGED, "")):
                    if word.lower() not in allowed:
                        complaints.append(f"{path}:{number}: '{word}': see docs/glossary.md")
    if len(words) < 10 or read < 50:
        complaints.append(f"only {len(words)} words and {read} files are there")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


sys.exit(main())
