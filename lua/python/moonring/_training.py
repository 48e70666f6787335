"""moonring.train: a training run in this process."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moonring import _calls, errors
from moonring._configuration import words_of
from moonring._runtime import Path, Runtime


@dataclass(frozen=True)
class Step:
    """A logged step (every logging_steps of them)."""

    step: int  # optimizer steps so far
    total_steps: int
    epoch: float  # epochs so far, with the part of the current one
    loss: float  # mean over the steps since the previous logged one; nan if it is not finite
    lr: float  # learning rate
    grad_norm: float  # before clipping; nan if there is none
    tokens: int  # processed since the start of the run, by all ranks
    metrics: dict[str, float]  # what the stage logs beside the loss: "rewards/chosen", ...


@dataclass(frozen=True)
class Evaluation:
    """An evaluation during the training."""

    step: int
    total_steps: int
    epoch: float
    metrics: dict[str, float]  # "eval_loss", ...


@dataclass
class Run:
    """A training that has ended.

    stopped: whether a callback, of any rank, ended it before its last step. Then `checkpoint` is
        the folder to resume from (resume_from_checkpoint=True), and there are no metrics.
    metrics: the final metrics, those of all_results.json: "train_loss", "train_runtime" (seconds),
        "eval_loss", .... Only rank 0 writes and has them.
    """

    output_dir: str
    steps: list[Step] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    stopped: bool = False
    checkpoint: str | None = None  # the newest checkpoint that this run wrote


def _number(value: Any) -> float:
    return math.nan if value is None else value


def _step(report: Mapping[str, Any]) -> Step:
    return Step(
        step=report["step"],
        total_steps=report["total_steps"],
        epoch=report["epoch"],
        loss=_number(report.get("loss")),
        lr=_number(report.get("lr")),
        grad_norm=_number(report.get("grad_norm")),
        tokens=report.get("tokens") or 0,
        metrics={name: _number(value) for name, value in (report.get("metrics") or {}).items()},
    )


def _evaluation(report: Mapping[str, Any]) -> Evaluation:
    return Evaluation(
        step=report["step"],
        total_steps=report["total_steps"],
        epoch=report["epoch"],
        metrics={name: _number(value) for name, value in report["metrics"].items()},
    )


def _is_new(path: str, start: float) -> bool:
    """Whether a file was written after this time; a file system's clock may be a little slow."""
    try:
        return os.stat(path).st_mtime >= start - 1
    except OSError:
        return False


def _read_results(run: Run, start: float) -> None:
    """Reads what the run wrote to its output_dir."""
    if os.environ.get("RANK", "0") != "0":
        return
    numbers = []
    for name in os.listdir(run.output_dir) if os.path.isdir(run.output_dir) else []:
        kind, _, number = name.rpartition("-")
        manifest = os.path.join(run.output_dir, name, "manifest.json")
        if kind == "checkpoint" and number.isdigit() and _is_new(manifest, start):
            numbers.append(int(number))
    if numbers:
        run.checkpoint = os.path.join(run.output_dir, f"checkpoint-{max(numbers)}")
    results = os.path.join(run.output_dir, "all_results.json")
    if not run.stopped and _is_new(results, start):
        with open(results, encoding="utf-8") as file:
            run.metrics = json.load(file)


