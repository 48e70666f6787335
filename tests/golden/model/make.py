"""Losses, logits and gradients of small random Llama and Mistral models and of SmolLM2, computed by
Transformers 4.57.6.

    make.py [--oracle DIR] [--only small|smollm2|NAME]

The small models are written as Hugging Face folders, whose weights ../seeded_weights.py generates;
only models in several files or in bf16 keep their safetensors. `input` and `output` have the form
of `moonring probe`. Transformers casts to float32 in RMSNorm, in the rotary tables and in its loss;
here these are replaced, so that a model in fp64 computes everything in fp64.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import seeded_weights  # noqa: E402
import sketch  # noqa: E402

# Of the loss and of the worst gradient, relative: a model that is further off is drawn again.
NOISE = {torch.bfloat16: (2e-3, 0.06), torch.float16: (2.5e-4, 0.0075)}
SENTENCE = (
    "It is a truth universally acknowledged, that a single man in possession of a good "
    "fortune, must be in want of a wife."
)


def variants():
    base = dict(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    yield "gqa_tied", base, {}
    yield (
        "mha_untied",
        base
        | dict(
            vocab_size=128,
            num_key_value_heads=4,
            rms_norm_eps=1e-6,
            rope_theta=500000.0,
            tie_word_embeddings=False,
        ),
        {},
    )
    yield (
        "uneven_6_3",
        base
        | dict(
            vocab_size=101,
            hidden_size=48,
            intermediate_size=56,
            num_attention_heads=6,
            num_key_value_heads=3,
        ),
        {},
    )
    yield (
        "mqa_5_1",
        base
        | dict(
            hidden_size=40, num_attention_heads=5, num_key_value_heads=1, tie_word_embeddings=False
        ),
        {},
    )
    yield "head_dim", base | dict(head_dim=16), {}
    yield "sharded", base | dict(num_hidden_layers=3, tie_word_embeddings=False), {"shards": 3}
    yield "rope_parameters", base | dict(rope_theta=100000.0), {"new_config": True}
    yield "mistral_window", base | dict(sliding_window=12), {"mistral": True}
    yield (
        "bf16",
        base | dict(hidden_size=64, num_attention_heads=4, head_dim=16, rope_theta=100000.0),
        {"bf16": True},
    )


# In double throughout.


def norm_forward(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def rotary_forward(self, x, position_ids):
    dim = self.inv_freq.numel() * 2
    inv_freq = 1.0 / self.config.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = position_ids[..., None].double() * inv_freq
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


@contextlib.contextmanager
def true_double():
    replaced = [
        modeling_llama.LlamaRMSNorm,
        modeling_llama.LlamaRotaryEmbedding,
        modeling_mistral.MistralRMSNorm,
        modeling_mistral.MistralRotaryEmbedding,
    ]
    saved = [layer.forward for layer in replaced]
    for layer in replaced:
        layer.forward = rotary_forward if "Rotary" in layer.__name__ else norm_forward
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        for layer, forward in zip(replaced, saved):
            layer.forward = forward


# Cases: lists of documents (ids, labels).


def draw(generator, vocab, length, prompt=0, every=0):
    ids = torch.randint(3, vocab, (length,), generator=generator).tolist()
    labels = [-100 if i < prompt or (every and i % every == 0) else t for i, t in enumerate(ids)]
    return ids, labels


def small_cases(name, vocab):
    g = torch.Generator().manual_seed(11)
    yield "one", [draw(g, vocab, 40)]
    yield "masked", [draw(g, vocab, 33, prompt=20)]
    a, b, c = draw(g, vocab, 17, prompt=6), draw(g, vocab, 5, prompt=5), draw(g, vocab, 31, every=3)
    yield "packed", [a, b, c]
    yield (
        "first_token_learnt",
        [draw(g, vocab, 7), draw(g, vocab, 1), draw(g, vocab, 2), draw(g, vocab, 12, prompt=11)],
    )
    if name in ("gqa_tied", "uneven_6_3", "mistral_window"):
        yield (
            "packed_long",
            [
                draw(g, vocab, 530, prompt=300),
                draw(g, vocab, 7, prompt=3),
                draw(g, vocab, 161, every=2),
                draw(g, vocab, 64, prompt=64),
            ],
        )
    if name in (
        "gqa_tied",
        "mha_untied",
    ):  # pad_token_id inside the text: nn.Embedding gives its lookups no gradient
        ids, labels = draw(g, vocab, 24, prompt=8)
        for place in (5, 12, 23):
            ids[place] = 2
            labels[place] = 2 if place > 8 else -100
        yield "pad_in_text", [(ids, labels), draw(g, vocab, 9)]


def positions_of(documents):
    """The first and last index of each document, one in its middle, and some around index 512."""
    out, start = set(), 0
    for ids, _ in documents:
        out |= {start, start + len(ids) // 2, start + len(ids) - 1}
        start += len(ids)
    return sorted(out | {i for i in (511, 512) if i < start})


def evaluate(model, documents, gradients=True):
    """Evaluates each document by itself and adds up the losses; gradients are those of the mean
    over the predictions."""
    names = {id(p): n for n, p in reversed(list(model.named_parameters()))}
    predictions = sum(sum(l != -100 for l in labels[1:]) for _, labels in documents)
    positions, start, total = positions_of(documents), 0, torch.zeros((), dtype=torch.float64)
    logits_out, lse_out, nll_out = {}, {}, []
    model.zero_grad(set_to_none=True)
    for ids, labels in documents:
        with torch.set_grad_enabled(gradients):
            logits = model(torch.tensor([ids]), use_cache=False).logits[0]
            log_probs = torch.log_softmax(
                logits if logits.dtype == torch.float64 else logits.float(), -1
            )
            targets = torch.tensor(labels[1:] + [-100])
            nll = -log_probs.gather(1, targets.clamp(min=0)[:, None])[:, 0]
            chosen = targets != -100
            if bool(chosen.any()):
                loss = nll[chosen].sum()
                if gradients:
                    (loss / predictions).backward()
                total += loss.detach().double()
        nll_out += [
            x if keep else None for x, keep in zip(nll.detach().double().tolist(), chosen.tolist())
        ]
        for p in positions:
            if start <= p < start + len(ids):
                logits_out[p] = logits[p - start, :8].detach().double().tolist()
                lse_out[p] = torch.logsumexp(logits[p - start].detach().double(), -1).item()
        start += len(ids)
    output = {
        "loss": total.item() / predictions,
        "logits": [logits_out[p] for p in positions],
        "logsumexp": [lse_out[p] for p in positions],
    }
    grads = None
    if gradients:
        grads = {
            n: (p.grad if p.grad is not None else torch.zeros_like(p)).detach().clone()
            for n, p in model.named_parameters()
        }
        norms = {n: g.double().norm().item() for n, g in grads.items()}
        output["grad_norm"] = norms
        output["grad_norm_total"] = sum(x * x for x in norms.values()) ** 0.5
    assert len(names) == len(list(model.named_parameters()))
    rest = {
        "loss_sum": total.item(),
        "predictions": predictions,
        "labels_counted": sum(sum(l != -100 for l in labels) for _, labels in documents),
        "nll": nll_out,
    }
    stream = {
        "input_ids": sum((ids for ids, _ in documents), []),
        "labels": sum((labels for _, labels in documents), []),
        "positions": positions,
        "lengths": [len(ids) for ids, _ in documents],
    }
    return stream, output, rest, grads


def write(path, golden):
    def lines(value, indent):
        if isinstance(value, dict) and indent < 5:
            return (
                "{\n"
                + ",\n".join(
                    " " * indent + json.dumps(k) + ": " + lines(v, indent + 1)
                    for k, v in value.items()
                )
                + "}"
            )
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(lines(v, indent + 1) for v in value) + "]"
        return json.dumps(value)

    with open(path, "w") as f:
        f.write(lines(golden, 0) + "\n")


def drawn(key, shape):
    """The distribution from which a tensor is drawn, by its name."""
    if len(shape) == 1:
        mean, deviation = 1.0, 0.2
    else:
        mean, deviation = 0.0, 0.5 if "embed" in key or "lm_head" in key else 0.25
    return {"shape": list(shape), "mean": mean, "deviation": deviation}


def write_model(folder, seed, options, extra):
    """Returns the description of the model's weights if they are to be generated from the seed."""
    shutil.rmtree(folder, ignore_errors=True)
    make_config, Model = (
        (MistralConfig, MistralForCausalLM)
        if extra.get("mistral")
        else (LlamaConfig, LlamaForCausalLM)
    )
    config = make_config(**options, attn_implementation="sdpa")
    model = Model(config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            numbers = seeded_weights.values(seed, key, **drawn(key, p.shape))
            p.copy_(torch.tensor(numbers).view(p.shape))
    if extra.get("bf16"):
        model = model.to(torch.bfloat16)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    model.save_pretrained(
        folder, max_shard_size=int(size / extra["shards"] * 1.25) if "shards" in extra else "1GB"
    )
    os.remove(os.path.join(folder, "generation_config.json"))
    shards = len([f for f in os.listdir(folder) if f.endswith(".safetensors")])
    assert shards == extra.get("shards", 1), shards
    if extra.get("new_config"):  # as Transformers 5 writes it
        path = os.path.join(folder, "config.json")
        written = json.load(open(path))
        written["rope_parameters"] = {
            "rope_theta": written.pop("rope_theta"),
            "rope_type": "default",
        }
        written.pop("rope_scaling")
        written["dtype"] = written.pop("torch_dtype", written.get("dtype", "float32"))
        written["transformers_version"] = "5.0.0"
        with open(path, "w") as f:
            f.write(json.dumps(dict(sorted(written.items())), indent=2) + "\n")
    if "shards" in extra or extra.get("bf16"):
        return None
    return seeded_weights.fill_file(os.path.join(folder, "model.safetensors"), seed, drawn)


def well_conditioned(double, narrow, documents):
    """Whether unchanged Transformers in bf16 and fp16 is within half of the tolerances of
    transformer_test.cc."""
    with true_double():
        _, want, _, exact = evaluate(double, documents)
    for dtype, (loss, gradient) in NOISE.items():
        _, got, _, grads = evaluate(narrow(dtype), documents)
        off = (((grads[key].double() - g).norm() / g.norm()).item() for key, g in exact.items())
        if abs(got["loss"] / want["loss"] - 1) > loss or max(off) > gradient:
            return False
    return True


def make_small(name, options, extra):
    folder = os.path.join(HERE, name)
    all_cases = dict(small_cases(name, options["vocab_size"]))

    def opened(dtype):
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, rope_theta=options["rope_theta"], attn_implementation="sdpa"
        ).eval()

    for draw in itertools.count():
        weights = write_model(folder, f"{name}/{draw}", options, extra)
        double = opened(torch.float64)
        if well_conditioned(double, opened, all_cases["packed"]):
            break
    model = opened(torch.float32)
    cases = []
    for case, documents in all_cases.items():
        with true_double():
            stream, output, rest, grads = evaluate(double, documents)
        entry = {
            "name": case,
            "input": stream,
            "output": output,
            **rest,
            "loss_fp32": evaluate(model, documents, False)[1]["loss"],
        }
        if (name, case) in (("gqa_tied", "packed_long"), ("uneven_6_3", "packed")):
            entry["gradients"] = {key: sketch.sketch(key, grad) for key, grad in grads.items()}
        cases.append(entry)
        print(name, case, output["loss"], entry["loss_fp32"], output["grad_norm_total"])
    golden = {"dtype": "float64"} | ({"weights": weights} if weights else {}) | {"cases": cases}
    write(os.path.join(folder, "golden.json"), golden)


