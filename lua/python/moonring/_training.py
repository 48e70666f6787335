"""moonring.train: a training run in this process."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moonring import _calls, errors
from moonring._configuration import words_of
from moonring._runtime import Path, Runtime


@dataclass(frozen=True)
class Step:
    """One logged step; one in every logging_steps is logged."""

    step: int  # optimizer steps so far
    total_steps: int
    epoch: float  # epochs so far, with the part of the current one
    loss: float  # mean over the steps since the previous logged one; nan if it is not finite
    lr: float  # learning rate
    grad_norm: float  # before clipping; nan if there is none
    tokens: int  # processed since the start of the run, by all ranks
    metrics: dict[str, float]  # what the stage logs besides the loss: "rewards/chosen", ...


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

    stopped: whether a callback of rank 0 ended it before its last step. Then `checkpoint` is the
        folder to resume from (resume_from_checkpoint=True), and there are no metrics.
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


def _rank() -> int:
    """This process's rank, as RendezvousFrom in comm/store/rendezvous.cc reads it. (The runtime
    refuses what is no number.)"""
    get = os.environ.get
    if "RANK" in os.environ or "WORLD_SIZE" in os.environ:
        return int(get("RANK", "0"))
    if "SLURM_PROCID" in os.environ and int(get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        return int(get("SLURM_PROCID", "0"))
    return 0


def _mark(path: str) -> tuple[int, ...] | None:
    """What changes when a file is written, without comparing its time to a clock: that of a file
    server may differ from this machine's. None: there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _files(folder: str) -> dict[str, tuple[int, ...] | None]:
    """The marks of all_results.json and the manifests of the checkpoints, by the file's or the
    checkpoint's name."""
    marks = {"all_results.json": _mark(os.path.join(folder, "all_results.json"))}
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        kind, _, number = name.rpartition("-")
        if kind == "checkpoint" and number.isdigit():
            marks[name] = _mark(os.path.join(folder, name, "manifest.json"))
    return {name: mark for name, mark in marks.items() if mark is not None}


def _read_results(run: Run, before: Mapping[str, Any]) -> None:
    """Reads what the run wrote to its output_dir. before: the _files there before the run."""
    new = {name for name, mark in _files(run.output_dir).items() if mark != before.get(name)}
    has_results = "all_results.json" in new
    checkpoints = new - {"all_results.json"}
    if checkpoints:
        newest = max(checkpoints, key=lambda name: int(name.rpartition("-")[2]))
        run.checkpoint = os.path.join(run.output_dir, newest)
    if has_results and not run.stopped:
        with open(os.path.join(run.output_dir, "all_results.json"), encoding="utf-8") as file:
            run.metrics = json.load(file)


def _ends(name: str, answer: Any) -> bool:
    """Whether a callback's answer ends the run."""
    if answer is None:
        return False
    # numpy.bool_, and tensors of one bool
    boolean = str(getattr(answer, "dtype", "")) in ("bool", "torch.bool")
    if isinstance(answer, bool) or (boolean and not getattr(answer, "ndim", 0)):
        return not answer
    raise TypeError(
        f"{name}: expected None, True or False (ends the run) from the callback, got {answer!r}"
    )


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
        ends = False
        if report.get("event") == "step":
            self._run.steps.append(_step(report))
            if self._on_step:
                ends = _ends("on_step", self._on_step(self._run.steps[-1]))
        elif report.get("event") == "evaluation":
            self._run.evaluations.append(_evaluation(report))
            if self._on_evaluation:
                ends = _ends("on_evaluation", self._on_evaluation(self._run.evaluations[-1]))
        if ends:
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
    on_step: called with each logged Step. If it returns False, a checkpoint is saved and the run
        ends; True and None continue it, and anything else is a TypeError.
    on_evaluation: the same for each Evaluation.
    on_log: called with each line of the log; None: they go to the logger "moonring".
    roots, device, threads: as in Runtime.

    An exception in a callback ends the run at once, without a checkpoint, and is raised unchanged.
    Ctrl-C saves a checkpoint, ends the run and raises KeyboardInterrupt; a second Ctrl-C ends it
    without a checkpoint. Callbacks run on the thread that called train, which may be any thread
    (Ctrl-C goes to the main thread).

    With RANK and WORLD_SIZE in the environment (torchrun), or as one of several tasks of srun, this
    process is one of several ranks, and every rank makes the same call; rank 0 alone gets steps and
    evaluations, and a callback that ends the run ends it on all ranks. Otherwise the run has one
    rank.

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
    with Runtime(device=device) as reader:  # reads only the configuration, without confinement
        reader.run_string("training = require 'moonring.run.embedded_model'.training")
        file = {} if path is None else {"path": path}
        found = reader.call("training", {**file, "words": words[len(file) :]})
    if found["ranks"] > 1:
        raise errors.Error(
            f"{found['ranks']} ranks are requested, and one process is one rank: start `moonring "
            "train CONFIG` in a shell, which starts all of them, or `torchrun --nproc-per-node "
            f"{found['ranks']} SCRIPT.py`"
        )
    run = Run(output_dir=found.get("output_dir") or "")
    options = {"roots": roots, "device": device, "threads": threads}
    before = _files(run.output_dir)
    with _Training(run, on_step, on_evaluation, on_log, **options) as training:
        training.train(words)
    if _rank() == 0:
        _read_results(run, before)
    return run
