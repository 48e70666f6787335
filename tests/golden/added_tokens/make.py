"""Tokenizers with added tokens, as LLaMA-Factory 0.9.5 creates them by load_tokenizer and then
get_template_and_fix_tokenizer.

    make.py

Writes cases.json, one case per line:

    tokenizer      name of a tokenizer in ../tokenizer/tiny; "gpt2_pair": that of gpt2 as vocab.json
                   and merges.txt; "bpe.model": that file as tokenizer.model
    files          other files in the tokenizer's folder: name -> contents as JSON
    keys           configuration keys: template, add_tokens, add_special_tokens,
                   split_special_tokens, resize_vocab
    length         number of tokens of the resulting tokenizer; eos, pad: its ids; stop_ids: sorted
    resize_vocab   the resulting value of this key
    added          tokens that the tokenizer lacked: content -> id
    ids            token ids of each of TEXTS; decoded: their texts without special tokens
    prompt         ids of a prompt; response: ids of its answer
"""

import contextlib
import io
import json
import os
import shutil
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "../tokenizer/tiny")
TEXTS = [
    "Hello world",
    "a <a>hello world!<sp> x<|im_end|> <|eot_id|><|eom_id|>",
    "x<end_of_turn>y<start_of_turn> <|endoftext|><unk></s>",
    "<a><a> <sp>\n<|im_start|>user\nHi",
    "a<|end|> b <|user|><old> <older>",
]
SMOLLM2 = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
}
WORDS = {"add_tokens": "<a>, hello,,world!", "add_special_tokens": "<sp>,<|im_end|>,<sp>"}
CLASS = "PreTrainedTokenizerFast"


