"""Compares adapters between Moonring and PEFT: each program trains an adapter and saves it, and the
other one computes the log-probs of a text with it.

    adapter_vs_peft.py --moonring PATH [--model DIR] [--tokens 200]

For LoRA, rsLoRA, DoRA, OFT and modules trained in full, in both directions: three AdamW steps on
the text, then the token log-probs of both programs with the saved adapter and without it. Prints
the greatest differences; exits with 1 if one is above 1e-5 relative to the greatest log-prob.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
from peft import LoraConfig, OFTConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = (
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
    "must be in want of a wife. However little known the "
    "feelings or views of such a man may be on his first entering a neighbourhood, this truth is "
    "so well fixed in the minds of the surrounding families, "
    "that he is considered as the rightful property of some one or other of their daughters. "
) * 8

KINDS = {
    "lora": dict(
        r=8,
        lora_alpha=16,
        target_modules=[
            "q_proj",
            "k_proj",
            "v_proj",
            "o_proj",
            "gate_proj",
            "up_proj",
            "down_proj",
        ],
    ),
    "rslora": dict(r=16, lora_alpha=16, use_rslora=True, target_modules=["q_proj", "v_proj"]),
    "dora": dict(r=4, lora_alpha=8, use_dora=True, target_modules=["q_proj", "down_proj"]),
    "whole": dict(
        r=4,
        lora_alpha=8,
        target_modules=["up_proj"],
        modules_to_save=["embed_tokens", "lm_head", "norm"],
    ),
    "oft": dict(oft_block_size=32, target_modules=["q_proj", "o_proj", "up_proj", "down_proj"]),
    "oft_exact": dict(
        r=16,
        oft_block_size=0,
        use_cayley_neumann=False,
        target_modules=["v_proj", "gate_proj"],
        modules_to_save=["norm"],
    ),
}


def asked_of_moonring(options):
    """Converts options of PEFT to those of model.adapt."""
    asked = {
        "target": options["target_modules"],
        "additional_target": options.get("modules_to_save", []),
        "seed": 1,
    }
    if "oft_block_size" in options:
        asked.update(
            oft_rank=options.get("r", 0),
            oft_block_size=options["oft_block_size"],
            cayley_terms=5 if options.get("use_cayley_neumann", True) else 0,
        )
        return asked
    asked.update(
        rank=options["r"],
        alpha=options["lora_alpha"],
        use_rslora=options.get("use_rslora", False),
        use_dora=options.get("use_dora", False),
    )
    return asked


SCRIPT = """
local moonring = require "moonring"
local o = moonring.system.json_decode(moonring.system.read(arg[1]), arg[1])
local mesh = moonring.comm.mesh {}
local attention = moonring.attention.create { mesh = mesh }
local base = moonring.model.load(moonring.model.open(o.model), { frozen = true })
local adapted = moonring.model.adapt(base, o.adapt)
local sequence = moonring.comm.sequence { documents = { o.ids }, labels = { o.ids } }
local ids, positions, targets, plan = attention:cut(sequence)
local function log_prob(model)
  local hidden = model:forward(ids, positions, plan)
  return moonring.objectives.log_prob(hidden, model:head(), targets)
end
if o.save then
  local weights = adapted:parameters()
  local adamw = moonring.trainer.adamw(weights)
  for _ = 1, 3 do
    (-log_prob(adapted):sum() / #o.ids):backward()
    adamw:step(o.lr)
    weights:clear_gradients()
  end
  adapted:save(o.save)
end
local function list(model)
  return moonring.no_grad(function() return log_prob(model):tolist() end)
end
local found = { adapted = list(adapted), base = list(base) }
moonring.system.write(o.out, moonring.system.json_encode(found))
"""


def moonring(args, folder, options):
    script, config, out = (
        os.path.join(folder, name) for name in ("adapt.lua", "adapt.json", "out.json")
    )
    open(script, "w").write(SCRIPT)
    json.dump(options | {"out": out}, open(config, "w"))
    subprocess.run([args.moonring, "--device", "cpu", script, config], check=True)
    return json.load(open(out))


def log_probs(model, ids):
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1]
    return torch.log_softmax(logits.float(), -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def compare(name, ours, theirs):
    ours, theirs = torch.tensor(ours[: len(theirs)], dtype=torch.float64), theirs.detach().double()
    worst = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    print(
        f"  {name:34} largest |log-prob| {theirs.abs().max():8.4f}   largest difference, "
        f"relative to it {worst:.2e}"
    )
    return worst


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
    parser.add_argument("--tokens", type=int, default=200)
    args = parser.parse_args()
    path = args.model or os.path.join(args.oracle, "smollm2")
    ids = AutoTokenizer.from_pretrained(path).encode(TEXT, add_special_tokens=False)[: args.tokens]
    load = lambda: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    worst = 0.0
    for kind, options in KINDS.items():
        print(kind)
        with tempfile.TemporaryDirectory() as folder:
            written = os.path.join(folder, "written")
            adapt = asked_of_moonring(options)
            ours = moonring(
                args,
                folder,
                {"model": path, "ids": ids, "adapt": adapt, "save": written, "lr": 2e-3},
            )
            with torch.no_grad():
                model = PeftModel.from_pretrained(load(), written).eval()
                worst = max(
                    worst,
                    compare(
                        "written by Moonring, read by PEFT", ours["adapted"], log_probs(model, ids)
                    ),
                )
                with model.disable_adapter():
                    worst = max(
                        worst,
                        compare("  with the adapter off", ours["base"], log_probs(model, ids)),
                    )

            torch.manual_seed(2)
            kind = OFTConfig if "oft_block_size" in options else LoraConfig
            model = get_peft_model(load(), kind(task_type="CAUSAL_LM", **options)).eval()
            optimizer = torch.optim.AdamW(
                [p for p in model.parameters() if p.requires_grad], lr=2e-3
            )
            for _ in range(3):
                (-log_probs(model, ids).mean()).backward()
                optimizer.step()
                optimizer.zero_grad()
            read = os.path.join(folder, "read")
            model.save_pretrained(read)
            with torch.no_grad():
                theirs = log_probs(model, ids)
            ours = moonring(args, folder, {"model": path, "ids": ids, "adapt": {"path": read}})
            worst = max(
                worst, compare("written by PEFT, read by Moonring", ours["adapted"], theirs)
            )
    print(f"worst {worst:.2e}")
    sys.exit(worst > 1e-5)


if __name__ == "__main__":
    main()
