"""What Transformers 5.23.0 writes for the models here that 4.57.6 wrote: config-5.23.json beside
each config.json, as its save_pretrained writes it.

    resave.py [--only NAME ...]      (make.py begins a folder anew: run this after it)

Each folder is opened by 5.23 and saved again. The model there has golden.json's losses (in fp32,
within LOSS), so both files are of one model; the safetensors that it writes has the same names and
bits, so no weights are kept beside the new config: it runs a layer's experts as one tensor, and
splits them again as it saves.

It saves the two tensors of Qwen3-VL-MoE's experts transposed (TRANSPOSED), which 4.57.6 does not
open.

Left out are what Transformers does not have (InternLM 2 and 3) and what 5.23 runs as another model
(qwen2_moe_norm, whose windows it gives to every other layer; qwen2_moe_layers of make.py is that)
or saves in another form (gpt_oss_mxfp4). Of Kimi Linear and OLMo hybrid it saves other names and
another cut of filters (RENAMED): there what it saves is kept too, model-5.23.safetensors, which it
opens as the same model.
"""

import argparse
import copy
import json
import os
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
LOSS = 1e-5  # relative; the goldens are of fp64, this is fp32
WRITTEN = "config-5.23.json"
LEFT_OUT = (
    "internlm2",
    "internlm3",
    "gpt_oss_mxfp4",
    "qwen2_moe_norm",
    "qwen2_moe_layers",
    "kimi_linear_types",
    "olmo_hybrid_rope",
    "qwen3_5_moe_vision",
)
TRANSPOSED = ("qwen3_vl_moe",)
RENAMED = ("kimi_linear", "olmo_hybrid")
torch.set_num_threads(1)


def loss_of(model, case):
    """The mean over predictions, each document alone."""
    total, count, start = 0.0, 0, 0
    ids, labels = case["input"]["input_ids"], case["input"]["labels"]
    for length in case["input"]["lengths"]:
        row = torch.tensor([ids[start : start + length]])
        targets = torch.tensor(labels[start : start + length])[1:]
        with torch.no_grad():
            # A copy, as a dynamic rotary embedding remembers the longest text so far.
            logits = copy.deepcopy(model)(row, use_cache=False).logits[0, :-1]
        total += torch.nn.functional.cross_entropy(
            logits, targets, ignore_index=-100, reduction="sum"
        ).item()
        count += int((targets != -100).sum())
        start += length
    return total / count


def resave(name):
    folder = os.path.join(HERE, name)
    options = dict(dtype=torch.float32, attn_implementation="eager")
    golden = json.load(open(os.path.join(folder, "golden.json")))
    Model = getattr(transformers, golden["transformers"], transformers.AutoModelForCausalLM)
    model = Model.from_pretrained(folder, **options).eval()
    worst = max(
        abs(loss_of(model, case) / case["output"]["loss"] - 1)
        for case in golden["cases"]
        if "moe_aux_loss_coef" not in case
    )
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        before = load_file(os.path.join(folder, "model.safetensors"))
        after = load_file(os.path.join(scratch, "model.safetensors"))
        if name in TRANSPOSED:
            after = {n: t.mT if ".experts." in n else t for n, t in after.items()}
        same = before.keys() == after.keys() and all(
            torch.equal(before[name], after[name]) for name in after
        )
        if name in RENAMED:
            again = Model.from_pretrained(scratch, **options).state_dict()
            same = not same and all(torch.equal(t, again[n]) for n, t in model.state_dict().items())
            weights = os.path.join(folder, "model-5.23.safetensors")
            shutil.copyfile(os.path.join(scratch, "model.safetensors"), weights)
        print(f"{name:18} loss {worst:.1e} tensors the same: {same}", flush=True)
        assert worst < LOSS and same, name
        shutil.copyfile(os.path.join(scratch, "config.json"), os.path.join(folder, WRITTEN))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted(
        name
        for name in os.listdir(HERE)
        if os.path.exists(os.path.join(HERE, name, "golden.json"))
        and name not in LEFT_OUT
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names)
    args = parser.parse_args()
    assert transformers.__version__ == "5.23.0", transformers.__version__
    transformers.logging.set_verbosity_error()
    for name in args.only:
        resave(name)


if __name__ == "__main__":
    main()
