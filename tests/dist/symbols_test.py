#!/usr/bin/env python3
"""What the folder //:dist asks of a system: no symbol newer than LibTorch asks for, and no library
that is neither the system's, nor LibTorch's, nor in the folder.

Arguments: the folder; LibTorch's libc10.so.
"""

import os
import re
import subprocess
import sys

# manylinux_2_28, as in auditwheel's policies.
LIMITS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
# Loaded at run time, from the packages pyarrow and, where a GPU is used, nvidia-*.
OTHERS = {"libmoonring_arrow.so": r"lib(arrow|parquet)\.so\.\d+"}
CUDA = r"lib(cu(blas|blasLt|dart|dnn|fft|file|pti|rand|sparse|sparseLt)|nccl|nvshmem_host)\.so.*"


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def newest(path: str) -> dict[str, tuple[int, ...]]:
    """Returns the newest version of each of LIMITS that the file asks for."""
    found = {}
    text = output_of("readelf", "--version-info", "--wide", path)
    needs = text[text.index("Version needs section") :] if "Version needs" in text else ""
    for name, number in re.findall(r"Name: ([A-Z]+)_([0-9.]+)", needs):
        if name in LIMITS:
            version = tuple(int(part) for part in number.split("."))
            found[name] = max(found.get(name, ()), version)
    return found


def needed(path: str) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", "--wide", path))


def main() -> int:
    folder, libtorch = sys.argv[1], os.path.dirname(os.path.realpath(sys.argv[2]))
    own = [os.path.join(folder, "moonring-bin")]
    libraries = os.path.join(folder, "lib")
    own += [os.path.join(libraries, name) for name in os.listdir(libraries) if "moonring" in name]
    beside = SYSTEM | set(os.listdir(libraries)) | set(os.listdir(libtorch))
    complaints = [] if len(own) == 3 else [f"expected the host and two libraries, got {own}"]
    for path in own:
        name = os.path.basename(path)
        asked = newest(path)
        shown = ", ".join(f"{key}_{'.'.join(map(str, asked[key]))}" for key in sorted(asked))
        print(f"{name}: {shown}")
        complaints += [
            f"{name} asks for {key} {version}, newer than {LIMITS[key]}: see third_party/"
            "older_symbols"
            for key, version in asked.items()
            if version > LIMITS[key]
        ]
        if not asked:
            complaints.append(f"{name}: readelf shows no version that it needs")
        for library in needed(path):
            # Files of lib/ are for the host; libmoonring.so has LibTorch and the system alone.
            known = beside - {"libhwy.so.1"} if name == "libmoonring.so" else beside
            if library in known or re.fullmatch(OTHERS.get(name, CUDA), library):
                continue
            complaints.append(f"{name} needs {library}, which is not LibTorch's nor a system's")
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
