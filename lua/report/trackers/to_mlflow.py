"""MLflow, with the names of the Trainer's callback (loss, eval_loss) and its environment:
MLFLOW_EXPERIMENT_NAME, MLFLOW_TAGS and MLFLOW_MAX_LOG_PARAMS; MLFLOW_TRACKING_URI, MLFLOW_RUN_ID
and so on act as in the library."""

from __future__ import annotations

import json
import os
import re

import mlflow
from mlflow.entities import Metric, Param
from mlflow.utils.validation import MAX_PARAM_VAL_LENGTH, MAX_PARAMS_TAGS_PER_BATCH

STATUS = {"finished": "FINISHED", "failed": "FAILED"}


def metric_name(name: str) -> str:
    """train/loss -> loss, eval/loss -> eval_loss, in the letters that MLflow accepts."""
    name = name.removeprefix("train/")
    name = "eval_" + name[len("eval/") :] if name.startswith("eval/") else name
    return re.sub(r"[^0-9A-Za-z_\-. :/]", "_", name)


class Tracker:
    def open(self, opening: dict, configuration: dict, run_id: str | None) -> tuple[str, str]:
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if experiment and not run_id:
            mlflow.set_experiment(experiment)
        run = mlflow.start_run(run_id=run_id, run_name=None if run_id else opening["name"])
        self.id, self.client = run.info.run_id, mlflow.MlflowClient()
        try:
            self.params(configuration)
            if os.environ.get("MLFLOW_TAGS"):
                mlflow.set_tags(json.loads(os.environ["MLFLOW_TAGS"]))
        except Exception:
            mlflow.end_run("FAILED")  # otherwise MLflow calls it finished when this program ends
            raise
        return self.id, mlflow.get_tracking_uri()

    def params(self, configuration: dict) -> None:
        most = os.environ.get("MLFLOW_MAX_LOG_PARAMS", "")
        items = list(configuration.items())[: int(most) if most.isdigit() else None]
        params = [Param(name, str(value)[:MAX_PARAM_VAL_LENGTH]) for name, value in items]
        for i in range(0, len(params), MAX_PARAMS_TAGS_PER_BATCH):
            self.client.log_batch(self.id, params=params[i : i + MAX_PARAMS_TAGS_PER_BATCH])

    def numbers(self, event: dict) -> None:
        now = event["time"] * 1000
        self.client.log_batch(
            self.id,
            metrics=[
                Metric(metric_name(name), value, now, event["step"])
                for name, value in event["numbers"].items()
            ],
        )

    def text(self, event: dict) -> None:
        self.client.log_text(self.id, event["text"], f"{event['tag']}/step_{event['step']}.txt")

    def lengths(self, event: dict) -> None:
        self.client.log_dict(self.id, {"lengths": event["lengths"]}, f"{event['tag']}.json")

    def close(self, state: str, reason: str | None) -> None:
        mlflow.end_run(STATUS.get(state, "KILLED"))
        if reason:
            self.client.set_tag(self.id, "end_reason", reason)
