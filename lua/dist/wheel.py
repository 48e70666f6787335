#!/usr/bin/env python3
"""Packs a wheel. The same files always give the same bytes.

    wheel.py WHEEL --version=V --summary=TEXT --description=FILE --requires=REQUIREMENT ...
             --folder=//:dist's folder [--leave-out=NAME ...] [--extra=NAME ...] MODULE.py ...

The wheel contains the package `moonring`: the modules, and in moonring/runtime/ the folder's files
except those of --leave-out. Licences go to the wheel's .dist-info/licenses.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import zipfile

PACKAGE = "moonring"
TIME = (2000, 1, 1, 0, 0, 0)
PYTHON = ">=3.10"  # as torch 2.11
LICENSES = ("LICENSE", "NOTICE", "licenses")


def is_license(name: str) -> bool:
    return name.split("/")[0] in LICENSES


def files_of(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns each file by its name below the folder."""
    return {
        str(pathlib.Path(base, name).relative_to(folder)): pathlib.Path(base, name)
        for base, _, names in os.walk(folder)
        for name in names
    }


def metadata(options: argparse.Namespace, licenses: list[str]) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {PACKAGE}",
        f"Version: {options.version}",
        f"Summary: {options.summary}",
        "License-Expression: Apache-2.0",
        *[f"License-File: {name}" for name in licenses],
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        f"Requires-Python: {PYTHON}",
        *[f"Requires-Dist: {requirement}" for requirement in options.requires],
        *[f"Provides-Extra: {name}" for name in options.extra],
        "Description-Content-Type: text/markdown",
        "",
        pathlib.Path(options.description).read_text(encoding="utf-8"),
    ]
    return "\n".join(lines)


def contents(options: argparse.Namespace) -> dict[str, bytes]:
    """Returns the bytes of each file in the wheel, but for RECORD."""
    info = f"{PACKAGE}-{options.version}.dist-info"
    files = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in options.modules}
    licenses = []
    for name, path in files_of(options.folder).items():
        if name in options.leave_out:
            continue
        if is_license(name):
            licenses.append(name)
            files[f"{info}/licenses/{name}"] = path.read_bytes()
        else:
            files[f"{PACKAGE}/runtime/{name}"] = path.read_bytes()
    files[f"{info}/METADATA"] = metadata(options, sorted(licenses)).encode()
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: moonring\nRoot-Is-Purelib: false\n"
        f"Tag: {'-'.join(options.wheel.stem.split('-')[2:])}\n"
    ).encode()
    files[f"{info}/entry_points.txt"] = (
        f"[console_scripts]\n{PACKAGE} = {PACKAGE}.__main__:main\n"
    ).encode()
    return files


def record_of(files: dict[str, bytes], name: str) -> bytes:
    lines = []
    for path, data in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    return ("\n".join([*lines, f"{name},,"]) + "\n").encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("modules", type=pathlib.Path, nargs="+")
    parser.add_argument("--version", required=True)
    parser.add_argument("--summary", required=True)
    parser.add_argument("--description", required=True)
    parser.add_argument("--requires", action="append", default=[])
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--leave-out", action="append", default=[])
    options = parser.parse_args()
    files = contents(options)
    record = f"{PACKAGE}-{options.version}.dist-info/RECORD"
    files[record] = record_of(files, record)
    with zipfile.ZipFile(options.wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if data.startswith(b"\x7fELF") else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)


if __name__ == "__main__":
    main()
