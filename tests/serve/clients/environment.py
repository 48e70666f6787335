"""Python environments with packages that a test needs."""

import functools
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent.parent


@functools.cache
def environment(variable: str, script: str, what: str) -> pathlib.Path:
    """Returns the folder that an environment variable names, after a setup script has made what is
    missing there; without the variable it is made for this test."""
    name = variable.lower().replace("_", "-")
    given = os.environ.get(variable) or os.path.join(os.environ.get("TEST_TMPDIR", "/tmp"), name)
    done = subprocess.run(
        [HERE / script, given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    if done.returncode:
        raise RuntimeError(
            f"no environment with {what}: tests/serve/{script} needs the package index; make one "
            f"once and name it by --test_env={variable}=FOLDER: {done.stderr[-2000:]}"
        )
    return pathlib.Path(given)
