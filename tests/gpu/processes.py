"""Commands with a time limit. Each leads its own process group, which is killed at the limit; all
output goes to one log.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time


class Overdue(Exception):
    """A command exceeded its time limit. `process`: the command."""

    def __init__(self, words, process):
        super().__init__(words)
        self.process = process


class Failed(Exception):
    """A command failed. `process`: the command, if there is one."""

    def __init__(self, words, process=None):
        super().__init__(words)
        self.process = process


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


class Log:
    """A log of the output of all commands, one after another."""

    MOST = 60_000  # characters: only the end of a longer output is kept

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()

    def add(self, command, text, how):
        with self.lock, open(self.path, "a", encoding="utf-8") as f:
            f.write(f"$ {' '.join(command)}\n{text[-self.MOST :]}\n[{how}]\n\n")


running = set()  # processes of all checks


def stop_all():
    for process in list(running):
        process.kill()


class Process:
    def __init__(self, command, environment, log, folder=None):
        self.command, self.log, self.began = command, log, time.monotonic()
        self.output = tempfile.TemporaryFile()
        self.text, self.seconds = None, None
        try:
            self.process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as why:
            raise Failed(f"{command[0]} cannot be started: {why}") from why
        running.add(self)

    def said(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def running(self):
        return self.process.poll() is None

    def kill(self):
        """Kills the process and all that it started. A process that SIGKILL does not end
        immediately, because it is stuck in a driver, is left running.
        """
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass

    def end(self, how=None):
        """Records the output of a process that has ended. Further calls have no effect."""
        if self.text is None:
            self.seconds = time.monotonic() - self.began
            self.text = self.said()
            self.log.add(
                self.command,
                self.text,
                how or f"exit {self.process.returncode}, {self.seconds:.1f} s",
            )
            self.kill()  # kills child processes that are still running
            running.discard(self)

    def check(self):
        if self.process.returncode != 0:
            raise Failed(
                f"exit {self.process.returncode} of {os.path.basename(self.command[0])}: "
                f"{last_line(self.text)}",
                self,
            )
        return self.text


def wait_for(processes, deadline, until=lambda: False):
    """Waits until all processes have ended or `until` is true. At the deadline, all are killed."""
    while any(process.running() for process in processes) and not until():
        if time.monotonic() > deadline:
            late = [process for process in processes if process.running()]
            for process in processes:
                process.kill()
                process.end("cut off")
            raise Overdue(
                f"cut off after {time.monotonic() - late[0].began:.0f} s: "
                f"{os.path.basename(late[0].command[0])} {' '.join(late[0].command[1:4])}",
                late[0],
            )
        time.sleep(0.01)
    for process in processes:
        if not process.running():
            process.end()
