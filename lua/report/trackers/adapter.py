"""Sends a run's events to a tracker: adapter.py wandb | mlflow | swanlab.

Reads the events of lines.lua as lines of JSON on stdin, after this one (adapters.lua):

    {"event": "open", "name": .., "folder": .., "settings": {"run_name": .., "swanlab_mode": ..}}

name: of the run. folder: has the file TRACKER_run.json with the tracker's id of the run, by which a
resumed run continues it. settings: the keys that the configuration gives.

to_TRACKER.py has a class Tracker: open(opening, configuration, run_id) returns the id of the run
and where it is; numbers, text and lengths take an event; close takes the state of the run
(finished, stopped, failed or killed) and the reason, or None.

Nothing ends this program before its stdin is closed, so Moonring has one line to show about each
problem: what a tracker lacks, or the first of several errors in a row.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import signal
import sys

TRIED = {"wandb": "wandb==0.31.0", "mlflow": "mlflow==3.17.2", "swanlab": "swanlab==0.10.3"}
NO_END = "the run ended without saying how"


def say(line: str) -> None:
    """Writes a line to the log of the run, if somebody still reads it."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def words_of(problem: Exception) -> str:
    """The type and the first lines of an exception, in one line."""
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:300]


class Adapter:
    """Opens a tracker when the run begins, and passes events to it."""

    def __init__(self, name: str, opening: dict) -> None:
        self.name, self.opening = name, {"settings": {}, **opening}
        self.file = os.path.join(opening["folder"], f"{name}_run.json")
        self.tracker = None
        self.failing = False

    def start(self, configuration: dict, resumes: bool) -> None:
        tracker = importlib.import_module(f"to_{self.name}").Tracker()
        run_id, place = tracker.open(self.opening, configuration, self.known_id(resumes))
        self.tracker = tracker
        os.makedirs(os.path.dirname(self.file), exist_ok=True)
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump({"id": run_id}, file)
        say(f"run {run_id}, {place}")

    def known_id(self, resumes: bool) -> str | None:
        """The tracker's id of the run that is resumed; None if this is a new run there."""
        if not resumes or not os.path.exists(self.file):
            return None
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)["id"]

    def take(self, event: dict) -> None:
        """Passes an event on. Of errors in a row the first is reported, and the end of them."""
        try:
            getattr(self.tracker, event["event"])(event)
        except Exception as problem:
            if not self.failing:
                say(f"{words_of(problem)}; the next steps are tried all the same")
            self.failing = True
            return
        if self.failing:
            say("it is written again")
        self.failing = False

    def close(self, state: str, reason: str | None) -> None:
        if self.tracker is None:
            return
        try:
            self.tracker.close(state, reason)
        except Exception as problem:
            if not self.failing:
                say(f"{words_of(problem)}; the end of the run is not reported")


def serve(name: str) -> None:
    """Reads all events."""
    adapter = Adapter(name, json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        event = json.loads(line)
        kind = event["event"]
        if kind == "end":
            adapter.close(event.get("state", "finished"), event.get("reason"))
            return
        if adapter.tracker is None:
            adapter.start(event.get("configuration", {}), kind == "resume")
        if kind not in ("begin", "resume"):
            adapter.take(event)
    # Nobody reads what is written from here on, and a library that writes must not fail.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    adapter.close("killed", NO_END)


def lacks(name: str) -> bool:
    """Whether there is no such package. A folder of that name, such as ./wandb, is none."""
    spec = importlib.util.find_spec(name)
    return spec is None or spec.origin is None


def main() -> None:
    name = sys.argv[1]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # Slurm sends them to all processes
        signal.signal(each, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    try:
        if lacks(name):
            say(
                f"{sys.executable} has no package {name}: `pip install {TRIED[name]}` there, or "
                "set MOONRING_PYTHON to a Python that has it; training continues without it"
            )
        else:
            serve(name)
    except Exception as problem:
        say(f"{words_of(problem)}; nothing is sent, and training continues")
    for _ in sys.stdin:
        pass


if __name__ == "__main__":
    main()