def make_smollm2(path):
    tokenizer = AutoTokenizer.from_pretrained(path)
    ids = tokenizer.encode(SENTENCE, add_special_tokens=False)
    chat = [
        tokenizer.apply_chat_template(
            [
                {"role": "user", "content": "Who are you?"},
                {"role": "assistant", "content": "I am SmolLM."},
            ]
        ),
        tokenizer.encode("The moon is bright tonight.", add_special_tokens=False),
        tokenizer.encode(
            "\u4eca\u665a\u7684\u6708\u4eae\u5f88\u4eae\u3002", add_special_tokens=False
        ),
    ]
    cases = {
        "sentence": [(ids, ids)],
        "packed": [
            (chat[0], [-100] * (len(chat[0]) - 8) + chat[0][-8:]),
            (chat[1], [-100] * len(chat[1])),
            (chat[2], chat[2]),
            (ids, [-100] * 9 + ids[9:]),
        ],
    }
    model = LlamaForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    single = {name: evaluate(model, documents)[1] for name, documents in cases.items()}
    for name in cases:
        print("smollm2", name, single[name]["loss"], single[name]["grad_norm_total"])
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    answer = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        max_new_tokens=32,
    )[0].tolist()[len(prompt) :]
    print(tokenizer.decode(answer))
    model = model.double()
    entries = []
    for name, documents in cases.items():
        with true_double():
            stream, output, rest, _ = evaluate(model, documents)
        print("smollm2 fp64", name, output["loss"], output["grad_norm_total"])
        entries.append(
            {
                "name": name,
                "input": stream,
                "output": output,
                **rest,
                "loss_fp32": single[name]["loss"],
                "output_fp32": single[name],
            }
        )
    write(
        os.path.join(HERE, "smollm2.json"),
        {
            "dtype": "float64",
            "sentence": SENTENCE,
            "cases": entries,
            "chat": {
                "messages": messages,
                "prompt_ids": prompt,
                "answer_ids": answer,
                "answer": tokenizer.decode(answer),
            },
        },
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument(
        "--only", choices=["small", "smollm2"] + [variant[0] for variant in variants()]
    )
    args = parser.parse_args()
    for variant in variants():
        if args.only in (None, "small", variant[0]):
            make_small(*variant)
    if args.only in (None, "smollm2"):
        make_smollm2(os.path.join(args.oracle, "smollm2"))


if __name__ == "__main__":
    main()
