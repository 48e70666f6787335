#!/usr/bin/env python3
"""The service without any SDK: requests that were recorded from the SDKs (record.py), repeated and
late requests, malformed ones, many connections, restarts. Arguments: cases."""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "clients"))

import wire
from server import Server

HOST = os.path.abspath(os.environ.get("MOONRING_TEST_HOST", "moonring"))
MODEL = pathlib.Path("tests/golden/stages/model").resolve()
KEY = "tml-service-test"


class ServiceCase(unittest.TestCase):
    """One server with a tiny model for the cases of a class."""

    @classmethod
    def line(cls) -> list:
        """The command line, without the keys that all servers have."""
        return [HOST, "serve", cls.folder / "tiny"]

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copytree(MODEL, cls.folder / "tiny")
        keys = ["port={port}", "output_dir={out}", "api_key={key}", "use_cpu=true"]
        cls.server = Server([str(word) for word in cls.line()] + keys, cls.folder, KEY)
        cls.server.start()
        cls.addClassCleanup(cls.end)
        cls.server.wait()

    @classmethod
    def end(cls):
        code = cls.server.stop()
        assert code in (0, 143, -15), f"the server ended with {code}: {cls.server.tail()}"

    def setUp(self):
        self.client = wire.Client(self.server.url, KEY)

    def program(self, name: str, *words: str) -> dict:
        """Runs a client program that needs no SDK."""
        done = subprocess.run(
            [sys.executable, HERE / "clients" / name, "--url", self.server.url, "--key", KEY]
            + ["--model", "tiny", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + self.server.tail())
        return json.loads(done.stdout.splitlines()[-1])


class Recording:
    """Sends the requests of a file again; ids of the recorded answers become those of this
    server's."""

    def __init__(self, client: wire.Client, name: str):
        self.client, self.ids = client, {}
        text = (HERE / "recorded" / name).read_text()
        self.lines = [json.loads(line) for line in text.splitlines()]

    def body(self, line: dict) -> bytes:
        body = base64.b64decode(line["body"])
        if "protobuf" in str(line["headers"]):
            if line["path"].endswith("/forward_backward"):
                parts = wire.fields(body)
                assert parts[0][0] == 1, "the model's id is not the first field"
                old = parts[0][1]
                new = self.renamed(old.decode()).encode()
                return wire.field(1, new) + body[len(wire.field(1, old)) :]
        return self.renamed(body.decode()).encode()

    def renamed(self, text: str) -> str:
        for old in sorted(self.ids, key=len, reverse=True):
            text = re.sub(re.escape(old) + r"(?![\w-])", self.ids[old], text)
        return text

    def send(self, line: dict):
        """The answer, or the result if the answer is a promise."""
        path = self.renamed(line["path"])
        headers = {name: value for name, value in line["headers"].items()}
        status, _, answer = self.client.ask(
            line["method"], path, self.body(line) or None, **headers
        )
        assert status == 200, f"{path}: {status} {answer!r}"
        found = json.loads(answer)
        if "request_id" in found:
            again = json.loads(self.client.ask(line["method"], path, self.body(line), **headers)[2])
            assert again == found, f"the same request once more: {again}, first {found}"
            result = self.client.wait(found["request_id"])
            assert isinstance(result, bytes) or "error" not in result, f"{path}: {result}"
        else:
            result = found
        for name, old in line["answer"].items():
            assert name in result, f"{path}: {result} has no {name}"
            self.ids[old] = result[name]
        return result


def weights_of(body: bytes) -> list[list[float]]:
    """Weights of each datum of a ForwardBackwardRequest; 1 where there are none."""
    found = []
    for datum in wire.several(body, 3):
        inputs = {wire.one(entry, 1): wire.one(entry, 2) for entry in wire.several(datum, 2)}
        count = len(wire.numbers(wire.one(inputs[b"target_tokens"], 1), "q"))
        weights = inputs.get(b"weights")
        found.append(wire.numbers(wire.one(weights, 1), "f") if weights else [1.0] * count)
    return found


class Replay(ServiceCase):
    """What the SDKs send: the same requests, in the same bytes but for ids."""

    def replay(self, name: str) -> None:
        recording = Recording(self.client, name)
        losses, log_probs, samples = [], [], []
        for line in recording.lines:
            result = recording.send(line)
            if line["path"].endswith("/forward_backward"):
                metrics, found = wire.output_of(result)
                weights = weights_of(base64.b64decode(line["body"]))
                self.assertEqual([len(one) for one in found], [len(one) for one in weights])
                expected = -sum(w * lp for ws, lps in zip(weights, found) for w, lp in zip(ws, lps))
                self.assertAlmostEqual(metrics["loss:sum"], expected, delta=1e-5 * expected)
                losses.append(metrics["loss:sum"])
                log_probs.append(found)
            elif line["path"].endswith("/asample"):
                samples.append(result)
        # Three steps on one batch; then a forward, and that of a model made from the saved state.
        self.assertEqual(sorted(losses[:4], reverse=True), losses[:4])
        self.assertEqual(log_probs[3], log_probs[4])
        first, second, scored = samples
        self.assertEqual(wire.samples_of(first), wire.samples_of(second))
        self.assertEqual(len(wire.samples_of(first)), 2)
        prompt = wire.prompt_log_probs_of(scored)
        self.assertNotEqual(prompt[0], prompt[0], "not NaN")
        for found, expected in zip(prompt[1:], log_probs[5][0], strict=True):
            self.assertAlmostEqual(found, expected, delta=2e-5)

    def test_newest(self):
        self.replay("tinker_0.38.0.jsonl")

    def test_older(self):
        self.replay("tinker_0.27.2.jsonl")


class Order(ServiceCase):
    """Promises: order by seq_id, once however often they come."""

    def test_late_and_repeated(self):
        model = self.client.model("tiny")
        data = [wire.datum([5, 6, 7, 8], target_tokens=[6, 7, 8, 9])]
        step = {"model_id": model, "adam_params": {"learning_rate": 1e-2}}

        def forward_backward(seq: int) -> str:
            body = wire.forward_backward(model, seq, data)
            return self.client.post("forward_backward", body)["request_id"]

        # 4 and 3 come before 2, and 2 comes twice: one step is made between 1 and 3.
        first = forward_backward(1)
        fourth = self.client.post("optim_step", step | {"seq_id": 4})["request_id"]
        third = forward_backward(3)
        promises = {
            self.client.post("optim_step", step | {"seq_id": 2})["request_id"] for _ in range(3)
        }
        self.assertEqual(len(promises), 1)
        before, after = (wire.output_of(self.client.wait(one)) for one in (first, third))
        self.assertLess(after[0]["loss:sum"], before[0]["loss:sum"])
        self.client.wait(fourth)
        # The same order without lateness, by another model of the same seed.
        other = self.client.model("tiny")
        for seq in (1, 3):
            body = wire.forward_backward(other, seq, data)
            expected = wire.output_of(self.client.run("forward_backward", body))
            self.client.run("optim_step", step | {"model_id": other, "seq_id": seq + 1})
            self.assertEqual(expected, before if seq == 1 else after)
        # A result may be asked for again.
        self.assertEqual(wire.output_of(self.client.wait(third)), after)

    def test_a_failed_request_lets_the_next_run(self):
        model = self.client.model("tiny")
        bad = wire.forward_backward(model, 1, [wire.datum([5], target_tokens=[10**6])])
        request = self.client.post("forward_backward", bad)["request_id"]
        result = self.client.wait(request)
        self.assertEqual(result["category"], "user")
        self.assertIn("1000000", result["error"])
        good = wire.forward_backward(model, 2, [wire.datum([5], target_tokens=[6])])
        wire.output_of(self.client.run("forward_backward", good))

    def test_unknown_promises_and_sessions(self):
        for path, body in (
            ("retrieve_future", {"request_id": "nobody's"}),
            ("session_heartbeat", {"session_id": "nobody's"}),
        ):
            status, _, answer = self.client.ask("POST", "/api/v1/" + path, json.dumps(body))
            self.assertEqual(status, 410, answer)


class Rough(ServiceCase):
    """Malformed requests, and many clients of which some vanish."""

    def test_malformed(self):
        self.program("malformed.py")

    def test_crowd(self):
        self.program("crowd.py")


    def test_a_refused_start_writes_nothing(self):
        other = self.folder / "other"
        port = self.server.url.rpartition(":")[2]
        done = subprocess.run(
            [HOST, "serve", self.folder / "tiny", f"port={port}", f"output_dir={other}"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("port=0 takes any free one", done.stderr)
        self.assertFalse(other.exists())


class Killed(ServiceCase):
    """kill -9: sessions, models, seq_ids and results are known to the next process."""

    def test_continues(self):
        numbers = []
        for killed in (False, True):
            model = self.client.model("tiny", seed=3)
            for seq in range(1, 10, 2):
                data = [wire.datum([seq, 6, 7, 8], target_tokens=[6, 7, 8, 9])]
                body = wire.forward_backward(model, seq, data)
                request = self.client.post("forward_backward", body)["request_id"]
                step = {"model_id": model, "seq_id": seq + 1}
                step["adam_params"] = {"learning_rate": 1e-2}
                taken = self.client.post("optim_step", step)["request_id"]
                if killed:
                    self.server.kill()
                    self.server.start()
                    self.server.wait()
                    self.client = wire.Client(self.server.url, KEY)
                numbers.append(wire.output_of(self.client.wait(request)))
                self.client.wait(taken)
        self.assertEqual(numbers[:5], numbers[5:])
        self.assertLess(numbers[4][0]["loss:sum"], numbers[0][0]["loss:sum"])


class Embedded(ServiceCase):
    """lua/examples/serve: the service on a thread of a C program, which ends it."""

    @classmethod
    def line(cls) -> list:
        return [os.path.abspath("lua/examples/serve"), cls.folder / "tiny"]

    def test_trains(self):
        model = self.client.model("tiny")
        data = [wire.datum([5, 6, 7, 8], target_tokens=[6, 7, 8, 9])]
        body = wire.forward_backward(model, 1, data)
        metrics, found = wire.output_of(self.client.run("forward_backward", body))
        self.assertAlmostEqual(metrics["loss:sum"], -sum(found[0]), delta=1e-4)
        self.assertIn("export TINKER_BASE_URL=" + self.server.url, self.server.tail())


class Hooked(ServiceCase):
    """lua/examples/serve_hooks.lua: a handler around the service's own."""

    @classmethod
    def line(cls) -> list:
        return [HOST, os.path.abspath("lua/examples/serve_hooks.lua"), cls.folder / "tiny"]

    def test_bounds_the_rate(self):
        losses = {}
        data = [wire.datum([5, 6, 7, 8], target_tokens=[6, 7, 8, 9])]
        for rate in (1e-3, 5e-1):
            model = self.client.model("tiny", seed=1)
            for seq in (1, 3):
                body = wire.forward_backward(model, seq, data)
                losses[rate, seq] = wire.output_of(self.client.run("forward_backward", body))
                step = {"model_id": model, "seq_id": seq + 1}
                step["adam_params"] = {"learning_rate": rate}
                metrics = self.client.run("optim_step", step)["metrics"]
                self.assertEqual(metrics["learning_rate:mean"], 1e-3)
        self.assertEqual(losses[1e-3, 3], losses[5e-1, 3])
        self.assertNotEqual(losses[1e-3, 1], losses[1e-3, 3])


if __name__ == "__main__":
    unittest.main()
