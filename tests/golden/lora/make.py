"""Adapters that PEFT 0.18.1 writes for the small models of ../model, and what PEFT computes with
them.

    make.py [NAME ...]   (from the root of the repository, in the environment of
                         ../../peers/README.md); default: all

Each adapter has a folder with adapter_config.json and adapter_model.safetensors as PEFT saves them,
after random changes, so that no B is 0. golden.json: {"cases": [{"adapter", "base", "input":
{"input_ids", "labels", "lengths"}, "loss", "nll", "loss_base", "gradients"}]}, all in fp64
(../model/make.py explains how) and with each document by itself. `loss` is the mean over the
predictions; `nll` has one number per index of the stream, null without a target; `gradients`
(../sketch.py) are those of `loss`, under the names in the file; `loss_base` is the loss with the
adapter off. If a case has "steps", trained.safetensors has the weights in fp64 after this number of
steps of gradient descent with the learning rate "lr".

PiSSA: PEFT rounds the residual base to fp32. Here it is computed again in fp64 from the same A and
B, as W - s B A, after a check that PEFT's residual is this one, rounded. pissa_init/ has the
initial A and B. pissa_converted/ has what PEFT makes from both, in the order of LLaMA-Factory's
PissaConvertCallback. `loss_base` is the loss of the model before PiSSA.
"""

import copy
import importlib.util
import itertools
import json
import os
import shutil
import sys

import torch
from peft import LoraConfig, OFTConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import sketch  # noqa: E402

spec = importlib.util.spec_from_file_location(
    "model_make", os.path.join(HERE, "..", "model", "make.py")
)
model_make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_make)

# Limits: an adapter is drawn again if PEFT's own results are further from fp64 than this. They are
# for its gradients in fp32, its loss in bf16, and the weights after three steps in fp32 (for PiSSA,
# whose adapter is large, separately). All are at most half of the tolerances of
# adapter_folder_test.cc.
GRADIENT_NOISE, BF16_NOISE, STEP_NOISE, PISSA_NOISE = 5e-6, 2e-3, 2e-6, 1.5e-5
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


    yield "oft", "gqa_tied", dict(oft_block_size=8, target_modules=ALL)
    yield (
        "oft_exact",
        "uneven_6_3",
        dict(
            r=3,
            oft_block_size=0,
            use_cayley_neumann=False,
            target_modules=["q_proj", "v_proj", "mlp.up_proj"],
        ),
    )
    yield (
        "oft_whole",
        "mha_untied",
        dict(
            oft_block_size=5,
            num_cayley_neumann_terms=8,
            target_modules=["o_proj", "gate_proj", "down_proj"],
            modules_to_save=["lm_head", "norm"],
        ),
    )
    yield (
        "pissa",
        "gqa_tied",
        dict(r=2, lora_alpha=4, init_lora_weights="pissa", target_modules=ALL),
    )
    yield (
        "pissa_niter",
        "mha_untied",
        dict(
            r=3,
            lora_alpha=3,
            use_rslora=True,
            init_lora_weights="pissa_niter_4",
            target_modules=["q_proj", "down_proj"],
        ),
    )


STEPS, RATE = 3, 0.05


def config_of(options):
    kind = OFTConfig if "oft_block_size" in options else LoraConfig
    return kind(task_type="CAUSAL_LM", **options)


def low_rank_maps(model):
    for module in model.modules():
        if hasattr(module, "lora_A") and "default" in module.lora_A:
            yield module


def product(module):
    a, b = module.lora_A["default"].weight, module.lora_B["default"].weight
    return module.scaling["default"] * (b.detach().double() @ a.detach().double())


def residuals(model, base):
    """W - s B A in fp64, by linear map."""
    weights = dict(base.named_modules())
    found = {}
    for name, module in model.base_model.model.named_modules():
        if module in set(low_rank_maps(model)):
            found[module] = weights[name].weight.detach().double() - product(module)
            theirs = module.get_base_layer().weight.detach().double()
            assert (found[module] - theirs).abs().max() < 1e-6
    return found


def save_as_lora(model, folder, **more):
    config = model.peft_config["default"]
    config.init_lora_weights, kept = True, config.init_lora_weights
    model.save_pretrained(folder, **more)
    config.init_lora_weights = kept
    os.remove(os.path.join(folder, "README.md"))


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


