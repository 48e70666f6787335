#!/usr/bin/env python3
"""The wheel as its users have it: installed by pip, and beside `import torch`.

Argument: the wheel, a local file. pip downloads what it requires from the package index, torch and
what that requires (3 GB), and Transformers, whose log-probs are the second source, and pyarrow.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("TEST_SRCDIR", "."), os.environ.get("TEST_WORKSPACE", "."))
ROOT = ROOT.resolve()
WHEEL = os.path.abspath(sys.argv.pop())
GOLDEN = ROOT / "tests/golden/stages"
CONFIG = """
model_name_or_path: {golden}/model
stage: sft
finetuning_type: full
dataset_dir: {golden}/data
dataset: talks
template: chatml
cutoff_len: 160
learning_rate: 1.0e-3
logging_steps: 1
use_cpu: true
output_dir: out
"""
PROGRAM = """
import sys

order, folder = sys.argv[1:]
if order == "before":
    import torch
import moonring

model = moonring.Model(folder, fp64=True)
if order == "after":
    import torch
import numpy
from transformers import AutoModelForCausalLM

# One LibTorch, and one library of each name that it needs.
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if ".so" in line}
for name in ("libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13"):
    assert len([file for file in files if file.endswith("/" + name)]) == 1, (name, files)

torch.manual_seed(1)
ids = torch.randint(0, 600, (3, 17))
found = model.log_probs(ids)
assert isinstance(found, torch.Tensor) and found.dtype == torch.float64
with torch.no_grad():
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    logits = reference(ids).logits.log_softmax(-1)[:, :-1]
expected = logits.gather(-1, ids[:, 1:, None])[..., 0]
# Transformers computes the angles of the rotary embedding in fp32.
assert (found - expected).abs().max() < 2e-6, (found - expected).abs().max()
rows = [ids[0, :5].tolist(), ids[1].tolist()]
for row, wanted in zip(model.log_probs(rows), (expected[0, :4], expected[1])):
    assert (torch.tensor(row, dtype=torch.float64) - wanted).abs().max() < 2e-6

assert model.log_probs(ids.int()).equal(found)
assert model.log_probs(ids.T.contiguous().T).equal(found)
array = numpy.array(ids)
assert isinstance(model.log_probs(array), moonring.Tensor)
array.flags.writeable = False
assert numpy.from_dlpack(model.log_probs(array)).tolist() == found.tolist()
assert model.log_probs(list(array)) == [row.tolist() for row in found]
assert model.log_probs([numpy.int64(4), torch.tensor(5)])
assert model.log_probs(torch.zeros(0, 5, dtype=torch.long)).shape == (0, 4)
assert model.log_probs(torch.zeros(2, 1, dtype=torch.long)).shape == (2, 0)
for wrong in (torch.zeros(3), torch.zeros(2, 2, 2, dtype=torch.long), torch.tensor([1, -5])):
    try:
        model.log_probs(wrong)
        raise AssertionError(wrong)
    except moonring.InvalidArgument:
        pass

runtime = moonring.Runtime()
runtime.run_string("function f(value, a, b) a:add_(value.k) return a:sum():item(), a, b:t() end")
a, b = torch.zeros(2, 3), torch.arange(6.0).reshape(2, 3).bfloat16()
total, (first, second) = runtime.call_tensors("f", {"k": numpy.float32(2)}, a, b)
assert total == 12 and a.tolist() == [[2, 2, 2]] * 2
assert torch.from_dlpack(first).data_ptr() == a.data_ptr()
assert torch.from_dlpack(second).data_ptr() == b.data_ptr()
assert second.tolist() == b.T.tolist() and second.dtype == "bfloat16"
array = numpy.from_dlpack(first)
array[0, 0] = 7  # the memory of all three
assert a[0, 0] == 7 and first.tolist()[0][0] == 7
runtime.close()
del runtime, first, a
assert array[0, 0] == 7
print("all as expected")
"""
INTERRUPTED = """
import moonring

try:
    moonring.train("config.yaml", lambda step: print("step", step.step, flush=True),
                   num_train_epochs=1000, output_dir="interrupted")
