"""Losses, logits and gradients of the small models of tests/golden/model under shift_attn, as in
LLaMA-Factory 0.9.5.

    make.py [--oracle DIR]

The attention is LLaMA-Factory's own file (model/model_utils/longlora.py), applied to Transformers
4.57.6's LlamaAttention. No run of LLaMA-Factory 0.9.5 can use it: 0.9.5 requires Transformers 4.55
or later, and the patch in that file requires one before 4.48. The modules of LLaMA-Factory that the
file imports, and the names that it takes from an older modeling_llama, are replaced here.

One statement is corrected. To shift the heads back, the file has

    attn_output.reshape(bsz, q_len, self.num_heads, self.head_dim)

and ignores the result. So the roll that follows is within each group: in half of the heads, the
tokens of a group's first half get the results of the tokens one group later. LongLoRA assigns the
result (llama_attn_replace.py), and so does this script. With the original statement a model sees
the tokens that it is to predict: `looks_ahead` is the change of logits if a later token is changed.
The losses of both are kept; `loss_as_written` is that of the original.

Eager attention and sdpa are compared in fp32, because eager's softmax is never in fp64:
`eager_distance`. Rows are multiples of 8 tokens, to which LLaMA-Factory's collator pads them, so no
row has padding.
"""

import argparse
import importlib.util
import json
import os
import sys
import types

import torch
import transformers
from transformers import LlamaForCausalLM
from transformers.models.llama import modeling_llama

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "model")
spec = importlib.util.spec_from_file_location("golden_model", os.path.join(MODELS, "make.py"))
golden_model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden_model)

DROPPED = "attn_output.reshape(bsz, q_len, self.num_heads, self.head_dim)"


def load_longlora(oracle, mended):
    """Loads LLaMA-Factory's file as a module."""
    path = os.path.join(
        oracle, "llamafactory-0.9.5/src/llamafactory/model/model_utils/longlora.py"
    )
    with open(path) as f:
        source = f.read()
    assert source.count(DROPPED) == 3, "another version"
    if mended:
        source = source.replace(DROPPED, "attn_output = " + DROPPED)

    class Logging(types.ModuleType):
        get_logger = staticmethod(lambda name: None)

    stand_ins = {
        "extras": types.ModuleType("extras"),
        "extras.logging": Logging("logging"),
        "extras.constants": types.ModuleType("constants"),
        "extras.misc": types.ModuleType("misc"),
        "extras.packages": types.ModuleType("packages"),
    }
    stand_ins["extras"].logging = stand_ins["extras.logging"]
    stand_ins["extras.constants"].SUPPORTED_CLASS_FOR_S2ATTN = {"llama"}
    stand_ins["extras.misc"].check_version = lambda *args, **kwargs: None
    stand_ins["extras.packages"].is_transformers_version_greater_than = (
        lambda version: transformers.__version__ >= version
    )
    for package in ("llamafactory", "llamafactory.model", "llamafactory.model.model_utils"):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = []
    for name, module in stand_ins.items():
        sys.modules["llamafactory." + name] = module
    module = types.ModuleType("llamafactory.model.model_utils.longlora")
    module.__package__ = "llamafactory.model.model_utils"
    exec(compile(source, path, "exec"), module.__dict__)
    module.apply_rotary_pos_emb = modeling_llama.apply_rotary_pos_emb
    module.repeat_kv = modeling_llama.repeat_kv
    return module


def shift(model, longlora):
    """Does what configure_longlora and _apply_llama_patch do, for this model only."""
    model.config.group_size_ratio = 0.25
    forward = (
        longlora.llama_attention_forward
        if model.config._attn_implementation == "eager"
        else longlora.llama_sdpa_attention_forward
    )
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.num_heads = model.config.num_attention_heads
        attention.num_key_value_heads = model.config.num_key_value_heads
        attention.hidden_size = attention.o_proj.in_features

        def call(attention=attention, past_key_values=None, **kwargs):
            assert past_key_values is None
            return forward(attention, **kwargs)[:2]

        attention.forward = call
    return model.train()  # attention is shifted only in training; there is no dropout


def open_model(name, dtype, implementation="sdpa"):
    folder = os.path.join(MODELS, name)
    with open(os.path.join(folder, "config.json")) as f:
        theta = json.load(f)["rope_theta"]
    return LlamaForCausalLM.from_pretrained(
        folder, dtype=dtype, rope_theta=theta, attn_implementation=implementation
    )


def cases(vocab):
    g = torch.Generator().manual_seed(23)
    draw = golden_model.draw
    yield "one", [draw(g, vocab, 64)]
    yield "shortest", [draw(g, vocab, 8)]
    yield (
        "several",
        [
            draw(g, vocab, 40, prompt=12),
            draw(g, vocab, 16, prompt=16),
            draw(g, vocab, 136, every=3),
        ],
    )
    yield "long", [draw(g, vocab, 1056, prompt=300)]


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def look_ahead(model, ids):
    """How far logits change if the last token of the row's first half is changed. Only logits
    before that token are compared, without the first eighth, which sees the row's end because
    groups wrap around."""
    n = len(ids)
    changed = list(ids)
    changed[n // 2 - 1] = changed[n // 2 - 1] % 40 + 3
    moved = (logits(model, changed) - logits(model, ids)).abs().amax(-1)
    return moved[n // 8 : n // 2 - 1].max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    oracle = parser.parse_args().oracle
    mended, written = load_longlora(oracle, True), load_longlora(oracle, False)
    models = []
    for name in ("gqa_tied", "mha_untied", "uneven_6_3", "mqa_5_1"):
        double = shift(open_model(name, torch.float64), mended)
        single = shift(open_model(name, torch.float32), mended)
        eager = shift(open_model(name, torch.float32, "eager"), mended)
        as_written = shift(open_model(name, torch.float64), written)
        whole = open_model(name, torch.float64).eval()
        entries = []
        for case, documents in cases(double.config.vocab_size):
            with golden_model.true_double():
                stream, output, rest, _ = golden_model.evaluate(double, documents)
                loss_as_written = golden_model.evaluate(as_written, documents, False)[1]["loss"]
                whole_loss = golden_model.evaluate(whole, documents, False)[1]["loss"]
                ahead = {
                    "mended": look_ahead(double, documents[0][0]),
                    "as_written": look_ahead(as_written, documents[0][0]),
                }
            both = [logits(model, documents[0][0]) for model in (single, eager)]
            entries.append(
                {
                    "name": case,
                    "input": stream,
                    "output": output,
                    **rest,
                    "loss_fp32": golden_model.evaluate(single, documents, False)[1]["loss"],
                    "loss_as_written": loss_as_written,
                    "loss_of_whole_documents": whole_loss,
                    "looks_ahead": ahead,
                    "eager_distance": ((both[0] - both[1]).norm() / both[0].norm()).item(),
                }
            )
            del entries[-1]["nll"]
            print(
                name, case, output["loss"], loss_as_written, whole_loss, ahead,
                entries[-1]["eager_distance"],
            )
        models.append({"model": name, "cases": entries})
    golden_model.write(os.path.join(HERE, "golden.json"), {"dtype": "float64", "models": models})


if __name__ == "__main__":
    main()
