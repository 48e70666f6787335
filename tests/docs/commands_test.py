#!/usr/bin/env python3
"""Checks that the commands in README.md and docs work. Arguments: pages to check, and languages
(for example yaml), whose blocks are checked on all pages; without arguments, all blocks of all
pages.

Each page has a folder with a small model (model/) and data (data/), in which its fenced blocks are
processed in order, by the text after the block's language:

  sh run             run by bash; every command must succeed
  sh not run: WHY    not run here, and why
  ... file: NAME     written to NAME, where later commands of the page find it
  ... same as: PATH  equal to that file of the repository
  yaml               the configuration must be accepted by the host; if it is incomplete, the
                     missing keys are those of BASE
  yaml not run: WHY  no configuration; not checked here, and why
  lua run            a script, which the host runs. Its output is compared with the text after each
                     "-- prints: " in it, or with the next block if that is "text out"
  lua run: NAME      the same, from the file NAME
  lua, json, jsonl   must parse
  python             must parse; other tests run it
  text, c            anything except a command
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pages

BASE = """\
model_name_or_path: model
dataset_dir: data
dataset: talks
template: chatml
finetuning_type: full
cutoff_len: 128
output_dir: out
"""
COMMAND = re.compile(
    r"^\s*(\$ )?(\./bazelw|bazel|moonring|bazel-bin/\S*|torchrun|srun|python3?|pip|curl|cc) "
)
PRINTS = re.compile(r"-- prints: (.*)$", re.MULTILINE)
GOLDEN = "tests/golden/stages"


class Page:
    """The folder of one page, and the errors of its blocks."""

    def __init__(self, root: str, folder: str):
        self.root, self.folder, self.complaints, self.ran = root, folder, [], 0
        self.said = None  # output of the last script, until a block with its expected output
        for name in ("model", "data"):
            shutil.copytree(os.path.join(root, GOLDEN, name), self.path(name))
        for name in ("docs", "scripts"):
            os.symlink(os.path.join(root, name), self.path(name))
        os.mkdir(self.path("bin"))
        host = os.path.abspath(os.environ.get("MOONRING_TEST_HOST", "moonring"))
        with open(self.path("bin/moonring"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{host}" "$@"\n')
        os.chmod(self.path("bin/moonring"), 0o755)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def run(self, block: pages.Block, command: str) -> str | None:
        environment = dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.ran += 1
        if done.returncode != 0:
            self.complain(block, f"exit code {done.returncode}:\n{block.text}{done.stdout[-3000:]}")
            return None
        return done.stdout

    def complain(self, block: pages.Block, what: str) -> None:
        self.complaints.append(f"{block.place}: {what}")

    def take(self, block: pages.Block) -> None:
        word, _, rest = block.mark.partition(":")
        rest = rest.strip()
        if word == "file" and rest:
            self.write(rest, block.text)
        elif word == "same as" and rest:
            if block.text != pages.read(self.root, rest):
                self.complain(block, f"is not equal to {rest}")
        elif block.mark not in ("", "run", "out") and not (word in ("not run", "run") and rest):
            self.complain(block, f"unknown mark '{block.mark}'")
        by_language = getattr(self, "take_" + block.language, None)
        if by_language is None:
            self.complain(block, f"unknown language '{block.language}'")
        else:
            by_language(block, word)

    def write(self, name: str, text: str) -> None:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def take_sh(self, block: pages.Block, word: str) -> None:
        if word == "run":
            self.run(block, block.text)
        elif word not in ("not run", "file"):
            self.complain(block, "says neither 'run' nor 'not run: WHY'")

    def take_yaml(self, block: pages.Block, word: str) -> None:
        if word == "not run":
            return
        given = set(re.findall(r"^(\w+):", block.text, re.MULTILINE))
        lines = [line for line in BASE.splitlines() if line.split(":")[0] not in given]
        self.write("checked.yaml", "\n".join(lines) + "\n" + block.text)
        self.run(block, "moonring plan checked.yaml")

    def take_lua(self, block: pages.Block, word: str) -> None:
        if word == "run":
            return self.run_lua(block, block.mark.partition(":")[2].strip() or "block.lua")
        self.write("checked.lua", block.text)
        self.write("parse.lua", 'assert(loadfile "checked.lua")\n')
        self.run(block, "moonring parse.lua")

    def run_lua(self, block: pages.Block, name: str) -> None:
        self.write(name, block.text)
        self.said = self.run(block, f"moonring {name}")
        wanted = PRINTS.findall(block.text)
        if wanted:
            self.compare(block, "".join(f"{line}\n" for line in wanted))

    def compare(self, block: pages.Block, wanted: str) -> None:
        if self.said is None:
            return self.complain(block, "no script before it has said anything")
        if self.said != wanted:
            self.complain(block, f"expected\n{wanted}but it printed\n{self.said}")
        self.said = None

    def take_python(self, block: pages.Block, word: str) -> None:
        try:
            ast.parse(block.text)
        except SyntaxError as why:
            self.complain(block, f"is no Python: {why}")

    def take_json(self, block: pages.Block, word: str) -> None:
        self.parse_json(block, block.text)

    def take_jsonl(self, block: pages.Block, word: str) -> None:
        for line in block.text.splitlines():
            self.parse_json(block, line)

    def parse_json(self, block: pages.Block, text: str) -> None:
        try:
            json.loads(text)
        except ValueError as why:
            self.complain(block, f"is no JSON: {why}")

    def take_text(self, block: pages.Block, word: str) -> None:
        if word == "out":
            return self.compare(block, block.text)
        for line in block.text.splitlines():
            if COMMAND.match(line):
                self.complain(block, f"is text, and holds a command: {line.strip()}")

    take_c = take_text

    def take_diff(self, block: pages.Block, word: str) -> None:
        pass  # only shown, not applied


def main(words: list[str]) -> int:
    root = os.getcwd()
    complaints, ran = [], 0
    languages = [word for word in words if "." not in word]
    known = pages.pages(root)
    for name in known:
        is_whole = not words or name in words
        blocks = [
            block
            for block in pages.blocks(name, pages.read(root, name))
            if is_whole or block.language in languages
        ]
        if not blocks:
            continue
        with tempfile.TemporaryDirectory() as folder:
            page = Page(root, folder)
            for block in blocks:
                page.take(block)
            complaints += page.complaints
            ran += page.ran
    for word in set(words) - set(languages) - set(known):
        complaints.append(f"{word} is no page")
    for complaint in complaints:
        print(complaint)
    print(f"{ran} commands were run, {len(complaints)} complaints")
    return 1 if complaints or ran < 10 else 0


sys.exit(main(sys.argv[1:]))
