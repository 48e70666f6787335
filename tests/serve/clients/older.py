#!/usr/bin/env python3
"""The calls that SDKs of all versions since 0.24 have: train, save, continue, sample."""

import connection
import datums
import numpy as np
import tinker
from connection import result
from tinker import types


def main() -> None:
    options = connection.arguments(__doc__.splitlines()[0]).parse_args()
    service = connection.connect(options)
    client = connection.create(service, options, seed=1)
    batch = datums.answers(1, 3, options.length, options.vocabulary)
    losses = []
    for _ in range(3):
        output = client.forward_backward(batch, "cross_entropy")
        taken = client.optim_step(types.AdamParams(learning_rate=3e-3))
        losses.append(result(output).metrics["loss:sum"])
        result(taken)
    assert losses[2] < losses[0], losses
    before = datums.flat(datums.log_probs(result(client.forward(batch, "cross_entropy"))))
    path = result(client.save_state("older")).path
    again = result(service.create_training_client_from_state(path))
    after = datums.flat(datums.log_probs(result(again.forward(batch, "cross_entropy"))))
    assert (before == after).all(), np.abs(before - after).max()

    sampler = result(client.save_weights_and_get_sampling_client("older"))
    ids = datums.tokens(3, 8, options.vocabulary)
    prompt = types.ModelInput.from_ints(ids)
    params = types.SamplingParams(max_tokens=6, seed=1)
    drawn = [result(sampler.sample(prompt, 2, params)) for _ in range(2)]
    first, second = ([(list(s.tokens), list(s.logprobs)) for s in one.sequences] for one in drawn)
    assert first == second, (first, second)
    scored = result(sampler.compute_logprobs(prompt))
    expected = datums.log_probs(result(client.forward([datums.unweighted(ids)], "cross_entropy")))
    worst = np.abs(np.array(scored[1:], np.float64) - expected[0]).max()
    assert scored[0] is None and worst < 2e-5, worst
    connection.report(version=tinker.__version__, losses=losses)


if __name__ == "__main__":
    main()