def trained(model, docs):
    """The weights after a few steps of gradient descent."""
    learn = {n: p for n, p in model.named_parameters() if p.requires_grad}
    for _ in range(STEPS):
        model.zero_grad()
        run(model, docs, backward=True)
        with torch.no_grad():
            for p in learn.values():
                p -= RATE * p.grad
    return {name_in_file(n): p.detach().clone() for n, p in learn.items()}


def gradients_of(model):
    return {name_in_file(n): p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}


def worst(single, double):
    """||a - b|| / ||b|| of the tensor for which it is largest."""
    return max(((single[n].double() - t).norm() / t.norm()).item() for n, t in double.items())


def attempt(name, base, options, seed):
    """Writes an adapter and returns its case; None if the case is too ill conditioned."""
    torch.manual_seed(seed)
    folder, more = os.path.join(HERE, name), {}
    shutil.rmtree(folder, ignore_errors=True)
    model = AutoModelForCausalLM.from_pretrained(
        f"tests/golden/model/{base}", dtype=torch.float32, attn_implementation="sdpa"
    )
    docs = documents(model.config.vocab_size)
    model = get_peft_model(model, config_of(options))
    pissa = "init_lora_weights" in options
    if pissa:
        original = AutoModelForCausalLM.from_pretrained(
            f"tests/golden/model/{base}", dtype=torch.float32, attn_implementation="sdpa"
        )
        residual = residuals(model, original)
        save_as_lora(model, os.path.join(folder, "pissa_init"))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.requires_grad:
                far = "lora_B" in parameter_name or "oft_R" in parameter_name
                parameter += torch.randn_like(parameter) * (0.2 if far else 0.05)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    if pissa:  # last, because it changes the rank in PEFT's configuration
        kept_config = os.path.join(folder, "pissa_init", "adapter_config.json")
        first = open(kept_config).read()
        model.save_pretrained(
            os.path.join(folder, "pissa_converted"),
            path_initial_model_for_weight_conversion=os.path.join(folder, "pissa_init"),
        )
        open(kept_config, "w").write(first)
        os.remove(os.path.join(folder, "pissa_converted", "README.md"))
        model.set_adapter("default")
        model.requires_grad_(False)
        for n, p in model.named_parameters():
            p.requires_grad_("lora_" in n)
    single = copy.deepcopy(model).eval()
    run(single, docs, backward=True)
    model.double().eval()
    if pissa:
        for module, weight in residual.items():
            module.get_base_layer().weight.data = weight
    with model_make.true_double():
        loss, nll = run(model, docs, backward=True)
        if pissa:
            loss_base, _ = run(original.double().eval(), docs, backward=False)
        else:
            with model.disable_adapter():
                loss_base, _ = run(model, docs, backward=False)
    gradients = gradients_of(model)
    noise = worst(gradients_of(single), gradients)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow, _ = run(single, docs, backward=False)
    if noise > GRADIENT_NOISE or abs(narrow / loss - 1) > BF16_NOISE:
        print(f"{name}: gradients of fp32 {noise:.1e}, loss of bf16 {narrow / loss - 1:.1e} off")
        return None
    if pissa or "oft_block_size" in options:
        with model_make.true_double():
            steps = trained(model, docs)
        noise = worst(trained(single, docs), steps)
        if noise > (PISSA_NOISE if pissa else STEP_NOISE):
            print(f"{name}: steps of fp32 {noise:.1e} off")
            return None
        save_file(steps, os.path.join(folder, "trained.safetensors"), metadata={"format": "pt"})
        more = {"steps": STEPS, "lr": RATE}
    stream = {
        "input_ids": sum((ids for ids, _ in docs), []),
        "labels": sum((labels for _, labels in docs), []),
        "lengths": [len(ids) for ids, _ in docs],
    }
    print(name, base, loss, loss_base)
    return {
        "adapter": name,
        "base": base,
        "input": stream,
        "loss": loss,
        "nll": nll,
        "loss_base": loss_base,
        "gradients": {n: sketch.sketch(n, g) for n, g in gradients.items()},
        **more,
    }


def main():
    path = os.path.join(HERE, "golden.json")
    kept = {c["adapter"]: c for c in json.load(open(path))["cases"]} if sys.argv[1:] else {}
    cases = []
    for name, base, options in adapters():
        if sys.argv[1:] and name not in sys.argv[1:]:
            cases.append(kept[name])
            continue
        draws = (attempt(name, base, options, seed) for seed in itertools.count(31))
        cases.append(next(case for case in draws if case))
    model_make.write(path, {"cases": cases})


if __name__ == "__main__":
    main()
