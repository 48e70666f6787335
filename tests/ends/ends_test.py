#!/usr/bin/env python3
"""How runs end. Each kind of end leaves its state and a reason; and every number that is shown in
several places is the same in all of them: the terminal, terminal.log, run_state.json,
trainer_log.jsonl, all_results.json, TensorBoard's file, and the data of the page."""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import event_files  # noqa: E402

ROOT = pathlib.Path(os.getcwd())
HOST = ROOT / "moonring"
GOLDEN = ROOT / "tests/golden/stages"
CONFIG = f"""\
model_name_or_path: {GOLDEN}/model
dataset_dir: {GOLDEN}/data
dataset: talks
template: chatml
finetuning_type: full
cutoff_len: 128
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
learning_rate: 1.0e-3
lr_scheduler_type: constant
logging_steps: 1
val_size: 4
eval_strategy: steps
eval_steps: 4
save_steps: 4
report_to: tensorboard
output_dir: out
"""
ENDLESS = "max_steps=1000000"


class Run:
    """A run in a folder of its own."""

    def __init__(self, test: unittest.TestCase, *words: str, environment=None):
        folder = tempfile.mkdtemp()
        test.addCleanup(shutil.rmtree, folder)
        self.folder = pathlib.Path(folder)
        self.out = self.folder / "out"
        (self.folder / "config.yaml").write_text(CONFIG)
        self.errors = open(self.folder / "stderr", "w+")
        test.addCleanup(self.errors.close)
        self.process = subprocess.Popen(
            [HOST, "train", "config.yaml", *words],
            cwd=folder,
            env=dict(os.environ, OMP_NUM_THREADS="1", **(environment or {})),
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
        )
        test.addCleanup(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def wait(self) -> int:
        return self.process.wait()

    def said(self) -> str:
        self.errors.flush()
        return (self.folder / "stderr").read_text()

    def wait_for(self, pattern: str):
        while not re.search(pattern, self.said()):
            if self.process.poll() is not None:
                raise AssertionError(f"ended without '{pattern}':\n{self.said()}")
            time.sleep(0.02)

    def state(self) -> dict:
        return json.loads((self.out / "run_state.json").read_text())

    def lines(self) -> list[dict]:
        text = (self.out / "trainer_log.jsonl").read_text()
        return [json.loads(each) for each in text.split("\n") if each]

    def page(self) -> dict:
        """The data of the page that `moonring report` makes now."""
        subprocess.run([HOST, "report", "out", "out=page.html"], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = (self.folder / "page.html").read_text()
        found = re.search(r'<script[^>]*id="runs"[^>]*>(.*?)</script>', text, re.S)
        return json.loads(found[1])["runs"][0]


class Ends(unittest.TestCase):
    def check_end(self, run: Run, word: str, reason: str):
        """`word`: the state that is shown; `reason`: what its sentence must match."""
        state = run.state()
        shown = run.page()["status"]
        self.assertEqual(shown["word"], word)
        self.assertRegex(shown["reason"], reason)
        if word != "killed":
            self.assertEqual(state["state"], word)
            self.assertEqual(state["reason"], shown["reason"])
        self.assertGreaterEqual(len(state["reason"].split()), 3)
        self.check_numbers(run)

    def check_numbers(self, run: Run):
        """Compares the numbers of all places. Those of a run that was killed are a moment old."""
        state, lines = run.state(), run.lines()
        losses = [each for each in lines if "lr" in each]
        evaluations = [each for each in lines if "eval_loss" in each]
        self.assertEqual(run.page()["state"], state)
        # A step that has been made may lack its line, which takes all ranks.
        self.assertLessEqual(state["step"], losses[-1]["current_steps"] + 1)
        mean = state["own_tokens"] / state["step_seconds"]
        self.assertAlmostEqual(state["tokens_per_second"], mean)
        if evaluations and "ended" in state:
            last = evaluations[-1]
            self.assertEqual(state["evaluation"]["step"], last["current_steps"])
            for name, value in state["evaluation"].items():
                self.assertEqual(value, last["current_steps" if name == "step" else name], name)
        if "ended" not in state:
            return
        peaks = [each["peak_memory_bytes"] for each in lines if "peak_memory_bytes" in each]
        self.assertGreaterEqual(state["peak_memory_bytes"], max(peaks))
        tracked = event_files.scalars(next(run.out.glob("runs/*/events.out.*")))
        for tag, name in {"train/loss": "loss", "eval/loss": "eval_loss"}.items():
            mine = [(each["current_steps"], each[name]) for each in lines if name in each
                    and each[name] is not None]
            theirs = tracked.get(tag, [])
            self.assertEqual([step for step, _ in mine], [step for step, _ in theirs], tag)
            for (_, a), (_, b) in zip(mine, theirs):
                self.assertTrue(math.isclose(a, b, rel_tol=1e-6), (tag, a, b))

    def check_summary(self, run: Run):
        """Compares the last lines of the terminal with run_state.json, digit by digit."""
        said, state = run.said(), run.state()
        rate = state["tokens_per_second"]
        rate = f"{rate:.2f}" if rate < 100 else f"{int(rate + 0.5):,}"
        self.assertIn(f'trained   {state["step"] - state["first_step"]} steps in ', said)
        self.assertIn(f'{state["own_tokens"]:,} tokens, {rate} tokens/s', said)
        self.assertIn("%.4g " % (state["peak_memory_bytes"] / 2**20) + "MiB", said)
        if state["state"] == "finished":
            self.assertIn("train_loss %.6g" % state["train_loss"], said)
            self.assertIn("eval_loss %.6g" % state["evaluation"]["eval_loss"], said)
            self.assertIn("train_runtime %.4g s" % state["train_runtime"], said)
            # The first line counts its own step, so it knows the time left.
            self.assertRegex(said, r"step 1/6 .* 0:\d\d:\d\d<0:\d\d:\d\d ")
        for command in state["next"]:
            self.assertIn(command, said)
        kept = (run.out / "terminal.log").read_text().split("\n")
        missing = [line for line in said.split("\n") if line and line not in kept
                   and "once more ends it now" not in line]
        self.assertEqual(missing, [])

    def test_finished(self):
        run = Run(self, "max_steps=6", "eval_on_start=true")
        self.assertEqual(run.wait(), 0, run.said())
        self.check_end(run, "finished", "^all 6 steps are done; the model is in out$")
        self.check_summary(run)
        state, lines = run.state(), run.lines()
        results = json.loads((run.out / "all_results.json").read_text())
        for name in ("train_loss", "train_runtime"):
            self.assertEqual(results[name], state[name])
        evaluations = [each for each in lines if "eval_loss" in each]
        self.assertEqual([each["current_steps"] for each in evaluations], [0, 4, 6])
        self.assertEqual(results["eval_loss"], evaluations[-1]["eval_loss"])
        self.assertEqual(lines[-1]["peak_memory_bytes"], state["peak_memory_bytes"])
        sums = sum(each["loss"] for each in lines if "lr" in each)
        self.assertAlmostEqual(state["train_loss"], sums / 6, places=12)
        last = [each for each in lines if "lr" in each][-1]
        self.assertEqual(state["tokens"], last["tokens"])
        (command,) = state["next"]
        answer = subprocess.run(command + " max_new_tokens=3", shell=True, cwd=run.folder,
                                input=b"Who?\n", stdout=subprocess.PIPE)
        self.assertEqual(answer.returncode, 0)

    @staticmethod
    def files_of(folder: pathlib.Path):
        return (path for path in folder.rglob("*") if path.is_file())

    def check_signal(self, number: int, name: str):
        run = Run(self, ENDLESS, "--hf_hub_token", "hf_Hidden", "--resume_from_checkpoint", "false")
        run.wait_for("step 9/")
        run.process.send_signal(number)
        self.assertEqual(run.wait(), -number, run.said())
        state = run.state()
        self.check_end(run, "stopped", f"^{name}: saved after step {state['step']}$")
        self.check_summary(run)
        self.assertTrue(state["resumable"])
        self.assertEqual(state["checkpoint"], f"checkpoint-{state['step']}")
        self.assertTrue((run.out / state["checkpoint"]).is_dir())
        (command,) = state["next"]
        self.assertTrue(command.endswith("resume_from_checkpoint=true"), command)
        self.assertEqual(command.count("resume_from_checkpoint"), 1)
        for path in self.files_of(run.out):
            self.assertNotIn(b"hf_Hidden", path.read_bytes(), path)

    def test_sigterm(self):
        self.check_signal(signal.SIGTERM, "SIGTERM")

    def test_ctrl_c(self):
        self.check_signal(signal.SIGINT, "SIGINT")

    def test_kill_9(self):
        run = Run(self, ENDLESS)
        run.wait_for("step 9/")
        self.assertEqual(run.page()["status"]["word"], "running")
        run.process.kill()
        run.wait()
        self.check_end(run, "killed", r"\w+ \w+ \w+")
        self.assertRegex(run.page()["status"]["checkpoint"], "^checkpoint-[0-9]+$")

    def test_nan(self):
        run = Run(self, "max_steps=50", "learning_rate=1e30", "max_grad_norm=0")
        self.assertEqual(run.wait(), 1, run.said())
        self.check_end(run, "failed", "(is|are) nan.*step [0-9]+, examples")
        self.assertIn("moonring: " + run.state()["reason"],
                      (run.out / "terminal.log").read_text())

    def test_full_disk(self):
        """The disk is full when the final model is written: it cannot be put in place."""
        run = Run(self, "max_steps=5", "save_strategy=no", environment={
            "LD_PRELOAD": str(ROOT / "tests/faults/failing_files.so"),
            "FAULT": "rename:1+:ENOSPC",
            "FAULT_UNDER": "out"})
        self.assertEqual(run.wait(), 1, run.said())
        self.check_end(run, "failed", "model.safetensors: .*No space left")

    def test_a_dead_rank(self):
        run = Run(self, ENDLESS, "sequence_parallel_size=2")
        run.wait_for("step 9/")
        children = pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children")
        os.kill(int(children.read_text().split()[1]), signal.SIGKILL)  # rank 1
        self.assertNotEqual(run.wait(), 0)
        word = run.page()["status"]["word"]
        self.assertIn(word, ("failed", "killed"))
        self.check_end(run, word, r"\w+ \w+ \w+")


if __name__ == "__main__":
    unittest.main()
