"""Writes policy_gradient.json: losses, metrics, gradients and advantages of TRL 0.24's own
GRPOTrainer and RLOOTrainer on fixed answers.

    $MOONRING_ORACLE/venv/bin/python tests/golden/objectives/make_policy_gradient.py

The trainers' methods (_compute_loss, _generate_and_score_completions, get_high_entropy_mask) run on
objects made without their constructors, in one process and one micro-batch; all in fp64: where they
say .float(), it is .double() here. num_items_in_batch counts the tokens that are not masked, as TRL
does since PR 6439 (0.24 counted those of truncated answers too).
"""

import json
import math
import os
from collections import defaultdict
from types import SimpleNamespace

import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)

LENGTHS = [5, 3, 7, 1, 4, 6]  # lengths of the answers
PROMPTS = [2, 4, 1, 3, 2, 1]
VOCAB = 5
TRUNCATED = [False, False, True, False, True, False]
MAX_COMPLETION_LENGTH = 8
PAD, EOS = 0, 1


def short(values):
    """Rounds values so that they have few digits."""
    return (values * 1024).round() / 1024


def padded(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)


ACCELERATOR = SimpleNamespace(
    device="cpu",
    num_processes=1,
    process_index=0,
    gather=lambda x: x[None] if x.dim() == 0 else x,
    pad_across_processes=lambda x, dim, pad_index: x,
)


def fixed():
    """Returns token log-probs of policy, sampler and reference, entropies and advantages."""
    generator = torch.Generator().manual_seed(3)
    normal = lambda n: torch.randn(n, generator=generator)
    policy, old, reference, entropies = [], [], [], []
    shifts = [0.5, -0.4, 0.3, -0.6, 0.0, 0.25]  # per answer, so that some are clipped
    for length, shift in zip(LENGTHS, shifts):
        p = -normal(length).abs() - 0.1
        policy.append(short(p))
        old.append(short(p + 0.3 * normal(length) - shift))
        reference.append(short(p + 0.5 * normal(length)))
        entropies.append(short(normal(length).abs()))
    advantages = torch.tensor([1.25, -0.75, 0.5, -1.5, 0.0, 0.875])
    return SimpleNamespace(
        policy=policy, old=old, reference=reference, entropies=entropies, advantages=advantages
    )


def mask_of(truncated):
    return padded(
        [torch.full((n,), 0 if cut else 1, dtype=torch.int64) for n, cut in zip(LENGTHS, truncated)]
    )


def trainer_of(kind, options):
    trainer = object.__new__(kind)
    trainer.accelerator = ACCELERATOR
    trainer.model = SimpleNamespace(training=True)
    trainer._metrics = {"train": defaultdict(list)}
    trainer.args = SimpleNamespace(delta=options.get("delta"), report_to=[])
    trainer.current_gradient_accumulation_steps = 1
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = False
    trainer.loss_type = options.get("loss_type", "dapo")
    trainer.beta = options.get("beta", 0.0)
    trainer.epsilon_low = options.get("epsilon", 0.2)
    trainer.epsilon_high = options.get("epsilon_high", trainer.epsilon_low)
    trainer.importance_sampling_level = options.get("importance_sampling_level", "token")
    trainer.top_entropy_quantile = options.get("top_entropy_quantile", 1.0)
    trainer.max_completion_length = MAX_COMPLETION_LENGTH
    trainer.temperature = options.get("temperature", 1.0)
    return trainer


def metrics_of(trainer):
    """Returns means of the metrics. The extremes are over processes, of which there is one."""
    means = {name: sum(values) / len(values) for name, values in trainer._metrics["train"].items()}
    return {name: mean for name, mean in means.items() if not name.endswith(("_min", "_max"))}


def inputs_of(data, options):
    truncated = TRUNCATED if options.get("masked") else [False] * len(LENGTHS)
    mask = mask_of(truncated)
    inputs = {
        "prompt_ids": torch.zeros(len(LENGTHS), max(PROMPTS), dtype=torch.int64),
        "prompt_mask": torch.ones(len(LENGTHS), max(PROMPTS), dtype=torch.int64),
        "completion_ids": torch.zeros_like(mask),
        "completion_mask": mask,
        "advantages": data.advantages,
        "num_items_in_batch": mask.sum(),
        "ref_per_token_logps": padded(data.reference),
    }
    if options.get("old"):
        inputs["old_per_token_logps"] = padded(data.old)
    return inputs


