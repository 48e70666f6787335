"""Counts how many chat templates of published models are rendered byte for byte as by Transformers.

    compare.py RENDER FOLDER...

RENDER: the binary of //tests/data/text/jinja:jinja_render. The FOLDERs are searched for *.jinja and
tokenizer_config.json. Each template is rendered for conversations with and without a system text,
tools, tool calls and their results, reasoning, content in parts, a generation prompt, and the
keywords that templates read. If Jinja2 raises an error, Moonring must fail too; the messages may
differ.
"""

import copy
import itertools
import json
import os
import subprocess
import sys

NOW = 1721995200  # 26 Jul 2024, noon

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'The weather\'s "state" at a place <now> — é',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "A city's name"},
                    "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                    "days": {"type": "array", "items": {"type": "integer"}, "nullable": True},
                    "where": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}},
                        "required": ["x"],
                    },
                },
                "required": ["city"],
            },
            "return": {"type": "string"},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "noop",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]


def call(name, arguments, number, as_text):
    return {
        "id": f"call_{number:05d}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments) if as_text else arguments},
    }


def conversations():
    user, answer = (
        {"role": "user", "content": "Hello, wörld! 你好 {{ x }} 'q' \"d\" \\ </s>"},
        {"role": "assistant", "content": "Hi there.\n  Indented.\n"},
    )
    system = {"role": "system", "content": "  You are terse.\n"}
    yield "one", [user]
    yield "system", [system, user]
    yield "turns", [user, answer, {"role": "user", "content": "More?"}]
    yield (
        "system turns",
        [
            system,
            user,
            answer,
            {"role": "user", "content": "More?"},
            {"role": "assistant", "content": "No."},
        ],
    )
    yield "answered", [user, answer]
    yield (
        "thoughts",
        [
            user,
            {"role": "assistant", "content": "<think>\nHm, 1 < 2.\n</think>\n\nOne."},
            {"role": "user", "content": "Two?"},
            {"role": "assistant", "content": "<think>\nAgain\n</think>\n\nTwo."},
        ],
    )
    yield (
        "reasoning_content",
        [
            user,
            {"role": "assistant", "content": "One.", "reasoning_content": "Hm."},
            {"role": "user", "content": "Two?"},
            {
                "role": "assistant",
                "content": "Two.",
                "reasoning_content": "Hm again.",
                "thinking": "t",
                "reasoning": "r",
            },
        ],
    )
    parts = [
        {"type": "text", "text": "See: "},
        {"type": "image"},
        {"type": "text", "text": " and say."},
    ]
    yield (
        "parts",
        [
            {"role": "system", "content": [{"type": "text", "text": "Look."}]},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": [{"type": "text", "text": "Seen."}]},
        ],
    )
    yield (
        "media",
        [
            {
                "role": "user",
                "content": [
                    {"type": "image", "image": "a.png"},
                    {"type": "video"},
                    {"type": "audio", "audio_url": "x"},
                    {"type": "text", "text": "What?"},
                ],
            }
        ],
    )
    for as_text in (False, True):
        calls = [
            call(
                "get_weather",
                {"city": "Zürich", "days": [1, 2], "where": {"x": 1.5, "ok": True, "n": None}},
                1,
                as_text,
            )
        ]
        result = {
            "role": "tool",
            "content": '{"t": 21}',
            "name": "get_weather",
            "tool_call_id": "call_00001",
        }
        yield (
            f"call {as_text}",
            [system, user, {"role": "assistant", "content": "", "tool_calls": calls}, result],
        )
        yield (
            f"call none {as_text}",
            [
                user,
                {"role": "assistant", "content": None, "tool_calls": calls},
                result,
                {"role": "assistant", "content": "21."},
                {"role": "user", "content": "Thanks"},
            ],
        )
        yield (
            f"calls {as_text}",
            [
                user,
                {
                    "role": "assistant",
                    "content": "Let me see.",
                    "reasoning_content": "need both",
                    "tool_calls": calls + [call("noop", {}, 2, as_text)],
                },
                result,
                {"role": "tool", "content": "done", "name": "noop", "tool_call_id": "call_00002"},
            ],
        )
    yield "two users", [user, user]
    yield "assistant first", [answer, user]
    yield "empty", [{"role": "user", "content": ""}]
    yield "no one", []
    yield (
        "other role",
        [{"role": "developer", "content": "Do."}, user, {"role": "nobody", "content": "x"}],
    )


def contexts():
    words = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    keywords = [
        {},
        {"enable_thinking": False},
        {
            "enable_thinking": True,
            "thinking": True,
            "reasoning_effort": "high",
            "keep_past_thinking": True,
        },
        {"date_string": "01 Jan 2025", "custom_tools": None},
    ]
    for name, messages in conversations():
        for tools, prompt, extra in itertools.product((None, TOOLS), (False, True), keywords):
            yield (
                f"{name} tools={bool(tools)} prompt={prompt} {extra}",
                {
                    "messages": messages,
                    "tools": tools,
                    "documents": None,
                    "add_generation_prompt": prompt,
                    **words,
                    **extra,
                },
            )


def templates(folders):
    for folder in folders:
        for parent, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                path = os.path.join(parent, name)
                if name.endswith(".jinja"):
                    with open(path, encoding="utf-8") as file:
                        yield path, file.read()
                elif name == "tokenizer_config.json":
                    with open(path, encoding="utf-8") as file:
                        carried = json.load(file).get("chat_template")
                    if isinstance(carried, str):
                        yield path, carried


def main():
    import datetime

    import transformers.utils.chat_template_utils as utils

    class Now(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(NOW)

    utils.datetime = Now
    found, seen = [], set()
    for path, text in templates(sys.argv[2:]):
        if text not in seen:
            seen.add(text)
            found.append((path, text))
    everything = list(contexts())
    given = "".join(
        json.dumps({"template": text, "context": context, "now": NOW}) + "\n"
        for _, text in found
        for _, context in everything
    )
    ran = subprocess.run(
        [sys.argv[1]], input=given, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True
    )
    ours = iter(json.loads(line) for line in ran.stdout.split("\n") if line)
    equal = errors = rendered = 0
    whole = []
    for path, text in found:
        differences = 0
        try:
            compiled = utils._compile_jinja_template(text)
        except Exception as error:
            compiled, why = None, error
        for name, context in everything:
            mine = next(ours)
            try:
                if compiled is None:
                    raise why
                want = compiled.render(**copy.deepcopy(context))
            except Exception as error:
                want, said = None, error
            if want is None:
                errors += 1
            else:
                rendered += 1
            if mine.get("text") == want and (
                want is not None or mine.get("code") == "INVALID_ARGUMENT"
            ):
                equal += 1
                continue
            differences += 1
            if differences <= int(os.environ.get("SHOW", "1")):
                print(
                    f"{path}\n  {name}\n  Jinja2: {want if want is not None else repr(said)!r}"[
                        :1500
                    ],
                    f"  ours:   {mine.get('text', mine.get('error'))!r}"[:1500],
                    sep="\n",
                )
        whole.append(differences == 0)
    print(
        f"{sum(whole)} of {len(found)} templates; {equal} of {len(found) * len(everything)} "
        f"renderings equal ({rendered} texts, {errors} errors)"
    )


if __name__ == "__main__":
    main()
