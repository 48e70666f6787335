#!/usr/bin/env python3
"""Each loss against its closed form on the log-probs that the server returns, and its gradient
against the gradient of cross_entropy with the weights -dL/dlp.

The gradients are compared by one step of AdamW with a very large epsilon: such a step is one of
SGD, so that a constant factor, which Adam would hide, is seen too.
"""

import connection
import datums
import numpy as np
import tinker

SGD = dict(beta1=0.0, beta2=0.0, eps=1e6, weight_decay=0.0)


def clip(values, low, high):
    return np.minimum(np.maximum(values, low), high)


def cross_entropy(lp, config, weights):
    return -(weights * lp).sum(), -weights


def importance_sampling(lp, config, logprobs, advantages):
    ratio = np.exp(lp - logprobs)
    return -(ratio * advantages).sum(), -ratio * advantages


def ppo(lp, config, logprobs, advantages):
    low, high = config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2)
    ratio = np.exp(lp - logprobs)
    clipped = clip(ratio, low, high)
    free = ratio * advantages <= clipped * advantages
    return (
        -np.minimum(ratio * advantages, clipped * advantages).sum(),
        np.where(free, -ratio * advantages, 0.0),
    )


def cispo(lp, config, logprobs, advantages):
    low, high = config.get("clip_low_threshold", 0.0), config.get("clip_high_threshold", 4.0)
    clipped = clip(np.exp(lp - logprobs), low, high)
    return -(clipped * lp * advantages).sum(), -clipped * advantages


def dro(lp, config, logprobs, advantages):
    beta = config.get("beta", 0.05)
    return (
        -(lp * advantages - beta / 2 * (lp - logprobs) ** 2).sum(),
        -(advantages - beta * (lp - logprobs)),
    )


CASES = [
    (cross_entropy, None),
    (importance_sampling, None),
    (ppo, None),
    (ppo, {"clip_low_threshold": 0.5, "clip_high_threshold": 1.05}),
    (cispo, {"clip_low_threshold": 0.7, "clip_high_threshold": 1.3}),
    (cispo, None),
    (dro, {"beta": 0.3}),
]


def inputs_of(loss, random, lp):
    """Inputs of a loss, of both signs, with some that are 0."""
    some = np.where(random.uniform(size=lp.shape) < 0.2, 0.0, random.normal(size=lp.shape))
    if loss is cross_entropy:
        return {"weights": some.astype(np.float32)}
    noise = 0.4 * random.normal(size=lp.shape)
    return {
        "logprobs": (lp + noise).astype(np.float32),
        "advantages": some.astype(np.float32),
    }


def with_inputs(batch, inputs):
    return [
        tinker.Datum(
            model_input=one.model_input,
            loss_fn_inputs={"target_tokens": one.loss_fn_inputs["target_tokens"]} | more,
        )
        for one, more in zip(batch, inputs)
    ]


def stepped(client, probes) -> tuple[np.ndarray, float | None]:
    """Log-probs of the probes after one step of SGD, and the gradient's norm."""
    metrics = client.optim_step(tinker.AdamParams(learning_rate=5e2, **SGD)).result().metrics or {}
    norm = next((metrics[key] for key in metrics if "grad_norm" in key), None)
    return datums.flat(datums.log_probs(client.forward(probes, "cross_entropy").result())), norm