def result_of(options, trainer, value, leaves):
    value.backward()
    return {
        "options": options,
        "value": value.item(),
        "metrics": metrics_of(trainer),
        "gradient": [x.grad.tolist() for x in leaves],
    }


def loss(data, options):
    trainer = trainer_of(GRPOTrainer, options)
    leaves = [x.clone().requires_grad_() for x in data.policy]
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (
        padded(leaves),
        padded(data.entropies),
    )
    inputs = inputs_of(data, options)
    made = result_of(options, trainer, trainer._compute_loss(trainer.model, inputs), leaves)
    if trainer.top_entropy_quantile < 1.0:
        mask = inputs["completion_mask"]
        chosen = trainer.get_high_entropy_mask(
            padded(data.entropies), mask, 1 - trainer.top_entropy_quantile
        )
        made["threshold"] = torch.quantile(
            padded(data.entropies)[mask.bool()], 1 - trainer.top_entropy_quantile
        ).item()
        made["high_entropy"] = [row[:n].tolist() for row, n in zip(chosen, LENGTHS)]
    return made


def rloo(data, options):
    trainer = trainer_of(RLOOTrainer, options)
    leaves = [x.clone().requires_grad_() for x in data.policy]
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (
        padded(leaves),
        padded(data.entropies),
    )
    inputs = inputs_of(data, options)
    old = padded(data.old if options.get("old") else data.policy)
    inputs["old_logps"] = (old * inputs["completion_mask"]).sum(1)
    return result_of(options, trainer, trainer._compute_loss(trainer.model, inputs), leaves)


def chain(data, options):
    """Computes log-probs and entropies from logits with the trainer's own functions."""
    generator = torch.Generator().manual_seed(4)
    trainer = trainer_of(GRPOTrainer, options)
    trainer.model_kwarg_keys = []
    ids = [torch.randint(VOCAB, (p + n,), generator=generator) for p, n in zip(PROMPTS, LENGTHS)]
    leaves = [short(torch.randn(len(x), VOCAB, generator=generator)).requires_grad_() for x in ids]
    width, keep = max(PROMPTS), max(LENGTHS)
    pad = lambda row, p: torch.nn.functional.pad(
        row, [0, 0] * (row.dim() - 1) + [width - p, keep - (len(row) - p)]
    )
    logits = torch.stack([pad(row, p) for row, p in zip(leaves, PROMPTS)])
    whole = torch.stack([pad(row, p) for row, p in zip(ids, PROMPTS)])
    inputs = inputs_of(data, options)
    inputs["prompt_ids"], inputs["completion_ids"] = whole[:, :width], whole[:, width:]

    class Model:
        training = True

        def __call__(self, input_ids, attention_mask, use_cache):
            assert (input_ids == whole).all()
            return SimpleNamespace(logits=logits)

    trainer.model = Model()
    value = trainer._compute_loss(trainer.model, inputs)
    return {
        **result_of(options, trainer, value, leaves),
        "ids": [x.tolist() for x in ids],
        "logits": [x.tolist() for x in leaves],
    }


def generation(kind, options, rewards, per_token=None):
    """Returns a trainer that is about to score answers. `rewards`: [answers, functions]."""
    trainer = trainer_of(kind, options)
    trainer.num_generations = options["generations"]
    trainer.scale_rewards = options.get("scale_rewards")
    trainer.reward_weights = torch.tensor(options["weights"])
    trainer.reward_func_names = [f"f{i}" for i in range(len(options["weights"]))]
    trainer.mask_truncated_completions = False
    trainer.eos_token_id, trainer.pad_token_id = EOS, PAD
    trainer.num_iterations = 1
    trainer.args = SimpleNamespace(
        per_device_train_batch_size=len(rewards),
        steps_per_generation=1,
        gradient_accumulation_steps=1,
        report_to=[],
    )
    trainer.ref_model = "reference"
    trainer.reward_clip_range = options.get("clip")
    trainer.normalize_advantages = options.get("normalize", False)
    trainer._logs = defaultdict(list)
    trainer._logs["rewards"] = defaultdict(list)
    trainer.processing_class = SimpleNamespace(batch_decode=lambda ids, **k: [""] * len(ids))
    trainer._calculate_rewards = lambda *a: rewards
    lengths = [1 + i % 3 for i in range(len(rewards))]
    answers = [[2] * (n - 1) + [EOS] for n in lengths]
    prompts = [[3]] * len(rewards)
    made = (prompts, answers) + ((sum(lengths), None, {}) if kind is GRPOTrainer else ({},))
    trainer._generate = lambda *a: made
    trainer._get_per_token_logps_and_entropies = lambda model, *a, **k: (
        per_token["reference" if model == "reference" else "policy"],
        None,
    )
    return trainer, lengths


