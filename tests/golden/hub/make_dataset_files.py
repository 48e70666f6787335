"""Writes dataset_files.json: the files that the datasets library (4.0.0) selects as splits in
repositories of plain files.

    ~/.cache/moonring-oracle/venv/bin/python tests/golden/hub/make_dataset_files.py
"""

import json
import os
import pathlib
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import datasets

HERE = pathlib.Path(__file__).parent

TWO_CONFIGS = """---
license: mit
configs:
- config_name: small
  data_files:
  - split: train
    path: small/*.jsonl
  - split: test
    path:
    - small_test/a.jsonl
    - small_test/b.jsonl
- config_name: large
  default: true
  data_files: "large/**"
---
# A card
"""

CASES = {
    "one file": {"files": ["data.jsonl", "README.md", ".gitattributes"]},
    "a csv": {"files": ["rows.csv"]},
    "all of one kind": {"files": ["b.json", "a.json", "sub/c.json"]},
    "most frequent kind": {"files": ["a.json", "b.csv", "c.csv", "notes.txt"]},
    "a draw": {"files": ["a.json", "b.parquet"]},
    "a draw of json": {"files": ["a.json", "b.csv", "c.jsonl"]},
    "a draw without favour": {"files": ["a.arrow", "b.txt"]},
    "shards": {
        "files": [
            "data/train-00000-of-00002.parquet",
            "data/train-00001-of-00002.parquet",
            "data/test-00000-of-00001.parquet",
            "data/test_sft-00000-of-00001-a1b2c3.parquet",
            "other/train.json",
        ]
    },
    "names": {"files": ["train.json", "dev.json", "my-test.json", "eval_2.json", "other.json"]},
    "names with words": {"files": ["training_0.jsonl", "x.train.jsonl", "validation.jsonl"]},
    "a name that only begins so": {"files": ["trainer.json", "tests.json"]},
    "twice in a name": {"files": ["train_train.json", "b_training-train.json"]},
    "folders": {"files": ["train/a.json", "train/b.json", "valid/a.json", "extra.json"]},
    "folders below": {"files": ["x/my_train/a/b.json", "x/test-1/c.json", "train.json"]},
    "hidden": {"files": ["a.json", ".b.json", "__c/d.json", ".e/f.json", "__g.json"]},
    "ignored": {"files": ["config.json", "dataset_dict.json", "a.json"]},
    "compressed": {"files": ["train.json.gz", "test.json.gz"]},
    "images beside": {"files": ["data/train-00000-of-00001.parquet", "images/train.png"]},
    "a card": {
        "files": [
            "small/1.jsonl",
            "small/2.jsonl",
            "small_test/b.jsonl",
            "small_test/a.jsonl",
            "large/x/1.jsonl",
            "large/2.jsonl",
        ],
        "card": TWO_CONFIGS,
    },
    "a card, a subset": {
        "files": [
            "small/1.jsonl",
            "small/2.jsonl",
            "small_test/b.jsonl",
            "small_test/a.jsonl",
            "large/2.jsonl",
        ],
        "card": TWO_CONFIGS,
        "subset": "small",
    },
    "a card without configs": {"files": ["a.json"], "card": "---\nlicense: mit\n---\n"},
    "a card with a data_dir": {
        "files": ["v2/train.json", "v2/test.json", "v1/train.json"],
        "card": "---\nconfigs:\n- config_name: default\n  data_dir: v2\n---\n",
    },
    "a card with a list": {
        "files": ["a/1.json", "b/2.json", "c/3.json"],
        "card": "---\nconfigs:\n- config_name: x\n  data_files:\n  - a/*\n  - b/?.json\n---\n",
    },
    "a card with a class": {
        "files": ["f1.json", "f2.json", "f3.json"],
        "card": "---\nconfigs:\n- config_name: x\n  data_files: 'f[12].json'\n---\n",
    },
    "a folder": {
        "files": ["train.json", "deep/er/train-1.json", "deep/er/test.json", "deep/er/x/a.json"],
        "folder": "deep/er",
    },
    "several configs, none for all": {
        "files": ["a.json", "b.json"],
        "card": "---\nconfigs:\n- config_name: x\n  data_files: a.json\n- config_name: y\n"
        "  data_files: b.json\n---\n",
    },
    "no such subset": {
        "files": ["a.json"],
        "card": "---\nconfigs:\n- config_name: x\n  data_files: a.json\n---\n",
        "subset": "y",
    },
    "nothing": {"files": ["notes.md", "model.bin"]},
}


def splits(case: dict, folder: pathlib.Path) -> dict:
    for name in case["files"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    if "card" in case:
        (folder / "README.md").write_text(case["card"])
    builder = datasets.load_dataset_builder(
        str(folder), name=case.get("subset"), data_dir=case.get("folder")
    )
    prefix = str(folder.resolve()) + "/"
    return {
        str(split): [os.path.abspath(str(file)).removeprefix(prefix) for file in files]
        for split, files in builder.config.data_files.items()
    }


def main() -> None:
    recorded = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = {"splits": splits(case, pathlib.Path(folder).resolve())}
            except Exception as error:  # rejected by the library
                said = {"error": type(error).__name__}
        recorded[name] = {**case, **said}
        print(name, said)
    path = HERE / "dataset_files.json"
    path.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


main()