except KeyboardInterrupt:
    print("interrupted")
"""


PARQUET = """
import json, sys
import moonring

if sys.argv[2] == "write":
    import pyarrow
    import pyarrow.parquet

    with open(sys.argv[1] + "/talks.json") as file:
        rows = json.load(file)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "talks.parquet")
    with open(sys.argv[1] + "/dataset_info.json") as file:
        info = json.load(file)
    info["talks"]["file_name"] = "talks.parquet"
    with open("dataset_info.json", "w") as file:
        json.dump(info, file)
where = sys.argv[1] if sys.argv[2] == "json" else "."
run = moonring.train("config.yaml", max_steps=2, dataset_dir=where, output_dir=sys.argv[2])
print([step.loss for step in run.steps])
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))).resolve()
        cls.packages = cls.folder / "packages"
        requirements = ROOT / "tests/python/requirements.txt"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
            + ["--disable-pip-version-check", "--root-user-action=ignore", "--target", cls.packages]
            + [WHEEL, "--requirement", requirements],
            check=True,
        )
        (cls.folder / "config.yaml").write_text(CONFIG.format(golden=GOLDEN))
        cls.environment = {
            name: value
            for name, value in os.environ.items()
            if name != "LD_LIBRARY_PATH"
            and not name.startswith(("PYTHON", "RUNFILES", "MOONRING", "TEST"))
        }
        cls.environment["PYTHONPATH"] = str(cls.packages)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def start(self, *words: str) -> subprocess.Popen:
        return subprocess.Popen(
            list(map(str, words)),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self, *words: str) -> str:
        child = self.start(*words)
        said = child.communicate()[0]
        self.assertEqual(child.returncode, 0, said)
        return said

    def test_beside_torch_in_either_order(self):
        for order in ("before", "after"):
            with self.subTest(order):
                said = self.output(sys.executable, "-c", PROGRAM, order, GOLDEN / "model")
                self.assertIn("all as expected", said)

    def test_examples_of_the_pages(self):
        for name in ("README.md", "docs/python.md"):
            page = (ROOT / name).read_text()
            examples = re.findall(r"```python[^\n]*wheel_test[^\n]*\n(.*?)```", page, re.DOTALL)
            self.assertTrue(examples, name)
            for example in examples:
                with self.subTest(name):
                    self.output(sys.executable, "-c", example)

    def test_the_program(self):
        moonring = self.packages / "bin/moonring"
        self.assertIn("LibTorch 2.11", self.output(moonring, "version"))
        words = (moonring, "train", "config.yaml", "max_steps=3")
        alone = self.output(*words, "output_dir=alone")
        both = self.output(*words, "output_dir=both", "sequence_parallel_size=2")
        losses = [re.findall(r"loss ([0-9.]+)", said) for said in (alone, both)]
        self.assertGreaterEqual(len(losses[0]), 3, alone)
        self.assertEqual(losses[0], losses[1])

    def test_parquet(self):
        losses = [
            self.output(sys.executable, "-c", PARQUET, GOLDEN / "data", kind)
            for kind in ("json", "write", "read")  # pyarrow is imported before, and not at all
        ]
        self.assertEqual(losses[1:], losses[:1] * 2)
        # Where the library does not find pyarrow by its own place.
        moved = self.folder / "runtime elsewhere"
        shutil.copytree(self.packages / "moonring/runtime", moved)
        self.environment["MOONRING_RUNTIME"] = str(moved)
        try:
            said = self.output(sys.executable, "-c", PARQUET, GOLDEN / "data", "moved")
        finally:
            del self.environment["MOONRING_RUNTIME"]
        self.assertEqual(said, losses[0])

    def test_control_c_saves_and_raises(self):
        child = self.start(sys.executable, "-u", "-c", INTERRUPTED)
        while not (line := child.stdout.readline()).startswith("step "):
            self.assertTrue(line, "it ended without a step")
        child.send_signal(signal.SIGINT)
        said = child.communicate()[0]
        self.assertEqual(child.returncode, 0, said)
        self.assertIn("interrupted", said)
        self.assertTrue(list((self.folder / "interrupted").glob("checkpoint-*")), said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
