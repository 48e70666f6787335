#!/usr/bin/env python3
"""Packages must not depend on one another in a cycle, however long. Argument: a file at the
repository's root."""

import ast
import os
import re
import sys
from collections import deque

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
LABEL = re.compile(r"//([^:]*)(?::.*)?$")
SEEN_BY = {"visibility", "default_visibility", "packages"}  # labels that are not dependencies


class Packages:
    """Returns edges[a][b]: the reason why package a depends on b."""

    def __init__(self, root: str):
        self.root, self.edges = root, {}
        for parent, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith((".", "bazel-"))]
            package = os.path.relpath(parent, root).removeprefix(".")
            for name in sorted(names, key=lambda name: (name == "BUILD", name)):
                if name.endswith((".cc", ".h")):
                    self.read_source(package, name)
                elif name == "BUILD":
                    self.read_build(package)

    def text(self, package: str, name: str) -> str:
        path = os.path.join(self.root, package, name)
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def add(self, package: str, other: str, why: str) -> None:
        if package != other:
            self.edges.setdefault(package, {}).setdefault(other, why)

    def read_source(self, package: str, name: str) -> None:
        for header in INCLUDE.findall(self.text(package, name)):
            if os.path.exists(os.path.join(self.root, header)):
                why = f"{package}/{name} includes {header}"
                self.add(package, os.path.dirname(header), why)

    def read_build(self, package: str) -> None:
        for statement in ast.parse(self.text(package, "BUILD")).body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                for keyword in statement.value.keywords:
                    if keyword.arg not in SEEN_BY:
                        self.read_labels(package, keyword.value)

    def read_labels(self, package: str, value: ast.expr) -> None:
        for leaf in ast.walk(value):
            if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                label = LABEL.match(leaf.value)
                if label and os.path.exists(os.path.join(self.root, label.group(1), "BUILD")):
                    self.add(package, label.group(1), f"//{package} names {leaf.value}")


def way(edges: dict, start: str, end: str) -> list[str]:
    """Returns the packages on a shortest path from start to end; empty if there is none."""
    before, waiting = {start: None}, deque([start])
    while waiting:
        package = waiting.popleft()
        if package == end:
            found = []
            while package is not None:
                found.append(package)
                package = before[package]
            return found[::-1]
        for other in edges.get(package, {}):
            if other not in before:
                before[other] = package
                waiting.append(other)
    return []


def circles(edges: dict) -> list[list[str]]:
    """Returns a shortest cycle through each edge that is part of one, each set of packages once."""
    found = {}
    for package, others in edges.items():
        for other in others:
            back = way(edges, other, package)
            if back:
                found.setdefault(frozenset(back), [package] + back)
    return list(found.values())


def main() -> int:
    edges = Packages(os.path.dirname(os.path.realpath(sys.argv[1]))).edges
    complaints = []
    for circle in circles(edges):
        steps = [edges[a][b] for a, b in zip(circle, circle[1:])]
        names = " -> ".join(f"//{package}" for package in circle)
        complaints.append(f"{names}:\n  " + "\n  ".join(steps))
    if sum(len(others) for others in edges.values()) < 200:
        complaints.append(f"only {edges} is there")
    if len(circles({"a": {"b": ""}, "b": {"c": ""}, "c": {"b": ""}})) != 1:
        complaints.append("a circle is not found: this test does not work")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


sys.exit(main())
