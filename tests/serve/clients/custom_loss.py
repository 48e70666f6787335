#!/usr/bin/env python3
"""forward_backward_custom with DPO's loss: the value against numpy, the gradient against
cross_entropy with weights that torch computes, and five steps that widen the margin."""

import math

import connection
import datums
import numpy as np
import tinker
import torch

BETA = 0.5


def pairs(options) -> list[tinker.Datum]:
    """Chosen and rejected documents in turn, with a common prompt."""
    made = []
    for index in range(3):
        prompt = datums.tokens(60 + index, 6, options.vocabulary)
        for answer in (70 + index, 80 + index):
            ids = prompt + datums.tokens(answer, options.length, options.vocabulary)
            weights = [0.0] * 5 + [1.0] * options.length
            made.append(datums.datum(ids, weights=weights))
    return made


def dpo(reference):
    """DPO over the log-probs of answers; `reference`: those of the frozen model, per document."""

    def loss(data, log_probs):
        sums = [
            (values.flatten() * torch.tensor(one.loss_fn_inputs["weights"].to_numpy())).sum()
            for one, values in zip(data, log_probs)
        ]
        margins = [
            BETA * ((sums[i] - reference[i]) - (sums[i + 1] - reference[i + 1]))
            for i in range(0, len(sums), 2)
        ]
        total = -sum(torch.nn.functional.logsigmoid(margin) for margin in margins) / len(margins)
        return total, {"margin:mean": float(sum(margins).detach() / len(margins))}

    return loss


def sums_of(output, data) -> list[float]:
    return [
        float((values * one.loss_fn_inputs["weights"].to_numpy()).sum())
        for values, one in zip(datums.log_probs(output), data)
    ]


def main() -> None:
    options = connection.arguments(__doc__.splitlines()[0]).parse_args()
    service = connection.connect(options)
    data = pairs(options)
    client, direct = (connection.create(service, options, seed=5) for _ in range(2))
    reference = sums_of(client.forward(data, "cross_entropy").result(), data)
    loss = dpo(reference)
    adam = tinker.AdamParams(learning_rate=3e-3, eps=1e-8)

    # The first step by the SDK's custom loss and by its weights, computed here.
    output = direct.forward(data, "cross_entropy").result()
    leaves = [
        torch.tensor(values, dtype=torch.float32, requires_grad=True)
        for values in datums.log_probs(output)
    ]
    value, _ = loss(data, leaves)
    value.backward()
    weighted = [
        tinker.Datum(
            model_input=one.model_input,
            loss_fn_inputs={
                "target_tokens": one.loss_fn_inputs["target_tokens"],
                "weights": -leaf.grad,
            },
        )
        for one, leaf in zip(data, leaves)
    ]
    direct.forward_backward(weighted, "cross_entropy").result()
    direct.optim_step(adam).result()

    losses, margins = [], []
    for step in range(5):
        custom = client.forward_backward_custom(data, loss)
        taken = client.optim_step(adam)
        metrics = custom.result().metrics
        taken.result()
        losses.append(metrics["loss:sum"])
        margins.append(metrics["margin:mean"])
        if step == 0:
            first = datums.flat(datums.log_probs(client.forward(data, "cross_entropy").result()))
            wanted = datums.flat(datums.log_probs(direct.forward(data, "cross_entropy").result()))
            worst = np.abs(first - wanted).max()
            assert worst < 1e-5, f"custom and direct weights differ by {worst} after a step"
    # The reference is the policy before the first step: DPO's loss there is ln 2.
    connection.close(losses[0], math.log(2), 1e-4, "the first loss of DPO")
    assert losses[-1] < losses[0] - 1e-3 and margins[-1] > margins[0], (losses, margins)
    connection.report(losses=losses, margins=margins)


if __name__ == "__main__":
    main()
