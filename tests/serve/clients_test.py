#!/usr/bin/env python3
"""The Python SDKs and the cookbook's recipes against `moonring serve` with a tiny model, on one
rank and on two. Arguments: cases.

The environments are those of $MOONRING_CLIENTS (setup_clients.sh FOLDER makes them); without it
they are made for this test, from the package index (2 GB).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "clients"))

from environment import environment
from server import Server

HOST = os.path.abspath(os.environ.get("MOONRING_TEST_HOST", "moonring"))
MODEL = pathlib.Path("tests/golden/stages/model").resolve()
KEY = "tml-clients-test"
TOKENS = "672"  # the tiny model's vocabulary


def environments() -> pathlib.Path:
    return environment("MOONRING_CLIENTS", "setup_clients.sh", "the SDKs")


def serving(folder: pathlib.Path, model: str = "tiny", *words: str) -> list[str]:
    return [HOST, "serve", f"model_name_or_path={folder / model}"] + [
        "port={port}",
        "output_dir={out}",
        "api_key={key}",
        "use_cpu=true",
        *words,
    ]


class ClientsCase(unittest.TestCase):
    keys: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls):
        environments()
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copytree(MODEL, cls.folder / "tiny")
        cls.server = Server(serving(cls.folder, "tiny", *cls.keys), cls.folder, KEY)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait()

    def run_program(self, line: list, seconds: float = 1500) -> str:
        done = subprocess.run(
            [str(word) for word in line],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=seconds,
            cwd=self.folder,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"},
        )
        if done.returncode:
            self.fail(f"{line}: {done.stdout[-500:]}{done.stderr[-6000:]}{self.server.tail()}")
        return done.stdout

    def client(self, name: str, *words: str, python: str = "newest", model: str = "tiny") -> dict:
        said = self.run_program(
            [environments() / python / "bin/python", HERE / "clients" / name]
            + ["--url", self.server.url, "--key", KEY, "--model", model, *words]
        )
        return json.loads(said.splitlines()[-1])


class OneRank(ClientsCase):
    def test_losses(self):
        self.client("losses.py", "--vocabulary", TOKENS)

    def test_losses_of_all_weights(self):
        self.client("losses.py", "--rank", "0")

    def test_custom_loss(self):
        self.client("custom_loss.py")

    def test_two_clients(self):
        self.client("two_clients.py", "--clients", "3")

    def test_sampling(self):
        self.client("sampling.py", "--tokenizer", "--vocabulary", TOKENS)

    def test_saves(self):
        self.client("saves.py")

    def test_saves_of_all_weights(self):
        self.client("saves.py", "--rank", "0")

    def test_errors(self):
        messages = self.client("errors.py")["messages"]
        for message in messages:
            self.assertNotIn("Internal", message)
            self.assertNotIn("traceback", message.lower())

    def test_older_sdk(self):
        self.assertEqual(self.client("older.py", python="older")["version"], "0.27.2")

    def compare_with_pytorch(self, *words: str) -> None:
        rank = words[words.index("--rank") + 1]
        served = self.folder / f"served_{rank}.json"
        external = self.folder / f"adapter_{rank}"
        adapter = ["--external", str(external)] if rank != "0" else []
        served.write_text(json.dumps(self.client("sft.py", *words, *adapter)))
        same = list(words)
        del same[same.index("--rank") : same.index("--rank") + 2]
        self.run_program(
            [environments() / "newest/bin/python", HERE / "sft_by_peft.py"]
            + ["--model", self.folder / "tiny", "--served", served, *same]
            + (["--adapter", external] if rank != "0" else [])
        )

    def test_sft_is_that_of_pytorch_and_peft(self):
        self.compare_with_pytorch("--rank", "8", "--decay", "0.1", "--clip", "1.0")

    def test_sft_of_all_weights_is_that_of_pytorch(self):
        self.compare_with_pytorch("--rank", "0", "--rate", "1e-3", "--decay", "0.1")


class TwoRanks(OneRank):
    """The same programs on two ranks: clients see no difference."""

    keys = ("sequence_parallel_size=2",)

    def test_numbers_are_those_of_one_rank(self):
        here = [self.client("sft.py", "--rank", rank) for rank in ("8", "0")]
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            one = Server(serving(self.folder), pathlib.Path(folder), KEY)
            one.start()
            self.addCleanup(one.stop)
            one.wait()
            two, type(self).server = self.server, one
            try:
                there = [self.client("sft.py", "--rank", rank) for rank in ("8", "0")]
            finally:
                type(self).server = two
        for found, expected in zip(here, there):
            for a, b in zip(found["losses"], expected["losses"]):
                self.assertLess(abs(a - b), 2e-6 * abs(b))


class Killed(unittest.TestCase):
    def run_killed(self, *words: str, kills: str) -> None:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
            shutil.copytree(MODEL, pathlib.Path(folder, "tiny"))
            subprocess.run(
                [environments() / "newest/bin/python", HERE / "clients/kill_minus_nine.py"]
                + ["--model", "tiny", "--kills", kills, "--"]
                + serving(pathlib.Path(folder), "tiny", *words),
                check=True,
            )

    def test_twenty_times(self):
        self.run_killed(kills="20")

    def test_two_ranks(self):
        self.run_killed("sequence_parallel_size=2", kills="6")


class Recipes(ClientsCase):
    """The cookbook's recipes, unchanged."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work = cls.folder / "work"
        cls.recipes("--prepare")
        cls.second = Server(
            ["env", "-C", str(cls.work)] + serving(pathlib.Path(""), RECIPE_MODEL),
            cls.folder / "second",
            KEY,
        )
        cls.second.start()
        cls.addClassCleanup(cls.second.stop)
        cls.second.wait()

    @classmethod
    def recipes(cls, *words: str) -> None:
        url = cls.second.url if hasattr(cls, "second") else "http://127.0.0.1"
        subprocess.run(
            [environments() / "newest/bin/python", HERE / "recipes.py", "--url", url]
            + ["--key", KEY, "--work", cls.work, "--model", cls.folder / "tiny", *words],
            check=True,
        )

    def test_sl_loop(self):
        self.recipes("--only", "sl_loop")

    def test_rl_loop(self):
        self.recipes("--only", "rl_loop")

    def test_math_rl(self):
        self.recipes("--only", "math_rl")

    def test_chat_sl(self):
        self.recipes("--only", "chat_sl")

    def test_dpo(self):
        self.recipes("--only", "dpo")


RECIPE_MODEL = "Qwen/Qwen3-4B-Instruct-2507"

if __name__ == "__main__":
    unittest.main()
