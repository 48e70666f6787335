#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy on C++ sources: the named ones, or those that
differ from the branch main. Run it after a build, which provides LibTorch's headers:

    python3 tests/tidy.py [FILE...]

Sources of one folder are checked together, up to eight in one translation unit, because most of the
time is LibTorch's headers; if they do not compile together, each is checked by itself. Prints the
warnings. Exits with 1 if there are any, or with 2 if clang-tidy or the headers are missing.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOGETHER = 8
DEFINES = ["-DNDEBUG", "-DPCRE2_CODE_UNIT_WIDTH=8", "-DUSE_C10D_GLOO"]


def changed(root: str) -> list[str]:
    """Sources that differ from main, and untracked ones."""

    def git(*words: str) -> list[str]:
        command = ["git", "-C", root, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    base = git("merge-base", "HEAD", "main")[0]
    files = git("diff", "--name-only", "--diff-filter=d", base) + git(
        "ls-files", "--others", "--exclude-standard"
    )
    return sorted({file for file in files if file.endswith(".cc")})


def compile_flags(root: str) -> list[str]:
    """The flags of Bazel's compiles, except those for speed and for precompiled headers."""
    output = os.path.realpath(os.path.join(root, "bazel-out"))
    external = os.path.join(output, "..", "..", "..", "external")
    if not os.path.isdir(os.path.join(external, "libtorch")):
        line = "./bazelw build //:moonring"
        print(f"tidy: LibTorch's headers are missing; run this:\n  {line}", file=sys.stderr)
        sys.exit(2)
    includes = []
    for name in sorted(os.listdir(external)):
        for folder in ["include", "include/torch/csrc/api/include"]:
            path = os.path.normpath(os.path.join(external, name, folder))
            if os.path.isdir(path):
                includes.append("-isystem" + path)
    return ["-std=c++20", "-I" + root, "-I" + os.path.join(root, "bazel-bin"), *includes, *DEFINES]


def check(root: str, flags: list[str], files: list[str]) -> str:
    """The warnings for these sources, compiled as one unit."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as unit:
        unit.writelines(f'#include "{file}"\n' for file in files)
        unit.flush()
        names = "|".join(re.escape(file) for file in files)
        options = [f"--config-file={root}/.clang-tidy", f"--header-filter=/({names})$"]
        # The unit includes sources on purpose.
        options.append("--checks=-bugprone-suspicious-include")
        command = ["clang-tidy", "--quiet", *options, unit.name]
        done = subprocess.run(command + ["--", *flags], cwd=root, capture_output=True, text=True)
    if "[clang-diagnostic-error]" in done.stdout and len(files) > 1:
        return "".join(check(root, flags, [file]) for file in files)
    return done.stdout


def main() -> int:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if shutil.which("clang-tidy") is None:
        line = "apt-get install --yes --no-install-recommends clang-tidy"
        print(f"tidy: clang-tidy is missing; run this:\n  {line}", file=sys.stderr)
        return 2
    named = [os.path.relpath(os.path.abspath(file), root) for file in sys.argv[1:]]
    files = sorted(named) or changed(root)
    flags = compile_flags(root)
    found = False
    for _, group in itertools.groupby(files, os.path.dirname):
        of_folder = list(group)
        for i in range(0, len(of_folder), TOGETHER):
            warnings = check(root, flags, of_folder[i : i + TOGETHER])
            print(warnings.replace(root + "/", ""), end="", flush=True)
            found = found or bool(warnings)
    print(f"tidy: {len(files)} sources: {'warnings' if found else 'no warnings'}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
