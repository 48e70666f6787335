"""input_ids and labels as LLaMA-Factory 0.9.5 prepares them by its own get_dataset.

    make.py [--oracle DIR] [--only PART_OF_NAME]

Writes cases.json, added.json (with tokens that the vocabulary lacks) and golden/*.jsonl for data/
(our own rows), and digests.json for LLaMA-Factory's demo data (data/ of the oracle, not in the
repository). With --only the other entries stay unchanged.
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
                yield (
                    f"own_{template}_{cutoff_len}{suffix}",
                    dict(dataset="own", template=template, cutoff_len=cutoff_len, **keys),
                )
    yield "own_default_columns", dict(dataset="own_default", template="smollm2")
    yield "own_no_query", dict(dataset="own_no_query", template="chatml")
    yield "own_swapped", dict(dataset="own_swapped", template="default")
    yield "renamed", dict(dataset="renamed", template="smollm2")
    yield (
        "renamed_last",
        dict(dataset="renamed", template="chatml", mask_history=True, cutoff_len=40),
    )
    yield "long", dict(dataset="long", template="chatml")
    yield (
        "long_prompt_100",
        dict(dataset="long", template="default", cutoff_len=100, train_on_prompt=True),
    )
    yield "two_sets", dict(dataset="renamed,own", template="smollm2", cutoff_len=64)
    yield "max_samples", dict(dataset="own", template="chatml", max_samples=5)
    yield "max_samples_each", dict(dataset="own,renamed", template="chatml", max_samples=6)
    yield (
        "default_system",
        dict(dataset="renamed", template="smollm2", default_system="Answer like a sailor."),
    )
    for cutoff_len in (1, 2, 3, 8):
        yield (
            f"own_tiny_{cutoff_len}",
            dict(dataset="own", template="chatml", cutoff_len=cutoff_len, max_samples=8),
        )
    # Conversations in the sharegpt and openai formats.
    for template in TEMPLATES:
        yield f"chats_{template}", dict(dataset="chats", template=template)
    yield "chats_40", dict(dataset="chats", template="chatml", cutoff_len=40)
    yield (
        "chats_40_last",
        dict(dataset="chats", template="smollm2", cutoff_len=40, mask_history=True),
    )
    yield (
        "chats_default_prompt",
        dict(dataset="chats_default", template="chatml", train_on_prompt=True),
    )
    yield "messages", dict(dataset="messages", template="smollm2")
    yield "messages_openai", dict(dataset="messages_openai", template="smollm2")
    yield (
        "messages_openai_default_system",
        dict(dataset="messages_openai", template="chatml", default_system="Never used."),
    )
    yield (
        "three_formats",
        dict(dataset="chats,own,messages_openai", template="chatml", cutoff_len=64),
    )
    # Pairs and judged answers. Batches of 5 and 4 rows pair prompts with other mismatched answers
    # than one batch of 1000.
    for stage in ("dpo", "rm"):
        yield f"pairs_{stage}", dict(stage=stage, dataset="pairs", template="chatml")
    for cutoff_len in (8, 24, 60):
        yield (
            f"pairs_{cutoff_len}",
            dict(stage="dpo", dataset="pairs", template="smollm2", cutoff_len=cutoff_len),
        )
    yield "pairs_openai", dict(stage="dpo", dataset="pairs_openai", template="default")
    yield "pairs_alpaca", dict(stage="dpo", dataset="pairs_alpaca", template="smollm2")
    yield (
        "pairs_two_sets",
        dict(stage="dpo", dataset="pairs_alpaca,pairs", template="chatml", cutoff_len=32),
    )
    yield "judged", dict(stage="kto", dataset="judged", template="chatml")
    yield "judged_40", dict(stage="kto", dataset="judged", template="smollm2", cutoff_len=40)
    yield (
        "judged_batches",
        dict(stage="kto", dataset="judged", template="default", preprocessing_batch_size=5),
    )
    yield "judged_openai", dict(stage="kto", dataset="judged_openai", template="smollm2")
    yield "judged_alpaca", dict(stage="kto", dataset="judged_alpaca", template="chatml")
    yield (
        "judged_two_sets",
        dict(
            stage="kto",
            dataset="judged_alpaca,judged",
            template="chatml",
            cutoff_len=24,
            preprocessing_batch_size=4,
        ),
    )
    # Texts.
    yield "texts_16", dict(stage="pt", dataset="texts", template="default", cutoff_len=16)
    yield (
        "texts_100_batches",
        dict(
            stage="pt",
            dataset="texts",
            template="chatml",
            cutoff_len=100,
            preprocessing_batch_size=7,
        ),
    )
    yield (
        "texts_12_apart",
        dict(stage="pt", dataset="texts", template="default", cutoff_len=12, packing=False),
    )
    yield (
        "texts_of_instructions",
        dict(stage="pt", dataset="own", template="default", cutoff_len=32),
    )
    # Rows of several conversations.
    for name, keys in (("packing", {"packing": True}), ("neat_packing", {"neat_packing": True})):
        yield f"own_rows_{name}", dict(dataset="own", template="chatml", cutoff_len=128, **keys)
        yield (
            f"chats_rows_{name}_prompt",
            dict(dataset="chats", template="smollm2", cutoff_len=100, train_on_prompt=True, **keys),
        )
    yield (
        "own_rows_last",
        dict(
            dataset="own,renamed",
            template="default",
            cutoff_len=40,
            mask_history=True,
            packing=True,
        ),
    )
    yield (
        "own_rows_batches",
        dict(
            dataset="own",
            template="smollm2",
            cutoff_len=64,
            neat_packing=True,
            preprocessing_batch_size=4,
        ),
    )
    yield (
        "chats_rows_held_out",
        dict(
            dataset="chats",
            template="chatml",
            cutoff_len=256,
            neat_packing=True,
            val_size=4,
            seed=7,
        ),
    )
    # Rows that are held out for evaluation.
    yield (
        "own_held_out_quarter",
        dict(dataset="own", template="chatml", cutoff_len=64, val_size=0.25),
    )
    yield "chats_held_out_4", dict(dataset="chats", template="chatml", val_size=4, seed=7)
    yield (
        "pairs_held_out",
        dict(stage="dpo", dataset="pairs,pairs_alpaca", template="chatml", val_size=0.3, seed=1),
    )
    yield (
        "judged_held_out",
        dict(
            stage="kto",
            dataset="judged",
            template="chatml",
            val_size=3,
            seed=3,
            preprocessing_batch_size=4,
        ),
    )
    yield (
        "texts_held_out",
        dict(stage="pt", dataset="texts", template="default", cutoff_len=20, val_size=0.3, seed=5),
    )
    yield (
        "chats_evaluated_on_messages",
        dict(dataset="chats", eval_dataset="messages", template="chatml"),
    )
    # Other file types (make_files.py), sampled rows, and mixed data sets.
    yield "file_csv", dict(stage="kto", dataset="csv", template="chatml")
    yield "file_csv_plain", dict(dataset="csv_plain", template="chatml")
    yield "file_txt", dict(stage="pt", dataset="txt", template="default", cutoff_len=32)
    yield "file_gzip", dict(dataset="gzip", template="chatml", cutoff_len=100)
    yield "file_parquet", dict(dataset="parquet", template="smollm2")
    yield "file_arrow", dict(dataset="arrow", template="chatml")
    yield "drawn_few", dict(dataset="few", template="chatml")
    yield (
        "drawn_many_then_few",
        dict(dataset="many,few", template="chatml", cutoff_len=64, max_samples=35, seed=7),
    )
    yield (
        "mix_under",
        dict(
            dataset="own,renamed", template="chatml", cutoff_len=64, mix_strategy="interleave_under"
        ),
    )
    yield (
        "mix_over",
        dict(
            dataset="renamed,own,long",
            template="chatml",
            cutoff_len=40,
            mix_strategy="interleave_over",
        ),
    )
    yield (
        "mix_under_probs",
        dict(
            dataset="own,renamed,chats",
            template="chatml",
            cutoff_len=64,
            mix_strategy="interleave_under",
            interleave_probs="0.5,0.2,0.3",
            seed=3,
        ),
    )
    yield (
        "mix_over_probs",
        dict(
            dataset="few,renamed",
            template="chatml",
            cutoff_len=64,
            mix_strategy="interleave_over",
            interleave_probs="0.3,0.7",
            max_samples=9,
        ),
    )
    yield (
        "mix_judged",
        dict(
            stage="kto",
            dataset="judged,judged_alpaca",
            template="chatml",
            mix_strategy="interleave_over",
            preprocessing_batch_size=5,
        ),
    )
    yield (
        "mix_held_out",
        dict(
            dataset="own,renamed",
            template="chatml",
            cutoff_len=64,
            mix_strategy="interleave_under",
            val_size=0.2,
            seed=5,
        ),
    )


def added_cases():
    """Cases with tokens that SmolLM2's vocabulary lacks: the template's, or those of keys; some are
    words in the data."""
    words = dict(add_tokens="the, and ,the", add_special_tokens="You are,<|im_end|>")
    for name, template in (
        ("llama3", "llama3"),
        ("gemma", "gemma"),
        ("qwen", "qwen"),
        ("phi", "phi"),
    ):
        yield (
            f"added_{name}",
            dict(dataset="own,chats", template=template, cutoff_len=64, max_samples=6),
        )
    yield (
        "added_tokens",
        dict(dataset="own,chats", template="chatml", cutoff_len=64, max_samples=8, **words),
    )
    yield (
        "added_tokens_llama3",
        dict(dataset="own,chats", template="llama3", cutoff_len=64, max_samples=8, **words),
    )
    yield (
        "added_split",
        dict(
            dataset="own,chats",
            template="chatml",
            cutoff_len=96,
            max_samples=6,
            split_special_tokens=True,
            **words,
        ),
    )
    yield (
        "added_split_llama3",
        dict(
            dataset="own",
            template="llama3",
            cutoff_len=96,
            max_samples=6,
            split_special_tokens=True,
        ),
    )
    yield (
        "added_pairs",
        dict(
            stage="dpo", dataset="pairs", template="llama3", cutoff_len=64, max_samples=6, **words
        ),
    )
    yield (
        "added_judged",
        dict(
            stage="kto", dataset="judged", template="gemma", cutoff_len=64, max_samples=6, **words
        ),
    )
    yield (
        "added_texts",
        dict(
            stage="pt",
            dataset="texts",
            template="llama3",
            cutoff_len=32,
            max_samples=10,
            add_special_tokens="the",
        ),
    )
    yield (
        "added_texts_apart",
        dict(
            stage="pt",
            dataset="texts",
            template="gemma",
            cutoff_len=32,
            max_samples=6,
            packing=False,
        ),
    )


def digest_cases():
    for dataset in ("alpaca_en_demo", "identity"):
        for template in TEMPLATES:
            for cutoff_len in (64, 512, 2048):
                yield (
                    f"{dataset}_{template}_{cutoff_len}",
                    dict(dataset=dataset, template=template, cutoff_len=cutoff_len),
                )
            yield (
                f"{dataset}_{template}_64_prompt",
                dict(dataset=dataset, template=template, cutoff_len=64, train_on_prompt=True),
            )
    for template in ("chatml", "smollm2"):
        for cutoff_len in (128, 1024):
            yield (
                f"dpo_en_demo_{template}_{cutoff_len}",
                dict(stage="dpo", dataset="dpo_en_demo", template=template, cutoff_len=cutoff_len),
            )
            yield (
                f"kto_en_demo_{template}_{cutoff_len}",
                dict(stage="kto", dataset="kto_en_demo", template=template, cutoff_len=cutoff_len),
            )
    for cutoff_len in (300, 2048):
        yield (
            f"alpaca_en_demo_rows_{cutoff_len}",
            dict(
                dataset="identity,alpaca_en_demo",
                template="chatml",
                cutoff_len=cutoff_len,
                packing=True,
            ),
        )
        yield (
            f"alpaca_en_demo_neat_rows_{cutoff_len}",
            dict(
                dataset="alpaca_en_demo",
                template="smollm2",
                cutoff_len=cutoff_len,
                neat_packing=True,
            ),
        )
    yield "c4_demo_512", dict(stage="pt", dataset="c4_demo", template="default", cutoff_len=512)
    yield (
        "c4_demo_128_apart",
        dict(stage="pt", dataset="c4_demo", template="default", cutoff_len=128, packing=False),
    )
    yield (
        "kto_en_demo_held_out",
        dict(stage="kto", dataset="kto_en_demo", template="chatml", cutoff_len=512, val_size=0.1),
    )
    yield (
        "c4_demo_held_out",
        dict(stage="pt", dataset="c4_demo", template="default", cutoff_len=512, val_size=20),
    )


def fields(row, stage, collate, neat):
    """The fields that `moonring preprocess` writes for a row. In stage pt the collator makes the
    labels."""
    if stage == "pt":
        return {
            "input_ids": row["input_ids"],
            "labels": collate([{"input_ids": row["input_ids"]}])["labels"][0].tolist(),
        }
    if stage in ("dpo", "rm"):
        return {
            key: row[key]
            for key in (
                "chosen_input_ids",
                "chosen_labels",
                "rejected_input_ids",
                "rejected_labels",
            )
        }
    if stage == "kto":
        return {
            **{key: row[key] for key in ("input_ids", "labels", "kl_input_ids", "kl_labels")},
            "kto_tag": row["kto_tags"],
        }
    return {key: row[key] for key in ("input_ids", "labels") + (("position_ids",) if neat else ())}


def prepare(model, dataset_dir, keys, scratch):
    """Returns (rows for training, rows for evaluation or None)."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.data.template import TEMPLATES as REGISTRY
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer
    from transformers import DataCollatorForLanguageModeling

    config = dict(
        stage="sft",
        do_train=True,
        finetuning_type="full",
        model_name_or_path=model,
        dataset_dir=dataset_dir,
        output_dir=os.path.join(scratch, "out"),
        overwrite_cache=True,
        use_cpu=True,
        report_to="none",
        disable_shuffling=True,
        preprocessing_num_workers=None,
    )
    config.update(keys)
    stage = config["stage"]
    registered = copy.deepcopy(REGISTRY[keys["template"]])
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            model_args, data_args, training_args, _, _ = get_train_args(config)
            module = load_tokenizer(model_args)
            template = get_template_and_fix_tokenizer(module["tokenizer"], data_args)
            # Called as LLaMA-Factory's workflows do: dpo requests the data of rm.
            datasets = get_dataset(
                template,
                model_args,
                data_args,
                training_args,
                stage="rm" if stage == "dpo" else stage,
                **module,
            )
    finally:
        REGISTRY[keys["template"]] = (
            registered  # default_system was written into the registered object
        )
    collate = DataCollatorForLanguageModeling(tokenizer=module["tokenizer"], mlm=False)
    parts = [datasets.get(part) for part in ("train_dataset", "eval_dataset")]
    return [
        part and [fields(row, stage, collate, data_args.neat_packing) for row in part]
        for part in parts
    ]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def summary(rows, prefix=""):
    """Returns a digest: the sha256 of the lines, the numbers of tokens and of trained labels (kto:
    without kl_), and the ids of the first row."""
    counted = lambda row, ending: [
        row[key] for key in row if key.endswith(ending) and not key.startswith("kl_")
    ]
    return {
        prefix + "examples": len(rows),
        prefix + "sha256": hashlib.sha256(lines(rows).encode()).hexdigest(),
        prefix + "tokens": sum(len(ids) for row in rows for ids in counted(row, "input_ids")),
        prefix + "targets": sum(
            label != -100 for row in rows for labels in counted(row, "labels") for label in labels
        ),
        prefix + "first": counted(rows[0], "input_ids")[0],
    }


