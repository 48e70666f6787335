#!/usr/bin/env python3
"""Checks that the layering permits every dependency, and that Bazel's visibility rejects all
others. Arguments: the results of layers.bzl's queries."""

import os
import sys


def main() -> int:
    complaints = []
    for path in sys.argv[1:]:
        name = os.path.basename(path)
        layer, _, question = name.partition("_")
        with open(path, encoding="utf-8") as lines:
            labels = lines.read().split()
        if question == "edges" and labels:
            complaints.append(f"//{layer} depends on {', '.join(labels)}")
        elif question == "sees" and labels:
            complaints.append(
                f"//{layer} could depend on {', '.join(labels)}: their visibility names it"
            )
        elif question == "builds_on" and len(labels) < 2:
            complaints.append(f"//{layer} sees only {labels}: the queries do not work")
    if len(sys.argv) < 4:
        complaints.append("no queries")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


sys.exit(main())
