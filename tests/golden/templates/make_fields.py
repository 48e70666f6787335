"""Writes fields.json: the texts that models' own chat templates write for the fields of an answer:
reasoning, tool calls, and text next to tool calls.

    make_fields.py FOLDER

FOLDER: chat_templates of trl's wheel (1.16.0), which contains the models' templates. They are
rendered by Transformers. Each line is a case: {"template": LLaMA-Factory's name, "name": the case,
"row": JSON text with a user's and an assistant's message, "answer": the text after the marker that
begins an answer, without the text that ends it}. GLM's template ends calls with a tag that
LLaMA-Factory omits; it is omitted from the file too.
"""

import json
import os
import sys

from transformers.utils.chat_template_utils import render_jinja_template

HERE = os.path.dirname(os.path.abspath(__file__))
# LLaMA-Factory's name: the model's template, the marker that begins an answer, texts that may end
# it.
TEMPLATES = {
    "gemma4": ("gemma4_v5", "<|turn>model\n", ("<turn|>\n",)),
    "glm4_moe": ("glm4moe", "<|assistant|>", ("\n</tool_call>",)),
    "gpt_oss": ("gptoss", "<|end|><|start|>assistant", ("<|return|>",)),
    "lfm2": ("lfm2_v2", "<|im_start|>assistant\n", ("<|im_end|>\n",)),
    "llama3": (
        "llama3_1",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ("<|eot_id|>",),
    ),
    "qwen": ("qwen2_5", "<|im_start|>assistant\n", ("<|im_end|>\n",)),
    "qwen3": ("qwen3", "<|im_start|>assistant\n", ("<|im_end|>\n",)),
    "qwen3_5": ("qwen3_5_think", "<|im_start|>assistant\n", ("<|im_end|>\n",)),
    "qwen3_6": ("qwen3_6", "<|im_start|>assistant\n", ("<|im_end|>\n",)),
    "qwen3_nothink": ("qwen3_instruct_2507", "<|im_start|>assistant\n", ("<|im_end|>\n",)),
}
THOUGHTS = ("gemma4", "glm4_moe", "gpt_oss", "qwen3", "qwen3_5", "qwen3_6")
CALLS = ("glm4_moe", "lfm2", "llama3", "qwen", "qwen3", "qwen3_5", "qwen3_6", "qwen3_nothink")
SEVERAL = ("qwen", "qwen3", "qwen3_5", "qwen3_nothink")  # others reject several calls


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def cases(template):
    f = call("f", {"x": 1, "where": {"y": [2, None, "ü"]}} if template != "lfm2" else {"x": 1})
    g = call("g", {"z": 2})
    thought = {"reasoning_content": "two and\n\ntwo"}
    if template in THOUGHTS:
        yield "thought", {**thought, "content": "four"}
        if template != "gemma4":  # it trims each answer's text; LLaMA-Factory does not
            yield "lines around", {"reasoning_content": "\n\ntwo\n", "content": "\nfour"}
        yield "spaces around", {"reasoning_content": "  two \n", "content": "four"}
    if template not in CALLS:
        return
    if template != "glm4_moe":  # LLaMA-Factory writes another empty reasoning
        yield "call", {"content": "", "tool_calls": [f]}
        yield "text and call", {"content": "I look.\nNow.", "tool_calls": [f]}
    if template not in ("llama3", "lfm2", "glm4_moe"):
        yield "text with lines around", {"content": "\nI look.\n", "tool_calls": [f]}
    if template in SEVERAL:
        yield "text and calls", {"content": "I look.", "tool_calls": [f, g]}
    if template in THOUGHTS:
        yield "thought and call", {**thought, "content": "", "tool_calls": [f]}
        yield "thought, text and call", {**thought, "content": "I look.", "tool_calls": [f]}
    if template == "qwen3":
        inline = "<think>\ntwo\n</think>\n\n"
        yield "thought inside and call", {"content": inline, "tool_calls": [f]}
        yield "thought inside, text and call", {"content": inline + "I look.", "tool_calls": [f]}


def main(folder):
    made = []
    for name, (file, marker, ends) in TEMPLATES.items():
        with open(os.path.join(folder, file + ".jinja"), encoding="utf-8") as text:
            jinja = text.read()
        for case, answer in cases(name):
            messages = [{"role": "user", "content": "2+2?"}, {"role": "assistant", **answer}]
            given = messages
            if name == "gpt_oss":  # the name of the field for reasoning
                given = [messages[0], {**messages[1], "thinking": answer["reasoning_content"]}]
            rendered, _ = render_jinja_template(
                conversations=[given], chat_template=jinja, bos_token="<s>", eos_token="</s>"
            )
            answer = rendered[0].split(marker, 1)[1]
            for end in ends:
                answer = answer[: -len(end)] if answer.endswith(end) else answer
            row = json.dumps({"messages": messages}, ensure_ascii=False)
            made.append({"template": name, "name": case, "row": row, "answer": answer})
    with open(os.path.join(HERE, "fields.json"), "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in made)
        file.write("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
