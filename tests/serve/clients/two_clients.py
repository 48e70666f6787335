#!/usr/bin/env python3
"""Two clients that train at the same time get the same bits as each does alone."""

import threading

import connection
import datums
import tinker


def train(options, number: int) -> list:
    """One client's session: its own seed, data, rate and switches."""
    with_service = connection.connect(options)
    client = connection.create(
        with_service, options, seed=20 + number, train_unembed=bool(number % 2)
    )
    found = []
    for step in range(options.steps):
        batch = datums.answers(10 * number + step, 2 + number, options.length, options.vocabulary)
        output = client.forward_backward(batch, "cross_entropy")
        client.optim_step(tinker.AdamParams(learning_rate=2e-3 * (number + 1)))
        found.append(output.result().metrics["loss:sum"])
        if step == options.steps // 2:
            sampler = client.save_weights_and_get_sampling_client().result()
            prompt = tinker.ModelInput.from_ints(datums.tokens(number, 8, options.vocabulary))
            drawn = sampler.sample(
                prompt, 3, tinker.SamplingParams(max_tokens=8, seed=number, stop=[])
            ).result()
            for sequence in drawn.sequences:
                found += [list(sequence.tokens), list(sequence.logprobs)]
    probe = [datums.unweighted(datums.tokens(99, options.length, options.vocabulary))]
    output = client.forward(probe, "cross_entropy").result()
    return found + [values.tolist() for values in datums.log_probs(output)]


def main() -> None:
    parser = connection.arguments(__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--clients", type=int, default=2)
    options = parser.parse_args()

    alone = [train(options, number) for number in range(options.clients)]
    together: list = [None] * options.clients

    def run(number: int) -> None:
        together[number] = train(options, number)

    threads = [threading.Thread(target=run, args=[number]) for number in range(options.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(options.clients):
        assert together[number] == alone[number], (
            f"client {number}: {together[number]}, alone {alone[number]}"
        )
    assert alone[0][-1] != alone[1][-1], "two clients with different seeds have one model"
    connection.report(results=alone)


if __name__ == "__main__":
    main()
