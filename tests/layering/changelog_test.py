#!/usr/bin/env python3
"""Checks CHANGELOG.md. Arguments: CHANGELOG.md and lua/version.bzl.

  Unreleased  is the first section of a version
  version     the newest version is the one in version.bzl, and its section lists something
  order       versions descend, each once
  headings    those of Keep a Changelog
"""

import re
import sys

SECTION = re.compile(r"^## \[([^\]]+)\](.*)$", re.MULTILINE)
HEADINGS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def complaints_of(text: str, version: str) -> list[str]:
    complaints = []
    found = list(SECTION.finditer(text))
    names = [match.group(1) for match in found]
    ends = [match.start() for match in found[1:]] + [len(text)]
    if names[:1] != ["Unreleased"]:
        complaints.append(f"expected the first section to be [Unreleased], got {names[:1]}")
    numbers = [tuple(map(int, name.split("."))) for name in names if re.match(r"\d", name)]
    if numbers != sorted(set(numbers), reverse=True):
        complaints.append(f"expected versions that descend, got {names}")
    if names[1:2] != [version]:
        complaints.append(
            f"expected a section '## [{version}]', the version in lua/version.bzl, after "
            f"[Unreleased]; got {names[1:]}"
        )
    for match, end in zip(found, ends):
        section = text[match.end() : end]
        if match.group(1) == version and not re.search(r"^- \S", section, re.MULTILINE):
            complaints.append(f"expected a list of changes in the section [{version}], got none")
        for heading in re.findall(r"^### (.*)$", section, re.MULTILINE):
            if heading not in HEADINGS:
                complaints.append(f"[{match.group(1)}]: expected one of {sorted(HEADINGS)}, "
                                  f"got '{heading}'")
    return complaints


GOOD = "# Changelog\n## [Unreleased]\n## [1.10.0] - 2027-01-02\n### Added\n- x\n## [1.9.0]\n- y\n"
# Changes of GOOD, each of which must give one complaint.
FAULTS = [
    ("## [Unreleased]\n", ""),
    ("1.10.0", "1.11.0"),
    ("- x\n", ""),
    ("### Added", "### New"),
    ("## [1.9.0]", "## [1.12.0]"),
]


def main() -> int:
    changelog, version_file = sys.argv[1:]
    with open(version_file, encoding="utf-8") as file:
        version = re.search(r'^VERSION = "(.*)"$', file.read(), re.MULTILINE).group(1)
    with open(changelog, encoding="utf-8") as file:
        complaints = complaints_of(file.read(), version)
    if complaints_of(GOOD, "1.10.0"):
        complaints.append("a correct text is refused: this test does not work")
    for old, new in FAULTS:
        if not complaints_of(GOOD.replace(old, new), "1.10.0"):
            complaints.append(f"'{new}' for '{old}' is accepted: this test does not work")
    for complaint in complaints:
        print(f"CHANGELOG.md: {complaint}")
    return 1 if complaints else 0


sys.exit(main())
