"""Saves the golden models of Transformers 4.57.6 again with Transformers 5.23.0, and writes the
resulting config-5.23.json next to each config.json.

    resave.py [--only NAME ...]      (run it after make.py, which creates a folder anew)

Each folder is opened and saved by 5.23. The loss of the opened model must equal that of golden.json
(in fp32, within LOSS). The saved safetensors has the same names and bits, although 5.23 computes a
layer's experts as one tensor, so no further weights are stored next to the new config.

Exceptions: 5.23 saves two tensors of Qwen3-VL-MoE's experts transposed (TRANSPOSED), in a form that
4.57.6 cannot open. For Kimi Linear and OLMo hybrid it saves other names and another split of
filters (RENAMED); for these, its weights are stored too, as model-5.23.safetensors.

Left out are models that Transformers lacks (InternLM 2 and 3), that 5.23 computes differently
(qwen2_moe_norm, whose windows it applies to every other layer; qwen2_moe_layers of make.py covers
that), or that it saves in another form (gpt_oss_mxfp4).
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
LOSS = 1e-5  # relative: golden.json is in fp64, this loss in fp32
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
    """Returns the mean loss over all predictions, each document computed separately."""
    total, count, start = 0.0, 0, 0
    ids, labels = case["input"]["input_ids"], case["input"]["labels"]
    for length in case["input"]["lengths"]:
        row = torch.tensor([ids[start : start + length]])
        targets = torch.tensor(labels[start : start + length])[1:]
        with torch.no_grad():
            # A copy, because a dynamic rotary embedding remembers the longest text so far.
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
