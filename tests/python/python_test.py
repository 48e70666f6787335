#!/usr/bin/env python3
"""The Python package on a built Moonring (MOONRING_RUNTIME, by default //:dist) and the LibTorch of
the build, which a folder that is called torch stands for: nothing imports it."""

import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(os.environ.get("TEST_SRCDIR", "."), os.environ.get("TEST_WORKSPACE", "."))
ROOT = ROOT.resolve()
GOLDEN = ROOT / "tests/golden"
PACKAGE = ROOT / "lua/python"
CONFIG = {
    "stage": "sft",
    "finetuning_type": "full",
    "dataset": "talks",
    "template": "chatml",
    "cutoff_len": 160,
    "learning_rate": 1e-3,
    "max_steps": 4,
    "logging_steps": 1,
    "use_cpu": True,
}


def make_torch(folder: pathlib.Path, libraries: pathlib.Path, version: str = "2.11.0") -> None:
    (folder / "torch").mkdir(parents=True)
    (folder / "torch/__init__.py").write_text("raise SystemExit('torch was imported')\n")
    (folder / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    (folder / "torch/lib").symlink_to(libraries)


TEMP = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))).resolve()
os.environ.setdefault("MOONRING_RUNTIME", str(ROOT / "dist"))
os.environ["PYTHONPATH"] = f"{PACKAGE}:{TEMP / 'packages'}"
os.environ["OMP_NUM_THREADS"] = "1"
for name in ("LD_LIBRARY_PATH", "RUNFILES_DIR", "RUNFILES_MANIFEST_FILE"):
    os.environ.pop(name, None)
LIBTORCH = next(ROOT.glob("_solib_*/*/libtorch_cpu.so")).parent
make_torch(TEMP / "packages", LIBTORCH)
sys.path[:0] = [str(PACKAGE), str(TEMP / "packages")]

import moonring  # noqa: E402


def tearDownModule():
    shutil.rmtree(TEMP, ignore_errors=True)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=TEMP, prefix="żółć "))
        shutil.copytree(GOLDEN / "stages/model", self.folder / "model")
        shutil.copytree(GOLDEN / "stages/data", self.folder / "data")
        self.config = CONFIG | {
            "model_name_or_path": self.folder / "model",
            "dataset_dir": self.folder / "data",
            "output_dir": self.folder / "out",
        }

    def python(self, text: str, *words: str, **environment: str) -> subprocess.Popen:
        """Starts a Python program in the folder."""
        return subprocess.Popen(
            [sys.executable, "-c", text, *words],
            cwd=self.folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self, *words: str, **environment: str) -> tuple[int, str]:
        """Runs Python with these arguments: its exit code, its output."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout


class Training(Case):
    def test_losses_are_those_of_the_command(self):
        lines = []
        run = moonring.train(
            self.config, on_log=lines.append, val_size=2, eval_steps=2, eval_strategy="steps"
        )
        self.assertEqual([step.step for step in run.steps], [1, 2, 3, 4])
        self.assertEqual(run.steps[0].total_steps, 4)
        self.assertEqual(
            [each.step for each in run.evaluations], [2, 4, 4]
        )  # and after the last step
        self.assertIn("eval_loss", run.evaluations[0].metrics)
        self.assertFalse(run.stopped)
        self.assertEqual(run.output_dir, str(self.folder / "out"))
        self.assertTrue(any("4 steps of " in line for line in lines), lines)
        words = [f"{name}={value}" for name, value in self.config.items()]
        words[-1] = "output_dir=by_command"
        code, said = self.output(
            "-m",
            "moonring",
            "train",
            *words,
            "use_cpu=true",
            "val_size=2",
            "eval_steps=2",
            "eval_strategy=steps",
        )
        self.assertEqual(code, 0, said)
        log = (self.folder / "by_command/trainer_log.jsonl").read_text().splitlines()
        losses = [line["loss"] for line in map(json.loads, log) if "loss" in line]
        self.assertEqual([step.loss for step in run.steps], losses)
        results = json.loads((self.folder / "by_command/all_results.json").read_text())
        self.assertEqual(run.metrics["train_loss"], results["train_loss"])
        self.assertEqual(run.metrics["eval_loss"], results["eval_loss"])

    def test_a_callback_stops_and_the_run_resumes(self):
        whole = moonring.train(self.config, output_dir=self.folder / "whole")
        thread = threading.get_ident()
        seen = []

        def stop(step):
            seen.append(threading.get_ident())
            return step.step < 2 and None  # None continues, False stops

        run = moonring.train(self.config, stop)
        self.assertEqual(seen, [thread, thread])
        self.assertTrue(run.stopped)
        self.assertEqual(len(run.steps), 2)
        self.assertEqual(run.checkpoint, str(self.folder / "out/checkpoint-2"))
        self.assertEqual(run.metrics, {})
        run = moonring.train(self.config, resume_from_checkpoint=True)
        self.assertEqual([step.step for step in run.steps], [3, 4])
        self.assertEqual([s.loss for s in run.steps], [s.loss for s in whole.steps[2:]])

    def test_in_a_thread_and_with_a_file(self):
        path = self.folder / "config ü.yaml"
        path.write_text(json.dumps({k: str(v) for k, v in self.config.items()}))
        runs = []
        threads = [
            threading.Thread(
                target=lambda i=i: runs.append(
                    moonring.train(path, output_dir=self.folder / f"out{i}", max_steps=2)
                )
            )
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([len(run.steps) for run in runs], [2, 2])
        self.assertEqual(runs[0].steps[1].loss, runs[1].steps[1].loss)

    def test_two_ranks_stop_together(self):
        program = """
