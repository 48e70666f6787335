#!/usr/bin/env python3
"""Writes stubs, without symbols newer than a limit, of a machine's shared system libraries.

    stubs.py FOLDER CC

A program that is linked against the stubs asks for the versions of symbols that an older system
has, and runs there with that system's libraries. A function that the older system lacks is an
undefined reference at link time; newer.cc defines those that are needed.

FOLDER receives the stubs, and linker scripts (libc.so, ...) that gcc finds when FOLDER is the
first -L.
"""

import collections
import os
import re
import subprocess
import sys

# manylinux_2_28: glibc 2.28 and the libstdc++ of GCC 8, as in PEP 600 and auditwheel's policies.
LIMITS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
LIBRARIES = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")

Symbol = collections.namedtuple("Symbol", "name version kind address size weak")
SECTIONS = {"FUNC": ".text", "IFUNC": ".text", "TLS": '.section .tbss,"awT",@nobits'}  # else .bss
TYPES = {"FUNC": "@function", "IFUNC": "@function", "TLS": "@tls_object"}  # else @object
# A line of `readelf --dyn-syms --wide`:
# 5: 0000000000084590   491 FUNC    GLOBAL DEFAULT   16 _IO_puts@@GLIBC_2.2.5
LINE = re.compile(
    r"\s*\d+: ([0-9a-f]+)\s+(\w+) (\w+)\s+(GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+(\w+) ([^@\s]+)@@?(\S+)"
)


def path_of(library: str, compiler: str) -> str:
    command = [compiler, f"-print-file-name={library}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(found):
        sys.exit(f"stubs.py: {compiler} finds no {library}")
    return found


def number_of(version: str) -> tuple[int, ...] | None:
    """Returns the number in a version's name; None if it has no limit (CXXABI_TM_1)."""
    prefix, _, number = version.partition("_")
    if prefix not in LIMITS or not re.fullmatch(r"[0-9.]+", number):
        return None
    return tuple(int(part) for part in number.split("."))


def symbols_of(path: str) -> list[Symbol]:
    """Returns each symbol in its newest version within the limits."""
    command = ["readelf", "--dyn-syms", "--wide", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    newest = {}
    for line in text.split("\n"):
        match = LINE.match(line)
        if not match or match[5] == "UND" or match[7] == "GLIBC_PRIVATE":
            continue
        address, size, kind, binding, section, name, version = match.groups()
        number = number_of(version)
        if name == version or section == "ABS":
            continue  # the name of the version itself
        if number is not None and number > LIMITS[version.partition("_")[0]]:
            continue
        if name in newest and newest[name][0] >= (number or ()):
            continue
        symbol = Symbol(name, version, kind, address, int(size, 0), binding == "WEAK")
        newest[name] = (number or (), symbol)
    return [symbol for _, symbol in newest.values()]


def assembly_of(symbols: list[Symbol]) -> str:
    """Returns the assembly of a library with these symbols and no code.

    Symbols of one address stay so: a program that copies `environ` must define `__environ` too.
    """
    places = collections.defaultdict(list)
    for index, symbol in enumerate(symbols):
        places[symbol.kind, symbol.address].append((f"stub{index}", symbol))
    lines = []
    for (kind, _), labels in places.items():
        is_code = SECTIONS.get(kind) == ".text"
        lines += [SECTIONS.get(kind, ".bss"), ".balign 32"]
        for label, symbol in labels:
            lines += [
                f"{'.weak' if symbol.weak else '.globl'} {label}",
                f".type {label}, {TYPES.get(kind, '@object')}",
                f".size {label}, {max(symbol.size, 1)}",
                f".symver {label}, {symbol.name}@@{symbol.version}, remove",
                f"{label}:",
            ]
        lines += ["ret" if is_code else f".skip {max(symbol.size for _, symbol in labels) or 1}"]
    return "\n".join(lines) + "\n"


def make_stub(library: str, folder: str, compiler: str) -> None:
    symbols = symbols_of(path_of(library, compiler))
    versions = sorted({symbol.version for symbol in symbols})
    base = os.path.join(folder, library)
    with open(base + ".s", "w", encoding="ascii") as file:
        file.write(assembly_of(symbols))
    with open(base + ".map", "w", encoding="ascii") as file:
        file.write("".join(f"{version} {{ }};\n" for version in versions))
    subprocess.run(
        [compiler, "-shared", "-nostdlib", "-fuse-ld=bfd", f"-Wl,-soname,{library}"]
        + [f"-Wl,--version-script={base}.map", "-o", base, base + ".s"],
        check=True,
    )
    os.remove(base + ".s")
    os.remove(base + ".map")


def main() -> int:
    folder, compiler = sys.argv[1:]
    for library in LIBRARIES:
        make_stub(library, folder, compiler)
    scripts = {
        # What glibc links statically into each program, and the dynamic loader.
        "libc.so": ["libc.so.6", path_of("libc_nonshared.a", compiler)]
        + [f"AS_NEEDED({path_of('ld-linux-x86-64.so.2', compiler)})"],
        "libm.so": ["libm.so.6"],
        "libstdc++.so": ["libstdc++.so.6"],
        "libgcc_s.so": ["libgcc_s.so.1"],
    }
    for name, inputs in scripts.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f"GROUP({' '.join(inputs)})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
