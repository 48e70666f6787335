#!/usr/bin/env python3
"""The Python package beside `import torch`, in either order: one LibTorch in the process, tensors
without copies, log-probs as Transformers computes them. MOONRING_TORCH_PYTHON names a Python that
has requirements.txt; without it, everything is skipped."""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(os.environ.get("TEST_SRCDIR", "."), os.environ.get("TEST_WORKSPACE", "."))
ROOT = ROOT.resolve()
PYTHON = os.environ.get("MOONRING_TORCH_PYTHON")
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


@unittest.skipIf(PYTHON is None, "MOONRING_TORCH_PYTHON is not set")
class BesideTorch(unittest.TestCase):
    def output(self, *words: str) -> str:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name != "LD_LIBRARY_PATH" and not name.startswith(("PYTHON", "RUNFILES"))
        }
        environment["PYTHONPATH"] = str(ROOT / "lua/python")
        environment.setdefault("MOONRING_RUNTIME", str(ROOT / "dist"))
        done = subprocess.run(
            [PYTHON, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_either_order(self):
        for order in ("before", "after"):
            with self.subTest(order):
                said = self.output("-c", PROGRAM, order, str(ROOT / "tests/golden/stages/model"))
                self.assertIn("all as expected", said)

    def test_the_example_of_the_page(self):
        page = (ROOT / "docs/python.md").read_text()
        self.output("-c", re.search(r"```python[^\n]*torch_test[^\n]*\n(.*?)```", page, re.S)[1])

    def test_the_program(self):
        self.assertIn("LibTorch 2.11", self.output("-m", "moonring", "version"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
