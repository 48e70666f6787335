"""Compares the model card of a run, README.md, with the one that Transformers writes.

    pip install transformers==4.57.6   # without torch
    moonring train c.yaml output_dir=OUTPUT_DIR ...
    python tests/peers/model_card_vs_transformers.py OUTPUT_DIR

Transformers' TrainingSummary gets what LLaMA-Factory's Trainer has: the keys of the run
(training_args.yaml) and log_history (trainer_state.json). Each field of its metadata, heading,
hyperparameter and row of results must be in ours, in the same order and with the same value
(numbers within 1e-4); the tag llama-factory and the versions of frameworks differ. Prints
what ours has in addition; exits with 1 if anything differs.
"""

import json
import pathlib
import re
import sys
import types

import yaml
from transformers.modelcard import TrainingSummary
from transformers.training_args import ParallelMode

# Defaults of the Trainer's keys that a card shows.
DEFAULTS = {
    "learning_rate": 5e-5,
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "seed": 42,
    "optim": "adamw_torch",
    "optim_args": None,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "lr_scheduler_type": "linear",
    "warmup_ratio": 0.0,
    "warmup_steps": 0,
    "max_steps": -1,
    "num_train_epochs": 3.0,
    "fp16": False,
    "label_smoothing_factor": 0.0,
}
TYPES = {"learning_rate": float, "adam_epsilon": float, "num_train_epochs": float}


def trainer_of(output, keys):
    args = {name: TYPES.get(name, lambda v: v)(keys.get(name, d)) for name, d in DEFAULTS.items()}
    args["train_batch_size"] = args["per_device_train_batch_size"]
    args["eval_batch_size"] = args["per_device_eval_batch_size"]
    args["lr_scheduler_type"] = types.SimpleNamespace(value=args["lr_scheduler_type"])
    args |= {"parallel_mode": ParallelMode.NOT_PARALLEL, "world_size": 1}
    args["output_dir"] = keys["output_dir"]
    state = json.loads((output / "trainer_state.json").read_text())
    history = list(state["log_history"])
    if not any("train_runtime" in line for line in history):
        history.append({"train_runtime": 1.0, "step": state["global_step"]})
    evaluated = output / "eval_results.json"  # after the training, which the Trainer logs too
    if evaluated.exists():
        history.append({**json.loads(evaluated.read_text()), "step": state["global_step"]})
    model = types.SimpleNamespace(config=types.SimpleNamespace(_name_or_path=""))
    return types.SimpleNamespace(
        args=types.SimpleNamespace(**args),
        state=types.SimpleNamespace(log_history=history),
        model=model,
        eval_dataset=None,
        train_dataset=None,
        use_apex=False,
    )


def parts_of(card):
    """The metadata, the headings, the hyperparameters and the rows of the results."""
    _, front, body = card.split("---\n", 2)
    hyperparameters = body.split("### Training hyperparameters", 1)[1].split("\n#", 1)[0]
    table = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in re.findall(r"^\|.*$", body, re.MULTILINE)
        if ":-" not in line
    ]
    results = re.findall(r"^- ([A-Z][\w ./]*): ([\d.]+)$", body.split("## Model")[0], re.M)
    return {
        "metadata": yaml.safe_load(front),
        "headings": re.findall(r"^#.*$", body, re.MULTILINE),
        "hyperparameters": re.findall(r"^- (\w+): (.*)$", hyperparameters, re.MULTILINE),
        # By their names: the Trainer has the order of the log, ours the loss first.
        "rows": [sorted(zip(table[0], row)) for row in table[1:]],
        "results": sorted(results),
    }


def same(theirs, ours):
    try:
        return abs(float(theirs) - float(ours)) <= 1e-4
    except ValueError:
        return theirs == ours


def is_within(theirs, ours):
    """Whether the entries of a list are in the other one, in this order."""
    rest = iter(ours)
    return all(any(same_entry(each, other) for other in rest) for each in theirs)


def same_entry(theirs, ours):
    if isinstance(theirs, (list, tuple)):
        return len(theirs) == len(ours) and all(map(same_entry, theirs, ours))
    return same(theirs, ours)


def main():
    output = pathlib.Path(sys.argv[1])
    keys = yaml.safe_load((output / "training_args.yaml").read_text())
    dataset = keys["dataset"]
    theirs = TrainingSummary.from_trainer(
        trainer_of(output, keys),
        license="other",
        tasks="text-generation",
        finetuned_from=keys["model_name_or_path"],
        tags=[keys["finetuning_type"]],
        dataset=dataset if isinstance(dataset, list) else dataset.split(","),
    ).to_model_card()
    theirs, ours = parts_of(theirs), parts_of((output / "README.md").read_text())
    wrong = 0
    metadata, own = theirs.pop("metadata"), ours.pop("metadata")
    for key, value in metadata.items():
        is_same = set(value) <= set(own.get(key, [])) if key == "tags" else own.get(key) == value
        if key == "library_name" and own[key] == "peft":
            is_same = True  # Transformers leaves that to PEFT
        if not is_same:
            wrong += 1
            print(f"metadata {key}: {value}, ours {own.get(key)}")
    for part, entries in theirs.items():
        if not is_within(entries, ours[part]):
            wrong += 1
            print(f"{part}: {entries}\n  ours: {ours[part]}")
        more = [each for each in ours[part] if not any(same_entry(e, each) for e in entries)]
        print(f"{part}: {len(entries)} compared; ours has in addition {more}")
    print("metadata in addition:", {k: v for k, v in own.items() if k not in metadata}, own["tags"])
    sys.exit(1 if wrong else 0)


main()
