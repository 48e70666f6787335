#!/usr/bin/env python3
"""lm-eval and the openai SDK against `moonring serve`, and lm-eval's numbers beside those of
Transformers.

The model is a tiny one; MOONRING_EVALUATION_MODEL names another Hugging Face folder. The
environment is that of $MOONRING_EVALUATION (setup_evaluation.sh FOLDER makes it); without it, it is
made for this test, from the package index (2 GB).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "clients"))

from environment import environment
from server import Server

HOST = os.path.abspath(os.environ.get("MOONRING_TEST_HOST", "moonring"))
GIVEN = os.environ.get("MOONRING_EVALUATION_MODEL")
MODEL = pathlib.Path(GIVEN or "tests/golden/stages/model").resolve()
KEY = "tml-evaluation"
TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"


def packages() -> pathlib.Path:
    return environment("MOONRING_EVALUATION", "setup_evaluation.sh", "lm-eval")


class Evaluation(unittest.TestCase):
    keys: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls):
        packages()
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.model = MODEL
        if not GIVEN:
            cls.model = cls.folder / "tiny"
            shutil.copytree(MODEL, cls.model)
            (cls.model / "chat_template.jinja").write_text(TEMPLATE)
        shutil.copytree(HERE / "eval", cls.folder / "eval")
        line = [HOST, "serve", str(cls.model), "port={port}", "output_dir={out}", "api_key={key}"]
        cls.server = Server([*line, "use_cpu=true", *cls.keys], cls.folder, KEY)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait()

    def run_program(self, line: list, seconds: float = 1500) -> str:
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": KEY}
        home = {"HF_HOME": str(self.folder / "hub"), "NLTK_DATA": str(self.folder)}
        done = subprocess.run(
            [str(word) for word in line],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=seconds,
            cwd=self.folder / "eval",
            env=os.environ | offline | home,
        )
        if done.returncode:
            self.fail(f"{line}: {done.stdout[-500:]}{done.stderr[-6000:]}{self.server.tail()}")
        return done.stdout

    def evaluate(self, kind: str, out: str, *words: str, **options) -> pathlib.Path:
        """Runs lm-eval; returns the folder of its samples."""
        arguments = ",".join(f"{name}={value}" for name, value in options.items())
        begun = time.monotonic()
        self.run_program(
            [packages() / "bin/lm_eval", "--model", kind, "--model_args", arguments]
            + ["--include_path", ".", "--log_samples", "--output_path", self.folder / out, *words]
        )
        print(f"{kind} {out}: {time.monotonic() - begun:.0f} s")
        return self.folder / out

    def of_service(self, out: str, *words: str, **options) -> pathlib.Path:
        url = self.server.url + "/v1/completions"
        return self.evaluate("local-completions", out, *words, model=self.model.name, base_url=url,
                             max_retries=1, **options)

    def compare(self, first: pathlib.Path, second: pathlib.Path) -> None:
        print(self.run_program([sys.executable, HERE / "eval/compare_samples.py", first, second]))


class LmEval(Evaluation):
    def test_log_likelihoods_and_texts_are_those_of_transformers(self):
        tasks = ("--tasks", "facts_choice,facts_until")
        expected = self.evaluate("hf", "hf", *tasks, "--batch_size", "8", "--device", "cpu",
                                 pretrained=self.model, dtype="float32")
        # token ids, eight requests at a time
        found = self.of_service("ids", *tasks, tokenizer=self.model, num_concurrent=8)
        self.compare(expected, found)

    def test_texts_and_the_remote_tokenizer(self):
        task = ("--tasks", "facts_choice", "--batch_size", "16")
        ids = self.of_service("remote", *task, tokenizer_backend="remote", auth_token=KEY)
        texts = self.of_service("texts", *task, tokenizer=self.model, tokenized_requests=False)
        self.compare(ids, texts)

    def test_chat(self):
        folder = self.evaluate(
            "local-chat-completions", "chat", "--tasks", "facts_until", "--apply_chat_template",
            model=self.model.name, base_url=self.server.url + "/v1/chat/completions",
            num_concurrent=4, max_retries=1)
        (path,) = folder.glob("**/samples_facts_until_*.jsonl")
        said = [json.loads(line)["resps"][0][0] for line in path.read_text().splitlines()]
        self.assertEqual(len(said), 32)
        self.assertTrue(all(isinstance(text, str) for text in said))


class OpenaiSdk(Evaluation):
    def test_sdk(self):
        self.run_program([packages() / "bin/python", HERE / "clients/openai_sdk.py"]
                         + ["--url", self.server.url, "--key", KEY, "--model", self.model.name])


class OpenaiSdkOnTwoRanks(OpenaiSdk):
    keys = ("sequence_parallel_size=2", "rollout_spread_length=8")


if __name__ == "__main__":
    unittest.main()
