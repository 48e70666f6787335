"""Starts a server by a command line, waits until it answers, kills it and starts it again.

In the command line, {port} stands for a free port and {out} for a folder that outlives the process;
the same command line is used for each start.
"""

import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


class Server:
    def __init__(self, line: list[str], folder: pathlib.Path, key: str, port: int | None = None):
        self.port, self.key, self.folder = port or free_port(), key, folder
        self.line = [word.format(port=self.port, out=folder / "out", key=key) for word in line]
        self.log = folder / "server.log"
        self.starts = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.starts += 1
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, seconds: float = 600) -> None:
        """Waits until healthz answers with the key."""
        end = time.monotonic() + seconds
        while not self.healthy():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.tail()}")
            if time.monotonic() > end:
                raise RuntimeError(f"no answer in {seconds} s: {self.tail()}")
            time.sleep(0.1)

    def healthy(self, seconds: float = 10) -> bool:
        request = urllib.request.Request(
            self.url + "/api/v1/healthz", headers={"X-API-Key": self.key}
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """kill -9 of all its processes, as a machine that restarts does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 60) -> int:
        """Ends it by SIGTERM; returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]