import json, sys, moonring
run = moonring.train(json.loads(sys.argv[1]), lambda step: step.step < 2, sequence_parallel_size=2)
print([step.step for step in run.steps], run.stopped, run.checkpoint is not None)
"""
        for variable, size in (
            ("RANK", {"WORLD_SIZE": "2"}),
            ("SLURM_PROCID", {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"}),
        ):
            with self.subTest(variable), socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
                free.close()
                config = json.dumps(self.config | {"output_dir": variable}, default=str)
                ranks = [
                    self.python(program, config, **{variable: str(rank)}, **size, **address)
                    for rank in range(2)
                ]
                said = [rank.communicate()[0] for rank in ranks]
                self.assertEqual(said, ["[1, 2] True True\n", "[] True False\n"])

    def test_answers_of_callbacks(self):
        class Numpy:  # as numpy.bool_
            dtype, ndim = "bool", 0

            def __bool__(self):
                return False

        run = moonring.train(self.config, lambda step: Numpy())
        self.assertEqual((run.stopped, len(run.steps)), (True, 1))
        for answer in (0, "no"):
            with self.assertRaisesRegex(TypeError, f"on_step: expected None, .* got {answer!r}"):
                moonring.train(self.config, lambda step, answer=answer: answer)
        ends = [moonring._training._ends("x", answer) for answer in (None, True, False)]
        self.assertEqual(ends, [False, False, True])

    def test_what_a_run_wrote_is_known_without_a_clock(self):
        out = self.folder / "out"
        for step in (5, 6):
            (out / f"checkpoint-{step}").mkdir(parents=True)
            (out / f"checkpoint-{step}/manifest.json").write_text("{}")
        (out / "all_results.json").write_text('{"train_loss": 1}')
        os.utime(out / "checkpoint-6/manifest.json", (2**32, 2**32))  # in the future
        before = moonring._training._files(str(out))
        run = moonring.Run(str(out))
        moonring._training._read_results(run, before)
        self.assertEqual((run.checkpoint, run.metrics), (None, {}))
        (out / "all_results.json").write_text('{"train_loss": 2}')
        os.utime(out / "all_results.json", (0, 0))  # by the clock of a file server
        (out / "checkpoint-5/manifest.json").write_text("{ }")
        os.utime(out / "checkpoint-5/manifest.json", (0, 0))
        moonring._training._read_results(run, before)
        self.assertEqual(run.checkpoint, str(out / "checkpoint-5"))
        self.assertEqual(run.metrics, {"train_loss": 2})

    def test_an_exception_in_a_callback_is_raised(self):
        problem = KeyError("mine")

        def fail(step):
            raise problem

        with self.assertRaises(KeyError) as caught:
            moonring.train(self.config, on_step=fail)
        self.assertIs(caught.exception, problem)
        self.assertFalse((self.folder / "out/checkpoint-1").exists())

    def test_errors_have_codes(self):
        cases = [
            ({"lerning_rate": 1}, moonring.InvalidArgument, "did you mean 'learning_rate'"),
            ({"model_name_or_path": "/none"}, moonring.NotFound, "/none"),
            ({"roots": [self.folder / "data"]}, moonring.PermissionDenied, "outside of the roots"),
            ({"sequence_parallel_size": 2}, moonring.Error, "2 ranks .*`moonring train CONFIG"),
        ]
        for keys, kind, words in cases:
            with self.subTest(keys), self.assertRaisesRegex(kind, words) as caught:
                moonring.train(self.config, **keys)
            self.assertEqual(caught.exception.code, kind.code)
        self.assertTrue(issubclass(moonring.NotFound, FileNotFoundError))
        for wrong, kind in ((float("nan"), ValueError), (object(), TypeError)):
            with self.assertRaisesRegex(kind, "max_steps"):
                moonring.train(self.config, max_steps=wrong)

    def test_values_are_those_of_yaml(self):
        out = self.folder / "out [1]: #x"
        keys = {
            "output_dir": out,
            "max_steps": 1,
            "lr_scheduler_type": "cosine_with_min_lr",
            "lr_scheduler_kwargs": {"min_lr": 1e-5},
            "report_to": ["none"],
            "eval_dataset": None,
            "run_name": 'a "b" #c',
        }
        moonring.train(self.config | keys)
        written = (out / "training_args.yaml").read_text()
        self.assertIn("min_lr", written)
        self.assertIn("#c", written)


class Interrupts(Case):
    PROGRAM = """