def advantages(kind, options, rewards):
    count = len(rewards)
    generator = torch.Generator().manual_seed(7)
    per_token = {
        name: short(-torch.randn(count, 3, generator=generator).abs())
        for name in ("policy", "reference")
    }
    trainer, lengths = generation(kind, options, torch.tensor(rewards), per_token)
    made = trainer._generate_and_score_completions([{"prompt": ""}] * count)
    result = {
        "options": options,
        "rewards": [[None if math.isnan(x) else x for x in row] for row in rewards],
        "advantages": made["advantages"].tolist(),
        "metrics": {
            name: value for name, value in metrics_of(trainer).items() if not math.isnan(value)
        },
    }
    if options.get("beta"):
        apart = per_token["policy"] - per_token["reference"]
        result["kl"] = [row[:n].sum().item() for row, n in zip(apart, lengths)]
        result["tokens"] = lengths
    return result


def losses(data):
    made = []
    for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo"):
        for level in ("token", "sequence"):
            for beta in (0.0, 0.2):
                for more in (
                    {},
                    {"old": True},
                    {"old": True, "epsilon_high": 0.28, "delta": 1.4},
                    {"old": True, "masked": True, "epsilon": 0.1},
                    {"old": True, "masked": True, "top_entropy_quantile": 0.4},
                    {"old": True, "top_entropy_quantile": 0.25, "delta": 1.5},
                ):
                    options = {"loss_type": loss_type, "importance_sampling_level": level}
                    made.append(loss(data, {**options, "beta": beta, **more}))
    return made


def main():
    data = fixed()
    nan = math.nan
    two_functions = [
        [1.0, 0.5], [0.0, nan], [0.25, -1.0], [1.0, 2.0],
        [0.5, 0.0], [0.5, 0.0], [0.5, 0.0], [0.5, 0.0],
        [nan, nan], [nan, 3.0], [2.0, nan], [-1.0, 0.125],
    ]  # fmt: skip
    one_function = [[x] for x in (1.0, 0.0, 0.0, 1.0, 0.3, 0.7)]
    alike = [[0.1], [0.1], [0.7], [0.7]]
    weights = {"generations": 4, "weights": [1.0, 0.5]}
    result = {
        "lengths": LENGTHS,
        "prompts": PROMPTS,
        "truncated": TRUNCATED,
        "max_completion_length": MAX_COMPLETION_LENGTH,
        "policy": [x.tolist() for x in data.policy],
        "old": [x.tolist() for x in data.old],
        "reference": [x.tolist() for x in data.reference],
        "entropies": [x.tolist() for x in data.entropies],
        "advantages": data.advantages.tolist(),
        "losses": losses(data),
        "rloo": [
            rloo(data, {"loss_type": "rloo", **more})
            for more in (
                {},
                {"old": True},
                {"old": True, "epsilon": 0.1, "epsilon_high": 0.5},
                {"old": True, "masked": True},
            )
        ],
        "chain": [
            chain(data, {"loss_type": "grpo", "temperature": 0.7, "beta": 0.1, "old": True}),
            chain(data, {"loss_type": "dapo", "temperature": 1.3, "masked": True,
                         "importance_sampling_level": "sequence"}),
        ],
        "groups": [
            advantages(GRPOTrainer, {**options, "scale_rewards": scale}, rewards)
            for scale in ("group", "batch", "none")
            for options, rewards in (
                (weights, two_functions),
                ({"generations": 2, "weights": [2.0]}, one_function),
                ({"generations": 2, "weights": [1.0]}, alike),
                ({"generations": 6, "weights": [1.0]}, one_function),
            )
        ],
        "leave_one_out": [
            advantages(RLOOTrainer, options, rewards)
            for options, rewards in (
                (weights, two_functions),
                ({**weights, "beta": 0.3}, two_functions),
                ({**weights, "beta": 0.1, "clip": [-0.5, 1.25], "normalize": True}, two_functions),
                ({"generations": 2, "weights": [1.0]}, alike),
            )
        ],
    }  # fmt: skip
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "policy_gradient.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, separators=(",", ":"), allow_nan=False)
        file.write("\n")


if __name__ == "__main__":
    main()
