"""A folder with a small model, data and a configuration, and ranks as processes that another
program starts, each with an environment of its own."""

import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

HOST = os.path.abspath(os.environ.get("MOONRING_TEST_HOST", "moonring"))
ROOT = pathlib.Path(os.getcwd())
# A learning rate that does not depend on max_steps: up to any step a run equals a longer one.
CONFIG = """\
model_name_or_path: model
dataset_dir: data
dataset: talks
template: chatml
finetuning_type: full
cutoff_len: 128
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
learning_rate: 1.0e-3
lr_scheduler_type: constant
logging_steps: 1
save_strategy: "no"
report_to: none
output_dir: out
"""
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "MOONRING_TOKEN", "GLOO_", "JOB_")


class Rank:
    """A process, and what it has written to stdout and stderr so far."""

    def __init__(self, words, folder, environment):
        self.said, self.changed = "", threading.Condition()
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.said += line.replace("\r", "\n")
                self.changed.notify_all()
        with self.changed:
            self.process.wait()
            self.changed.notify_all()

    def wait_for(self, text: str) -> None:
        """Waits for this text; AssertionError if the process ends without it."""
        with self.changed:
            self.changed.wait_for(
                lambda: text in self.said or self.process.returncode is not None
            )
            if text not in self.said:
                raise AssertionError(f"it ended without '{text}':\n{self.said}")

    def end(self) -> int:
        """Waits for its end. Returns its exit code, 128+n if signal n ended it."""
        self.thread.join()
        self.process.stdout.close()
        code = self.process.returncode
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()


class ClusterCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))).resolve()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("model", "data"):
            shutil.copytree(ROOT / "tests/golden/stages" / name, self.folder / name)
        (self.folder / "config.yaml").write_text(CONFIG)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)
        } | {"OMP_NUM_THREADS": "1"}

    def start(self, words: list[str], **environment: str) -> Rank:
        rank = Rank(words, self.folder, self.environment | environment)
        self.addCleanup(rank.end)
        self.addCleanup(rank.kill)
        return rank

    def run_words(self, *words: str, code: int = 0, **environment: str) -> str:
        rank = self.start([*words], **environment)
        self.assertEqual(rank.end(), code, rank.said)
        return rank.said

    def train(self, *words: str, code: int = 0, **environment: str) -> str:
        return self.run_words(HOST, "train", "config.yaml", *words, code=code, **environment)

    def weights(self, out: str) -> bytes:
        return (self.folder / out / "model.safetensors").read_bytes()

    def losses(self, out: str) -> dict[int, float]:
        lines = (self.folder / out / "trainer_log.jsonl").read_text().splitlines()
        logged = [json.loads(line) for line in lines]
        return {line["current_steps"]: line["loss"] for line in logged if "loss" in line}


def free_port() -> str:
    """A port that was free a moment ago, below the ephemeral ports."""
    while True:
        port = random.randint(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return str(port)
            except OSError:
                continue