def cases():
    def case(tokenizer, config, keys, **others):
        files = {"tokenizer_config.json": {"tokenizer_class": CLASS, **config}}
        files.update({name.replace("__", "."): value for name, value in others.items()})
        return dict(tokenizer=tokenizer, files=files, keys=keys)

    for template in ("llama3", "qwen", "gemma", "chatml", "phi4", "default"):
        yield case("smollm2", SMOLLM2, {"template": template})
        yield case("smollm2", SMOLLM2, {"template": template, **WORDS})
    yield case("smollm2", SMOLLM2, {"template": "chatml", "split_special_tokens": True, **WORDS})
    yield case("smollm2", SMOLLM2, {"template": "llama3", "split_special_tokens": True})
    yield case(
        "smollm2",
        SMOLLM2,
        {
            "template": "llama3",
            "add_tokens": "<|eom_id|>,<|im_end|>",
            "add_special_tokens": "hello",
        },
    )
    yield case("smollm2", SMOLLM2, {"template": "llama3", "resize_vocab": True})
    yield case(
        "smollm2",
        {"eos_token": "<|im_end|>", "unk_token": "<|endoftext|>"},
        {"template": "chatglm3"},
    )  # slots name tokens that it lacks
    yield case("smollm2", {}, {"template": "default"})
    yield case(
        "smollm2",
        {**SMOLLM2, "additional_special_tokens": ["<|eom_id|>", "<old>"]},
        {"template": "llama3", **WORDS},
    )
    for tokenizer, names in (
        ("llama2", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
        ("mistral", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
        ("gemma", {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}),
        ("qwen3", {"eos_token": "<|endoftext|>"}),
        ("llama3", {"eos_token": "<|end_of_text|>"}),
        ("gpt2", {"eos_token": "<|endoftext|>"}),
        ("t5", {"eos_token": "</s>", "unk_token": "<unk>"}),
    ):
        for template in ("gemma", "llama3", "qwen3"):
            yield case(
                tokenizer, names, {"template": template, **(WORDS if template == "llama3" else {})}
            )
    yield case("qwen3", {}, {"template": "default"})  # no eos: <|endoftext|>
    # As older versions of Transformers wrote them.
    yield case(
        "smollm2",
        {"eos_token": "<|im_end|>"},
        {"template": "llama3"},
        special_tokens_map__json={
            "eos_token": {
                "content": "<|im_start|>",
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
            },
            "unk_token": "<|endoftext|>",
            "additional_special_tokens": ["<old>"],
        },
    )
    # Ids must follow those that there are: the tiny tokenizer has 700.
    yield case(
        "smollm2",
        {"eos_token": "<|im_end|>", "additional_special_tokens": ["<old>"]},
        {"template": "qwen"},
        added_tokens__json={"<old>": 701, "<older>": 700},
    )
    yield case("gpt2_pair", {"tokenizer_class": "GPT2Tokenizer"}, {"template": "llama3", **WORDS})
    yield case(
        "gpt2_pair",
        {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<old>"},
        {"template": "default"},
    )
    # Transformers leaves runs of line ends alone that this model, by its own map, does not:
    # templates without them.
    for keys in (
        {"template": "qwen", **WORDS},
        {"template": "phi4"},
        {"template": "default", **WORDS},
    ):
        yield case("bpe.model", {"tokenizer_class": "LlamaTokenizer"}, keys)


def write_folder(folder, case):
    files = {
        "config.json": {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": 1000,
        },
        **case["files"],
    }
    if case["tokenizer"] == "bpe.model":
        shutil.copy(os.path.join(TINY, "bpe.model"), os.path.join(folder, "tokenizer.model"))
    else:
        write_tokenizer(folder, case["tokenizer"], files)
    for name, value in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False)


def write_tokenizer(folder, wanted, files):
    name = wanted.split("_pair")[0]
    with open(os.path.join(TINY, name + ".tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    if name == wanted:
        files["tokenizer.json"] = tokenizer
    else:
        files["vocab.json"] = tokenizer["model"]["vocab"]
        merges = [
            merge if isinstance(merge, str) else " ".join(merge)
            for merge in tokenizer["model"]["merges"]
        ]
        with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
            file.write("#version: 0.2\n" + "\n".join(merges) + "\n")


def run(case):
    import copy

    from llamafactory.data import get_template_and_fix_tokenizer
    from llamafactory.data.template import TEMPLATES
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, case)
        before = AutoTokenizer.from_pretrained(folder).get_vocab()
        config = dict(
            stage="sft",
            do_train=True,
            finetuning_type="full",
            model_name_or_path=folder,
            dataset="x",
            output_dir=folder + "/out",
            use_cpu=True,
            report_to="none",
            **case["keys"],
        )
        registered = copy.deepcopy(TEMPLATES[config["template"]])
        model_args, data_args, *_ = get_train_args(config)
        tokenizer = load_tokenizer(model_args)["tokenizer"]
        template = get_template_and_fix_tokenizer(tokenizer, data_args)
        TEMPLATES[config["template"]] = registered
        messages = [
            {"role": "user", "content": TEXTS[1]},
            {"role": "assistant", "content": "Hello <a>"},
        ]
        prompt, response = template.encode_oneturn(tokenizer, messages, system="Be brief.")
        ids = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
        tokenizer.save_pretrained(folder + "/saved")
        again = AutoTokenizer.from_pretrained(folder + "/saved")
        assert [again.encode(text, add_special_tokens=False) for text in TEXTS] == ids or case[
            "keys"
        ].get("split_special_tokens"), case
        return dict(
            case,
            length=len(tokenizer),
            eos=tokenizer.eos_token_id,
            pad=tokenizer.pad_token_id,
            stop_ids=sorted(template.get_stop_token_ids(tokenizer)),
            resize_vocab=model_args.resize_vocab,
            added={
                word: id
                for word, id in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
                if word not in before
            },
            ids=ids,
            decoded=[
                tokenizer.decode(each, skip_special_tokens=True, clean_up_tokenization_spaces=False)
                for each in ids
            ],
            prompt=prompt,
            response=response,
        )


def main():
    os.environ.setdefault("DISABLE_VERSION_CHECK", "1")
    lines = []
    for case in cases():
        with contextlib.redirect_stdout(io.StringIO()):
            lines.append(json.dumps(run(case), ensure_ascii=False))
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as file:
        file.write(
            '{"texts": ' + json.dumps(TEXTS) + ',\n "cases": [\n' + ",\n".join(lines) + "\n]}\n"
        )


if __name__ == "__main__":
    main()