def golden_case(model, name, keys, scratch):
    rows, held_out = prepare(model, os.path.join(HERE, "data"), keys, scratch)
    entry = {"name": name, "file": f"golden/{name}.jsonl", "config": keys, "examples": len(rows)}
    with open(os.path.join(HERE, entry["file"]), "w") as f:
        f.write(lines(rows))
    if held_out:
        entry.update({"eval_file": f"golden/{name}.eval.jsonl", "eval_examples": len(held_out)})
        with open(os.path.join(HERE, entry["eval_file"]), "w") as f:
            f.write(lines(held_out))
    return entry


def digest_case(model, oracle, name, keys, scratch):
    rows, held_out = prepare(model, os.path.join(oracle, "data"), keys, scratch)
    return {
        "name": name,
        "config": keys,
        **summary(rows),
        **(summary(held_out, "eval_") if held_out else {}),
    }


def write_index(file, wanted, only, make):
    path = os.path.join(HERE, file)
    before = (
        {entry["name"]: entry for entry in json.load(open(path))}
        if only and os.path.exists(path)
        else {}
    )
    index = []
    for name, keys in wanted:
        if only in name or name not in before:
            before[name] = make(name, keys)
            print(name, before[name]["examples"], flush=True)
        index.append(before[name])
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(entry) for entry in index) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    scratch = tempfile.mkdtemp()
    os.environ.update(
        HF_HUB_OFFLINE="1",
        HF_DATASETS_CACHE=os.path.join(scratch, "cache"),
        TOKENIZERS_PARALLELISM="false",
    )
    model = os.path.join(args.oracle, "smollm2")
    os.makedirs(os.path.join(HERE, "golden"), exist_ok=True)
    write_index(
        "cases.json", cases(), args.only, lambda name, keys: golden_case(model, name, keys, scratch)
    )
    write_index(
        "added.json",
        added_cases(),
        args.only,
        lambda name, keys: golden_case(model, name, keys, scratch),
    )
    write_index(
        "digests.json",
        digest_cases(),
        args.only,
        lambda name, keys: digest_case(model, args.oracle, name, keys, scratch),
    )
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
