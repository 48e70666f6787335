"""Writes parsed.json: the templates that LLaMA-Factory 0.9.5 derives from a tokenizer's chat
template if the configuration names none, and the prompts of Transformers' apply_chat_template.

    make_parsed.py

A list of {name, tokenizer: in ../tokenizer/tiny, config: tokenizer_config.json, jinja:
chat_template.jinja or absent, and either error: true, or empty: true (LLaMA-Factory uses its
template `empty`), or reasoning, prefix, system, user, assistant, default_system, turns: by
conversation [[prompt ids, answer ids], ...]}, prompts: by conversation the ids of
apply_chat_template with a generation prompt, null for an error}. The file also contains the
conversations.
"""

import json
import os
import shutil
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
    "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "chatml with a default system text": "{% if messages[0].role != 'system' "
    "%}<|im_start|>system\nYou are hélpful.<|im_end|>\n{% "
    "endif %}" + CHATML,
    "headers after a bos": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role "
    "}}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endfor "
    "%}{% if add_generation_prompt %}<|start_header_id|>assistant<|"
    "end_header_id|>\n\n{% endif %}",
    "system in the first user's": "{{ bos_token }}{% if messages[0].role == 'system' %}{% set s "
    "= '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}{% "
    "set rest = messages[1:] %}{% else %}{% set s = '' %}{% set "
    "rest = messages %}{% endif %}"
    "{% for m in rest %}{% if m.role == 'user' %}{{ '[INST] ' + (s if loop.first else '') + "
    "m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}",
    "refuses a system": "{{ bos_token }}{% if messages[0].role == 'system' %}{{ "
    "raise_exception('System role not supported') }}{% endif %}{% for m in "
    "messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else "
    "m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if "
    "add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    "turns": "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == "
    "'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if "
    "add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    "reasoning": "{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == 'assistant' "
    "%}<think>\n\n</think>\n\n{% endif %}{{ m.content }}{{ eos_token }}\n{% endfor "
    "%}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "default system text within words": "{{ bos_token }}{% set s = messages[0].content if "
    "messages[0].role == 'system' else 'Be kind. ' * 2 "
    "%}[SYS]{{ s }}[/SYS]{% for m in messages if m.role != "
    "'system' %}{% if m.role == 'user' %}USER: {{ m.content "
    "}} ASSISTANT:{% else %} {{ m.content }}{{ eos_token "
    "}}{% endif %}{% endfor %}",
    "plain words": "{% for m in messages %}{{ m.role | title }}: {{ m.content }}\n\n{% endfor "
    "%}{% if add_generation_prompt %}Assistant:{% endif %}",
    "an answer without its text": "{% for m in messages %}{% if m.role != 'assistant' %}{{ "
    "m.content }}{% endif %}{% endfor %}",
}
PLAIN = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
}
TOKENIZERS = {
    "smollm2": PLAIN,
    "llama3": {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|end_of_text|>",
    },
    "llama2": {
        "tokenizer_class": "LlamaTokenizerFast",
        "bos_token": {
            "content": "<s>",
            "__type": "AddedToken",
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
        },
        "eos_token": "</s>",
        "unk_token": "<unk>",
    },
    "gemma": {
        "tokenizer_class": "GemmaTokenizerFast",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    },
}
CONVERSATIONS = [
    [["user", "Hello there!"], ["assistant", "Hi.\n"]],
    [
        ["system", "Be terse. é"],
        ["user", " one {{content}} "],
        ["assistant", "two <|im_end|>"],
        ["user", "three"],
        ["assistant", "four"],
    ],
    [["user", ""], ["assistant", "x"]],
    [
        ["user", "a"],
        ["assistant", "<think>\nHm.\n</think>\n\nb"],
        ["user", "c"],
        ["assistant", "d"],
    ],
]


def cases():
    for tokenizer, config in TOKENIZERS.items():
        for name, template in TEMPLATES.items():
            yield f"{tokenizer}: {name}", tokenizer, {**config, "chat_template": template}, None
    yield (
        "several",
        "smollm2",
        {
            **PLAIN,
            "chat_template": [
                {"name": "default", "template": CHATML},
                {"name": "tool_use", "template": "x"},
            ],
        },
        None,
    )
    yield (
        "a file before the configuration",
        "smollm2",
        {**PLAIN, "chat_template": "x"},
        TEMPLATES["plain words"],
    )
    yield (
        "llama2 without its bos",
        "llama2",
        {
            **TOKENIZERS["llama2"],
            "add_bos_token": False,
            "add_eos_token": True,
            "chat_template": TEMPLATES["plain words"],
        },
        None,
    )


def observe(folder):
    from llamafactory.data.template import ReasoningTemplate, get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = []
    for conversation in CONVERSATIONS:
        try:
            prompts.append(
                tokenizer.apply_chat_template(
                    [{"role": role, "content": content} for role, content in conversation[:-1]],
                    add_generation_prompt=True,
                )
            )
        except Exception:
            prompts.append(None)
    seen = {"prompts": prompts}
    if not isinstance(tokenizer.chat_template, str):
        return {**seen, "empty": True}
    try:
        template = get_template_and_fix_tokenizer(tokenizer, DataArguments())
    except Exception as error:
        print(folder, repr(error)[:120])
        return {**seen, "error": True}
    seen["reasoning"] = isinstance(template, ReasoningTemplate)
    for name in ("prefix", "system", "user", "assistant"):
        seen[name] = "".join(getattr(template, "format_" + name).slots)
    seen["default_system"] = template.default_system
    seen["turns"] = []
    for conversation in CONVERSATIONS:
        system = conversation[0][1] if conversation[0][0] == "system" else ""
        messages = [
            {"role": role, "content": content} for role, content in conversation if role != "system"
        ]
        seen["turns"].append(template.encode_multiturn(tokenizer, messages, system, ""))
    return seen


def main():
    made = []
    for name, tokenizer, config, jinja in cases():
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(
                os.path.join(HERE, f"../tokenizer/tiny/{tokenizer}.tokenizer.json"),
                os.path.join(folder, "tokenizer.json"),
            )
            with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            if jinja is not None:
                with open(
                    os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8"
                ) as file:
                    file.write(jinja)
            made.append(
                {
                    "name": name,
                    "tokenizer": tokenizer,
                    "config": json.dumps(config),
                    **({"jinja": jinja} if jinja is not None else {}),
                    **observe(folder),
                }
            )
    with open(os.path.join(HERE, "parsed.json"), "w", encoding="utf-8") as file:
        file.write(
            json.dumps({"conversations": CONVERSATIONS}, ensure_ascii=False)[:-1]
            + ', "cases": [\n'
            + ",\n".join(json.dumps(case, ensure_ascii=False) for case in made)
            + "\n]}\n"
        )
    print(len(made), "cases,", sum("error" in case for case in made), "of them errors")


if __name__ == "__main__":
    main()
