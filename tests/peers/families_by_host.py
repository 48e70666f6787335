"""Tests each newer model family end to end with the built host: trained, resumed, saved, and opened
by other programs.

    families_by_host.py --moonring BINARY [--only NAME,...] [--keep DIR]

A NAME is a folder of tests/golden/families. With a small tokenizer it is trained for four steps
(sft of all weights with rows added to the vocabulary; from the result dpo, and sft by LoRA on all
linear modules), each with sequence_parallel_size 1 and 2, and resumed from the checkpoint in the
middle. Then:

    sp      losses with sp 2 compared with sp 1, step by step
    resume  the weights of the resumed run have the same bytes
    probe   of the trained model with sp 1, 2 and 4, for one document and for several packed ones,
            compared with Transformers: loss, logits, gradient norm of each tensor
    open    saved folders (full, dpo, LoRA merged by `export`, the adapter by PEFT) opened by
            Transformers: no tensor missing or unexpected, and the logits of `probe`
    dtypes  a folder in bf16 is trained and saved: every tensor keeps its dtype
    chat    eight greedy tokens compared with generate(); inspect and plan run

Run it with Transformers 5.23, and with 4.57.6 for the families that it has (with PEFT in both
cases). Prints a line for each check; exits with 1 if one fails. FAMILIES lists what PEFT cannot
open with 5.23. --keep leaves the folders in DIR.
"""

import argparse
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback

import tokenizers
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
sys.path.insert(0, os.path.join(GOLDEN, "families"))
from make import to_olmo_hybrid  # noqa: E402

NEWER = transformers.__version__.startswith("5")
if NEWER:
    from transformers.core_model_loading import revert_weight_conversion

TOKENIZER = os.path.join(GOLDEN, "tokenizer", "tiny", "qwen3.tokenizer.json")
DATA = os.path.join(GOLDEN, "stages", "data")
LOSS, LOGITS, NORMS = 5e-5, 5e-4, 1e-3  # relative, for two implementations in fp32
# Bounds for losses over ranks after AdamW steps, which amplify small gradients. The loss of dpo is
# computed from differences.
SAME = {"sft": 1e-5, "dpo": 1e-4}
IDS = 600  # less than the tokenizer's size
PACKED, ONE = [70, 1, 33, 12, 4], [120]
PROMPTS = "Seven stones follow the north wind, and a paper boat sings to the harbour. Why?", "Go"
TOKENS = 8

# Why an adapter on all linear modules of 4.57 cannot be opened in 5.23.
STACKED = "Transformers 5 holds the experts as one tensor, the adapter is on each"

ROUTER = "the router is no linear module in Transformers 5; with 4.57 it can"

# Family: why PEFT with 5.23 cannot open its adapter; None: it can.
FAMILIES = {
    "qwen3_next": STACKED,
    "qwen3_5": None,
    "qwen3_5_moe": STACKED,
    "gpt_oss": None,
    "gpt_oss_yarn": None,
    "gpt_oss_mxfp4": None,
    "gemma4": None,
    "gemma4_shared": None,
    "gemma4_moe": None,
    "glm4_moe": STACKED,
    "deepseek_v3": STACKED,
    "deepseek_v3_yarn": None,
    "olmo3": None,
    "olmo3_yarn": None,
    "seed_oss": None,
    "lfm2": None,
    "nemotron_h": None,
    "nemotron_h_experts": STACKED,
    "olmo_hybrid": None,
    "olmo_hybrid_rope": None,
    "ministral3": None,
    "gemma3_vision": None,
    "gemma4_vision": None,
    "mistral3": None,
    "ministral3_vision": None,
    "qwen3_vl": None,
    "qwen3_vl_moe": ROUTER,
    "qwen3_5_vision": None,
    "qwen3_5_moe_vision": None,
}


class Wrong(Exception):
    pass


def is_older(name):
    """Whether Transformers 4.57 has the family."""
    config = json.load(open(os.path.join(GOLDEN, "families", name, "config.json")))
    return not config["transformers_version"].startswith("5")


def publish(golden, folder, dtype=None):
    """Writes the folder with a tokenizer; floating-point tensors are cast to `dtype` if it is
    given."""
    os.makedirs(folder)
    tensors = load_file(os.path.join(golden, "model.safetensors"))
    config = json.load(open(os.path.join(golden, "config.json")))
    if dtype is not None:
        tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
        for part in [config, *(config[k] for k in ("text_config", "vision_config") if k in config)]:
            for key in ("dtype", "torch_dtype"):
                if key in part:
                    part[key] = str(dtype).partition(".")[2]
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    json.dump(config, open(os.path.join(folder, "config.json"), "w"), indent=2)
    shutil.copyfile(TOKENIZER, os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}, f)