import json, sys, moonring
try:
    moonring.train(json.loads(sys.argv[1]), on_step=lambda step: print(step.step, flush=True),
                   max_steps=1000000)
except KeyboardInterrupt:
    print("interrupted")
"""

    def start(self) -> subprocess.Popen:
        process = self.python(self.PROGRAM, json.dumps(self.config, default=str))
        self.assertEqual(process.stdout.readline(), "1\n")
        process.send_signal(signal.SIGINT)
        return process

    def test_ctrl_c_saves_and_ends(self):
        process = self.start()
        said, _ = process.communicate()
        self.assertTrue(said.endswith("interrupted\n"), said)
        steps = [int(line) for line in said.split()[:-1]] or [1]
        self.assertTrue((self.folder / f"out/checkpoint-{steps[-1]}/manifest.json").exists(), said)

    def test_a_call_of_a_runtime_ends_and_the_next_one_works(self):
        process = self.python(
            """
import moonring
runtime = moonring.Runtime()
try:
    print("ready", flush=True)
    runtime.run_string("while true do pcall(function() while true do end end) end")
except KeyboardInterrupt:
    runtime.run_string("function f(x) return x end")
    print(runtime.call("f", "again"))
"""
        )
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
        self.assertEqual((said, process.returncode), ("again\n", 0), said)


    def test_a_call_that_waits_for_another_thread_ends(self):
        process = self.python(
            """
import os, signal, threading, time, moonring
runtime = moonring.Runtime()
runtime.run_string("function f(x) return x end")
loop = "while true do pcall(function() while true do end end) end"
def endless():
    try:
        runtime.run_string(loop)
    except moonring.Cancelled:
        print("cancelled")
other = threading.Thread(target=endless)
other.start()
while runtime._state.worker.current is None or runtime._state.worker.current.finished:
    time.sleep(0.01)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
for _ in range(2):
    try:
        runtime.call("f", 1)
    except KeyboardInterrupt:
        print("interrupted", other.is_alive())
        threading.Timer(0.3, runtime.cancel).start()
    except moonring.Cancelled:
        print("ran")
