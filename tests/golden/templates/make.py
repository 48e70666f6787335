"""Examples that LLaMA-Factory 0.9.5 makes from conversations with each of its templates, by its own
converters, templates and processors.

    make.py

Writes tokenizer.json (that of tiny/smollm2, plus every token that a template needs as a single
token) and cases.json, one case per line:

    {"dataset": of data/, "template": ..., other configuration keys, "examples": their number,
     "tokens": their number in all examples, "digest": Dataset:digest() of moonring.data}

or "error": true if LLaMA-Factory raises an error (for example a format that allows one call per
message, or JSON that it cannot read). The converters get the rows as they are in data/, with null
for a key that a row lacks. Arguments that are a JSON text are parsed first; LLaMA-Factory would
write the text in quotes, or fail. Templates for images and audio are used without their plugins.
The date is 26 Jul 2024.
"""

import copy
import datetime
import hashlib
import json
import os
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL_FORMATS = (
    "default",
    "gemma4",
    "glm4",
    "glm4_moe",
    "lfm2",
    "ling",
    "llama3",
    "minimax1",
    "minimax2",
    "mistral",
    "qwen",
    "qwen3_5",
    "seed_oss",
)
STAGES = {"pairs": "rm", "judged": "kto"}
CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|bos|>",
    "eos_token": "<|eos|>",
    "pad_token": "<|endoftext|>",
}


def cases(registry, reasoning):
    for name in registry:
        for dataset in ("chats", "parallel", "pairs", "worded", "thinking_call"):
            yield dict(dataset=dataset, template=name)
        if not isinstance(registry[name], reasoning):
            continue
        for enable_thinking in (True, False, None):
            for mask_history in (False, True):
                yield dict(
                    dataset="thoughts",
                    template=name,
                    enable_thinking=enable_thinking,
                    mask_history=mask_history,
                )
            yield dict(dataset="judged", template=name, enable_thinking=enable_thinking)
        for dataset, mask_history in (("thoughts", True), ("pairs", False), ("judged", False)):
            yield dict(
                dataset=dataset,
                template=name,
                enable_thinking=False,
                preserve_thinking=True,
                mask_history=mask_history,
            )
        yield dict(dataset="pairs", template=name, enable_thinking=False)
        yield dict(dataset="pairs", template=name, enable_thinking=None)
        yield dict(dataset="thinking_call", template=name, enable_thinking=False)
    for tool_format in TOOL_FORMATS:
        for name in ("default", "chatglm3", "qwen3"):
            for dataset in ("chats", "parallel"):
                yield dict(dataset=dataset, template=name, tool_format=tool_format)
        yield dict(dataset="messages", template="qwen", tool_format=tool_format)
    for name in ("default", "llama3", "mistral", "phi4_mini", "qwen", "qwen3"):
        for dataset in ("messages", "instructions"):
            yield dict(dataset=dataset, template=name)
    for cutoff_len in (24, 60, 120):
        for name in ("glm4", "qwen3", "chatml"):
            yield dict(dataset="chats", template=name, cutoff_len=cutoff_len)
    yield dict(dataset="chats", template="qwen3", default_system="Mine.")


