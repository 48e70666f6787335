"""Compares Moonring's QLoRA with PyTorch, PEFT and bitsandbytes on a CPU: one text, one adapter, a
base in nf4 with double quantization.

    qlora_vs_peft.py --moonring PATH [--model DIR] [--tokens 256]

PEFT creates the adapter (with B not zero) and saves it; both programs read it. In fp32, the loss is
within 1e-5 of PyTorch's, and each adapter gradient within 1e-4 relative of PyTorch's in fp64 with
the weights that bitsandbytes unpacks (PyTorch's own gradients in fp32 are further away, which is
printed). In bf16, the loss is within 5e-3 of that, and the error of all gradients together at most
3 times that of PyTorch in bf16.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import bitsandbytes
import torch
from adapter_vs_peft import TEXT
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

MAPS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def packed(path, dtype):
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return AutoModelForCausalLM.from_pretrained(
        path, dtype=dtype, quantization_config=config, device_map="cpu"
    )


def plain(path, dtype):
    """Returns an unquantized model with the weights that bitsandbytes unpacks."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    with torch.no_grad():
        for name, module in packed(path, dtype).named_modules():
            if isinstance(module, bitsandbytes.nn.Linear4bit):
                weight = module.weight
                numbers = bitsandbytes.functional.dequantize_4bit(weight.data, weight.quant_state)
                model.get_submodule(name).weight.copy_(numbers)
    return model


def adapted(path, dtype, base=packed):
    torch.manual_seed(2)
    config = LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules=MAPS)
    # In eval mode, bitsandbytes would repack weights for its CPU kernel, with scales in bf16.
    model = get_peft_model(base(path, dtype), config, autocast_adapter_dtype=True).train()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                fresh = torch.randn(weight.shape, generator=generator) * 0.02
                weight.copy_(fresh)
    return model


def theirs(model, ids, dtype):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1]
    wide = logits if dtype == torch.float64 else logits.float()
    loss = torch.nn.functional.cross_entropy(wide, torch.tensor(ids[1:]))
    loss.backward()
    gradients = {
        name.replace(".default", ""): weight.grad
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }
    return loss.item(), gradients


def ours(args, folder, path, ids, extra):
    probe, out, grads = (os.path.join(folder, name) for name in ("in.json", "out.json", "g.st"))
    json.dump({"input_ids": ids, "labels": ids, "positions": [0]}, open(probe, "w"))
    subprocess.run(
        [
            args.moonring,
            "probe",
            f"model_name_or_path={path}",
            f"adapter_name_or_path={os.path.join(folder, 'adapter')}",
            "quantization_bit=4",
            f"input={probe}",
            f"out={out}",
            f"grads={grads}",
            *extra,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return json.load(open(out))["loss"], load_file(grads)


def error(found, exact):
    """Returns the relative error of all gradients together."""
    difference = sum((found[n].double() - g.double()).square().sum() for n, g in exact.items())
    return (difference / sum(g.double().square().sum() for g in exact.values())).sqrt().item()


def worst(found, exact):
    return max(error(found, {name: exact[name]}) for name in exact)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=256)
    args = parser.parse_args()
    path = args.model or os.path.join(args.oracle, "smollm2")
    ids = AutoTokenizer.from_pretrained(path).encode(TEXT, add_special_tokens=False)[: args.tokens]
    failed = False

    def told(name, value, most):
        nonlocal failed
        failed |= not value <= most
        print(f"{name:60} {value:.2e}  expected at most {most:.2e}")

    with tempfile.TemporaryDirectory() as folder:
        model = adapted(path, torch.float32)
        model.save_pretrained(os.path.join(folder, "adapter"))
        loss, exact = theirs(model, ids, torch.float32)
        del model
        our_loss, gradients = ours(args, folder, path, ids, [])
        assert set(gradients) == set(exact), set(gradients) ^ set(exact)
        told("fp32: loss, from PyTorch's in fp32", abs(our_loss - loss), 1e-5)
        fp32 = exact
        loss, exact = theirs(adapted(path, torch.float32, plain).double(), ids, torch.float64)
        told("fp32: loss, from PyTorch's in fp64", abs(our_loss - loss), 1e-5)
        for whose, found in (("PyTorch's own", fp32), ("ours", gradients)):
            print(f"fp32: all gradients, {whose}: {error(found, exact):.2e}")
        print(f"fp32: the worst gradient, PyTorch's own: {worst(fp32, exact):.2e}")
        told("fp32: the worst gradient, relative", worst(gradients, exact), 1e-4)
        loss_bf16, gradients_bf16 = theirs(adapted(path, torch.bfloat16), ids, torch.bfloat16)
        our_loss, gradients = ours(args, folder, path, ids, ["bf16=true"])
        print(f"bf16: PyTorch's loss differs by {abs(loss_bf16 - loss):.2e}")
        told("bf16: loss", abs(our_loss - loss), 5e-3)
        told(
            "bf16: all gradients, relative; PyTorch's own error x 3",
            error(gradients, exact),
            3 * error(gradients_bf16, exact),
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
