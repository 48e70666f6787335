"""Compares tokenizers and models to which Moonring has added tokens with Transformers and PEFT.

    added_tokens_vs_transformers.py --moonring PATH

Tokenizers: for every case of golden/added_tokens, AutoTokenizer reads the files that Moonring has
written: ids of texts, special tokens, eos, pad, length. Models: golden/stages/model is trained for
two steps with new tokens, in full and with LoRA (embedding and head in full); loss and logits of a
text with these tokens are computed by Moonring's probe and by Transformers, or by PEFT over a
resized base. Exits with 1 if anything differs (numbers: by 1e-5 of the greatest).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../golden")
sys.path.insert(0, os.path.join(GOLDEN, "added_tokens"))

SCRIPT = """
local moonring = require "moonring"
local system = moonring.system
local o = system.json_decode(system.read(arg[1]), arg[1])
local fake = { path = function() return o.folder end,
  companion = function(_, name)
    local path = o.folder .. "/" .. name
    return system.exists(path) and system.read(path) or nil
  end }
local words = {}
for name, value in pairs(o.keys) do words[#words + 1] = name .. "=" .. tostring(value) end
local vocabulary = require "moonring.data.vocabulary"
local tokenizer = vocabulary.tokenizer(moonring.config.load(nil, words), fake)
for name, contents in pairs(moonring.data.changed_files(fake, tokenizer)) do
  system.write(o.folder .. "/" .. name, contents)
end
local ids = {}
for i, text in ipairs(o.texts) do ids[i] = tokenizer:encode(text) end
system.write(o.out, system.json_encode { ids = ids, length = tokenizer:vocab_size() })
"""


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tokenizers(moonring):
    import make
    from transformers import AutoTokenizer

    golden = json.load(open(os.path.join(GOLDEN, "added_tokens/cases.json"), encoding="utf-8"))
    texts = [
        text
        for text in json.load(
            open(os.path.join(GOLDEN, "tokenizer/strings.json"), encoding="utf-8")
        )
        if text and "\ud800" not in text
    ] + golden["texts"]
    every, wrong = texts, 0
    for case in golden["cases"]:
        texts = (
            golden["texts"] if case["tokenizer"] == "bpe.model" else every
        )  # its character map differs from Transformers'
        with tempfile.TemporaryDirectory() as folder:
            make.write_folder(folder, case)
            with open(folder + "/script.lua", "w") as file:
                file.write(SCRIPT)
            json.dump(
                dict(folder=folder, keys=case["keys"], texts=texts, out=folder + "/out.json"),
                open(folder + "/o.json", "w"),
            )
            run(moonring, folder + "/script.lua", folder + "/o.json")
            ours = json.load(open(folder + "/out.json"))
            theirs = AutoTokenizer.from_pretrained(
                folder, split_special_tokens=case["keys"].get("split_special_tokens", False)
            )
            differs = [
                text
                for text, ids in zip(texts, ours["ids"])
                if theirs.encode(text, add_special_tokens=False) != (ids or [])
            ]
            special = [
                theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
                for ids in case["ids"]
            ] == case["decoded"]
            same = (
                not differs
                and special
                and len(theirs) == ours["length"] == case["length"]
                and theirs.eos_token_id == case["eos"]
            )
            if not same:
                wrong += 1
                print(
                    "differs:",
                    case["tokenizer"],
                    case["keys"],
                    len(theirs),
                    ours["length"],
                    theirs.eos_token_id,
                    case["eos"],
                    special,
                    differs[:3],
                )
    print(f"{len(golden['cases'])} tokenizers, {len(every)} texts each: {wrong} differ")
    return wrong


def answers(model, ids):
    """Returns the mean loss, and at each position the logits of ids 0..7 and the logsumexp of all
    logits."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]))
    return torch.cat([loss[None], logits[:, :8].flatten(), logits.logsumexp(-1)])


def models(moonring):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base, wrong = os.path.join(GOLDEN, "stages/model"), 0
    keys = ["add_tokens=lantern", "add_special_tokens=<note>", "template=llama3"]
    for kind in ("full", "lora"):
        with tempfile.TemporaryDirectory() as folder:
            out = folder + "/out"
            run(
                moonring,
                "train",
                "model_name_or_path=" + base,
                "dataset_dir=" + os.path.join(GOLDEN, "stages/data"),
                "dataset=talks",
                "stage=sft",
                "finetuning_type=" + kind,
                "cutoff_len=96",
                "max_steps=2",
                "per_device_train_batch_size=2",
                "learning_rate=1e-2",
                "save_strategy=no",
                "output_dir=" + out,
                *keys,
            )
            tokenizer = AutoTokenizer.from_pretrained(out)
            ids = tokenizer.encode(
                "What of a lantern?<note> A lantern waits for the harbour.<|eot_id|>",
                add_special_tokens=False,
            )
            assert max(ids) >= 674, ids
            json.dump(
                dict(input_ids=ids, labels=ids, positions=list(range(len(ids)))),
                open(folder + "/in.json", "w"),
            )
            which = (
                ["model_name_or_path=" + out]
                if kind == "full"
                else ["model_name_or_path=" + base, "adapter_name_or_path=" + out, *keys]
            )
            run(
                moonring,
                "probe",
                *which,
                "input=" + folder + "/in.json",
                "out=" + folder + "/probe.json",
            )
            probe = json.load(open(folder + "/probe.json"))
            ours = torch.tensor(
                [probe["loss"], *sum(probe["logits"], []), *probe["logsumexp"]], dtype=torch.float64
            )
            model = AutoModelForCausalLM.from_pretrained(
                out if kind == "full" else base, dtype=torch.float32
            )
            if kind == "lora":
                model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=64)
                model = PeftModel.from_pretrained(model, out)
            theirs = answers(model.eval(), ids)
            distance = ((ours - theirs).abs().max() / theirs.abs().max()).item()
            print(
                f"{kind}: {len(ids)} tokens, loss {theirs[0]:.6f}; loss, logits and their sums: "
                f"largest {theirs.abs().max():.4f}, largest difference relative to it "
                f"{distance:.2e}"
            )
            wrong += distance > 1e-5
    return wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    args = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    sys.exit(1 if tokenizers(args.moonring) + models(args.moonring) else 0)


if __name__ == "__main__":
    main()
