#!/usr/bin/env python3
"""Each request that is refused ends at once, with an exception that says what is wrong; the client
and the server continue, and the weights are untouched. Prints the messages as JSON."""

import logging

import connection
import datums
import numpy as np
import tinker
from tinker import AdamParams, SamplingParams

INT, FLOAT = np.int64, np.float32


class Messages(logging.Handler):
    """The refusals' texts, by what was refused."""

    def __init__(self):
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def raw(ids, **inputs) -> tinker.Datum:
    """A datum whose inputs are given as they are, wrong ones too."""
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(ids), loss_fn_inputs=inputs)


def of_datums(client, refused) -> None:
    ids, targets = [5, 6, 7], np.array([6, 7, 8], INT)
    good = raw(ids, target_tokens=targets)
    ones = np.ones(3, FLOAT)
    nan = np.array([1, np.nan, 1], FLOAT)
    cases = [
        ("a loss that nobody knows", "cross_entropi", [good], None, ("cross_entropy",)),
        ("stable_reinforce", "stable_reinforce", [good], None, ("stable_reinforce",)),
        ("gspo", "gspo", [good], None, ("gspo",)),
        ("an unknown key", "ppo", [good], {"clip_lo_threshold": 0.8}, ("clip_lo_threshold",)),
        ("a text for a number", "ppo", [good], {"clip_low_threshold": "x"}, ()),
        ("no targets", "cross_entropy", [raw(ids, weights=ones)], None, ("target_tokens",)),
        (
            "weights of another length",
            "cross_entropy",
            [good, raw(ids, target_tokens=targets, weights=np.ones(2, FLOAT))],
            None,
            ("weights", "1"),
        ),
        (
            "targets of another length",
            "cross_entropy",
            [raw(ids, target_tokens=np.array([6, 7], INT))],
            None,
            ("target_tokens",),
        ),
        (
            "an unknown input",
            "cross_entropy",
            [raw(ids, target_tokens=targets, wheights=ones)],
            None,
            ("wheights",),
        ),
        (
            "no advantages",
            "importance_sampling",
            [raw(ids, target_tokens=targets, logprobs=ones)],
            None,
            ("advantages",),
        ),
        (
            "a token beyond the vocabulary",
            "cross_entropy",
            [raw([5, 10**8, 7], target_tokens=targets)],
            None,
            ("100000000",),
        ),
        (
            "a target beyond the vocabulary",
            "cross_entropy",
            [raw(ids, target_tokens=np.array([6, 10**12, 8], INT))],
            None,
            ("1000000000000",),
        ),
        (
            "a negative target",
            "cross_entropy",
            [raw(ids, target_tokens=np.array([6, -100, 8], INT))],
            None,
            ("-100",),
        ),
        (
            "weights that are no numbers",
            "cross_entropy",
            [raw(ids, target_tokens=targets, weights=nan)],
            None,
            ("weights",),
        ),
        (
            "infinite advantages",
            "importance_sampling",
            [raw(ids, target_tokens=targets, logprobs=-ones, advantages=ones * np.inf)],
            None,
            ("advantages",),
        ),
        (
            "targets that are not integers",
            "cross_entropy",
            [raw(ids, target_tokens=tinker.TensorData.from_numpy(ones))],
            None,
            ("target_tokens",),
        ),
        ("an empty datum", "cross_entropy", [raw([], target_tokens=np.array([], INT))], None, ()),
        (
            "a picture",
            "cross_entropy",
            [
                tinker.Datum(
                    model_input=tinker.ModelInput(
                        chunks=[tinker.types.ImageChunk(data=b"x", format="png", expected_tokens=3)]
                    ),
                    loss_fn_inputs={"target_tokens": targets},
                )
            ],
            None,
            ("picture",),
        ),
    ]
    for what, loss, data, config, words in cases:
        for kind in (client.forward, client.forward_backward):
            with refused(what, *words):
                kind(data, loss, config).result()


def of_steps(client, refused) -> None:
    for what, numbers in {
        "beta1 of 1.5": {"beta1": 1.5},
        "beta2 below 0": {"beta2": -0.1},
        "eps below 0": {"eps": -1e-8},
        "a rate below 0": {"learning_rate": -1e-4},
    }.items():
        with refused(what, next(iter(numbers))):
            client.optim_step(AdamParams(**numbers)).result()
    with refused("another optimizer", "dimuon"):
        client.optim_step(tinker.types.DimuonParams(learning_rate=1e-3)).result()


def of_samples(sampler, refused) -> None:
    prompt = tinker.ModelInput.from_ints([5, 6, 7])
    for what, numbers in {
        "a temperature below 0": {"temperature": -1.0},
        "top_p of 0": {"top_p": 0.0},
        "top_p of 2": {"top_p": 2.0},
        "top_k of -5": {"top_k": -5},
        "max_tokens below 1": {"max_tokens": -1},
    }.items():
        with refused(what):
            sampler.sample(prompt, 1, SamplingParams(**({"max_tokens": 4} | numbers))).result()
    few = SamplingParams(max_tokens=2)
    for what, ids in {
        "an empty prompt": [],
        "a prompt beyond the vocabulary": [5, 10**8],
        "a prompt beyond the context": [5] * 2_000_000,
    }.items():
        with refused(what):
            sampler.sample(tinker.ModelInput.from_ints(ids), 1, few).result()
    with refused("no samples"):
        sampler.sample(prompt, 0, few).result()


def of_models(service, options, refused) -> None:
    with refused("an unknown base model", options.model):
        service.create_lora_training_client(base_model=options.model + "-large").result()
    with refused("an unknown base model to sample from", options.model):
        service.create_sampling_client(base_model=options.model + "-large").result()
    with refused("a rank below 0", "rank"):
        service.create_lora_training_client(base_model=options.model, rank=-1).result()
    with refused("another optimizer of a new model", "dimuon"):
        service.create_lora_training_client(
            base_model=options.model, optimizer=tinker.types.DimuonOptimizerConfig()
        ).result()
    with refused("a wrong key", "key"):
        tinker.ServiceClient(base_url=options.url, api_key="tml-wrong").create_sampling_client(
            base_model=options.model
        ).result()


def main() -> None:
    options = connection.arguments(__doc__.splitlines()[0]).parse_args()
    service = connection.connect(options)
    client = connection.create(service, options, seed=6)
    sampler = service.create_sampling_client(base_model=options.model).result()
    logger, messages = logging.getLogger("refusals"), Messages()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(messages)

    batch = datums.answers(1, 2, options.length, options.vocabulary)
    client.forward_backward(batch, "cross_entropy").result()
    before = datums.flat(datums.log_probs(client.forward(batch, "cross_entropy").result()))
    of_datums(client, connection.refused)
    of_steps(client, connection.refused)
    of_samples(sampler, connection.refused)
    of_models(service, options, connection.refused)
    after = datums.flat(datums.log_probs(client.forward(batch, "cross_entropy").result()))
    assert (before == after).all(), "a refused request changed the weights"

    # The gradient that waited before the refusals is the same: nothing was added to it.
    other = connection.create(service, options, seed=6)
    other.forward_backward(batch, "cross_entropy").result()
    ends = []
    for one in (client, other):
        one.optim_step(AdamParams(learning_rate=1e-2)).result()
        output = one.forward(batch, "cross_entropy").result()
        ends.append(datums.flat(datums.log_probs(output)))
    assert (ends[0] == ends[1]).all(), "a refused request added to the gradients"
    connection.report(messages=messages.texts)


if __name__ == "__main__":
    main()
