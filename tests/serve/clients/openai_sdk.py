#!/usr/bin/env python3
"""The openai SDK against a service: completions and chat, plain and streamed, log-probs, errors,
many requests at once, a client that leaves."""

import argparse
import asyncio
import json
import math

import openai


def expect(kind, status, field, part, call):
    """The call fails with this error of the SDK."""
    try:
        call()
    except openai.APIStatusError as error:
        assert isinstance(error, kind) and error.status_code == status, error
        assert error.param == field, (error.param, error)
        assert part in str(error), error
        assert error.type == "invalid_request_error", error.body
        return
    raise AssertionError(f"no {kind}")


def completions(client, model):
    ask = {"model": model, "prompt": "The moon has rings", "max_tokens": 9, "temperature": 0}
    plain = client.completions.create(**ask, logprobs=2, n=2)
    assert plain.object == "text_completion" and [c.index for c in plain.choices] == [0, 1]
    assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens
    choice = plain.choices[0]
    assert choice.text == plain.choices[1].text and choice.finish_reason in ("stop", "length")
    probs = choice.logprobs
    for value, top in zip(probs.token_logprobs, probs.top_logprobs, strict=True):
        assert value == max(top.values()), (value, top)  # greedy: the same float
    echoed = client.completions.create(**ask | {"max_tokens": 0}, echo=True, logprobs=0)
    assert echoed.choices[0].text == ask["prompt"]
    assert echoed.choices[0].logprobs.token_logprobs[0] is None
    assert "".join(echoed.choices[0].logprobs.tokens) == ask["prompt"]
    assert echoed.usage.completion_tokens == 0
    parts = list(
        client.completions.create(**ask, stream=True, stream_options={"include_usage": True})
    )
    assert "".join(c.text for part in parts for c in part.choices) == choice.text
    assert parts[-1].choices == [] and parts[-1].usage.completion_tokens == len(probs.tokens)
    assert parts[-2].choices[0].finish_reason == choice.finish_reason


def chat(client, model):
    ask = {"model": model, "max_completion_tokens": 9, "temperature": 0}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is the moon?"}]},
    ]
    plain = client.chat.completions.create(messages=messages, **ask, logprobs=True, top_logprobs=3)
    message = plain.choices[0].message
    assert message.role == "assistant" and isinstance(message.content, str)
    tokens = plain.choices[0].logprobs.content
    assert len(tokens) == plain.usage.completion_tokens
    for token in tokens:
        assert token.logprob == max(top.logprob for top in token.top_logprobs)
        assert len(token.top_logprobs) == 3 and math.exp(token.logprob) <= 1
    parts = list(client.chat.completions.create(messages=messages, **ask, stream=True))
    assert parts[0].choices[0].delta.role == "assistant"
    said = "".join(part.choices[0].delta.content or "" for part in parts)
    assert said == message.content, (said, message.content)
    assert parts[-1].choices[0].finish_reason == plain.choices[0].finish_reason
    # the SDK's own message goes back into the conversation
    more = client.chat.completions.create(
        messages=[*messages, message, {"role": "user", "content": "And?"}], **ask
    )
    assert more.usage.prompt_tokens > plain.usage.prompt_tokens


def errors(client, model):
    message = [{"role": "user", "content": "Hi"}]
    picture = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    bad, create = openai.BadRequestError, client.completions.create
    talk = client.chat.completions.create
    expect(openai.NotFoundError, 404, "model", model,
           lambda: create(model=model + "x", prompt="a"))
    expect(bad, 400, "temperature", "at least 0",
           lambda: create(model=model, prompt="a", temperature=-1))
    expect(bad, 400, "logit_bias", "not supported",
           lambda: create(model=model, prompt="a", logit_bias={"5": 1}))
    expect(bad, 400, None, "did you mean 'temperature'",
           lambda: create(model=model, prompt="a", extra_body={"temprature": 1}))
    expect(bad, 400, "messages", "messages[0].content[0].type",
           lambda: talk(model=model, messages=[{"role": "user", "content": picture}]))
    expect(bad, 400, "response_format", "not supported",
           lambda: talk(model=model, messages=message, response_format={"type": "json_object"}))
    other = openai.OpenAI(base_url=client.base_url, api_key="tml-other", max_retries=0)
    try:
        other.models.list()
        raise AssertionError("another key is taken")
    except openai.AuthenticationError:
        pass


async def together(url, key, model):
    client = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0)
    ask = {"model": model, "prompt": "The moon", "max_tokens": 12, "temperature": 1, "seed": 5}
    alone = (await client.completions.create(**ask)).choices[0].text

    async def leave():
        parts = await client.completions.create(
            **ask | {"max_tokens": 100_000_000}, stream=True, extra_body={"ignore_eos": True}
        )
        async for _ in parts:
            break
        await parts.close()

    seeds = [client.completions.create(**ask | {"seed": seed}) for seed in range(5, 29)]
    done = await asyncio.gather(leave(), *seeds, leave())
    texts = [one.choices[0].text for one in done[1:-1]]
    assert texts[0] == alone, "other requests changed an answer"
    assert len(set(texts)) > 12, "seeds give the same answers"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--url", "--key", "--model"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    url = given.url + "/v1"
    client = openai.OpenAI(base_url=url, api_key=given.key, max_retries=0)
    model = client.models.list().data[0].id
    completions(client, model)
    chat(client, given.model)
    errors(client, given.model)
    asyncio.run(together(url, given.key, given.model))
    print(json.dumps({"model": model}))


main()
