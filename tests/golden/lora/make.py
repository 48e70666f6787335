"""Adapters written by PEFT 0.18.1 over the small models of ../model, and what PEFT computes with
them.

    make.py        (from the root of the repository, in the environment of ../../peers/README.md)

A folder each: adapter_config.json and adapter_model.safetensors as PEFT saves them (after random
changes, so that no B is 0), and
gradients.safetensors under the same names, in fp32. golden.json: {"cases": [{"adapter", "base",
"input": {"input_ids", "labels", "lengths"},
"loss", "nll", "loss_base"}]}: in double throughout (../model/make.py says how), each document alone, `loss` the mean over the predictions,
`nll` one number an index of the stream (null where there is no target), gradients those of `loss`,
`loss_base` with the adapter off.
"""

import importlib.util
import json
import os
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location(
    "model_make", os.path.join(HERE, "..", "model", "make.py")
)
model_make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_make)

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def adapters():
    yield "lora", "gqa_tied", dict(r=2, lora_alpha=4, target_modules=ALL)
    yield (
        "rslora",
        "uneven_6_3",
        dict(
            r=4, lora_alpha=3, use_rslora=True, target_modules=["q_proj", "v_proj", "mlp.up_proj"]
        ),
    )
    yield (
        "dora",
        "gqa_tied",
        dict(r=2, lora_alpha=6, use_dora=True, lora_dropout=0.1, target_modules=ALL),
    )
    yield (
        "dora_untied",
        "mha_untied",
        dict(
            r=3,
            lora_alpha=3,
            use_dora=True,
            use_rslora=True,
            target_modules=["o_proj", "down_proj"],
        ),
    )
    yield (
        "whole_tied",
        "gqa_tied",
        dict(
            r=2,
            lora_alpha=4,
            target_modules=["q_proj", "down_proj"],
            modules_to_save=["embed_tokens", "lm_head", "norm"],
        ),
    )
    yield (
        "head_tied",
        "gqa_tied",
        dict(r=1, lora_alpha=1, target_modules=["v_proj"], modules_to_save=["lm_head"]),
    )
    yield (
        "embedding_tied",
        "gqa_tied",
        dict(r=1, lora_alpha=1, target_modules=["v_proj"], modules_to_save=["embed_tokens"]),
    )
    yield (
        "whole_untied",
        "mha_untied",
        dict(
            r=2,
            lora_alpha=4,
            target_modules=["k_proj", "gate_proj"],
            modules_to_save=["embed_tokens", "lm_head"],
        ),
    )


def name_in_file(name):
    return (
        name.replace(".modules_to_save.default", "")
        .replace("lora_magnitude_vector.default.weight", "lora_magnitude_vector")
        .replace(".default", "")
    )


def documents(vocab):
    g = torch.Generator().manual_seed(23)
    return [
        model_make.draw(g, vocab, 17, prompt=6),
        model_make.draw(g, vocab, 5, prompt=5),
        model_make.draw(g, vocab, 31, every=3),
    ]


def run(model, docs, backward):
    predictions = sum(sum(l != -100 for l in labels[1:]) for _, labels in docs)
    total, nll_out = 0.0, []
    for ids, labels in docs:
        log_probs = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0], -1)
        targets = torch.tensor(labels[1:] + [-100])
        nll = -log_probs.gather(1, targets.clamp(min=0)[:, None])[:, 0]
        chosen = targets != -100
        if bool(chosen.any()):
            loss = nll[chosen].sum()
            if backward:
                (loss / predictions).backward()
            total += loss.item()
        nll_out += [x if keep else None for x, keep in zip(nll.tolist(), chosen.tolist())]
    return total / predictions, nll_out


def main():
    cases = []
    for name, base, options in adapters():
        torch.manual_seed(31)
        folder = os.path.join(HERE, name)
        shutil.rmtree(folder, ignore_errors=True)
        model = AutoModelForCausalLM.from_pretrained(
            f"tests/golden/model/{base}", dtype=torch.float32, attn_implementation="sdpa"
        )
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options))
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    parameter += torch.randn_like(parameter) * (
                        0.2 if "lora_B" in parameter_name else 0.05
                    )
        model.save_pretrained(folder)
        os.remove(os.path.join(folder, "README.md"))
        model.double().eval()
        docs = documents(model.config.vocab_size)
        with model_make.true_double():
            loss, nll = run(model, docs, backward=True)
            with model.disable_adapter():
                loss_base, _ = run(model, docs, backward=False)
        save_file(
            {
                name_in_file(n): p.grad.float().contiguous()
                for n, p in model.named_parameters()
                if p.requires_grad
            },
            os.path.join(folder, "gradients.safetensors"),
            metadata={"format": "pt"},
        )
        stream = {
            "input_ids": sum((ids for ids, _ in docs), []),
            "labels": sum((labels for _, labels in docs), []),
            "lengths": [len(ids) for ids, _ in docs],
        }
        cases.append(
            {
                "adapter": name,
                "base": base,
                "input": stream,
                "loss": loss,
                "nll": nll,
                "loss_base": loss_base,
            }
        )
        print(name, base, loss, loss_base)
    model_make.write(os.path.join(HERE, "golden.json"), {"cases": cases})


if __name__ == "__main__":
    main()
