"""The documentation pages, README.md and those under docs: their fenced blocks, and the text after
a block's language that specifies how it is tested."""

import glob
import os
import re
from typing import Iterator, NamedTuple

FENCE = re.compile(r"^ {0,3}(```+)\s*(\w*)[ ]?(.*)$")


class Block(NamedTuple):
    page: str  # README.md, docs/data.md
    line: int  # line of the opening fence
    language: str  # sh, yaml, lua, json, jsonl, c, text
    mark: str  # text after the language: run; not run: WHY; file: NAME; same as: PATH; out
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages(root: str) -> list[str]:
    """The paths of the pages, relative to the repository's root."""
    found = glob.glob(os.path.join(root, "docs", "**", "*.md"), recursive=True)
    return ["README.md"] + sorted(os.path.relpath(path, root) for path in found)


def read(root: str, page: str) -> str:
    with open(os.path.join(root, page), encoding="utf-8") as file:
        return file.read()


def blocks(page: str, text: str) -> Iterator[Block]:
    fence, start, language, mark, lines = "", 0, "", "", []
    for number, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if not fence and found:
            fence, language, mark = found.groups()
            start, lines = number, []
        elif fence and line.strip() == fence:
            yield Block(page, start, language, mark.strip(), "".join(f"{one}\n" for one in lines))
            fence = ""
        elif fence:
            lines.append(line)
    if fence:
        raise ValueError(f"{page}:{start}: this fence is never closed")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced blocks, with their numbers."""
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if not fence and found:
            fence = found.group(1)
        elif fence:
            fence = "" if line.strip() == fence else fence
        else:
            yield number, line
