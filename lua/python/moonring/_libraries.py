"""Finds Moonring's files and LibTorch, and loads libmoonring.so. Nothing else in the package knows
where files are."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import importlib.util
import mmap
import os
import platform
import re
import sys
import threading

from moonring.errors import LoadError

TORCH = "2.11"
ARROW = ("libarrow.so.2600", "libparquet.so.2600")  # each after those that it needs
REMEDY = f"pip install 'torch=={TORCH}.*'"


def runtime_folder() -> str:
    """The folder of moonring-bin, lib/, lua/ and scripts/: $MOONRING_RUNTIME, or that of this
    package."""
    given = os.environ.get("MOONRING_RUNTIME")
    folder = given or os.path.join(os.path.dirname(os.path.abspath(__file__)), "runtime")
    if not os.path.exists(os.path.join(folder, "lib", "libmoonring.so")):
        missing = f"{folder} has no lib/libmoonring.so"
        if given:
            raise LoadError(
                f"MOONRING_RUNTIME: {missing}, expected the folder of a built Moonring, such as "
                "bazel-bin/dist"
            )
        raise LoadError(f"this installation is incomplete: {missing}; reinstall moonring")
    return os.path.abspath(folder)


def torch_folder() -> str:
    """The folder of the installed torch package, which is not imported: that takes seconds."""
    imported = sys.modules.get("torch")
    if imported is not None and getattr(imported, "__file__", None):
        return os.path.dirname(os.path.abspath(imported.__file__))
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if os.path.exists(os.path.join(folder, "lib", "libtorch_cpu.so")):
            return os.path.abspath(folder)
    raise LoadError(f"no LibTorch {TORCH}: {sys.executable} has no torch ({REMEDY})")


def arrow_folder() -> str | None:
    """The folder of the installed pyarrow, which is not imported; None if there is none with the
    Arrow that libmoonring_arrow.so needs."""
    try:
        spec = importlib.util.find_spec("pyarrow")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if all(os.path.exists(os.path.join(folder, name)) for name in ARROW):
            return os.path.abspath(folder)
    return None


def _version(folder: str) -> str:
    """The version of torch, or of the LibTorch archive, in this folder; "" if no file says it."""
    for name, line in (("version.py", r"^__version__ = '([^']*)'"), ("build-version", r"^(\S+)")):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found = re.search(line, file.read(), re.MULTILINE)
        except OSError:
            continue
        if found:
            return found.group(1)
    return ""


def mentions(path: str, name: bytes) -> bool:
    """Whether a program or library contains this text, such as the name of a library it needs."""
    with open(path, "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(name) >= 0


def check_torch(folder: str, binary: str) -> None:
    """Refuses a torch that does not have the LibTorch with which `binary` was compiled."""
    found = _version(folder)
    if found and not re.match(rf"{re.escape(TORCH)}(\.|\+|$)", found):
        raise LoadError(f"LibTorch {TORCH} is required, and {folder} is {found}: {REMEDY}")
    cuda = re.search(r"\+cu(\d+)", found)
    without = re.search(r"\+(cpu|rocm|xpu)", found) or (cuda and int(cuda.group(1)) < 130)
    if without and mentions(binary, b"libtorch_cuda.so"):
        raise LoadError(
            f"this Moonring is for CUDA 13, and {folder} is {found}: install torch {TORCH}.0+cu130"
        )


def library_folders(torch: str) -> list[str]:
    """Folders of the libraries that the program needs: LibTorch's, those of the packages that torch
    needs for CUDA, and Arrow's, for Parquet files."""
    packages = os.path.dirname(torch)
    others = sorted(glob.glob(os.path.join(glob.escape(packages), "nvidia", "*", "lib")))
    others.append(os.path.join(packages, "pyarrow"))
    if not os.path.isdir(others[-1]):
        others[-1] = arrow_folder() or others[-1]
    return [os.path.join(torch, "lib"), *(folder for folder in others if os.path.isdir(folder))]


def explained(problem: OSError) -> LoadError:
    """The loader's error, in one sentence that says what is missing."""
    text = str(problem)
    old = re.search(r"version [`'](GLIBC|GLIBCXX|CXXABI)_([\d.]+)' not found", text)
    if old and old.group(1) == "GLIBC":
        return LoadError(
            f"Moonring needs a Linux with glibc {old.group(2)} or newer (Debian 10, "
            f"Ubuntu 20.04, RHEL 8 or later), and this machine has {platform.libc_ver()[1]}"
        )
    if old:
        return LoadError(
            f"Moonring needs a libstdc++ with {old.group(1)}_{old.group(2)} (that of GCC 8 "
            "or newer), and the one that was loaded is older"
        )
    missing = re.search(r"^(\S+): cannot open shared object file", text)
    if missing and not missing.group(1).startswith("/"):
        return LoadError(f"the library {missing.group(1)} is missing on this machine ({text})")
    return LoadError(f"libmoonring.so cannot be loaded: {text}")


def _preload(torch: str, runtime: str, binary: str) -> None:
    """Loads LibTorch and what it needs, once in the process: the files that `import torch` loads.
    Each is loaded before those that need it, so that no other file of that name is found."""
    folders = library_folders(torch)
    needed = ["libcudart.so.13", "libcupti.so.13", "libgomp.so.1", "libc10.so", "libtorch_cpu.so"]
    if mentions(binary, b"libtorch_cuda.so"):
        needed += ["libc10_cuda.so", "libtorch_cuda.so"]
    for name in needed:
        for folder in [*folders, os.path.join(runtime, "lib")]:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
                break


def _preload_arrow(runtime: str) -> None:
    """Loads the libraries of the installed pyarrow, so that libmoonring_arrow.so finds them.

    That library is loaded when the first Parquet or Arrow file is read, which may be in any call,
    and nothing tells Python before. In a wheel's place it looks for pyarrow in the site-packages
    folder that has moonring, so only a pyarrow elsewhere, or MOONRING_RUNTIME, needs this. It takes
    15 ms.
    """
    folder = arrow_folder()
    beside = os.path.join(runtime, "..", "..", "pyarrow")  # its RUNPATH, $ORIGIN/../../../pyarrow
    if folder is None or os.path.realpath(folder) == os.path.realpath(beside):
        return
    for name in ARROW:
        with contextlib.suppress(OSError):  # reading such a file will say it
            ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_LOCAL)


def _load() -> ctypes.CDLL:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise LoadError(
            f"Moonring runs on Linux on x86-64, and this is {sys.platform} on {platform.machine()}"
        )
    runtime, torch = runtime_folder(), torch_folder()
    binary = os.path.join(runtime, "lib", "libmoonring.so")
    check_torch(torch, binary)
    try:
        _preload(torch, runtime, binary)
        _preload_arrow(runtime)
        return ctypes.CDLL(binary)
    except OSError as problem:
        raise explained(problem) from None


_lock = threading.Lock()
_loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """libmoonring.so, loaded at the first call."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded
