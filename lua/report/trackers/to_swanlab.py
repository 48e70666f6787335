"""SwanLab, with the names of the Trainer's callback, and LLaMA-Factory's keys (swanlab_project,
...). SWANLAB_API_KEY, SWANLAB_MODE, SWANLAB_LOG_DIR and so on act as in the library."""

from __future__ import annotations

import os
import statistics

from totals import TOTALS

# The Trainer reads this variable for the library, some of whose versions fail over it.
PROJECT = os.environ.pop("SWANLAB_PROJECT", None) or os.environ.get("SWANLAB_PROJ_NAME")

import swanlab  # noqa: E402

STATES = {"finished": "success", "stopped": "aborted"}


def metric_name(name: str) -> str:
    bare = name.removeprefix("train/")
    return f"single_value/{bare}" if bare in TOTALS else name


class Tracker:
    def open(self, opening: dict, configuration: dict, run_id: str | None) -> tuple[str, str]:
        settings = {
            name[len("swanlab_") :]: value
            for name, value in opening["settings"].items()
            if name.startswith("swanlab_")
        }
        if "api_key" in settings:
            swanlab.login(api_key=settings["api_key"])
        named = settings.get("run_name") or opening["settings"].get("run_name")
        options = {
            "project": settings.get("project") or PROJECT or "llamafactory",
            "workspace": settings.get("workspace"),
            "experiment_name": named or os.environ.get("SWANLAB_EXP_NAME") or opening["name"],
            "mode": settings.get("mode"),
            "logdir": settings.get("logdir"),
            "config": {**configuration, "Framework": "Moonring"},
            "id": run_id,
            "resume": "allow" if run_id else None,
        }
        if "lark_webhook_url" in settings:
            from swanlab.plugin.notification import LarkCallback

            lark = LarkCallback(settings["lark_webhook_url"], settings.get("lark_secret"))
            options["callbacks"] = [lark]
        run = swanlab.init(**{name: value for name, value in options.items() if value is not None})
        try:
            return run.id, run.url
        except ValueError:  # offline
            return run.id, str(run.dir)

    def numbers(self, event: dict) -> None:
        step = event["step"]
        values = {metric_name(name): value for name, value in event["numbers"].items()}
        swanlab.log({**values, "train/global_step": step}, step=step)

    def text(self, event: dict) -> None:
        swanlab.log({event["tag"]: swanlab.Text(event["text"])}, step=event["step"])

    def lengths(self, event: dict) -> None:
        """SwanLab has no histogram, so the quartiles are a text."""
        lengths = event["lengths"]
        cuts = statistics.quantiles(lengths, n=4) if len(lengths) > 1 else lengths * 3
        text = f"{len(lengths)} documents, {min(lengths)} to {max(lengths)} tokens, quartiles "
        text += ", ".join(f"{cut:g}" for cut in cuts)
        swanlab.log({event["tag"]: swanlab.Text(text)}, step=event["step"])

    def close(self, state: str, reason: str | None) -> None:
        ended = STATES.get(state, "crashed")
        swanlab.finish(state=ended, error=reason or state if ended == "crashed" else None)
