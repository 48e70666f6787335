"""The folder that goes to the machine with the GPU: programs built here, and these files.
docs/gpu.md says what lies where.
"""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = (
    "//:dist",
    "//tests/gpu:measure",
    "//tests/gpu:modes_conformance_test",
    "//tests/attention:cuda_conformance_test",
)
PROGRAMS = (
    "tests/gpu/measure",
    "tests/gpu/modes_conformance_test",
    "tests/attention/cuda_conformance_test",
)
SCRIPTS = (
    "accept",
    "first_call.py",
    "inputs.py",
    "packing.py",
    "peer_steps.py",
    "plan_of.lua",
    "processes.py",
    "profiles.py",
    "roofline.py",
    "second_call.py",
    "table.py",
    "workshop.py",
)
NOT_WANTED = ("lib/libmoonring.so", "lua/types")  # for embedding, and for editors


class Refused(Exception):
    pass


def build(configuration):
    flags = ["--config=cuda"] if configuration == "cuda" else []
    subprocess.run(["./bazelw", "build", *flags, *TARGETS], cwd=ROOT, check=True)
    return os.path.join(ROOT, "bazel-bin")


def commit():
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def sizes(folder):
    """{path: bytes} of all files under a folder."""
    return {
        os.path.relpath(os.path.join(at, name), folder): os.path.getsize(os.path.join(at, name))
        for at, _, names in os.walk(folder)
        for name in names
    }


def check_configuration(folder, configuration):
    """Bazel's outputs of both configurations lie in one place: what was copied must be of the one
    that was asked for.
    """
    for name in (
        "dist/moonring-bin",
        *("bin/" + os.path.basename(program) for program in PROGRAMS),
    ):
        with open(os.path.join(folder, name), "rb") as f:
            if (b"libtorch_cuda.so" in f.read()) != (configuration == "cuda"):
                raise Refused(
                    f"{name} is not of the {configuration} configuration: another build has come "
                    f"between; pack again"
                )


def lay_out(folder, built, wheels):
    shutil.copytree(os.path.join(built, "dist"), os.path.join(folder, "dist"), symlinks=False)
    for at, _, _ in os.walk(os.path.join(folder, "dist")):
        os.chmod(at, 0o755)  # Bazel's outputs are read-only
    for name in NOT_WANTED:
        path = os.path.join(folder, "dist", name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)
    os.makedirs(os.path.join(folder, "bin"))
    strip = shutil.which("strip")
    for name in PROGRAMS:
        target = os.path.join(folder, "bin", os.path.basename(name))
        shutil.copyfile(os.path.join(built, name), target)
        os.chmod(target, 0o755)
        if strip:
            subprocess.run([strip, "--strip-all", target], check=True)
    for name in SCRIPTS:
        shutil.copy(os.path.join(HERE, name), os.path.join(folder, name))
    if wheels:
        found = sorted(name for name in os.listdir(wheels) if name.endswith(".whl"))
        if not found:
            raise Refused(f"--wheels: {wheels} has no .whl")
        os.makedirs(os.path.join(folder, "wheels"))
        for name in found:
            shutil.copyfile(os.path.join(wheels, name), os.path.join(folder, "wheels", name))


def pack(folder, configuration, built, wheels, limit_mib):
    """Makes `folder`, which may not be there yet. `built`: where Bazel's outputs lie; None: they
    are built now.
    """
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise Refused(f"{folder} is there already: name a new folder")
    built = built or build(configuration)
    os.makedirs(folder, exist_ok=True)
    try:
        lay_out(folder, built, wheels)
        check_configuration(folder, configuration)
    except Exception:
        shutil.rmtree(folder)
        raise
    files = sizes(folder)
    about = {
        "commit": commit(),
        "configuration": configuration,
        "bytes": sum(files.values()),
        "files": files,
    }
    with open(os.path.join(folder, "packed.json"), "w", encoding="utf-8") as f:
        json.dump(about, f, indent=1)
    total = sum(sizes(folder).values())
    for name, size in sorted(files.items(), key=lambda item: -item[1])[:12]:
        print(f"{size / 2**20:8.2f} MiB  {name}")
    print(
        f"{total / 2**20:8.2f} MiB  in {len(files) + 1} files: {folder}, {configuration}, "
        f"{about['commit']}"
    )
    if total > limit_mib * 2**20:
        shutil.rmtree(folder)
        raise Refused(
            f"the folder took {total / 2**20:.1f} MiB, and {limit_mib} MiB are the most; it is "
            f"removed"
        )
    sys.stdout.flush()
