#!/usr/bin/env python3
"""Sources of one package are compiled together (third_party/precompiled/together.bzl), so no two of
them may define the same name in their unnamed namespaces. The compiler finds duplicates within one
unit; this test finds all, however sources are grouped into units.
"""

import collections
import pathlib
import re
import sys

# A definition at the beginning of a line: a type, an alias, a constant, a function.
DEFINITION = re.compile(
    r"(?:template\s*<.*>\s*)?(?:(?:struct|class|enum class|enum|union)\s+(\w+)"
    r"|using\s+(\w+)\s*="
    r"|(?:constexpr|const|static|inline|thread_local)\b[^(=;{]*?"
    r"\b(\w+)(?:\[[^\]]*\])?\s*[={;(]"
    r"|[\w:<>,&*\s\[\]]+?[\s&*>](\w+)\()"
)
CONSTANT = re.compile(r"\b(k[A-Z]\w*)\s*[={\[]")


def unnamed(text):
    """Returns the names in the unnamed namespaces of a source, with the line of each."""
    names = {}
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line == "namespace {":
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        elif inside and line and line[0] not in " }/#":
            match = DEFINITION.match(line)
            found = [name for name in match.groups() if name] if match else []
            if line.startswith("const"):
                found += CONSTANT.findall(line)
            for name in found:
                names.setdefault(name, number)
    return names


def packages_together(root):
    """Yields each package that ends with `together()`: its folder, and the sources compiled
    together."""
    for build in sorted(root.rglob("BUILD")):
        parts = build.relative_to(root).parts
        if parts[0].startswith(("bazel-", ".")):
            continue
        if "\ntogether()\n" in build.read_text(encoding="utf-8"):
            yield build.parent, sorted(build.parent.glob("*.cc"))


def main():
    root = pathlib.Path(sys.argv[1]).resolve().parent
    wrong = []
    packages = 0
    for folder, sources in packages_together(root):
        packages += 1
        places = collections.defaultdict(list)
        for source in sources:
            text = source.read_text(encoding="utf-8")
            if source.name.endswith("_benchmark.cc") or "\nint main(" in text:
                continue  # a separate program
            for name, line in unnamed(text).items():
                places[name].append(f"{source.relative_to(root)}:{line}")
        for name, where in sorted(places.items()):
            if len(where) > 1:
                wrong.append(f"{name}: {', '.join(where)}")
    if packages < 20:
        sys.exit(f"only {packages} packages end with together(): is this the tree?")
    if wrong:
        sys.exit("one name for two things of a package's unnamed namespaces:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
