"""Folders that LLaMA-Factory 0.9.5 writes for tokenized_path from the rows of ../preprocess/data,
one for each kind of example.

    make.py [--oracle DIR]
"""

import argparse
import contextlib
import copy
import glob
import io
import json
import os
import shutil
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {
    "sft": dict(dataset="own", template="chatml", cutoff_len=64, val_size=5),
    "rows": dict(dataset="own", template="chatml", cutoff_len=128, packing=True),
    "neat_rows": dict(dataset="chats", template="smollm2", cutoff_len=100, neat_packing=True),
    "pt": dict(stage="pt", dataset="texts", template="default", cutoff_len=32),
    "dpo": dict(stage="dpo", dataset="pairs", template="chatml", cutoff_len=60),
    "kto": dict(stage="kto", dataset="judged", template="chatml", cutoff_len=60),
    "each": dict(
        dataset="own",
        eval_dataset="renamed,chats",
        eval_on_each_dataset=True,
        template="chatml",
        cutoff_len=64,
    ),
}


def add_lengths():
    """Writes lengths/: the rows of sft, each with a length that is not its number of tokens."""
    from datasets import DatasetDict, load_from_disk

    rows = load_from_disk(os.path.join(HERE, "sft"))["train"]
    rows = rows.add_column("length", [7 * i % 11 + 1 for i in range(len(rows))])
    folder = os.path.join(HERE, "lengths")
    shutil.rmtree(folder, ignore_errors=True)
    DatasetDict({"train": rows}).save_to_disk(folder)
    info = os.path.join(folder, "train", "dataset_info.json")
    features = json.load(open(info))["features"]
    with open(info, "w") as f:
        json.dump({"features": features}, f)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    oracle = parser.parse_args().oracle
    scratch = tempfile.mkdtemp()
    os.environ.update(
        HF_HUB_OFFLINE="1",
        HF_DATASETS_CACHE=os.path.join(scratch, "cache"),
        TOKENIZERS_PARALLELISM="false",
    )
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.data.template import TEMPLATES as REGISTRY
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    for name, keys in CASES.items():
        folder = os.path.join(HERE, name)
        shutil.rmtree(folder, ignore_errors=True)
        config = dict(
            stage="sft",
            do_train=True,
            finetuning_type="full",
            model_name_or_path=os.path.join(oracle, "smollm2"),
            output_dir=os.path.join(scratch, "out"),
            dataset_dir=os.path.join(HERE, "..", "preprocess", "data"),
            overwrite_cache=True,
            use_cpu=True,
            report_to="none",
            tokenized_path=folder,
        )
        config.update(keys)
        registered = copy.deepcopy(REGISTRY[keys["template"]])
        with contextlib.redirect_stdout(io.StringIO()):
            model_args, data_args, training_args, _, _ = get_train_args(config)
            module = load_tokenizer(model_args)
            template = get_template_and_fix_tokenizer(module["tokenizer"], data_args)
            get_dataset(
                template,
                model_args,
                data_args,
                training_args,
                stage="rm" if config["stage"] == "dpo" else config["stage"],
                **module,
            )
        REGISTRY[keys["template"]] = registered
        for info in glob.glob(
            os.path.join(folder, "*", "dataset_info.json")
        ):  # which says where the files lay, and nothing else that is read
            said = json.load(open(info))
            with open(info, "w") as f:
                json.dump({"features": said["features"]}, f)
    add_lengths()
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
