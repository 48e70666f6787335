"""Moonring in Python: training with LLaMA-Factory configurations, log-probs, completions and
answers, by the native library libmoonring.so.

    run = moonring.train("config.yaml", on_step=lambda step: print(step.step, step.loss))
    with moonring.Model(run.output_dir) as model:
        print(model.chat("What is ring attention?"))
"""

from moonring._model import Model
from moonring._runtime import Runtime, count_memory, run, version
from moonring._tensors import Tensor
from moonring._training import Evaluation, Run, Step, train
from moonring.errors import (
    Cancelled,
    Error,
    Exhausted,
    InvalidArgument,
    LoadError,
    NotFound,
    PermissionDenied,
)

__all__ = [
    "Cancelled",
    "Error",
    "Evaluation",
    "Exhausted",
    "InvalidArgument",
    "LoadError",
    "Model",
    "NotFound",
    "PermissionDenied",
    "Run",
    "Runtime",
    "Step",
    "Tensor",
    "count_memory",
    "run",
    "train",
    "version",
]