def opened(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    Auto = (
        transformers.AutoModelForImageTextToText
        if hasattr(config, "vision_config")
        else transformers.AutoModelForCausalLM
    )
    model, info = Auto.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[key]:
            raise Wrong(f"{key}: {sorted(info[key])[:4]}")
    return model.eval()


def newer(name):
    """Removes the older prefix of names, which the text model of a composite model may have, and
    Nemotron-H has."""
    if name.startswith("backbone."):
        return "model." + name.removeprefix("backbone.")
    for old, new in (("model", "model.language_model"), ("lm_head", "lm_head")):
        if name.startswith(f"language_model.{old}."):
            return new + name.removeprefix(f"language_model.{old}")
    return name


def stream(lengths):
    draw = random.Random(sum(lengths) + len(lengths))
    ids = [draw.randrange(IDS) for _ in range(sum(lengths))]
    return {
        "input_ids": ids,
        "labels": [i if draw.random() < 0.8 else -100 for i in ids],
        "positions": list(range(len(ids))),
        "lengths": lengths,
    }


def evaluated(model, text):
    """Runs each document separately. Returns the loss per prediction, logits of ids 0 to 7, and
    gradients by the names in the files."""
    start, total, count, logits = 0, 0.0, 0, []
    model.zero_grad(set_to_none=True)
    for length in text["lengths"]:
        ids = torch.tensor([text["input_ids"][start : start + length]])
        labels = torch.tensor(text["labels"][start + 1 : start + length], dtype=torch.long)
        out = model(ids, use_cache=False).logits[0]
        logits.append(out[:, :8].detach())
        count += int((labels != -100).sum())
        total = total + torch.nn.functional.cross_entropy(
            out[:-1], labels, ignore_index=-100, reduction="sum"
        )
        start += length
    (total / count).backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    if model.config.model_type == "olmo_hybrid":  # 5.23 saves it under other names
        gradients = to_olmo_hybrid(gradients, None)
    elif NEWER:
        gradients = revert_weight_conversion(model, gradients)
    return (total / count).item(), torch.cat(logits), {newer(n): g for n, g in gradients.items()}


def distance(a, b):
    return ((a - b).norm() / b.norm()).item()


def losses(folder):
    lines = [json.loads(line) for line in open(os.path.join(folder, "trainer_log.jsonl"))]
    return [line["loss"] for line in lines if "loss" in line]


def dtypes(folder):
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as file:
        return {name: file.get_slice(name).get_dtype() for name in file.keys()}


class Family:
    def __init__(self, moonring, name, scratch):
        self.moonring, self.name, self.scratch = os.path.abspath(moonring), name, scratch
        self.golden = os.path.join(GOLDEN, "families", name)
        self.wrong = 0

    def at(self, *names):
        return os.path.join(self.scratch, *names)

    def check(self, what, function, *arguments):
        """Prints a line with the result of `function`. A Wrong that it raises counts as a failure
        and does not end the program."""
        try:
            said = function(*arguments)
        except Exception as error:
            self.wrong += 1
            if not isinstance(error, Wrong):
                traceback.print_exc()
            said = f"WRONG {type(error).__name__}: {error}"
        print(f"{self.name:18} {what:14} {said}", flush=True)

    def run(self, *words, text=""):
        done = subprocess.run(
            [self.moonring, *words], input=text.encode(), capture_output=True, cwd=self.scratch
        )
        if done.returncode:
            said = [line for line in done.stderr.decode().splitlines() if "moonring: " in line]
            raise Wrong(f"exit {done.returncode} of {words[0]}: {' / '.join(said[-2:])}")
        return done.stdout.decode()

    # Runs one kind of training and all its checks.

    def train(self, base, out, *words):
        self.run(
            "train",
            self.at("empty.yaml"),
            f"model_name_or_path={self.at(base)}",
            f"dataset_dir={DATA}",
            f"output_dir={self.at(out)}",
            "template=chatml",
            "cutoff_len=160",
            "per_device_train_batch_size=2",
            "gradient_accumulation_steps=2",
            "learning_rate=1e-3",
            "max_grad_norm=1.0",
            "logging_steps=1",
            "save_steps=2",
            "max_steps=4",
            "cpu_products=mkl",
            *words,
        )

    def trained(self, base, out, file, *words):
        self.train(base, out, *words)
        for size in (1, 2):
            run, again = f"{out}-sp{size}" if size > 1 else out, f"{out}-sp{size}-again"
            more = (*words, f"sequence_parallel_size={size}")
            if size > 1:
                self.train(base, run, *more)
            checkpoint = self.at(run, "checkpoint-2")
            self.train(base, again, *more, f"resume_from_checkpoint={checkpoint}")
            whole, resumed = (open(self.at(x, file), "rb").read() for x in (run, again))
            if whole != resumed:
                raise Wrong(f"sp {size}: resumed at 2, {file} differs")
        pairs = list(zip(losses(self.at(out)), losses(self.at(f"{out}-sp2")), strict=True))
        worst = max(abs(a - b) / abs(a) for a, b in pairs)
        if len(pairs) != 4 or not worst < SAME[words[0].partition("=")[2]]:
            raise Wrong(f"losses of sp 1 and 2 {worst:.1e} apart: {pairs}")
        return f"losses of sp 2 {worst:.1e}, resumed the same"

    def probe(self, folder, text, *words):
        json.dump(text, open(self.at("in.json"), "w"))
        self.run(
            "probe",
            f"model_name_or_path={self.at(folder)}",
            f"input={self.at('in.json')}",
            f"out={self.at('out.json')}",
            *words,
        )
        out = json.load(open(self.at("out.json")))
        return out["loss"], torch.tensor(out["logits"]), out["grad_norm"]

    def probed(self, lengths, size):
        text = stream(lengths)
        wanted_loss, wanted_logits, gradients = evaluated(self.model, text)
        loss, logits, norms = self.probe("full", text, f"sequence_parallel_size={size}")
        wanted = {name: gradient.norm().item() for name, gradient in gradients.items()}
        unknown = [name for name in wanted if name not in norms and wanted[name]]
        if unknown:
            raise Wrong(f"no gradient of {unknown[:4]}, {len(unknown)} in all")
        floor = 1e-6 * sum(x * x for x in wanted.values()) ** 0.5
        norm, where = max(
            (abs(norms[name] - wanted.get(name, 0.0)) / max(wanted.get(name, 0.0), floor), name)
            for name in norms
        )
        off = abs(loss - wanted_loss) / wanted_loss, distance(logits, wanted_logits), norm
        said = f"loss {off[0]:.1e} logits {off[1]:.1e} norms {norm:.1e} {where}"
        if not all(a < b for a, b in zip(off, (LOSS, LOGITS, NORMS))):
            raise Wrong(said)
        return said

    def same_logits(self, folder, model, *words):
        text = stream(ONE)
        with torch.no_grad():
            wanted = model(torch.tensor([text["input_ids"]]), use_cache=False).logits[0, :, :8]
        logits = self.probe(folder, text, *words)[1]
        off = distance(logits, wanted)
        if not off < LOGITS:
            raise Wrong(f"logits {off:.1e}")
        return f"logits {off:.1e}"

    def merged(self):
        self.run(
            "export",
            f"model_name_or_path={self.at('full')}",
            f"adapter_name_or_path={self.at('lora')}",
            f"export_dir={self.at('merged')}",
        )
        adapter = f"adapter_name_or_path={self.at('lora')}"
        apart = self.probe("full", stream(ONE), adapter)[1]
        plain = self.probe("full", stream(ONE))[1]
        off = distance(self.probe("merged", stream(ONE))[1], apart)
        if not off < LOGITS or not distance(plain, apart) > 4 * LOGITS:
            raise Wrong(f"logits {off:.1e} from the adapter's")
        said = self.same_logits("merged", opened(self.at("merged")))
        return f"{said}, from the adapter's {off:.1e}"

    def by_peft(self, cannot):
        import peft

        try:
            model = peft.PeftModel.from_pretrained(
                copy.deepcopy(self.model), self.at("lora")
            ).eval()
        except Exception as error:
            if cannot:
                return f"PEFT cannot: {cannot}"
            raise Wrong(f"PEFT: {error}") from error
        held = load_file(self.at("lora", "adapter_model.safetensors"))
        adapted = sum("lora_" in name for name, _ in model.named_parameters())
        if adapted != len(held):
            if cannot:
                return f"PEFT cannot: {cannot} ({adapted} of {len(held)} tensors)"
            raise Wrong(f"PEFT has {adapted} of {len(held)} tensors")
        adapter = f"adapter_name_or_path={self.at('lora')}"
        return f"{self.same_logits('full', model, adapter)}, {adapted} tensors"

    def dtypes_kept(self):
        publish(self.golden, self.at("bf16"), torch.bfloat16)
        before = dtypes(self.at("bf16"))
        if any(name.endswith("_blocks") for name in before):
            return "in four bits: saved as bf16"
        full = "stage=sft", "dataset=talks", "finetuning_type=full", "resize_vocab=true"
        self.train("bf16", "bf16-out", *full, "pure_bf16=true", "max_steps=1", "save_strategy=no")
        after = dtypes(self.at("bf16-out"))
        odd = [n for n in before.keys() | after.keys() if before.get(n) != after.get(n)]
        if odd:
            raise Wrong(f"{odd[0]}: {before.get(odd[0])} -> {after.get(odd[0])}, {len(odd)} so")
        return f"{len(after)} tensors in bf16"

    def chatted(self):
        tokenizer = tokenizers.Tokenizer.from_file(TOKENIZER)
        wanted = ""
        for prompt in PROMPTS:
            ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False).ids])
            out = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=TOKENS,
                do_sample=False,
                eos_token_id=tokenizer.token_to_id("<|im_end|>"),
                pad_token_id=0,
            )
            wanted += tokenizer.decode(out[0, ids.shape[1] :].tolist()) + "\n"
        said = self.run(
            "chat",
            self.at("full"),
            "template=empty",
            "do_sample=false",
            f"max_new_tokens={TOKENS}",
            text="\nclear\n".join(PROMPTS) + "\n",
        )
        if said != wanted:
            raise Wrong(f"{said!r}, Transformers {wanted!r}")
        return f"{sum(map(len, wanted.splitlines()))} characters the same"

    def told(self):
        facts = self.run("inspect", self.at("full"))
        yaml = self.at("empty.yaml")
        of_run = f"model_name_or_path={self.at('full')}", "finetuning_type=full", "cutoff_len=160"
        plan = self.run("plan", yaml, *of_run, "memory=8GiB", "template=chatml")
        return f"{len(facts.splitlines())} lines and {len(plan.splitlines())}"

    def all(self, peft_cannot):
        open(self.at("empty.yaml"), "w").write("stage: sft\n")
        publish(self.golden, self.at("base"))
        full = "stage=sft", "dataset=talks", "finetuning_type=full", "resize_vocab=true"
        self.check("sft", self.trained, "base", "full", "model.safetensors", *full)
        if not os.path.exists(self.at("full", "model.safetensors")):
            return
        self.check("open sft", self.open_full)
        if not hasattr(self, "model"):
            return
        for lengths in (ONE, PACKED):
            for size in (1, 2, 4):
                what = f"probe {'one' if lengths is ONE else 'packed'} {size}"
                self.check(what, self.probed, lengths, size)
        self.check("chat", self.chatted)
        self.check("inspect, plan", self.told)
        dpo = "stage=dpo", "dataset=pairs", "finetuning_type=full"
        self.check("dpo", self.trained, "full", "dpo", "model.safetensors", *dpo)
        self.check("open dpo", lambda: self.same_logits("dpo", opened(self.at("dpo"))))
        lora = "stage=sft", "dataset=talks", "finetuning_type=lora", "lora_target=all"
        lora += "learning_rate=3e-3", "lora_rank=4"
        self.check("lora", self.trained, "full", "lora", "adapter_model.safetensors", *lora)
        self.check("merged", self.merged)
        self.check("PEFT", self.by_peft, peft_cannot)
        self.check("dtypes", self.dtypes_kept)

    def open_full(self):
        model = opened(self.at("full"))
        said = self.same_logits("full", model)
        self.model = model
        return said


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--only", type=lambda names: names.split(","), metavar="NAME,...")
    parser.add_argument("--keep", metavar="DIR")
    options = parser.parse_args()
    unknown = sorted(set(options.only or []) - set(FAMILIES))
    if unknown:
        parser.error(f"{', '.join(unknown)}: expected of {', '.join(FAMILIES)}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wrong = 0
    names = [name for name in options.only or FAMILIES if NEWER or is_older(name)]
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            if options.keep:
                scratch = os.path.join(os.path.abspath(options.keep), name)
                shutil.rmtree(scratch, ignore_errors=True)
                os.makedirs(scratch)
            family = Family(options.moonring, name, scratch)
            family.all(FAMILIES[name] if NEWER else None)
            wrong += family.wrong
    print(f"{len(names)} families, {wrong} wrong")
    sys.exit(1 if wrong or not names else 0)


if __name__ == "__main__":
    main()
