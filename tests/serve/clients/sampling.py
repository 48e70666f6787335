#!/usr/bin/env python3
"""Sampling: seeds, ends, log-probs of answers and prompts, top log-probs, temperatures, snapshots,
many requests at once. The log-probs are compared with those of the trainer's forward."""

import pickle

import connection
import datums
import numpy as np
import tinker
from tinker import SamplingParams

CLOSE = 2e-5  # between two computations of a log-prob in fp32


def draw(sampler, ids, count=1, **more):
    """A sample of `count` answers: max_tokens each, unless `more` has stops."""
    asked = {
        name: more.pop(name)
        for name in list(more)
        if name in ("max_tokens", "seed", "stop", "temperature", "top_k", "top_p")
    }
    params = SamplingParams(**({"max_tokens": 12, "stop": []} | asked))
    return sampler.sample(tinker.ModelInput.from_ints(ids), count, params, **more)


def answers(response) -> list:
    return [(list(one.tokens), list(one.logprobs), one.stop_reason) for one in response.sequences]


def scored(sampler, ids) -> np.ndarray:
    """Log-probs of a prompt's tokens from the second on."""
    values = sampler.compute_logprobs(tinker.ModelInput.from_ints(ids)).result()
    assert values[0] is None and len(values) == len(ids), values
    return np.array(values[1:], np.float64)


def trained(client, ids) -> np.ndarray:
    output = client.forward([datums.unweighted(ids)], "cross_entropy").result()
    return datums.log_probs(output)[0]


def near(found, expected, what: str, bound: float = CLOSE) -> None:
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, f"{what}: {found.shape}, expected {expected.shape}"
    worst = np.abs(found - expected).max()
    assert worst <= bound, f"{what}: differ by {worst}"


def seeds(sampler, prompt) -> None:
    first = answers(draw(sampler, prompt, 4, seed=3).result())
    assert answers(draw(sampler, prompt, 4, seed=3).result()) == first, "one seed, two results"
    assert len({tuple(one[0]) for one in first}) > 1, f"all samples are equal: {first}"
    other = answers(draw(sampler, prompt, 4, seed=4).result())
    assert [one[0] for one in other] != [one[0] for one in first], "seed has no effect"
    fresh = [answers(draw(sampler, prompt, 2).result()) for _ in range(2)]
    assert fresh[0] != fresh[1], "without a seed two requests drew the same"
    for tokens, log_probs, reason in first:
        assert len(tokens) == len(log_probs) == 12 and reason == "length", (tokens, reason)
    ids = [one.sequence_id for one in draw(sampler, prompt, 3).result().sequences]
    assert len(set(ids)) == 3, ids


def log_probs(sampler, client, prompt) -> None:
    """Of answers: the trainer's at temperature 1, scaled by 1/T between tokens otherwise."""
    for tokens, found, _ in answers(draw(sampler, prompt, 3, seed=5).result()):
        whole = prompt + tokens
        near(found, trained(client, whole)[-len(tokens) :], "sampled log-probs and forward's")
        near(found, scored(sampler, whole)[-len(tokens) :], "sampled log-probs and the prompt's")
    for temperature in (0.5, 2.0):
        response = draw(sampler, prompt, 32, seed=6, max_tokens=1, temperature=temperature)
        seen = {one[0][0]: one[1][0] for one in answers(response.result())}
        assert len(seen) > 1, f"32 draws at temperature {temperature} are one token"
        plain = {token: trained(client, prompt + [token])[-1] for token in seen}
        anchor = next(iter(seen))
        near(
            [seen[token] - seen[anchor] for token in seen],
            [(plain[token] - plain[anchor]) / temperature for token in seen],
            f"differences of log-probs at temperature {temperature}",
            5 * CLOSE / temperature,
        )


def greedy(sampler, client, prompt) -> list[int]:
    first, second = (
        answers(draw(sampler, prompt, 2, seed=seed, temperature=0.0).result()) for seed in (1, 2)
    )
    assert first == second and first[0] == first[1], "a greedy answer depends on the seed"
    tokens, found, _ = first[0]
    near(found, trained(client, prompt + tokens)[-len(tokens) :], "greedy log-probs")
    by_top_k = answers(draw(sampler, prompt, 1, seed=9, top_k=1).result())[0]
    assert by_top_k[0] == tokens, "top_k 1 is not greedy"
    near(by_top_k[1], found, "log-probs under top_k 1, which are those before the cut")
    by_top_p = answers(draw(sampler, prompt, 1, seed=9, top_p=1e-6).result())[0]
    assert by_top_p[0] == tokens, "top_p near 0 is not greedy"
    return tokens


def ends(sampler, prompt, tokens) -> None:
    """A stop token ends an answer and is its last token."""
    stop = tokens[4]
    place = tokens.index(stop)
    found = answers(draw(sampler, prompt, 1, temperature=0.0, stop=[stop]).result())[0]
    assert found[0] == tokens[: place + 1] and found[2] == "stop", (found, tokens)
    whole = answers(draw(sampler, prompt, 1, temperature=0.0, stop=[]).result())[0]
    assert whole[0] == tokens and whole[2] == "length", whole
    one = answers(draw(sampler, prompt, 1, temperature=0.0, max_tokens=1).result())[0]
    assert one[0] == tokens[:1] and one[2] == "length", one


