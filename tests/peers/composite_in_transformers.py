"""Trains vision-language models with Moonring on text, and opens the saved folders with
Transformers and PEFT.

    composite_in_transformers.py --moonring BINARY [FOLDER ...]    FOLDER: a model without a
        tokenizer; default: those of tests/golden/families that this Transformers supports

Each model, with its vision weights in bf16, gets a small tokenizer and is trained for one step: all
weights, with rows added to the vocabulary; then an adapter on the result; then both are merged. For
each: no tensor is missing or unexpected, the vision weights' bytes are unchanged, and the logits
equal those of `moonring probe` (of the first 8 ids, LOGITS relative). Run it with Transformers 4.57
(and PEFT) and with 5.23.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import tempfile

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
LOGITS = 1e-5


def is_text(name):
    return name.startswith(("language_model.", "model.language_model.", "lm_head."))


def digests(folder):
    out = {}
    path = os.path.join(folder, "model.safetensors")
    with safe_open(path, "pt") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            if not is_text(name):
                bytes_ = tensor.contiguous().view(torch.uint8).numpy().tobytes()
                out[name] = str(tensor.dtype), hashlib.sha256(bytes_).hexdigest()
    return out


def publish(golden, folder):
    os.makedirs(folder)
    tensors = load_file(os.path.join(golden, "model.safetensors"))
    tensors = {n: t if is_text(n) else t.to(torch.bfloat16) for n, t in tensors.items()}
    config = json.load(open(os.path.join(golden, "config.json")))
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    tokenizer = open(os.path.join(GOLDEN, "tokenizer", "tiny", "qwen3.tokenizer.json")).read()
    json.dump(config, open(os.path.join(folder, "config.json"), "w"), indent=2)
    open(os.path.join(folder, "tokenizer.json"), "w").write(tokenizer)
    open(os.path.join(folder, "tokenizer_config.json"), "w").write(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"})
    )
    open(os.path.join(folder, "preprocessor_config.json"), "w").write('{"size": 8}')


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, " ".join(words) + "\n" + done.stdout + done.stderr


def logits_of(model, ids):
    with torch.no_grad():
        return model.eval()(torch.tensor([ids]), use_cache=False).logits[0, :, :8]


def opened(folder):
    model, info = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[key], (folder, key, info[key])
    return model


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    names = ["gemma3_vision", "mistral3", "qwen3_vl"]
    if transformers.__version__.startswith("5"):
        names += ["gemma4_vision", "ministral3_vision", "qwen3_5_vision"]
    else:  # its router is a linear module, which gets an adapter
        names += ["qwen3_vl_moe"]
    names = [os.path.join(GOLDEN, "families", name) for name in names]
    parser.add_argument("folder", nargs="*", default=names)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    for golden in options.folder:
        with tempfile.TemporaryDirectory() as scratch:
            compare(options.moonring, golden, scratch)


def compare(moonring, golden, scratch):
    def at(name):
        return os.path.join(scratch, name)

    publish(golden, at("base"))
    seen = digests(at("base"))
    assert seen
    rows = [{"instruction": f"Say {n}.", "output": f"{n} it is."} for n in range(4)]
    json.dump(rows, open(at("rows.json"), "w"))
    json.dump({"rows": {"file_name": "rows.json"}}, open(at("dataset_info.json"), "w"))
    common = [
        "stage=sft",
        f"dataset_dir={scratch}",
        "dataset=rows",
        "template=default",
        "cutoff_len=64",
        "max_steps=1",
        "learning_rate=0.01",
        "per_device_train_batch_size=4",
        "bf16=false",
        "save_strategy=no",
    ]
    yaml = at("empty.yaml")
    open(yaml, "w").write("stage: sft\n")
    train = [moonring, "train", yaml, *common]
    run(
        *train,
        f"model_name_or_path={at('base')}",
        f"output_dir={at('full')}",
        "finetuning_type=full",
        "resize_vocab=true",
    )
    run(
        *train,
        f"model_name_or_path={at('full')}",
        f"output_dir={at('lora')}",
        "finetuning_type=lora",
        "lora_target=all",
    )
    run(
        moonring,
        "export",
        f"model_name_or_path={at('full')}",
        f"adapter_name_or_path={at('lora')}",
        f"export_dir={at('merged')}",
    )
    ids = [random.Random(1).randrange(600) for _ in range(30)]
    text = {"input_ids": ids, "labels": ids, "positions": list(range(len(ids)))}
    json.dump(text, open(at("in.json"), "w"))
    for name, model in (("full", "full"), ("lora", "full"), ("merged", "merged")):
        more = [f"adapter_name_or_path={at('lora')}"] if name == "lora" else []
        run(
            moonring,
            "probe",
            f"model_name_or_path={at(model)}",
            f"input={at('in.json')}",
            f"out={at('out.json')}",
            *more,
        )
        wanted = torch.tensor(json.load(open(at("out.json")))["logits"])
        loaded = opened(at(model))
        if name == "lora":
            try:
                from peft import PeftModel
            except ImportError:
                continue
            loaded = PeftModel.from_pretrained(loaded, at("lora"))
            adapted = [n for n, _ in loaded.named_parameters() if "lora_A" in n]
            assert adapted and all("language_model" in n for n in adapted), adapted
        error = ((logits_of(loaded, ids) - wanted).norm() / wanted.norm()).item()
        print(f"{os.path.basename(golden):16} {name:7} logits {error:.1e}", flush=True)
        assert error < LOGITS
        assert digests(at(model)) == seen
        assert os.path.exists(os.path.join(at(model), "preprocessor_config.json"))


if __name__ == "__main__":
    main()
