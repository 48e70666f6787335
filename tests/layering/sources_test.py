#!/usr/bin/env python3
"""Checks that the layering permits every include, require and BUILD label. Arguments: a file at the
repository's root, then LAYER=ALLOWED,..."""

import ast
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
# Code that opens, lists or creates files must first call base/files/confinement, so that the
# sandbox has no gaps.
OPENS = re.compile(
    r"\b(?:ifstream|ofstream|fopen|mkostemp|create_directories|directory_iterator|remove_all)\b|"
    r"[^\w.>]open\("
)
# Files that need not call it: they use paths of the host itself or of the kernel, or their caller
# checks.
UNASKED = {
    "base/files/kernel_confinement.cc",
    "comm/rank_clocks.cc",
    "base/threads/spin_control.cc",
    "lua/vm/assets.cc",
    "lua/host/confined_process.cc",
    "lua/vm/vm.cc",
    "lua/main.cc",
    "lua/host/launcher.cc",
    "lua/host/process_start.cc",
    "lua/report/give_way.cc",
    "lua/examples/jobs.cc",
    "trainer/reports/resources.cc",
    "data/files/arrow_rows.cc",
    "data/files/arrow_sink.cc",
    "model/checkpoint/save_folder.cc",
}
REQUIRE = re.compile(r"""\brequire\s*\(?\s*["']([^"']+)["']""")
LUA_HEADERS = {"lua.h", "lua.hpp", "lualib.h", "lauxlib.h", "luajit.h", "luaconf.h"}
DEPENDENCIES = {
    "deps",
    "implementation_deps",
    "srcs",
    "hdrs",
    "textual_hdrs",
    "data",
    "exports",
    "runtime_deps",
}


class Sources:
    def __init__(self, root: str, layers: dict[str, set[str]]):
        self.root, self.layers, self.complaints, self.read = root, layers, [], 0
        self.folders = set(layers) | {"scripts", "tests", "third_party"}

    def files(self, folder: str):
        for parent, folders, names in os.walk(os.path.join(self.root, folder)):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in sorted(names):
                path = os.path.relpath(os.path.join(parent, name), self.root)
                with open(
                    os.path.join(self.root, path), encoding="utf-8", errors="replace"
                ) as file:
                    self.read += 1
                    yield path, name, file.read()

    def complain(self, path: str, what: str) -> None:
        self.complaints.append(f"{path}: {what}")

    def check_layer(self, layer: str) -> None:
        allowed = self.layers[layer] | {layer}
        for path, name, text in self.files(layer):
            if name.endswith((".cc", ".h")):
                for quote, header in INCLUDE.findall(text):
                    self.check_include(path, layer, allowed, quote, header)
                asks = '"base/files/confinement.h"' in text or '"base/files/input_file.h"' in text
                if OPENS.search(re.sub(r"//.*", "", text)) and not asks and path not in UNASKED:
                    self.complain(path, "opens files and does not ask base/files/confinement.h")
            elif name == "BUILD":
                for label in labels(text, path):
                    folder = re.match(r"//([^/:]*)", label)
                    if (
                        path == "lua/examples/BUILD" and label == "//:embedding"
                    ):  # programs like users', which depend on everything
                        continue
                    if folder and folder.group(1) not in allowed | {"third_party"}:
                        self.complain(path, f"{label} is outside of what {layer}/ may build on")
                    if label == "//third_party:luajit" and layer != "lua":
                        self.complain(path, f"{label} is for lua/ alone")
                    if label.startswith(
                        ("//third_party:googletest", "//third_party:google_benchmark")
                    ):
                        self.complain(path, f"{label} is for tests/ alone")

    def check_include(
        self, path: str, layer: str, allowed: set[str], quote: str, header: str
    ) -> None:
        if os.path.basename(header) in LUA_HEADERS and layer != "lua":
            self.complain(path, f"includes {header}, which only lua/ may")
        folder = header.split("/")[0]
        if (
            "/" in header
            and folder in self.folders
            and os.path.exists(os.path.join(self.root, header))
        ):
            if folder not in allowed:
                self.complain(path, f"includes {header}, which {layer}/ may not")
        elif quote == '"' and os.path.exists(
            os.path.join(self.root, os.path.dirname(path), header)
        ):
            self.complain(path, f"includes {header}: includes go from the root")

    def check_scripts(self) -> None:
        for path, name, text in self.files("scripts"):
            if name.endswith(".lua"):
                for module in REQUIRE.findall(text):
                    if module.startswith("moonring.native"):
                        self.complain(path, f"requires {module}; a script needs Lua modules alone")


def labels(text: str, path: str):
    """Returns the labels that a BUILD file's targets depend on: strings in deps, srcs and similar
    attributes."""
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.keyword) and node.arg in DEPENDENCIES:
            for leaf in ast.walk(node.value):
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf.value


def main() -> int:
    root = os.path.dirname(os.path.realpath(sys.argv[1]))
    layers = {}
    for argument in sys.argv[2:]:
        layer, _, allowed = argument.partition("=")
        layers[layer] = {name for name in allowed.split(",") if name}
    sources = Sources(root, layers)
    for layer in layers:
        sources.check_layer(layer)
    sources.check_scripts()
    if sources.read < 50:
        sources.complain(root, f"only {sources.read} files are there")
    for complaint in sources.complaints:
        print(complaint)
    return 1 if sources.complaints else 0


sys.exit(main())
