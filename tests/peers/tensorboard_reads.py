"""Compares a run's event files, read by TensorBoard, with its trainer_log.jsonl.

    pip install tensorboard==2.21.0
    moonring train c.yaml report_to=tensorboard ...
    python tests/peers/tensorboard_reads.py OUTPUT_DIR [LOGGING_DIR]

Every number of the log, rounded to fp32, must be the scalar of that step, once, and the HParams
plugin must have the run's learning rate. Prints what it has read; exits with 1 if anything differs.
"""

import json
import pathlib
import sys

import numpy as np
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import metadata as hparams

PASSED = {"current_steps", "total_steps", "percentage"}
NAMES = {"lr": "learning_rate", "tokens": "num_input_tokens_seen"}


def named(line):
    """Returns the scalars' names for a line of the log, as in the Trainer (rewrite_logs of its
    callbacks)."""
    evaluates = "eval_loss" in line
    for key, value in line.items():
        if isinstance(value, str) or key in PASSED or value is None:
            continue
        if key.startswith("eval_"):
            yield "eval/" + key[5:], value
        elif not evaluates or key == "epoch":
            yield "train/" + NAMES.get(key, key), value


def newest(folder):
    return max(folder.iterdir(), key=lambda each: each.stat().st_mtime)


def main():
    output = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else newest(output / "runs")
    reader = event_accumulator.EventAccumulator(
        str(folder), size_guidance={kind: 0 for kind in ("scalars", "histograms", "tensors")}
    )
    reader.Reload()
    tags = reader.Tags()
    found = {
        tag: [(each.step, np.float32(each.value)) for each in reader.Scalars(tag)]
        for tag in tags["scalars"]
    }
    wrong = compared = 0
    wanted = {}
    for line in (output / "trainer_log.jsonl").read_text().splitlines():
        read = json.loads(line)
        for tag, value in named(read):
            wanted.setdefault(tag, []).append((read["current_steps"], np.float32(value)))
    for tag, series in wanted.items():
        compared += len(series)
        if found.get(tag) != series:
            wrong += 1
            print(f"{tag}: TensorBoard reads {found.get(tag)}, the log has {series}")
    start = reader.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    parameters = hparams.parse_session_start_info_plugin_data(start).hparams
    for name in ("learning_rate", "stage", "bf16"):
        print("hparam", name, str(parameters[name]).strip())
    for tag in tags["histograms"]:
        print("histogram", tag, reader.Histograms(tag)[0].histogram_value.num)
    for tag in tags["tensors"]:
        text = reader.Tensors(tag)[0].tensor_proto.string_val
        print("tensor", tag, text[0][:60] if text else "")
    print(f"{compared} numbers of {len(wanted)} scalars compared, {wrong} scalars differ")
    sys.exit(1 if wrong else 0)


main()
