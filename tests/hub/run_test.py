#!/usr/bin/env python3
"""Runs whose configuration names models and data on a hub give the same results as with local
folders."""

import json
import shutil
import unittest

import hub_case
from hub_server import TOKEN

STAGES = hub_case.GOLDEN / "stages"
YAML = """\
model_name_or_path: {model}
dataset_dir: {data}
dataset: talks
template: chatml
finetuning_type: {kind}
cutoff_len: 128
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
learning_rate: 1.0e-3
max_steps: 2
seed: 7
report_to: none
output_dir: {out}
"""


class Runs(hub_case.HubCase):
    def setUp(self):
        super().setUp()
        shutil.copytree(STAGES / "data", self.folder / "data")
        self.hub.add("model", "org/tiny", hub_case.files_of(hub_case.MODEL), private=True)
        self.environment["HF_TOKEN"] = TOKEN

    def train(self, out: str, model: str, *more: str, data: str = "data", kind: str = "full"):
        self.write(f"{out}.yaml", YAML.format(model=model, data=data, kind=kind, out=out))
        return self.run_host("train", f"{out}.yaml", *more)

    def weights(self, out: str) -> bytes:
        (path,) = (self.folder / out).glob("*model.safetensors")
        return path.read_bytes()

    def test_one_rank_and_two(self):
        here = str(hub_case.MODEL)
        self.train("here", here)
        said = self.train("one", "org/tiny")
        self.assertIn("org/tiny: ", said)
        self.assertEqual(self.weights("one"), self.weights("here"))
        card = (self.folder / "one/README.md").read_text()
        self.assertIn('base_model: "org/tiny"', card)
        self.train("here2", here, "sequence_parallel_size=2")
        cached = str(self.folder / "other")
        said = self.train("two", "org/tiny", "sequence_parallel_size=2", f"cache_dir={cached}")
        self.assertEqual(said.count("org/tiny: "), 1, said)  # printed before the ranks start
        self.assertEqual(self.weights("two"), self.weights("here2"))
        # Ranks that another program has started: one rank downloads, the others wait.
        self.forget()
        command = ["-n", "2", "train", "two.yaml", "sequence_parallel_size=2", "output_dir=three"]
        said = self.run_host(*command, f"cache_dir={self.folder / 'third'}")
        self.assertEqual(len(self.hub.asked("model.safetensors", where="storage")), 1)
        self.assertEqual(self.weights("three"), self.weights("here2"))

    def test_the_token_is_written_nowhere(self):
        self.environment["HF_TOKEN"] = ""
        self.train("out", "org/tiny", f"hf_hub_token={TOKEN}", "model_revision=main")
        for path in self.folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(TOKEN.encode(), path.read_bytes(), path)
        self.assertIn(
            'model_revision: "main"', (self.folder / "out/training_args.yaml").read_text()
        )

    def test_adapters(self):
        self.train("lora", "org/tiny", kind="lora")
        config = json.loads((self.folder / "lora/adapter_config.json").read_text())
        self.assertEqual(config["base_model_name_or_path"], "org/tiny")
        adapter = hub_case.files_of(self.folder / "lora")
        self.hub.add("model", "me/my-lora", adapter)
        keys = ["model_name_or_path=org/tiny", "template=chatml"]
        for place, out in (("lora", "merged"), ("me/my-lora", "merged2")):
            self.run_host("export", f"adapter_name_or_path={place}", f"export_dir={out}", *keys)
        self.assertEqual(self.weights("merged"), self.weights("merged2"))
        fetched = {r.path.split("/")[-1] for r in self.hub.asked("", "HEAD") if "my-lora" in r.path}
        self.assertEqual(fetched, {"adapter_config.json", "adapter_model.safetensors"})
        # The command names only an adapter; its base model is the one in adapter_config.json.
        self.run_host("chat", "me/my-lora")

    def test_commands(self):
        said = self.run_host("plan", "model_name_or_path=org/tiny", "memory=1GiB")
        self.assertIn("org/tiny", said)
        self.assertEqual(self.hub.asked("model.safetensors"), [])  # only config.json is needed
        said = self.run_host("inspect", "org/tiny")
        self.assertIn("org/tiny (", said)
        (self.folder / "in.json").write_text(
            json.dumps({"input_ids": [1, 2, 3], "labels": [1, 2, 3], "positions": [1]})
        )
        self.run_host("probe", "model_name_or_path=org/tiny", "input=in.json", "out=out.json")
        self.run_host(
            "probe", f"model_name_or_path={hub_case.MODEL}", "input=in.json", "out=o2.json"
        )
        one, other = (
            json.loads((self.folder / name).read_text()) for name in ("out.json", "o2.json")
        )
        self.assertEqual(one["logits"], other["logits"])
        self.assertAlmostEqual(one["grad_norm_total"], other["grad_norm_total"], 5)