class _Training(Runtime):
    """A runtime whose events are those of a training."""

    def __init__(
        self,
        run: Run,
        on_step: Callable[[Step], Any] | None,
        on_evaluation: Callable[[Evaluation], Any] | None,
        on_log: Callable[[str], Any] | None,
        **options: Any,
    ) -> None:
        super().__init__(on_log=on_log, on_progress=self._take_report, **options)
        self._run, self._on_step, self._on_evaluation = run, on_step, on_evaluation

    def _take_report(self, report: Mapping[str, Any]) -> None:
        answer = None
        if report.get("event") == "step":
            self._run.steps.append(_step(report))
            answer = self._on_step(self._run.steps[-1]) if self._on_step else None
        elif report.get("event") == "evaluation":
            self._run.evaluations.append(_evaluation(report))
            if self._on_evaluation:
                answer = self._on_evaluation(self._run.evaluations[-1])
        if answer is False:
            self._run.stopped = True
            self.cancel(save=True)

    def _interrupt(self, call: _calls.Call, count: int) -> None:
        """The first Ctrl-C saves a checkpoint, the second one ends the run at once."""
        self.cancel(save=count == 1)

    def _fail(self, call: _calls.Call) -> None:
        self.cancel()

    def train(self, words: Sequence[str]) -> None:
        try:
            self.run_command("train", *words)
        except errors.Cancelled:  # by a callback, here or on another rank
            self._run.stopped = True
        else:
            self._run.stopped = False  # the callback's answer came after the last step


_RANKS = "ranks are requested, and an embedded runtime is one"


def train(
    config: Path | Mapping[str, Any],
    on_step: Callable[[Step], Any] | None = None,
    on_log: Callable[[str], Any] | None = None,
    *,
    on_evaluation: Callable[[Evaluation], Any] | None = None,
    roots: Sequence[Path] | None = None,
    device: str | None = None,
    threads: int = 0,
    **overrides: Any,
) -> Run:
    """Trains as `moonring train CONFIG` does, in this process, and returns the finished Run.

    config: the path of a LLaMA-Factory YAML (or JSON) file, or a dict of its keys.
    overrides: keys with priority over the file's. Values: None (null), bool, numbers, str, paths,
        lists, dicts.
    on_step: called with each logged Step. If it returns False (not None or 0), a checkpoint is
        saved and the run ends.
    on_evaluation: the same for each Evaluation.
    on_log: called with each line of the log; None: they go to the logger "moonring".
    roots, device, threads: as in Runtime.

    An exception in a callback ends the run at once, without a checkpoint, and is raised unchanged.
    Ctrl-C saves a checkpoint, ends the run and raises KeyboardInterrupt; a second Ctrl-C ends it
    without a checkpoint. Callbacks run on the thread that called train, which may be any thread
    (Ctrl-C goes to the main thread).

    With RANK and WORLD_SIZE in the environment (torchrun) this process is one of several ranks, and
    every rank makes the same call; rank 0 alone gets steps and evaluations, and a callback that
    ends the run ends it on all ranks. Without these variables the run has one rank.

    Errors: InvalidArgument for a wrong key or value (the message suggests the nearest name),
    NotFound, Exhausted, Error (code "FAILED") for others.
    """
    keys = words_of(overrides)
    if isinstance(config, Mapping):
        path, words = None, words_of(config) + keys
    else:
        path = os.fsdecode(config)
        if "=" in path:
            raise errors.InvalidArgument(
                f"config: {path!r} contains '=', which separates keys and values in a command's "
                "words; rename the file, or pass a dict"
            )
        words = [path, *keys]
    start = time.time()
    with Runtime() as reader:  # the file alone is read, before anything is confined
        reader.run_string("output_dir = require 'moonring.run.embedded_model'.output_dir")
        file = {} if path is None else {"path": path}
        folder = reader.call("output_dir", {**file, "words": words[len(file) :]})
    run = Run(output_dir=folder or "")
    options = {"roots": roots, "device": device, "threads": threads}
    try:
        with _Training(run, on_step, on_evaluation, on_log, **options) as training:
            training.train(words)
    except errors.Error as error:
        if _RANKS in str(error):
            count = str(error).split(" ranks", maxsplit=1)[0]
            raise type(error)(
                f"{count} ranks are requested, and one process is one rank: start `moonring train "
                "CONFIG` in a shell, which starts all of them, or `torchrun --nproc-per-node "
                f"{count} SCRIPT.py`"
            ) from None
        raise
    _read_results(run, start)
    return run
