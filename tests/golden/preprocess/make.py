"""input_ids and labels as LLaMA-Factory 0.9.5 prepares them, through its own get_dataset.

    make.py [--oracle DIR]

Writes cases.json and golden/*.jsonl for data/ (our own rows), and digests.json for LLaMA-Factory's demo data (oracle data/, not in the repository).
"""
import argparse
import contextlib
import copy
import hashlib
import io
import json
import os
import shutil
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATES = ("default", "chatml", "smollm2")
MODES = {"": {}, "_prompt": {"train_on_prompt": True}, "_last": {"mask_history": True}}


def cases():
    for template in TEMPLATES:
        for cutoff_len in (16, 64, 2048):
            for suffix, keys in MODES.items():
                yield f"own_{template}_{cutoff_len}{suffix}", dict(dataset="own", template=template, cutoff_len=cutoff_len, **keys)
    yield "own_default_columns", dict(dataset="own_default", template="smollm2")
    yield "own_no_query", dict(dataset="own_no_query", template="chatml")
    yield "own_swapped", dict(dataset="own_swapped", template="default")
    yield "renamed", dict(dataset="renamed", template="smollm2")
    yield "renamed_last", dict(dataset="renamed", template="chatml", mask_history=True, cutoff_len=40)
    yield "long", dict(dataset="long", template="chatml")
    yield "long_prompt_100", dict(dataset="long", template="default", cutoff_len=100, train_on_prompt=True)
    yield "two_sets", dict(dataset="renamed,own", template="smollm2", cutoff_len=64)
    yield "max_samples", dict(dataset="own", template="chatml", max_samples=5)
    yield "max_samples_each", dict(dataset="own,renamed", template="chatml", max_samples=6)
    yield "default_system", dict(dataset="renamed", template="smollm2", default_system="Answer like a sailor.")
    for cutoff_len in (1, 2, 3, 8):
        yield f"own_tiny_{cutoff_len}", dict(dataset="own", template="chatml", cutoff_len=cutoff_len, max_samples=8)


def digest_cases():
    for dataset in ("alpaca_en_demo", "identity"):
        for template in TEMPLATES:
            for cutoff_len in (64, 512, 2048):
                yield f"{dataset}_{template}_{cutoff_len}", dict(dataset=dataset, template=template, cutoff_len=cutoff_len)
            yield f"{dataset}_{template}_64_prompt", dict(dataset=dataset, template=template, cutoff_len=64, train_on_prompt=True)


def prepare(model, dataset_dir, keys, scratch):
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.data.template import TEMPLATES as REGISTRY
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    config = dict(stage="sft", do_train=True, finetuning_type="full", model_name_or_path=model, dataset_dir=dataset_dir, output_dir=os.path.join(scratch, "out"),
                  overwrite_cache=True, use_cpu=True, report_to="none", disable_shuffling=True, preprocessing_num_workers=None, **keys)
    registered = copy.deepcopy(REGISTRY[keys["template"]])
    with contextlib.redirect_stdout(io.StringIO()):
        model_args, data_args, training_args, _, _ = get_train_args(config)
        module = load_tokenizer(model_args)
        template = get_template_and_fix_tokenizer(module["tokenizer"], data_args)
        dataset = get_dataset(template, model_args, data_args, training_args, stage="sft", **module)["train_dataset"]
    REGISTRY[keys["template"]] = registered  # default_system was written into the registered object
    return [{"input_ids": row["input_ids"], "labels": row["labels"]} for row in dataset]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")))
    args = parser.parse_args()
    scratch = tempfile.mkdtemp()
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_CACHE=os.path.join(scratch, "cache"), TOKENIZERS_PARALLELISM="false")
    model = os.path.join(args.oracle, "smollm2")

    os.makedirs(os.path.join(HERE, "golden"), exist_ok=True)
    index = []
    for name, keys in cases():
        rows = prepare(model, os.path.join(HERE, "data"), keys, scratch)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        with open(os.path.join(HERE, "golden", name + ".jsonl"), "w") as f:
            f.write(text)
        index.append({"name": name, "file": f"golden/{name}.jsonl", "config": keys, "examples": len(rows)})
        print(name, len(rows), len(text))
    with open(os.path.join(HERE, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in index) + "\n]\n")

    index = []
    for name, keys in digest_cases():
        rows = prepare(model, os.path.join(args.oracle, "data"), keys, scratch)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        index.append({"name": name, "config": keys, "examples": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest(),
                      "tokens": sum(len(r["input_ids"]) for r in rows), "targets": sum(sum(l != -100 for l in r["labels"]) for r in rows), "first": rows[0]["input_ids"]})
        print(name, len(rows), index[-1]["tokens"], index[-1]["sha256"])
    with open(os.path.join(HERE, "digests.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in index) + "\n]\n")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