class Datasets(hub_case.HubCase):
    def setUp(self):
        super().setUp()
        talks = json.loads((STAGES / "data/talks.json").read_text())
        lines = "".join(json.dumps(row) + "\n" for row in talks).encode()
        half = lines.count(b"\n") // 2
        rows = lines.splitlines(keepends=True)
        self.hub.add(
            "dataset",
            "org/talks",
            {
                "README.md": b"---\nlicense: mit\n---\n# Talks\n",
                "data/train-00000-of-00002.jsonl": b"".join(rows[:half]),
                "data/train-00001-of-00002.jsonl": b"".join(rows[half:]),
                "data/test-00000-of-00001.jsonl": rows[0],
                "script.txt": b"no",
            },
        )
        self.hub.add(
            "dataset",
            "org/configs",
            {
                "README.md": b"---\nconfigs:\n- config_name: a\n  data_files: a.json\n"
                b"- config_name: b\n  data_files:\n  - split: held\n    path: b.json\n---\n",
                "a.json": json.dumps(talks[:2]).encode(),
                "b.json": json.dumps(talks[2:6]).encode(),
            },
        )
        self.hub.add("dataset", "org/program", {"program.py": b"raise SystemExit", "x.json": b"[]"})
        for name, kept in (("talks", talks), ("few", talks[2:4])):
            self.write(f"data/{name}.json", json.dumps(kept))
        form = {"formatting": "sharegpt"}
        info = {
            "talks": {"file_name": "talks.json", **form},
            "few": {"file_name": "few.json", **form},
            "hub": {"hf_hub_url": "org/talks", "file_name": "not_this.json", **form},
            "held": {"hf_hub_url": "org/configs", "subset": "b", "split": "held[:2]", **form},
            "both": {"hf_hub_url": "org/talks", "split": "train+test", **form},
            "unsaid": {"hf_hub_url": "org/configs", **form},
            "nosplit": {"hf_hub_url": "org/talks", "split": "dev", **form},
            "program": {"hf_hub_url": "org/program", **form},
            "missing": {"hf_hub_url": "org/no-talks", **form},
            "scope": {"ms_hub_url": "org/talks", **form},
        }
        self.write("data/dataset_info.json", json.dumps(info))

    def preprocess(self, names: str, *more: str, code: int = 0, **environment: str) -> str:
        words = [f"dataset={names}", "template=chatml", "dataset_dir=data", "out=out.jsonl"]
        words = ["preprocess", f"model_name_or_path={hub_case.MODEL}", *words, *more]
        said = self.run_host(*words, code=code, **environment)
        return said if code else (self.folder / "out.jsonl").read_text()

    def test_rows_are_those_of_files(self):
        talks, few = self.preprocess("talks"), self.preprocess("few")
        self.assertEqual(self.preprocess("hub"), talks)
        self.assertEqual(self.preprocess("held"), few)
        self.assertEqual(self.preprocess("both"), talks + talks.splitlines(keepends=True)[0])
        self.assertEqual(self.hub.asked("script.txt", "HEAD"), [])
        self.forget()
        self.assertEqual(self.preprocess("hub"), talks)
        self.assertEqual(self.preprocess("hub", HF_HUB_OFFLINE="1"), talks)
        self.assertEqual(self.hub.requests, [])
        streamed = ["streaming=true", "buffer_size=1", "max_steps=1"]
        # A stream shuffles the order of the files.
        rows = self.preprocess("hub", *streamed).splitlines()
        self.assertEqual(sorted(rows), sorted(talks.splitlines()))

    def test_dataset_info_on_a_hub(self):
        few = self.preprocess("few")
        info = (self.folder / "data/dataset_info.json").read_bytes()
        self.hub.add("dataset", "org/infos", {"dataset_info.json": info})
        self.assertEqual(self.preprocess("held", "dataset_dir=REMOTE:org/infos"), few)
        # Without dataset_info.json, a data set is named by its repository and has default settings.
        rows = [{"instruction": "Say.", "output": "Said."}]
        self.hub.add("dataset", "org/plain", {"rows.json": json.dumps(rows).encode()})
        self.write("data/plain.json", json.dumps(rows))
        self.write("data/dataset_info.json", '{"plain": {"file_name": "plain.json"}}')
        self.assertEqual(
            self.preprocess("org/plain", "dataset_dir=ONLINE"), self.preprocess("plain")
        )

    def test_what_is_refused(self):
        for name, words in (
            ("unsaid", ["it has several: expected 'subset', one of a, b"]),
            ("nosplit", ["no split 'dev'; there is test, train"]),
            ("program", ["it is a program (program.py)"]),
            ("missing", ["no data set 'org/no-talks' at"]),
            ("scope", ["'ms_hub_url'", "on the network"]),
        ):
            said = self.preprocess(name, code=2)
            self.assertEqual(len(said.splitlines()), 1, said)
            for word in [f"dataset_info.json: data set '{name}'", *words]:
                self.assertIn(word, said)

    def test_files_are_chosen_as_datasets_chooses_them(self):
        cases = json.loads((hub_case.GOLDEN / "hub/dataset_files.json").read_text())
        self.assertGreater(len(cases), 20)
        script = """
          local chooser = require "moonring.data.hub_files"
          local system = moonring.system
          local results = {}
          for name, case in pairs(system.json_decode(system.read "cases.json")) do
            local files = case.files
            table.sort(files)
            local yaml = case.card and case.card:match "^%-%-%-\\n(.-)\\n%-%-%-\\n"
            local ok, splits = pcall(chooser.splits, files, yaml and (system.yaml_decode(yaml)),
              case.subset, case.folder)
            local found = {}
            for split, chosen in pairs(ok and splits or {}) do
              if #chosen > 0 then found[split] = chosen end
            end
            results[name] = ok and next(found) and { splits = found } or { refused = true }
          end
          system.write("results.json", system.json_encode(results))
        """
        self.write("cases.json", json.dumps(cases))
        self.run_host("-e", script)
        results = json.loads((self.folder / "results.json").read_text())
        for name, case in cases.items():
            wanted = {"refused": True} if "error" in case else {"splits": case["splits"]}
            self.assertEqual(results[name], wanted, name)


if __name__ == "__main__":
    unittest.main()
