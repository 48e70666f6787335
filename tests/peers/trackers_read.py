"""Compares what runs with report_to: wandb, mlflow and swanlab have sent, as the trackers' own
packages read it, with trainer_log.jsonl.

    pip install wandb==0.31.0 mlflow==3.17.2 swanlab==0.10.3
    python tests/peers/trackers_read.py [bazel-bin/moonring]

For each tracker, without network: a run with evaluations and a checkpoint; a run that resumes from
it, which must continue the tracker's run; and one that is killed, which must not count as finished.
Every number of the log must be there, at its step, under the name of the Trainer's callback.
MLflow and SwanLab have readers; a file of wandb is a log in LevelDB's format, of wandb's protocol
buffers. Prints what was compared; exits with 1 if anything differs.
"""

import argparse
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

HOME = pathlib.Path(__file__).resolve().parents[2]
STAGES = HOME / "tests/golden/stages"
PASSED = {"current_steps", "total_steps", "percentage"}
NAMES = {"lr": "learning_rate", "tokens": "num_input_tokens_seen"}
BLOCK = 32768


def named(line):
    """The numbers of a line of the log, by the names of the Trainer's callbacks."""
    evaluates = "eval_loss" in line
    for key, value in line.items():
        if isinstance(value, str) or key in PASSED or value is None:
            continue
        if key.startswith("eval_"):
            yield "eval/" + key[5:], value
        elif not evaluates or key == "epoch":
            yield "train/" + NAMES.get(key, key), value


def logged(output):
    """The numbers of trainer_log.jsonl: (name, step) -> value."""
    found = {}
    for text in (output / "trainer_log.jsonl").read_text().splitlines():
        line = json.loads(text)
        for name, value in named(line):
            found[name, line["current_steps"]] = value
    return found


def leveldb_records(path):
    """The records of a file of wandb."""
    data, place, parts = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        left = BLOCK - place % BLOCK
        if left < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        parts = (parts if kind in (3, 4) else b"") + data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield parts


def wandb_reads(folder, run_id):
    from wandb.proto import wandb_internal_pb2

    series, state = {}, None
    for path in sorted(folder.glob(f"wandb/offline-run-*-{run_id}/*.wandb")):
        for data in leveldb_records(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.HasField("history"):
                items = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in record.history.item
                }
                step = items.get("train/global_step")
                for name, value in items.items():
                    if isinstance(value, (int, float)):
                        series.setdefault((name, step), []).append(value)
            if record.HasField("exit"):
                state = {0: "finished", 255: "killed"}.get(record.exit.exit_code, "failed")
    return series, state


def mlflow_reads(folder, run_id):
    import mlflow

    client = mlflow.MlflowClient(f"file:{folder}/mlruns")
    run, series = client.get_run(run_id), {}
    for key in run.data.metrics:
        name = "eval/" + key[5:] if key.startswith("eval_") else "train/" + key
        for each in client.get_metric_history(run_id, key):
            series.setdefault((name, each.step), []).append(each.value)
    return series, run.info.status.lower()


def swanlab_reads(folder, run_id):
    from swanlab.exceptions import DataStoreError
    from swanlab.proto.swanlab.record.v1.record_pb2 import Record
    from swanlab.proto.swanlab.run.v1.run_pb2 import RunState
    from swanlab.sdk.internal.core_python.store import DataStoreReader

    series, state = {}, None
    for path in sorted(folder.glob(f"swanlog/run-*-{run_id}/*.swanlab")):
        if path.stat().st_size < 7:
            continue  # SwanLab writes it at the end
        reader = DataStoreReader()
        reader.open(str(path))
        try:
            while (data := reader.scan()) is not None:
                record = Record()
                record.ParseFromString(data)
                if record.HasField("scalar"):
                    key = record.scalar.key, record.scalar.step
                    series.setdefault(key, []).append(record.scalar.value.number)
                if record.HasField("finish"):
                    state = RunState.Name(record.finish.state)
        except DataStoreError:  # it is being written
            state = None
        reader.close()
    return series, {"RUN_STATE_FINISHED": "finished", "RUN_STATE_CRASHED": "killed"}.get(state)


READS = {"wandb": wandb_reads, "mlflow": mlflow_reads, "swanlab": swanlab_reads}


def start(host, folder, tracker, output, *more):
    environment = {
        **os.environ,
        "MOONRING_PYTHON": sys.executable,
        "WANDB_MODE": "offline",
        "SWANLAB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"file:{folder}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    words = f"""
        stage=sft finetuning_type=full template=chatml cutoff_len=160 dataset=talks
        per_device_train_batch_size=2 gradient_accumulation_steps=2 learning_rate=1e-3
        logging_steps=1 max_steps=8 val_size=2 eval_strategy=steps eval_steps=2 save_steps=4
        sample_prompt=Who? report_html=false"""
    return subprocess.Popen(
        [
            host,
            "train",
            *words.split(),
            f"model_name_or_path={STAGES}/model",
            f"dataset_dir={STAGES}/data",
            f"output_dir={output}",
            f"report_to={tracker}",
            *more,
        ],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_id_of(output, tracker):
    (path,) = output.glob(f"runs/*/{tracker}_run.json")
    return json.loads(path.read_text())["id"]


def check(holds, *words):
    if not holds:
        raise SystemExit("differs: " + " ".join(map(str, words)))


def compare(tracker, found, wanted):
    for (name, step), value in wanted.items():
        values = found.get((name, step), [])
        check(value in values, tracker, name, step, value, values)


def check_tracker(host, tracker):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        output = folder / "out"
        run = start(host, folder, tracker, output)
        check(run.communicate() and run.returncode == 0, tracker, run.returncode)
        run_id = run_id_of(output, tracker)
        found, state = READS[tracker](folder, run_id)
        wanted = logged(output)
        compare(tracker, found, wanted)
        check(state == "finished", tracker, state)

        again = start(host, folder, tracker, output, "resume_from_checkpoint=out/checkpoint-4")
        check(again.communicate() and again.returncode == 0, tracker, again.returncode)
        check(run_id_of(output, tracker) == run_id, tracker, "another run")
        found, state = READS[tracker](folder, run_id)
        compare(tracker, found, logged(output))
        twice = sum(len(values) > 1 for values in found.values())
        check(state == "finished", tracker, state)

        killed = start(host, folder, tracker, folder / "killed", "max_steps=1000")
        while not list(folder.glob(f"killed/runs/*/{tracker}_run.json")):
            time.sleep(0.1)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        until = time.monotonic() + 60
        while (state := READS[tracker](folder, run_id_of(folder / "killed", tracker))[1]) in (
            None,
            "running",
        ):
            check(time.monotonic() < until, tracker, "the killed run has no end")
            time.sleep(0.5)
        check(state == "killed", tracker, state)
        print(
            f"{tracker}: {len(wanted)} numbers equal, {twice} there twice after the run resumed, "
            f"the killed run is {state}"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("host", nargs="?", default=str(HOME / "bazel-bin/moonring"))
    parser.add_argument("--trackers", default="wandb,mlflow,swanlab")
    options = parser.parse_args()
    for tracker in options.trackers.split(","):
        check_tracker(os.path.abspath(options.host), tracker)


main()
