"""Adapters in the forms that other programs write, made by PEFT 0.18.1 for small models of ../model
and ../families, and what PEFT computes with them.

    make.py   (from the root of the repository, in the environment of ../../peers/README.md, after
               ../pack.py --unpack)

Each adapter has a folder, as PEFT saves it, after random changes, so that nothing is 0.
golden.json: {"cases": [{"adapter", "base", "ids", "loss", "nll"}]}, in fp64 (../model/make.py
explains how), for one document: `nll` of each prediction, and `loss`, their mean. They are computed
by the adapted model, not by a merged one.
"""

import importlib.util
import json
import os
import shutil
import warnings

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location(
    "model_make", os.path.join(HERE, "..", "model", "make.py")
)
model_make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_make)

TIED, UNTIED, BIASED = "model/gqa_tied", "model/mha_untied", "families/llama_bias"
Q, QV = ["q_proj"], ["q_proj", "v_proj"]

ADAPTERS = {
    "rank_pattern": (
        TIED,
        dict(
            target_modules=QV,
            use_rslora=True,
            rank_pattern={"layers.1.self_attn.q_proj": 5, "q_proj": 3},
        ),
    ),
    "alpha_pattern": (
        TIED,
        dict(target_modules="all-linear", alpha_pattern={r".*\.0\..*v_proj": 32, "down_proj": 3}),
    ),
    "patterns_dora": (
        UNTIED,
        dict(
            target_modules=QV,
            use_dora=True,
            rank_pattern={"^model.layers.0.self_attn.q_proj": 3},
            alpha_pattern={"v_proj": 7},
        ),
    ),
    "one_layer": (TIED, dict(target_modules=QV, layers_to_transform=1)),
    "layers_pattern": (
        UNTIED,
        dict(target_modules=QV, layers_to_transform=[0], layers_pattern="layers"),
    ),
    "exclude_pattern": (TIED, dict(target_modules=QV, exclude_modules=r".*\.0\.self_attn\.q_proj")),
    "exclude_names": (
        UNTIED,
        dict(target_modules="all-linear", exclude_modules=["mlp.up_proj", "k_proj"]),
    ),
    "targets_pattern": (TIED, dict(target_modules=r".*\.(self_attn|mlp)\.(q|up)_proj")),
    "targets_elsewhere": (TIED, dict(target_modules=["q_proj", "query_key_value", "c_attn"])),
    "lora_bias": (TIED, dict(target_modules=["o_proj", "down_proj"], lora_bias=True)),
    "lora_bias_over_bias": ("families/qwen2", dict(target_modules=QV, lora_bias=True)),
    "bias_all": (BIASED, dict(target_modules=Q, bias="all")),
    "embedding": (TIED, dict(target_modules=["embed_tokens"])),
    "embedding_untied": (UNTIED, dict(target_modules=["embed_tokens", "v_proj"])),
    "head": (TIED, dict(target_modules=["lm_head", "q_proj"])),
    "head_dora": (UNTIED, dict(target_modules=["lm_head", "q_proj"], use_dora=True)),
    "both_tables": (UNTIED, dict(target_modules=["lm_head", "embed_tokens", "o_proj"])),
    "tokens": (TIED, dict(target_modules=Q, trainable_token_indices=[5, 2])),
    "tokens_untied": (
        UNTIED,
        dict(
            target_modules=Q,
            trainable_token_indices={"embed_tokens": [7, 3, 1], "lm_head": [4]},
        ),
    ),
    "tokens_and_norm": (
        TIED,
        dict(target_modules=Q, trainable_token_indices=[5], modules_to_save=["norm"]),
    ),
    "kept_tie": (
        TIED,
        dict(target_modules=Q, modules_to_save=["embed_tokens"], ensure_weight_tying=True),
    ),
    "pickled": (TIED, dict(target_modules=QV)),
    "wrapped_names": (TIED, dict(target_modules=QV, use_dora=True)),
    "leftovers": (TIED, dict(target_modules=QV)),
    "embeddings_beside": (UNTIED, dict(target_modules=Q)),
}


def wrapped(name):
    """Renames tensors as in the state_dict of a compiled model on several devices."""
    for part in ("lora_A", "lora_B"):
        name = name.replace(part + ".weight", part + ".default.weight")
    name = name.replace("lora_magnitude_vector", "lora_magnitude_vector.default.weight")
    return "module._orig_mod." + name.replace("self_attn", "_fsdp_wrapped_module.self_attn")


def adorn(name, folder):
    """Adds what PEFT itself does not write."""
    config = os.path.join(folder, "adapter_config.json")
    weights = os.path.join(folder, "adapter_model.safetensors")
    if name == "wrapped_names":
        save_file({wrapped(n): t for n, t in load_file(weights).items()}, weights)
    if name == "leftovers":  # of unsloth, of an EVA initialisation, of an older PEFT
        written = json.load(open(config))
        written["auto_mapping"] = {"parent_library": "x", "unsloth_fixed": True}
        written["eva_config"] = {"rho": 2.0}
        written["loftq_config"] = {"loftq_bits": 4}
        written["target_parameters"] = []
        written["fan_in_fan_out"] = True
        written["megatron_core"] = "megatron.core"
        del written["alora_invocation_tokens"], written["exclude_modules"], written["rank_pattern"]
        json.dump(written, open(config, "w"), indent=2)


def case(name, base, options):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(17)
    model = AutoModelForCausalLM.from_pretrained(f"tests/golden/{base}", dtype=torch.float32)
    ids = torch.randint(model.config.vocab_size, (24,))
    ids[3:6] = torch.tensor([5, 2, 7])
    model = get_peft_model(
        model, LoraConfig(**{"r": 2, "lora_alpha": 6, "task_type": "CAUSAL_LM", **options})
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += torch.randn_like(parameter) * 0.2
        if name == "embeddings_beside":  # as where tokens were added
            model.get_input_embeddings().weight += 0.1
    model.save_pretrained(
        folder,
        safe_serialization=name != "pickled",
        save_embedding_layers=True if name == "embeddings_beside" else "auto",
    )
    os.remove(os.path.join(folder, "README.md"))
    adorn(name, folder)
    model.double().eval()
    with torch.no_grad(), model_make.true_double():
        logits = model(ids[None], use_cache=False).logits[0, :-1]
        nll = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
    print(name, base, nll.mean().item())
    return {
        "adapter": name,
        "base": base,
        "ids": ids.tolist(),
        "loss": nll.mean().item(),
        "nll": nll.tolist(),
    }


def main():
    warnings.simplefilter("ignore")
    cases = [case(name, base, dict(options)) for name, (base, options) in ADAPTERS.items()]
    model_make.write(os.path.join(HERE, "golden.json"), {"cases": cases})


if __name__ == "__main__":
    main()
