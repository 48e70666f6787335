"""Weights & Biases, with the names and the axis of the Trainer's callback, and LLaMA-Factory's
project. WANDB_PROJECT, WANDB_MODE, WANDB_DIR, WANDB_ENTITY and so on act as in the library."""

from __future__ import annotations

import os

import wandb
from totals import TOTALS

STEP = "train/global_step"
BINS = 64
KILLED = 255  # wandb's exit code of a run that was interrupted
EXIT_CODES = {"finished": 0, "failed": 1}


def histogram(values: list[float]) -> wandb.Histogram:
    """Counts values without numpy, which wandb.Histogram(values) would need."""
    low, high = min(values), max(values)
    width = (high - low) / BINS or 1 / BINS
    counts = [0] * BINS
    for value in values:
        counts[min(int((value - low) / width), BINS - 1)] += 1
    return wandb.Histogram(np_histogram=(counts, [low + i * width for i in range(BINS + 1)]))


class Tracker:
    def open(self, opening: dict, configuration: dict, run_id: str | None) -> tuple[str, str]:
        os.environ.setdefault("WANDB_QUIET", "true")  # no curves in the log of the run
        named = opening["settings"].get("run_name") or os.environ.get("WANDB_NAME")
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "llamafactory"),
            name=named or opening["name"],
            config=configuration,
            id=run_id,
            resume="allow" if run_id else None,
            settings=wandb.Settings(console="off"),
        )
        self.run.define_metric(STEP)
        self.run.define_metric("*", step_metric=STEP, step_sync=True)
        return self.run.id, self.run.dir if self.run.offline else self.run.url

    def log(self, step: int, values: dict) -> None:
        self.run.log({**values, STEP: step})

    def numbers(self, event: dict) -> None:
        values = {}
        for name, value in event["numbers"].items():
            bare = name.removeprefix("train/")
            if bare in TOTALS:
                self.run.summary[bare] = value
            else:
                values[name] = value
        self.log(event["step"], values)

    def text(self, event: dict) -> None:
        rows = [[event["step"], event["text"]]]
        self.log(event["step"], {event["tag"]: wandb.Table(columns=["step", "text"], data=rows)})

    def lengths(self, event: dict) -> None:
        self.log(event["step"], {event["tag"]: histogram(event["lengths"])})

    def close(self, state: str, reason: str | None) -> None:
        if reason:
            self.run.summary["end_reason"] = reason
        self.run.finish(exit_code=EXIT_CODES.get(state, KILLED))
