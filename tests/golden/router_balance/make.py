"""DPO and KTO of a mixture of experts with the routers' load-balancing loss, by TRL 0.24's own
trainers (output_router_logits, router_aux_loss_coef): loss, gradients and gradient norm of one
step, in fp64.

    make.py        writes dpo.json, kto.json (gradients as ../sketch.py keeps them), with the Python
                   of the oracle's venv

LLaMA-Factory 0.9.5 sets both fields of the config but then omits the loss in dpo and kto. The
values here are what its parent classes (trl.DPOTrainer, trl.KTOTrainer) compute from the batches
that LLaMA-Factory makes: model_moe of ../stages, pairs and judged answers, two examples per
micro-batch and two micro-batches per step, over which the Trainer averages.
"""

import copy
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
STAGES = HERE.parent / "stages"
COEFFICIENT, BETA, ROWS, MICROS = 0.3, 0.1, 2, 2


def rows_of(stage, dataset):
    """The first examples, as LLaMA-Factory's preprocessing makes them."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    keys = json.load(open(STAGES / "cases.json"))["base"] | {
        "stage": stage,
        "dataset": dataset,
        "model_name_or_path": str(STAGES / "model_moe"),
        "dataset_dir": str(STAGES / "data"),
        "output_dir": tempfile.mkdtemp(),
    }
    model, data, training, *_ = get_train_args(keys)
    module = load_tokenizer(model)
    template = get_template_and_fix_tokenizer(module["tokenizer"], data)
    found = get_dataset(template, model, data, training, "rm" if stage == "dpo" else stage, **module)
    return [found["train_dataset"][i] for i in range(ROWS * MICROS)], module["tokenizer"]


def padded(lists, value, left=False):
    import torch

    width = max(map(len, lists))
    rows = [[value] * (width - len(x)) + x if left else x + [value] * (width - len(x)) for x in lists]
    return torch.tensor(rows)


def mask(lists, left=False):
    return padded([[1] * len(x) for x in lists], 0, left)


def pair_batch(rows, pad):
    """The batch that TRL's collator makes: prompts padded on the left, completions on the right."""
    cut = [sum(label == -100 for label in row["chosen_labels"]) for row in rows]
    prompts = [row["chosen_input_ids"][:n] for row, n in zip(rows, cut)]
    batch = {
        "prompt_input_ids": padded(prompts, pad, left=True),
        "prompt_attention_mask": mask(prompts, left=True),
    }
    for side in ("chosen", "rejected"):
        answers = [row[f"{side}_input_ids"][n:] for row, n in zip(rows, cut)]
        for row, prompt, n in zip(rows, prompts, cut):
            assert row[f"{side}_input_ids"][:n] == prompt
            assert row[f"{side}_labels"] == [-100] * n + row[f"{side}_input_ids"][n:]
        batch[f"{side}_input_ids"], batch[f"{side}_attention_mask"] = (
            padded(answers, pad),
            mask(answers),
        )
    return batch


def judged_batch(rows, pad):
    batch = {"label": [bool(row["kto_tags"]) for row in rows]}
    for name, of in (("completion", ""), ("KL_completion", "kl_")):
        ids = [row[of + "input_ids"] for row in rows]
        batch[name + "_input_ids"], batch[name + "_attention_mask"] = padded(ids, pad), mask(ids)
        batch[name + "_labels"] = padded([row[of + "labels"] for row in rows], -100)
    return batch


def trainer_of(kind, model, tokenizer):
    import trl
    from datasets import Dataset

    rows = {"prompt": ["a"] * 2, "chosen": ["b"] * 2, "rejected": ["c"] * 2}
    if kind == "kto":
        rows = {"prompt": ["a"] * 2, "completion": ["b", "c"], "label": [True, False]}
    config = getattr(trl, f"{kind.upper()}Config")(
        output_dir=tempfile.mkdtemp(),
        beta=BETA,
        per_device_train_batch_size=ROWS,
        use_cpu=True,
        report_to="none",
        disable_dropout=True,
    )
    return getattr(trl, f"{kind.upper()}Trainer")(
        model=model,
        ref_model=copy.deepcopy(model),
        args=config,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict(rows),
    )


def main():
    import torch
    import sketch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(2)
    for kind, dataset, batch_of in (("dpo", "pairs", pair_batch), ("kto", "judged", judged_batch)):
        rows, tokenizer = rows_of(kind, dataset)
        model = AutoModelForCausalLM.from_pretrained(STAGES / "model_moe", dtype=torch.float64)
        model.config.output_router_logits = True
        model.config.router_aux_loss_coef = model.router_aux_loss_coef = COEFFICIENT
        trainer = trainer_of(kind, model, tokenizer)
        model = trainer.model.double()
        trainer.ref_model.double()
        numbers = {"coefficient": COEFFICIENT, "beta": BETA, "rows": ROWS, "loss": 0.0}
        for first in range(0, ROWS * MICROS, ROWS):
            batch = batch_of(rows[first : first + ROWS], tokenizer.pad_token_id)
            loss, _ = trainer.get_batch_loss_metrics(model, batch)
            (loss / MICROS).backward()
            numbers["loss"] += loss.item() / MICROS
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        numbers["grad_norm"] = sum(g.square().sum() for g in gradients.values()).sqrt().item()
        print(kind, numbers)
        numbers["gradients"] = {n: sketch.sketch(n, g) for n, g in gradients.items()}
        (HERE / f"{kind}.json").write_text(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")
    sys.exit(main())
