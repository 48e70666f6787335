"""Makes the folder that is copied to the machine with the GPU: these scripts, packed.json, and
programs.tar.xz with dist/ (Moonring), bin/ (measure and two tests), families/ and wheels/.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

import correctness
import processes
import roofline
import workshop

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = (
    "//:dist",
    "//tests/gpu:measure",
    "//tests/gpu:modes_conformance_test",
    "//tests/attention:cuda_conformance_test",
    "//tests/golden/families",
)
PROGRAMS = (
    "tests/gpu/measure",
    "tests/gpu/modes_conformance_test",
    "tests/attention/cuda_conformance_test",
)
SCRIPTS = (
    "accept",
    "checks.py",
    "correctness.py",
    "diagnosis.py",
    "families.py",
    "inputs.py",
    "layers.lua",
    "packing.py",
    "peer_steps.py",
    "plan_of.lua",
    "processes.py",
    "profiles.py",
    "roofline.py",
    "speed.py",
    "table.py",
    "workshop.py",
)
FAMILIES = "tests/golden/families"
ARCHIVE = "programs.tar.xz"
TRAVELS = 64  # MiB: maximum size of the checkout with the packed files
NOT_WANTED = ("lib/libmoonring.so", "lua/types")  # files for embedding and for editors


class Refused(Exception):
    pass


def build(configuration):
    flags = ["--config=cuda"] if configuration == "cuda" else []
    subprocess.run(["./bazelw", "build", *flags, *TARGETS], cwd=ROOT, check=True)
    return os.path.join(ROOT, "bazel-bin")


def count_steps(shape, lengths):
    """Counts the operations and bytes of a step for each length, on the pretend device (a simulated
    GPU). From the counts and the rates measured on the GPU, roofline.py predicts the time."""
    host = "//tests/testing/pretend_device:host"
    subprocess.run(["./bazelw", "build", host], cwd=ROOT, check=True)
    path = os.path.join(ROOT, "bazel-bin", host.strip("/").replace(":", "/"))
    return {
        str(tokens): roofline.count_step(path, shape | {"tied": True}, tokens, {})
        for tokens in lengths
    }


def make_references(built, sizes, libtorch):
    """Computes the CPU references of the checks, {Training.name(): log lines}, with the CPU build
    in `built`, one run at a time on all cores."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="accept-references-") as work:
        shop = workshop.Workshop(built, work, work, False, math.inf, {}, {})
        shop.sizes = sizes
        shop.libraries = libtorch or shop.libraries
        if shop.libraries is None:
            raise Refused(
                "no LibTorch for the CPU's references: this Python has no torch 2.11, "
                "and LD_LIBRARY_PATH has no libtorch_cpu.so"
            )
        for what in correctness.references(sizes):
            run = shop.reference(what, shop.cores)
            try:
                shop.finish(run)
            except processes.Failed as why:
                raise Refused(f"a reference on the CPU: {why}\n{run.process.text}") from why
            wanted = ("current_steps", "loss", "grad_norm")
            found[what.name()] = [{key: line[key] for key in wanted} for line in run.lines()]
    return found


def bazels_libtorch():
    """Returns the folder of the LibTorch that Bazel downloaded."""
    base = subprocess.run(
        ["./bazelw", "info", "output_base"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    return os.path.join(base, "external", "libtorch", "lib")


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
    """Returns {path: bytes} of all files in a folder."""
    return {
        os.path.relpath(os.path.join(at, name), folder): os.path.getsize(os.path.join(at, name))
        for at, _, names in os.walk(folder)
        for name in names
    }


def check_configuration(folder, configuration):
    """Checks that the copied files are from the requested configuration, because Bazel's outputs of
    both configurations have the same paths."""
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
    """Copies the files of the archive into `folder`."""
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
    for name in os.listdir(os.path.join(ROOT, FAMILIES)):
        # A family's files are in the repository or in Bazel's output.
        found = {
            file: os.path.join(at, FAMILIES, name, file)
            for at in (ROOT, built)
            for file in ("config.json", "model.safetensors")
            if os.path.exists(os.path.join(at, FAMILIES, name, file))
        }
        if len(found) == 2:
            target = os.path.join(folder, "families", name)
            os.makedirs(target)
            for file, path in found.items():
                shutil.copyfile(path, os.path.join(target, file))
    if wheels:
        found = sorted(name for name in os.listdir(wheels) if name.endswith(".whl"))
        if not found:
            raise Refused(f"--wheels: {wheels} has no .whl")
        os.makedirs(os.path.join(folder, "wheels"))
        for name in found:
            shutil.copyfile(os.path.join(wheels, name), os.path.join(folder, "wheels", name))


def unpack(pack, work):
    """Unpacks the programs of a packed folder into `work`."""
    folder = os.path.join(work, "pack")
    # Python from 3.12 on (and patched earlier versions) requires an extraction filter.
    filtered = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(os.path.join(pack, ARCHIVE)) as archive:
        archive.extractall(folder, **filtered)
    return folder


def travelling():
    """Returns the size of the checkout: tracked files, and untracked files that git does not
    ignore."""
    try:
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        return 0
    paths = [os.path.join(ROOT, name) for name in names if name]
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


def pack(folder, configuration, built, wheels, limit_mib):
    """Packs the folder `folder`, which must not exist or be empty. `built` is Bazel's output
    folder; None: build now."""
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise Refused(f"{folder} is there already: name a new folder")
    counted, references = {}, {}
    if built is None:
        counted = count_steps(workshop.REAL.llama, workshop.REAL.llama_tokens)
        # Before the CUDA build, which overwrites the outputs of the CPU build.
        references = make_references(build("cpu"), workshop.REAL, bazels_libtorch())
        built = build(configuration)
    elif configuration == "cpu":  # only for dry runs
        references = make_references(built, workshop.DRY, None)
    with tempfile.TemporaryDirectory(prefix="accept-pack-") as whole:
        lay_out(whole, built, wheels)
        check_configuration(whole, configuration)
        files = sizes(whole)
        os.makedirs(folder, exist_ok=True)
        with tarfile.open(os.path.join(folder, ARCHIVE), "w:xz", preset=9) as archive:
            archive.add(whole, ".")
    for name in SCRIPTS:
        shutil.copy(os.path.join(HERE, name), os.path.join(folder, name))
    about = {
        "commit": commit(),
        "configuration": configuration,
        "files": files,
        "counted": counted,
        "references": references,
    }
    with open(os.path.join(folder, "packed.json"), "w", encoding="utf-8") as f:
        json.dump(about, f, indent=1)
    if not references:
        print("accept: no references are packed: that machine's CPU makes them", file=sys.stderr)
    total, checkout = sum(sizes(folder).values()), travelling()
    for name, size in sorted(files.items(), key=lambda item: -item[1])[:8]:
        print(f"{size / 2**20:8.2f} MiB  {name}")
    print(
        f"{sum(files.values()) / 2**20:8.2f} MiB  of programs, in {total / 2**20:.2f} MiB: "
        f"{folder}, {configuration}, {about['commit']}\n"
        f"{(total + checkout) / 2**20:8.2f} MiB  with the checkout, of {TRAVELS}"
    )
    if total > limit_mib * 2**20:
        shutil.rmtree(folder)
        raise Refused(
            f"the folder took {total / 2**20:.1f} MiB, and {limit_mib} MiB are the most; it is "
            f"removed"
        )
    sys.stdout.flush()
