"""Orders of streams: those of datasets' own iterable data sets (orders.json), and what
LLaMA-Factory 0.9.5 trains on with streaming: true (streams.json).

    make.py [--oracle DIR]

orders.json: for each case the rows [data set, row] of a pass, for each epoch and each process that
loads data (dataloader_num_workers), before batches are made. streams.json: the batches of a pass,
by LLaMA-Factory's get_dataset, torch's DataLoader and set_epoch, and the held-out examples. Each
example is the index of its line, as `moonring preprocess` writes it, in "lines". Rows are those of
../preprocess/data.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STRATEGIES = {"interleave_under": "first_exhausted", "interleave_over": "all_exhausted"}
ORDERS = [
    dict(rows=[10], buffer=4),
    dict(rows=[10], buffer=1),
    dict(rows=[7], buffer=100, seed=0),
    dict(rows=[3000], buffer=64, seed=7, epochs=2),  # more than one block of a thousand draws
    dict(rows=[5, 4, 6], buffer=3, epochs=4),
    dict(rows=[5, 4, 6], buffer=3, mix="interleave_under"),
    dict(rows=[5, 2, 3], buffer=5, mix="interleave_over", seed=3),
    dict(rows=[9, 5, 4], buffer=6, mix="interleave_under", probabilities=[0.5, 0.2, 0.3]),
    dict(rows=[9, 5], buffer=6, mix="interleave_over", probabilities=[0.8, 0.2], seed=1),
    dict(rows=[11, 7], buffer=4, workers=3),
    dict(rows=[11, 7], buffer=4, workers=2, skip=5),
    dict(
        rows=[12, 9], buffer=3, workers=2, mix="interleave_over", probabilities=[0.4, 0.6], skip=3
    ),
    dict(rows=[20], buffer=5, skip=6, epochs=4),
]
STREAMS = [
    dict(dataset="own", template="chatml", cutoff_len=64, buffer_size=5),
    dict(
        dataset="own,renamed",
        template="chatml",
        cutoff_len=64,
        buffer_size=4,
        per_device_train_batch_size=3,
        dataloader_num_workers=2,
    ),
    dict(
        dataset="own,renamed",
        template="chatml",
        cutoff_len=40,
        buffer_size=6,
        mix_strategy="interleave_over",
        interleave_probs="0.6,0.4",
        seed=3,
    ),
    dict(
        dataset="own",
        template="chatml",
        cutoff_len=128,
        buffer_size=8,
        packing=True,
        preprocessing_batch_size=7,
    ),
    dict(
        dataset="chats",
        template="smollm2",
        cutoff_len=100,
        buffer_size=3,
        neat_packing=True,
        preprocessing_batch_size=4,
        val_size=3,
    ),
    dict(
        stage="pt",
        dataset="texts",
        template="default",
        cutoff_len=32,
        buffer_size=4,
        preprocessing_batch_size=5,
        dataloader_num_workers=2,
        per_device_train_batch_size=4,
    ),
    dict(
        stage="kto",
        dataset="judged",
        template="chatml",
        buffer_size=6,
        preprocessing_batch_size=4,
        val_size=2,
    ),
    dict(
        stage="dpo",
        dataset="pairs,pairs_alpaca",
        template="chatml",
        cutoff_len=32,
        buffer_size=3,
        mix_strategy="interleave_under",
    ),
    dict(dataset="few", template="chatml", buffer_size=100),  # num_samples has no effect
    dict(
        dataset="renamed", eval_dataset="messages,chats", template="chatml", buffer_size=3, seed=11
    ),
]


def worker_orders(stream, workers):
    from torch.utils.data import DataLoader

    if workers == 1:
        return [[each["at"] for each in stream]]
    loader = DataLoader(
        stream,
        batch_size=None,
        num_workers=workers,
        collate_fn=lambda each: (get_worker(), each["at"]),
    )
    orders = [[] for _ in range(workers)]
    for worker, at in loader:
        orders[worker].append(at)
    return orders


def get_worker():
    from torch.utils.data import get_worker_info

    return get_worker_info().id


def order(case):
    from datasets import Dataset, concatenate_datasets, interleave_datasets

    workers, seed = case.get("workers", 1), case.get("seed", 42)
    sources = [
        Dataset.from_dict({"at": [[d, row] for row in range(n)]})
        .to_iterable_dataset(num_shards=workers)
        .map(lambda each: each)
        for d, n in enumerate(case["rows"])
    ]
    if len(sources) == 1:
        stream = sources[0]
    elif "mix" in case:
        stream = interleave_datasets(
            sources,
            probabilities=case.get("probabilities"),
            seed=seed,
            stopping_strategy=STRATEGIES[case["mix"]],
        )
    else:
        stream = concatenate_datasets(sources)
    stream = stream.shuffle(buffer_size=case["buffer"], seed=seed)
    held_out = stream.take(case["skip"]) if "skip" in case else None
    if "skip" in case:
        stream = stream.skip(case["skip"])
    orders = []
    for epoch in range(case.get("epochs", 3)):
        stream.set_epoch(epoch)
        orders.append(worker_orders(stream, workers))
    return {
        **case,
        "orders": orders,
        **({"held_out": worker_orders(held_out, workers)} if held_out is not None else {}),
    }


def preprocess_module():
    spec = importlib.util.spec_from_file_location(
        "preprocess", os.path.join(HERE, "..", "preprocess", "make.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stream(preprocess, model, keys, scratch):
    import copy

    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.data.template import TEMPLATES as REGISTRY
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer
    from torch.utils.data import DataLoader
    from transformers import DataCollatorForLanguageModeling

    config = dict(
        stage="sft",
        do_train=True,
        finetuning_type="full",
        model_name_or_path=model,
        dataset_dir=os.path.join(HERE, "..", "preprocess", "data"),
        output_dir=os.path.join(scratch, "out"),
        use_cpu=True,
        report_to="none",
        streaming=True,
        max_steps=9,
        per_device_train_batch_size=2,
        dataloader_num_workers=1,
    )
    config.update(keys)
    registered = copy.deepcopy(REGISTRY[keys["template"]])
    with contextlib.redirect_stdout(io.StringIO()):
        model_args, data_args, training_args, _, _ = get_train_args(config)
        module = load_tokenizer(model_args)
        template = get_template_and_fix_tokenizer(module["tokenizer"], data_args)
        datasets = get_dataset(
            template,
            model_args,
            data_args,
            training_args,
            stage="rm" if config["stage"] == "dpo" else config["stage"],
            **module,
        )
    REGISTRY[keys["template"]] = registered
    collate = DataCollatorForLanguageModeling(tokenizer=module["tokenizer"], mlm=False)
    lines = []

    def place(row):
        line = json.dumps(
            preprocess.fields(row, config["stage"], collate, config.get("neat_packing", False)),
            separators=(",", ":"),
        )
        if line not in lines:
            lines.append(line)
        return lines.index(line)

    def batches(dataset, size, workers):
        return [
            [place(row) for row in batch]
            for batch in DataLoader(dataset, batch_size=size, num_workers=workers, collate_fn=list)
        ]

    passes = []
    for epoch in range(3):
        datasets["train_dataset"].set_epoch(epoch)
        passes.append(
            batches(
                datasets["train_dataset"],
                config["per_device_train_batch_size"],
                config["dataloader_num_workers"],
            )
        )
    result = {"config": keys, "passes": passes}
    if datasets.get("eval_dataset") is not None:
        result["held_out"] = batches(datasets["eval_dataset"], 8, config["dataloader_num_workers"])
    return {**result, "lines": [json.loads(line) for line in lines]}


def write(name, cases):
    with open(os.path.join(HERE, name), "w") as f:
        f.write(
            "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    oracle = parser.parse_args().oracle
    write("orders.json", [order(case) for case in ORDERS])
    preprocess = preprocess_module()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HF_DATASETS_CACHE"] = os.path.join(scratch, "cache")
        write(
            "streams.json",
            [
                stream(preprocess, os.path.join(oracle, "smollm2"), keys, scratch)
                for keys in STREAMS
            ],
        )


if __name__ == "__main__":
    main()
