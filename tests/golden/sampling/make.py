"""The tokens that Transformers' logits processors keep, and their probabilities.

    make.py     with Transformers 4.57

sampling.json: logits, the earlier ids, the options, and the probability of every id after
repetition_penalty, temperature, top_k, top_p and min_p, in the order in which `generate` applies
them; log_probs: log_softmax(logits / temperature).
"""

import json
import os

import torch
from transformers.generation import logits_process as processors

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = 11


def processed(logits, ids, options):
    """Applies the processors in the order of GenerationMixin._get_logits_processor."""
    steps = []
    if options["repetition_penalty"] != 1.0:
        steps.append(
            processors.RepetitionPenaltyLogitsProcessor(penalty=options["repetition_penalty"])
        )
    if options["temperature"] != 1.0:
        steps.append(processors.TemperatureLogitsWarper(options["temperature"]))
    if options["top_k"] != 0:
        steps.append(processors.TopKLogitsWarper(top_k=options["top_k"]))
    if options["top_p"] < 1.0:
        steps.append(processors.TopPLogitsWarper(top_p=options["top_p"]))
    if options["min_p"] > 0.0:
        steps.append(processors.MinPLogitsWarper(min_p=options["min_p"]))
    rows = logits.unsqueeze(0)
    for step in steps:
        rows = step(ids.unsqueeze(0), rows)
    return rows[0]


def main() -> None:
    torch.manual_seed(5)
    cases = []
    for penalty in (1.0, 1.4):
        for temperature in (1.0, 0.6, 2.5):
            for top_k, top_p, min_p in (
                (0, 1.0, 0.0),
                (4, 1.0, 0.0),
                (0, 0.7, 0.0),
                (0, 1.0, 0.15),
                (6, 0.8, 0.0),
                (6, 1.0, 0.3),
                (0, 0.9, 0.1),
                (7, 0.95, 0.2),
            ):
                logits = torch.randn(VOCABULARY, dtype=torch.float64) * 1.5
                ids = torch.randint(VOCABULARY, (5,))
                options = {
                    "repetition_penalty": penalty,
                    "temperature": temperature,
                    "top_k": top_k,
                    "top_p": top_p,
                    "min_p": min_p,
                }
                kept = processed(logits, ids, options)
                cases.append(
                    {
                        "logits": logits.tolist(),
                        "ids": ids.tolist(),
                        "options": options,
                        "probabilities": kept.softmax(-1).tolist(),
                        "log_probs": (logits / temperature).log_softmax(-1).tolist(),
                    }
                )
    with open(os.path.join(HERE, "sampling.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file)
        file.write("\n")


if __name__ == "__main__":
    main()
