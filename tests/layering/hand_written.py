"""The hand-written files of the source tree."""

import os

FOLDERS = (
    "attention",
    "base",
    "comm",
    "data",
    "docs",
    "kernels",
    "lua",
    "mixers",
    "model",
    "objectives",
    "scripts",
    "tests",
    "third_party",
    "trainer",
)


# Those at the top that are pages.
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")


def paths(root: str, endings: tuple[str, ...], left_out: tuple[str, ...] = ()):
    """Paths relative to `root` of the files in FOLDERS whose names end so, but for those that begin
    with one of `left_out`."""
    for folder in FOLDERS:
        for parent, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            for name in names:
                path = os.path.relpath(os.path.join(parent, name), root)
                if name.endswith(endings) and not path.startswith(left_out):
                    yield path