other.join()
"""
        )
        said, _ = process.communicate()
        self.assertEqual(sorted(said.split("\n")), ["", "cancelled", "interrupted True", "ran"])

    def test_messages_of_refused_calls(self):
        problems = []

        def again(report):
            try:
                runtime.call("f", 1)
            except moonring.InvalidArgument as error:
                problems.append(str(error))

        runtime = moonring.Runtime(on_progress=again)
        runtime.run_string(
            "function f(x) return x end require 'moonring.native.system'.tell_progress { x = 1 }"
        )
        self.assertRegex(problems[0], "a callback cannot call it")
        left = moonring._calls.Call(lambda: None, waits=False)
        left.abandon()  # as by a third Ctrl-C
        runtime._state.calls[threading.get_ident()] = left
        with self.assertRaisesRegex(moonring.InvalidArgument, "interrupted has not ended yet"):
            runtime.call("f", 1)
        left.run()
        self.assertEqual(runtime.call("f", 1), 1)

    def test_cancel_and_close_at_once(self):
        order, inside = [], threading.Event()

        class Native:
            def __init__(self, native):
                self._native = native

            def __getattr__(self, name):
                return getattr(self._native, name)

            def moonring_cancel(self, handle, save):
                inside.set()
                time.sleep(0.2)
                self._native.moonring_cancel(handle, save)
                order.append("cancelled")

            def moonring_destroy(self, handle):
                order.append("destroyed")
                self._native.moonring_destroy(handle)

        runtime = moonring.Runtime()
        runtime._state.native = Native(runtime._state.native)
        thread = threading.Thread(target=runtime.cancel)
        thread.start()
        inside.wait()
        runtime.close()
        thread.join()
        runtime.cancel()  # does nothing
        self.assertEqual(order, ["cancelled", "destroyed"])


class Models(Case):
    def test_log_probs_are_those_of_transformers(self):
        folder = GOLDEN / "model/gqa_tied"
        cases = json.loads((folder / "golden.json").read_text())["cases"]
        with moonring.Model(folder, fp64=True, micro_batch_tokens=100) as model:
            case = next(case for case in cases if case["name"] == "one")
            ids, expected = case["input"]["input_ids"], case["output"]
            batch, values = [], []
            for i, place in enumerate(case["input"]["positions"]):
                for id, logit in enumerate(expected["logits"][i]):
                    batch.append([*ids[: place + 1], id])
                    values.append(logit - expected["logsumexp"][i])
            found = model.log_probs(batch)
            self.assertEqual([len(row) for row in found], [len(row) - 1 for row in batch])
            for row, value in zip(found, values):
                self.assertAlmostEqual(row[-1], value, delta=1e-6)
            one = model.log_probs(ids)
            self.assertAlmostEqual(-sum(one) / len(one), expected["loss"], delta=1e-6)
            tensor = model.log_probs(moonring._tensors.of_integers(ids))
            self.assertEqual((tensor.shape, tensor.dtype), ((len(ids) - 1,), "float64"))
            self.assertEqual(tensor.tolist(), one)
            self.assertEqual(model.log_probs([]), [])
            self.assertEqual(model.log_probs([[], [1], (2, 3)])[:2], [[], []])
            with self.assertRaisesRegex(moonring.InvalidArgument, r"ids\[1\]\[2\]: .* 0 to 96"):
                model.log_probs([[1], [1, 2, 97]])
            for wrong in ("text", [1.5], [[1], 2], [[1, "x"]]):
                with self.assertRaises(TypeError):
                    model.log_probs(wrong)
            with self.assertRaisesRegex(moonring.NotFound, "tokenizer"):
                model.tokenize("x")

    def test_text(self):
        model = moonring.Model(self.folder / "model", template="chatml")
        other = moonring.Model(self.folder / "model", template="chatml", bf16=True)
        ids = model.tokenize("Zażółć gęślą <|im_end|>")
        self.assertEqual(model.detokenize(ids), "Zażółć gęślą <|im_end|>")
        self.assertEqual(model.detokenize(ids, skip_special_tokens=True).strip(), "Zażółć gęślą")
        text = model.generate("hello", max_new_tokens=8)
        self.assertEqual("".join(model.generate("hello", max_new_tokens=8, stream=True)), text)
        new = model.generate(ids, max_new_tokens=8, temperature=1, seed=3)
        self.assertEqual(model.generate(ids, max_new_tokens=8, temperature=1, seed=3), new)
        self.assertEqual(
            list(
                model.generate(
                    ids, max_new_tokens=8, temperature=1, seed=3, stream=True, stop_ids=[]
                )
            ),
            new,
        )
        talk = [{"role": "system", "content": "short"}, {"role": "user", "content": "hello"}]
        answer = model.chat(talk, max_new_tokens=8)
        self.assertEqual("".join(model.chat(talk, max_new_tokens=8, stream=True)), answer)
        self.assertNotEqual(model.chat("hello", max_new_tokens=8), answer)
        stream = model.chat(talk, stream=True)
        next(stream)
        stream.close()  # ends the call
        self.assertEqual(model.tokenize("hello"), other.tokenize("hello"))
        with self.assertRaisesRegex(moonring.InvalidArgument, "role 'assistant'"):
            model.chat([*talk, {"role": "user", "content": "x"}])
        with self.assertRaisesRegex(moonring.InvalidArgument, "learning_rate: not a key"):
            moonring.Model(self.folder / "model", learning_rate=1)
        model.close()
        with self.assertRaisesRegex(moonring.InvalidArgument, "closed"):
            model.tokenize("x")


class Tensors(Case):
    def test_are_not_copied(self):
        runtime = moonring.Runtime()
        runtime.run_string(
            "function f(value, x) x:add_(value) return { sum = x:sum():item() }, x end"
        )
        given = moonring._tensors.of_integers([1, 2, 3])
        value, (result,) = runtime.call_tensors("f", 2, given)
        self.assertEqual((value, result.shape, result.dtype), ({"sum": 12}, (3,), "int64"))
        self.assertEqual(result._tensor.data, given._tensor.data)
        del given
        runtime.close()
        self.assertEqual(result.tolist(), [3, 4, 5])  # it outlives its maker and the runtime
        with self.assertRaisesRegex(TypeError, "inputs"):
            moonring.Runtime().call_tensors("f", 2, 3)


class Commands(Case):
    def test_run_returns_the_output(self):
        self.assertIn(moonring.version(), moonring.run("version"))
        self.assertIn("3 layers", moonring.run("inspect", self.folder / "model"))
        lines = []
        moonring.run(
            "preprocess", on_log=lines.append, out=self.folder / "rows.jsonl", **self.config
        )
        self.assertIn("input_ids", (self.folder / "rows.jsonl").read_text())
        with self.assertRaisesRegex(moonring.NotFound, "did you mean 'train'"):
            moonring.run("trian")

    def test_the_program(self):
        code, said = self.output("-m", "moonring", "version")
        self.assertEqual((code, said.split()[1]), (0, moonring.version()))
        code, said = self.output("-m", "moonring", "train", "none.yaml")
        self.assertEqual(code, 2, said)

    def test_without_torch(self):
        make_torch(self.folder / "old", LIBTORCH, "2.6.0+cpu")
        for path, words in (
            (str(PACKAGE), "moonring: no LibTorch 2.11: .*torch==2.11"),
            (
                f"{PACKAGE}:{self.folder / 'old'}",
                "moonring: LibTorch 2.11 is required, and .* is 2.6",
            ),
        ):
            code, said = self.output("-S", "-m", "moonring", "version", PYTHONPATH=path)
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertRegex(said, words)
            code, said = self.output(
                "-S", "-c", "import moonring; moonring.version()", PYTHONPATH=path
            )
            self.assertRegex(said, "LoadError: .*LibTorch 2.11")

    def test_an_old_machine(self):
        from moonring import _libraries

        for text, words in (
            (
                "/lib/libc.so.6: version `GLIBC_2.28' not found (required by x.so)",
                "glibc 2.28 or newer .Debian 10, Ubuntu 20.04, RHEL 8 or later",
            ),
            (
                "libstdc++.so.6: version `GLIBCXX_3.4.25' not found (...)",
                "libstdc.. with GLIBCXX_3.4.25 .that of GCC 8 or newer",
            ),
            (
                "libcairo.so.2: cannot open shared object file: No such file",
                "libcairo.so.2 is missing",
            ),
        ):
            self.assertRegex(str(_libraries.explained(OSError(text))), words)

    def test_an_incomplete_installation(self):
        from moonring import _libraries

        with unittest.mock.patch.dict(os.environ):
            os.environ["MOONRING_RUNTIME"] = str(self.folder)
            with self.assertRaisesRegex(moonring.LoadError, "MOONRING_RUNTIME: .*bazel-bin/dist"):
                _libraries.runtime_folder()
            del os.environ["MOONRING_RUNTIME"]
            with self.assertRaisesRegex(moonring.LoadError, "incomplete: .*; reinstall moonring$"):
                _libraries.runtime_folder()

    def test_folders_of_libraries(self):
        from moonring import __main__, _libraries

        make_torch(self.folder / "a", LIBTORCH)
        (self.folder / "a/nvidia/cublas/lib").mkdir(parents=True)
        pyarrow = self.folder / "b/pyarrow"
        pyarrow.mkdir(parents=True)
        (pyarrow / "__init__.py").write_text("raise SystemExit('pyarrow was imported')")
        for name in _libraries.ARROW:
            (pyarrow / name).touch()
        torch = self.folder / "a/torch"
        before = f"{self.folder}:{torch}/lib"
        with (
            unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=before),
            unittest.mock.patch.object(sys, "path", [str(self.folder / "b")]),
        ):
            found = __main__._environment(os.environ["MOONRING_RUNTIME"] + "/moonring-bin")
            self.assertEqual(
                found["LD_LIBRARY_PATH"], f"{before}:{self.folder}/a/nvidia/cublas/lib:{pyarrow}"
            )
            loaded = []
            load = unittest.mock.patch.object(
                _libraries.ctypes, "CDLL", lambda path, mode: loaded.append(path)
            )
            with load:
                _libraries._preload_arrow(str(self.folder / "a/moonring/runtime"))
                _libraries._preload_arrow(str(self.folder / "b/moonring/runtime"))
            self.assertEqual(loaded, [str(pyarrow / name) for name in _libraries.ARROW])

    def test_after_a_fork(self):
        runtime = moonring.Runtime()
        runtime.run_string("function f() return 1 end")
        reader, writer = os.pipe()
        if os.fork() == 0:
            said = b"nothing"
            try:
                try:
                    runtime.call("f")
                except moonring.InvalidArgument as error:
                    said = str(error).encode()
                with moonring.Runtime() as other:  # a new one works
                    other.run_string("function f() return 2 end")
                    said += b" %d" % other.call("f")
            finally:
                os.write(writer, said)
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            self.assertRegex(pipe.read(), "belongs to the parent of this process.* 2")
        self.assertEqual(runtime.call("f"), 1)


class Page(Case):
    def test_the_example_of_the_page_runs(self):
        page = (ROOT / "docs/python.md").read_text()
        example = re.search(r"```python[^\n]*python_test[^\n]*\n(.*?)```", page, re.DOTALL)[1]
        config = {name: str(value) for name, value in self.config.items()}
        (self.folder / "config.yaml").write_text(json.dumps(config | {"output_dir": "out"}))
        code, said = self.output("-c", example)
        self.assertEqual(code, 0, said)
        self.assertIn("4/4: loss", said)
        self.assertIn("INVALID_ARGUMENT lerning_rate", said)


if __name__ == "__main__":
    sys.stderr = io.TextIOWrapper(sys.stderr.buffer, line_buffering=True)
    unittest.main(verbosity=2)