def stop_text(sampler, prompt, tokens) -> None:
    """A text that a token completes ends the answer behind it (needs the model's tokenizer)."""
    tokenizer = sampler.get_tokenizer()
    pieces = [tokenizer.decode(tokens[: end + 1]) for end in range(len(tokens))]
    end = next((i for i in range(2, len(pieces)) if len(pieces[i]) >= len(pieces[i - 1]) + 2), None)
    if end is None:
        return
    text = pieces[end][len(pieces[end - 1]) :][:2]
    place = next(i for i, piece in enumerate(pieces) if text in piece)
    for stop in (text, [text]):
        found = answers(draw(sampler, prompt, 1, temperature=0.0, stop=stop).result())[0]
        assert found[0] == tokens[: place + 1] and found[2] == "stop", (text, found, tokens)


def prompts(sampler, client, prompt) -> None:
    """Log-probs of a prompt: all, the last n, the likeliest; temperature does not touch them."""
    expected = trained(client, prompt)
    near(scored(sampler, prompt), expected, "prompt log-probs and forward's")
    response = draw(
        sampler,
        prompt,
        max_tokens=2,
        seed=1,
        temperature=3.0,
        include_prompt_logprobs=True,
        topk_prompt_logprobs=5,
        topk_sample_logprobs=4,
    ).result()
    near(response.prompt_logprobs[1:], expected, "prompt log-probs at temperature 3")
    rows = response.topk_prompt_logprobs
    assert rows[0] is None and len(rows) == len(prompt), rows
    for place, row in enumerate(rows[1:]):
        values = [value for _, value in row]
        assert len(row) == 5 and values == sorted(values, reverse=True), row
        assert sum(np.exp(values)) < 1 + 1e-5, row
        by_id = dict(row)
        if prompt[place + 1] in by_id:
            near(by_id[prompt[place + 1]], expected[place], f"top log-probs at {place}")
        else:
            assert expected[place] <= values[-1] + CLOSE, (expected[place], row)
    top = response.sequences[0].topk_logprobs
    assert len(top) == 2 and all(len(row) == 4 for row in top), top

    last = sampler.compute_logprobs(tinker.ModelInput.from_ints(prompt), 3).result()
    assert last[:-3] == [None] * (len(prompt) - 3), last
    near(last[-3:], expected[-3:], "the last 3 prompt log-probs")


def many(sampler, prompt) -> None:
    """Requests at once give what each gives alone, whatever runs beside them."""
    waiting = [
        draw(sampler, prompt[: 3 + index % 5], 1 + index % 3, seed=index, max_tokens=2 + index % 9)
        for index in range(40)
    ]
    together = [answers(one.result()) for one in waiting]
    for index in (0, 7, 39):
        alone = draw(
            sampler, prompt[: 3 + index % 5], 1 + index % 3, seed=index, max_tokens=2 + index % 9
        )
        assert answers(alone.result()) == together[index], f"request {index} depends on others"


def snapshots(service, options, prompt) -> None:
    """A sampler keeps the weights that it was made from; the next one has the new weights."""
    client = connection.create(service, options, seed=8)
    before = client.save_weights_and_get_sampling_client().result()
    old = scored(before, prompt)
    base = service.create_sampling_client(base_model=options.model).result()
    near(scored(base, prompt), old, "an adapter whose B is 0 and the base model")
    client.forward_backward([datums.unweighted(prompt)], "cross_entropy")
    client.optim_step(tinker.AdamParams(learning_rate=1e-2)).result()
    after = client.save_weights_and_get_sampling_client().result()
    assert (scored(before, prompt) == old).all(), "a step moved an earlier sampler"
    assert scored(after, prompt).sum() > old.sum(), "a step did not reach the next sampler"
    near(scored(after, prompt), trained(client, prompt), "the next sampler")
    copy = pickle.loads(pickle.dumps(after))
    assert (scored(copy, prompt) == scored(after, prompt)).all(), "a pickled client differs"


def main() -> None:
    parser = connection.arguments(__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", action="store_true", help="the model's folder has one")
    options = parser.parse_args()
    service = connection.connect(options)
    client = connection.create(service, options, seed=2)
    for step in range(2):
        batch = datums.answers(step, 3, options.length, options.vocabulary)
        client.forward_backward(batch, "cross_entropy")
        client.optim_step(tinker.AdamParams(learning_rate=2e-3))
    sampler = client.save_weights_and_get_sampling_client().result()
    prompt = datums.tokens(31, options.length, options.vocabulary)

    seeds(sampler, prompt)
    log_probs(sampler, client, prompt)
    tokens = greedy(sampler, client, prompt)
    ends(sampler, prompt, tokens)
    if options.tokenizer:
        stop_text(sampler, prompt, tokens)
    prompts(sampler, client, prompt)
    many(sampler, prompt)
    snapshots(service, options, prompt)
    connection.report(greedy=tokens)


if __name__ == "__main__":
    main()
