"""The command `moonring`, also `python -m moonring`: starts the program in place of Python, so that
exit codes and signals are the program's."""

from __future__ import annotations

import os
import sys

from moonring import _libraries
from moonring.errors import LoadError


def _environment(program: str) -> dict[str, str]:
    """The environment with LibTorch on LD_LIBRARY_PATH, as lua/dist/moonring.sh makes it."""
    environment = dict(os.environ, MOONRING_PYTHON=sys.executable)
    before = environment.get("LD_LIBRARY_PATH", "")
    for folder in before.split(":"):
        if folder and os.path.exists(os.path.join(folder, "libtorch_cpu.so")):
            torch = os.path.dirname(os.path.abspath(folder))
            _libraries.check_torch(torch, program)
            others = _libraries.library_folders(torch)[1:]
            environment["LD_LIBRARY_PATH"] = ":".join([before, *others])
            return environment
    torch = _libraries.torch_folder()
    _libraries.check_torch(torch, program)
    folders = _libraries.library_folders(torch)
    environment["LD_LIBRARY_PATH"] = ":".join([*folders, *filter(None, [before])])
    return environment


def main() -> int:
    try:
        program = os.path.join(_libraries.runtime_folder(), "moonring-bin")
        environment = _environment(program)
        os.execve(program, ["moonring", *sys.argv[1:]], environment)
    except LoadError as problem:
        print(f"moonring: {problem}", file=sys.stderr)
    except OSError as problem:
        print(f"moonring: cannot start {program}: {problem.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