def write_tokenizer(registry):
    path = os.path.join(HERE, "../tokenizer/tiny/smollm2.tokenizer.json")
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    words = ["<|bos|>", "<|eos|>"]
    for template in registry.values():
        words += template.stop_words
        for part in vars(template).values():
            words += [
                slot["token"] for slot in getattr(part, "slots", []) if isinstance(slot, dict)
            ]
    known = {token["content"] for token in tokenizer["added_tokens"]}
    number = 1 + max(
        [
            *tokenizer["model"]["vocab"].values(),
            *(token["id"] for token in tokenizer["added_tokens"]),
        ]
    )
    for word in dict.fromkeys(words):
        if word in known:
            continue
        tokenizer["added_tokens"].append(
            {
                "id": number,
                "content": word,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        )
        number += 1
    with open(os.path.join(HERE, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file, ensure_ascii=False, separators=(",", ":"))
    return tokenizer


def digest(examples):
    text = ""
    for documents, tag in examples:
        data = (text + ";" + ("" if tag is None else str(int(tag)))).encode()
        for ids, labels in documents:
            data += b";%d:" % len(ids) + b"".join(
                struct.pack(f"<{len(ids)}i", *numbers) for numbers in (ids, labels)
            )
        text = hashlib.sha1(data).hexdigest()
    return text


def rows_of(attributes, folder):
    with open(os.path.join(folder, attributes.dataset_name), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    columns = [getattr(attributes, name) for name in ("system", "tools", "history")]
    for row in rows:
        for column in columns:
            if column is not None:
                row.setdefault(column, None)
        for message in row.get("messages") or []:
            message.setdefault("content", None)
            for call in message.get("tool_calls") or []:
                if isinstance(call["function"]["arguments"], str):
                    call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return rows


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


def prepare(case, folder, registry):
    from llamafactory.data.converter import get_dataset_converter
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.data.processor import (
        FeedbackDatasetProcessor,
        PairwiseDatasetProcessor,
        SupervisedDatasetProcessor,
    )
    from llamafactory.data.template import TEMPLATES, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments
    from transformers import AutoTokenizer

    TEMPLATES.clear()
    TEMPLATES.update(copy.deepcopy(registry))
    arguments = DataArguments(dataset_dir=os.path.join(HERE, "data"), **case)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = get_template_and_fix_tokenizer(tokenizer, arguments)
    attributes = get_dataset_list([case["dataset"]], arguments.dataset_dir)[0]
    convert = get_dataset_converter(attributes.formatting, attributes, arguments)
    converted = [convert(copy.deepcopy(row)) for row in rows_of(attributes, arguments.dataset_dir)]
    stage = STAGES.get(case["dataset"], "sft")
    processor = {
        "rm": PairwiseDatasetProcessor,
        "kto": FeedbackDatasetProcessor,
        "sft": SupervisedDatasetProcessor,
    }[stage]
    made = processor(
        template=template, tokenizer=tokenizer, processor=None, data_args=arguments
    ).preprocess_dataset({key: [row[key] for row in converted] for key in converted[0]})
    names = {"rm": ("chosen_", "rejected_"), "kto": ("", "kl_"), "sft": ("",)}[stage]
    examples = []
    for i in range(len(made[names[0] + "input_ids"])):
        documents = [(made[name + "input_ids"][i], made[name + "labels"][i]) for name in names]
        examples.append((documents, made["kto_tags"][i] if stage == "kto" else None))
    return examples


def main():
    import llamafactory.data.tool_utils as tool_utils
    from llamafactory.data.mm_plugin import get_mm_plugin
    from llamafactory.data.template import TEMPLATES, ReasoningTemplate

    tool_utils.datetime = Today
    for template in TEMPLATES.values():
        template.mm_plugin = get_mm_plugin("base")
    registry = copy.deepcopy(TEMPLATES)
    made = []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(write_tokenizer(registry), file)
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        for case in cases(registry, ReasoningTemplate):
            try:
                examples = prepare(case, folder, registry)
                made.append(
                    {
                        **case,
                        "examples": len(examples),
                        "tokens": sum(
                            len(ids) for documents, _ in examples for ids, _ in documents
                        ),
                        "digest": digest(examples),
                    }
                )
                if os.environ.get("DUMP") == f"{case['dataset']}/{case['template']}":
                    print(json.dumps([case, examples]))
            except (
                RuntimeError,
                ValueError,
                KeyError,
                TypeError,
                IndexError,
                AttributeError,
            ) as error:
                made.append({**case, "error": True})
                print(case, repr(error)[:200], file=sys.stderr)
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in made) + "\n]\n")


if __name__ == "__main__":
    main()
