"""Writes peers.json: losses, metrics and gradients of LLaMA-Factory 0.9.5's and TRL 0.24's own
trainers on fixed random logits.

    $MOONRING_ORACLE/venv/bin/python tests/golden/objectives/make.py

The trainers' methods run on objects that were created without their constructors, and on models
that only return given logits. Everything is in fp64 except what the trainers themselves cast to
fp32 (BCO's running mean, DFT, EAFT, the uniform part of label smoothing).
"""

import json
import os
from types import SimpleNamespace

import torch
from llamafactory.train.dpo.trainer import CustomDPOTrainer
from llamafactory.train.kto.trainer import CustomKTOTrainer
from llamafactory.train.rm.trainer import PairwiseTrainer
from llamafactory.train.trainer_utils import _asft_cross_entropy, dft_loss_func, eaft_loss_func
from transformers.trainer_pt_utils import LabelSmoother
from trl import DPOTrainer
from trl.trainer.utils import RunningMoments

IGNORE = -100
VOCAB = 4
ACCELERATOR = SimpleNamespace(device="cpu", use_distributed=False, gather_for_metrics=lambda x: x)


def documents(lengths, prompts, seed, spread=1.0):
    """Ids, labels (-100 in the prompt) and logits of each document."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for length, prompt in zip(lengths, prompts):
        ids = torch.randint(VOCAB, (length,), generator=generator)
        labels = ids.clone()
        labels[:prompt] = IGNORE
        logits = (
            torch.randn(length, VOCAB, generator=generator, dtype=torch.float64) * spread * 1024
        ).round() / 1024  # short when printed
        made.append(SimpleNamespace(ids=ids, labels=labels, logits=logits))
    return made


def padded(rows, value):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)


class Exact:
    """Logits that stay in fp64 where a trainer casts them."""

    def __init__(self, logits):
        self.logits = logits

    def to(self, dtype):
        return self.logits


def leaves(docs):
    return [d.logits.clone().requires_grad_() for d in docs]


def model_of(*batches):
    """A model that returns these logits, one after another, when it is called."""
    turns = iter([padded(batch, 0.0) for batch in batches])
    return lambda **inputs: SimpleNamespace(logits=Exact(next(turns)))


def numbers(tensors):
    return [t.tolist() for t in tensors]


PAIR_LENGTHS, PAIR_PROMPTS = [6, 5, 4, 6, 3, 5], [2, 2, 3, 3, 1, 1]  # chosen, rejected, chosen, ...


def preference(loss, options, policy, reference):
    trainer = object.__new__(CustomDPOTrainer)
    needs_reference = loss not in ("orpo", "simpo")
    trainer.finetuning_args = SimpleNamespace(use_ref_model=needs_reference)
    trainer.accelerator, trainer.ref_model = ACCELERATOR, object()
    trainer.f_divergence_type, trainer.reference_free, trainer.loss_type = "reverse_kl", False, loss
    trainer.beta, trainer.ftx_gamma = options.get("beta", 0.1), options.get("ftx", 0.0)
    trainer.bco_gemma, trainer.label_smoothing = (
        options.get("bco_weight", 0.0),
        options.get("label_smoothing", 0.0),
    )
    trainer.simpo_gamma, trainer.ld_alpha = options.get("simpo_gamma", 0.5), options.get("ld_alpha")
    trainer.running = RunningMoments(ACCELERATOR)
    # LLaMA-Factory no longer passes loss_type on, so that TRL's default would be computed for all
    # of them.
    trainer.dpo_loss = lambda c, r, rc, rr: DPOTrainer.dpo_loss(
        trainer, c, r, rc, rr, loss_type=loss
    )

    logits = leaves(policy)
    turned = lambda rows: rows[0::2] + rows[1::2]  # LLaMA-Factory has all chosen ones first
    batch = {
        "input_ids": padded(turned([d.ids for d in policy]), 0),
        "labels": padded(turned([d.labels for d in policy]), IGNORE),
    }
    trainer.compute_reference_log_probs = lambda model, b: (
        (None, None)
        if not needs_reference
        else tuple(
            trainer.concatenated_forward(
                model_of(turned([d.logits for d in reference])), dict(batch), is_ref_model=True
            )[k]
            for k in ("chosen_logps", "rejected_logps")
        )
    )
    value, metrics = trainer.get_batch_loss_metrics(model_of(turned(logits)), dict(batch))
    value.backward()
    metrics = {
        k: v for k, v in metrics.items() if not k.startswith("logits/")
    }  # -100 in prompt and padding
    return {
        "loss": loss,
        "options": options,
        "value": value.item(),
        "metrics": metrics,
        "gradient": numbers([x.grad for x in logits]),
    }


def kto(options, policy, reference, mismatched, mismatched_reference, desirable):
    trainer = object.__new__(CustomKTOTrainer)
    trainer.accelerator, trainer.loss_type, trainer.calculate_KL = ACCELERATOR, "kto", True
    trainer.beta, trainer.ftx_gamma = options.get("beta", 0.1), options.get("ftx", 0.0)
    trainer.desirable_weight, trainer.undesirable_weight = (
        options.get("chosen_weight", 1.0),
        options.get("rejected_weight", 1.0),
    )
    logits = leaves(policy)
    batch = {"kto_tags": torch.tensor(desirable)}
    for prefix, docs in (("", policy), ("kl_", mismatched)):
        batch[prefix + "input_ids"] = padded([d.ids for d in docs], 0)
        batch[prefix + "attention_mask"] = padded([torch.ones_like(d.ids) for d in docs], 0)
        batch[prefix + "labels"] = padded([d.labels for d in docs], IGNORE)
    turns = [
        logits,
        [d.logits for d in mismatched],
        [d.logits for d in reference],
        [d.logits for d in mismatched_reference],
    ]
    model = trainer.ref_model = model_of(*turns)
    value, metrics = trainer.get_batch_loss_metrics(model, batch)
    value.backward()
    means = {"kl": metrics["kl"]}
    for side in ("chosen", "rejected"):
        for name in ("rewards", "logps"):
            if f"count/{side}" in metrics:
                means[f"{name}/{side}"] = metrics[f"{name}/{side}_sum"] / metrics[f"count/{side}"]
    return {
        "options": options,
        "examples": len(policy),
        "desirable": desirable,
        "value": value.item(),
        "metrics": means,
        "gradient": numbers([x.grad for x in logits]),
    }


def reward():
    generator = torch.Generator().manual_seed(5)
    lengths = [3, 5, 4, 2, 6, 6]
    values = [
        torch.randn(n, generator=generator, dtype=torch.float64).float().requires_grad_()
        for n in lengths
    ]
    turned = lambda rows: rows[0::2] + rows[1::2]
    mask = padded([torch.ones(len(v), dtype=torch.int64) for v in turned(values)], 0)
    inputs = {"input_ids": mask, "attention_mask": mask}
    value = PairwiseTrainer.compute_loss(
        object.__new__(PairwiseTrainer),
        lambda **_: (None, None, padded(turned(values), 0.0)),
        inputs,
    )
    value.backward()
    return {
        "values": numbers([v.detach() for v in values]),
        "value": value.item(),
        "gradient": numbers([v.grad for v in values]),
    }


def sft():
    generator = torch.Generator().manual_seed(6)
    length, vocab, epsilon = 6, 24, 0.1
    logits = (
        torch.randn(length, vocab, generator=generator, dtype=torch.float64) * 2048
    ).round() / 1024
    labels = torch.randint(vocab, (length,), generator=generator)
    labels[:2] = IGNORE
    count = torch.tensor(3)  # LLaMA-Factory's divisor, given by its Trainer

    def smoothed(outputs, labels, count):
        return (
            LabelSmoother(epsilon=epsilon)(outputs, labels, shift_labels=True)
            * (labels[..., 1:] != IGNORE).sum()
            / count
        )

    cases = {
        "dft": dft_loss_func,
        "eaft": lambda *a: eaft_loss_func(*a, alpha=1.0),
        "eaft_half": lambda *a: eaft_loss_func(*a, alpha=0.5),
        "label_smoothing": smoothed,
    }
    made = {
        "vocab": vocab,
        "logits": logits.tolist(),
        "labels": labels.tolist(),
        "count": count.item(),
        "epsilon": epsilon,
        "cases": {},
    }
    for name, function in cases.items():
        leaf = logits.clone().requires_grad_()
        value = function({"logits": leaf[None]}, labels[None], count)
        value.backward()
        made["cases"][name] = {"value": value.item(), "gradient": leaf.grad.tolist()}
    return made


def asft():
    """Computes the loss in fp64 without asft_loss_func, which casts the policy's logits to fp32.
    Both means are over the predictions."""
    generator = torch.Generator().manual_seed(8)
    length, vocab = 9, 24
    policy, reference = (
        (torch.randn(length, vocab, generator=generator, dtype=torch.float64) * 2048).round() / 1024
        for _ in range(2)
    )
    labels = torch.randint(vocab, (length,), generator=generator)
    labels[:2] = IGNORE
    made = {
        "logits": policy.tolist(),
        "reference": reference.tolist(),
        "labels": labels.tolist(),
        "cases": [],
    }
    for alpha in (0.0, 0.1, 1.5):
        leaf = policy.clone().requires_grad_()
        value = _asft_cross_entropy(leaf[:-1], labels[1:], reference[:-1], asft_alpha=alpha)
        value.backward()
        made["cases"].append(
            {"alpha": alpha, "value": value.item(), "gradient": leaf.grad.tolist()}
        )
    return made


def main():
    policy, reference = (
        documents(PAIR_LENGTHS, PAIR_PROMPTS, 1),
        documents(PAIR_LENGTHS, PAIR_PROMPTS, 2),
    )
    losses = [
        ("sigmoid", {}), ("sigmoid", {"beta": 0.7, "label_smoothing": 0.2}), ("sigmoid", {"ftx": 0.5, "ld_alpha": 0.3}), ("sigmoid", {"bco_weight": 0.4}),
        ("hinge", {"beta": 0.5}), ("ipo", {"beta": 0.3}), ("ipo", {"beta": 0.3, "bco_weight": 1.5, "ftx": 0.2}),
        ("nca_pair", {"beta": 0.6}), ("robust", {"beta": 0.6, "label_smoothing": 0.15}),
        ("orpo", {"beta": 0.4}), ("simpo", {"beta": 2.0, "simpo_gamma": 0.8}), ("simpo", {"beta": 2.0, "ftx": 0.1, "ld_alpha": 0.5}),
    ]  # fmt: skip
    mismatched, mismatched_reference = (
        documents([5, 4, 3, 6], [2, 1, 1, 4], 3, 0.5),
        documents([5, 4, 3, 6], [2, 1, 1, 4], 4),
    )
    answers, of_reference = policy[:4], reference[:4]
    result = {
        "pairs": {"ids": numbers([d.ids for d in policy]), "labels": numbers([d.labels for d in policy]),
                  "policy": numbers([d.logits for d in policy]), "reference": numbers([d.logits for d in reference])},
        "preference": [preference(loss, options, policy, reference) for loss, options in losses],
        "mismatched": {"ids": numbers([d.ids for d in mismatched]), "labels": numbers([d.labels for d in mismatched]),
                       "policy": numbers([d.logits for d in mismatched]), "reference": numbers([d.logits for d in mismatched_reference])},
        "kto": [
            kto({"beta": 0.3}, answers, of_reference, mismatched, mismatched_reference, [True, False, True, False]),
            kto({"chosen_weight": 1.3, "rejected_weight": 0.6}, answers, of_reference, mismatched_reference, mismatched, [True, False, False, False]),
            kto({"beta": 0.5}, answers, of_reference, mismatched, mismatched_reference, [True] * 4),
            kto({"ftx": 0.7}, answers[:1], of_reference[:1], mismatched[:1], mismatched_reference[:1], [True]),
        ],
        "reward": reward(),
        "sft": sft(),
        "asft": asft(),
    }  # fmt: skip
    result["kto"][1]["swapped"] = (
        # the log-probs of mismatched documents under policy and reference are swapped, so the KL
        # term changes its sign
        True
    )
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