def check(service, options, loss, config, batch, name) -> dict:
    """One loss: values of forward and of forward_backward, then its gradient."""
    first, second = (connection.create(service, options, seed=7) for _ in range(2))
    # A step away from the initial adapter, where the gradients of all A are 0.
    warm = datums.answers(5, 3, options.length, options.vocabulary)
    for client in (first, second):
        client.forward_backward(warm, "cross_entropy")
        client.optim_step(tinker.AdamParams(learning_rate=1e-2)).result()
    before = datums.log_probs(first.forward(batch, "cross_entropy").result())
    same = datums.log_probs(second.forward(batch, "cross_entropy").result())
    assert (datums.flat(before) == datums.flat(same)).all(), f"{name}: two equal models differ"

    random = np.random.RandomState(11)
    inputs = [inputs_of(loss, random, lp) for lp in before]
    data = with_inputs(batch, inputs)
    parts = [
        loss(lp, config or {}, **{key: value.astype(np.float64) for key, value in more.items()})
        for lp, more in zip(before, inputs)
    ]
    expected = sum(value for value, _ in parts)
    size = sum(float(np.abs(lp).sum()) for lp in before)
    for kind in (first.forward, first.forward_backward):
        output = kind(data, loss.__name__, config).result()
        found = datums.log_probs(output)
        assert [one.shape for one in found] == [one.shape for one in before], name
        worst = np.abs(datums.flat(found) - datums.flat(before)).max()
        assert worst <= 2e-5, f"{name}: log-probs differ by {worst} from those of forward"
        connection.close(output.metrics["loss:sum"], expected, 2e-6, name, floor=size)

    weights = [{"weights": (-slope).astype(np.float32)} for _, slope in parts]
    second.forward_backward(with_inputs(batch, weights), "cross_entropy").result()
    moved, norm = stepped(first, batch)
    wanted, wanted_norm = stepped(second, batch)
    change = np.linalg.norm(wanted - datums.flat(before))
    assert change > 1e-4, f"{name}: the step moved the log-probs by {change} only"
    error = np.linalg.norm(moved - wanted) / change
    assert error < 2e-3, f"{name}: relative error of the step {error}"
    if norm is not None:
        connection.close(norm, wanted_norm, 2e-4, f"{name}: grad_norm", floor=1e-6)
    return {"loss": float(expected), "step_error": float(error), "moved": float(change)}


def main() -> None:
    options = connection.arguments(__doc__.splitlines()[0]).parse_args()
    service = connection.connect(options)
    vocabulary = options.vocabulary
    batch = [
        datums.unweighted(datums.tokens(40 + index, options.length + 7 * index, vocabulary))
        for index in range(3)
    ]
    values = {}
    for loss, config in CASES:
        name = loss.__name__ + (f" {config}" if config else "")
        values[name] = check(service, options, loss, config, batch, name)

    # Several candidates at each position, the document's own among them.
    ids = datums.tokens(50, options.length, vocabulary)
    random = np.random.RandomState(3)
    candidates = random.randint(3, vocabulary, size=(len(ids) - 1, 3))
    candidates[:, 0] = ids[1:]
    many = tinker.Datum(
        model_input=tinker.ModelInput.from_ints(ids[:-1]),
        loss_fn_inputs={"target_tokens": candidates.astype(np.int64)},
    )
    values["[N, K]"] = check(service, options, cross_entropy, None, [many], "[N, K] targets")

    client = connection.create(service, options)
    one = datums.log_probs(client.forward([datums.datum(ids)], "cross_entropy").result())[0]
    three = datums.log_probs(client.forward([many], "cross_entropy").result())[0]
    assert three.shape == (len(ids) - 1, 3), three.shape
    worst = np.abs(three[:, 0] - one).max()
    assert worst < 2e-5, f"the first candidates' log-probs differ by {worst}"

    additive(service, options, batch)
    connection.report(**values)


def additive(service, options, batch) -> None:
    """Gradients are added over calls; a call that is refused and `forward` add nothing; a step
    clears them."""
    together, apart = (connection.create(service, options, seed=3) for _ in range(2))
    bad = datums.datum([5, 6, 7, 10**8])
    together.forward_backward(batch, "cross_entropy").result()
    for one in batch:
        apart.forward_backward([one], "cross_entropy")
        apart.forward([one], "cross_entropy")
    with connection.refused("a token beyond the vocabulary"):
        apart.forward_backward([batch[0], bad], "cross_entropy").result()
    first, norm = stepped(together, batch)
    second, second_norm = stepped(apart, batch)
    error = np.abs(first - second).max()
    assert error < 5e-5, f"the same datums in one call and in three: {error}"
    if norm is not None:
        connection.close(second_norm, norm, 1e-4, "grad_norm of three calls", floor=1e-6)
    third, idle = stepped(apart, batch)
    assert idle in (None, 0.0), f"gradients after a step: {idle}"
    # Without momentum (beta1 0) a step without gradients moves nothing.
    assert np.abs(third - second).max() < 1e-6, "a step without gradients moved the weights"


if __name__ == "__main__":
    main()
