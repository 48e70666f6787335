#!/usr/bin/env python3
"""Predicts the best possible time of a training step on a GPU, without a GPU.

    tests/gpu/roofline.py                             Llama-8B, 8k and 32k tokens: some two minutes
    tests/gpu/roofline.py --tokens 8192 --top 40 bf16=true finetuning_type=full
    tests/gpu/roofline.py --ceilings DIR/ceilings.json      with what `accept` measured there
    tests/gpu/roofline.py --model qwen3_next --layers 4     a period of Qwen3-Next-80B's layers
    tests/gpu/roofline.py --documents 16                    so many documents of equal lengths

The whole program makes two steps on the pretend device, on one document of this many tokens, with
PRETEND_DEVICE_PRODUCTS=counted: each operator is called with its shapes, and the large ones are
skipped. The counts of the second step are those of the run with two steps minus those of a run with
one (work.h):

    seconds = sum over calls of max(bytes / 0.85 / 3.35e12, operations / (efficiency x peak))

bf16 efficiency: products 0.75; flash attention 0.36 forward and 0.32 backward (measured:
docs/gpu.md), cuDNN's 0.62 and 0.55 (1.7 times flash); fp32 attention 0.60 and 0.50. The peaks are
those of an H100 SXM: 989e12 in bf16, 495e12 in TF32 (the gated delta rule's products in 16-bit
runs), 67e12 in fp32. attention_kernels: auto is counted as flash, attention_kernels=cudnn as cuDNN.
Kernel launches cost nothing here, and copies between host and device are listed separately and not
part of the time. Equal calls (operator, shapes) are summed before the maximum is taken.

    MFU = (6 N T + 12 L h d T^2) / (989e12 x seconds)

as torchtitan counts, where N is the number of parameters without the embedding. A second value
counts half of attention's operations, because a causal mask uses half of the pairs.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import inputs  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

PEAK = 989e12
# The rates that a kernel can reach: operations per second for each kind of work, and for "bytes"
# the bytes read and written per second.
RATES = {
    "bytes": 0.85 * 3.35e12,
    "product bf16": 0.75 * PEAK,
    "attention forward bf16": 0.36 * PEAK,
    "attention backward bf16": 0.32 * PEAK,
    "cuDNN forward bf16": 0.62 * PEAK,
    "cuDNN backward bf16": 0.55 * PEAK,
    "product tf32": 0.75 * 495e12,
    "product fp32": 0.75 * 67e12,
    "attention forward fp32": 0.60 * 67e12,
    "attention backward fp32": 0.50 * 67e12,
}
LLAMA_8B = {
    "hidden": 4096,
    "inner": 14336,
    "layers": 32,
    "heads": 32,
    "kv_heads": 8,
    "vocabulary": 128256,
}
# Qwen3-Next-80B-A3B: three layers with the gated delta rule for each layer with attention, 512
# experts.
QWEN3_NEXT = {
    "family": "qwen3_next",
    "hidden": 2048,
    "inner": 512,
    "layers": 48,
    "heads": 16,
    "kv_heads": 2,
    "head_dim": 256,
    "vocabulary": 151936,
    "experts": 512,
    "chosen": 10,
    "key_heads": 16,
    "value_heads": 32,
    "linear_dim": 128,
}
SHAPES = {"llama": LLAMA_8B, "qwen3_next": QWEN3_NEXT}
COUNTS = ("calls", "read", "written", "flops")


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


# A run on the simulated GPU


def tensors_of(shape):
    """Returns inputs.tensors_of with a separate head, as in Llama-8B, unless the shape is
    "tied"."""
    if shape.get("family") == "qwen3_next":
        yield from qwen3_next_tensors(shape)
        return
    yield from inputs.tensors_of(shape)
    if not shape.get("tied"):
        yield "lm_head.weight", (shape["vocabulary"], shape["hidden"])


def qwen3_next_tensors(shape):
    hidden, inner, experts = shape["hidden"], shape["inner"], shape["experts"]
    rows, keys = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    of_k = shape["key_heads"] * shape["linear_dim"]
    of_v = shape["value_heads"] * shape["linear_dim"]
    yield "model.embed_tokens.weight", (shape["vocabulary"], hidden)
    for layer in range(shape["layers"]):
        block = f"model.layers.{layer}."
        yield block + "input_layernorm.weight", (hidden,)
        yield block + "post_attention_layernorm.weight", (hidden,)
        if layer % 4 == 3:
            yield block + "self_attn.q_proj.weight", (2 * rows, hidden)
            yield block + "self_attn.k_proj.weight", (keys, hidden)
            yield block + "self_attn.v_proj.weight", (keys, hidden)
            yield block + "self_attn.o_proj.weight", (hidden, rows)
            yield block + "self_attn.q_norm.weight", (shape["head_dim"],)
            yield block + "self_attn.k_norm.weight", (shape["head_dim"],)
        else:
            linear = block + "linear_attn."
            yield linear + "in_proj_qkvz.weight", (2 * (of_k + of_v), hidden)
            yield linear + "in_proj_ba.weight", (2 * shape["value_heads"], hidden)
            yield linear + "conv1d.weight", (2 * of_k + of_v, 1, 4)
            yield linear + "dt_bias", (shape["value_heads"],)
            yield linear + "A_log", (shape["value_heads"],)
            yield linear + "norm.weight", (shape["linear_dim"],)
            yield linear + "out_proj.weight", (hidden, of_v)
        yield block + "mlp.gate.weight", (experts, hidden)
        yield block + "mlp.shared_expert_gate.weight", (1, hidden)
        of = [f"mlp.experts.{expert}." for expert in range(experts)] + ["mlp.shared_expert."]
        for name in of:
            yield block + name + "gate_proj.weight", (inner, hidden)
            yield block + name + "up_proj.weight", (inner, hidden)
            yield block + name + "down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (shape["vocabulary"], hidden)


def configuration_of(shape):
    """Returns the fields of config.json that Llama's lacks."""
    if shape.get("family") != "qwen3_next":
        return {"tie_word_embeddings": shape.get("tied", False)}
    return {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "tie_word_embeddings": False,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": shape["linear_dim"],
        "linear_value_head_dim": shape["linear_dim"],
        "linear_num_key_heads": shape["key_heads"],
        "linear_num_value_heads": shape["value_heads"],
        "moe_intermediate_size": shape["inner"],
        "shared_expert_intermediate_size": shape["inner"],
        "num_experts": shape["experts"],
        "num_experts_per_tok": shape["chosen"],
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "partial_rotary_factor": 0.25,
        "attention_bias": False,
        "hidden_act": "silu",
    }


def write_model(folder, shape):
    """Writes a model whose weights are zero, as a sparse file."""
    inputs.write_model(folder, inputs.TINY)
    path = os.path.join(folder, "config.json")
    config = read_json(path) | {
        "hidden_size": shape["hidden"],
        "intermediate_size": shape["inner"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape.get("head_dim") or inputs.head_dim(shape),
        "vocab_size": shape["vocabulary"],
    }
    config |= configuration_of(shape)
    inputs.write_json(path, config)
    header, offset = {}, 0
    for name, dims in tensors_of(shape):
        end = offset + 2 * inputs.numel(dims)
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + offset)


def steps(host, work, config, count, products="counted"):
    """Runs a process that makes this many steps, and returns its report."""
    report = os.path.join(work, f"report-{count}")
    environment = os.environ | {
        "PRETEND_DEVICE_PRODUCTS": products,
        "PRETEND_DEVICE_MEMORY": str(2**41),
        "PRETEND_DEVICE_REPORT": report,
    }
    script = os.path.join(HERE, "roofline_steps.lua")
    done = subprocess.run(
        [host, "--device", "cuda", script, config, f"steps={count}"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"roofline: the run has failed:\n{done.stdout}")
    return read_json(report + ".0")


def count_step(host, shape, tokens, keys, products="counted", documents=1):
    """Counts the work of a run's second step, for this many tokens in documents of equal lengths.
    Returns its rows of work, synchronizations, and the peak memory of tensors. `products`: the
    value of PRETEND_DEVICE_PRODUCTS."""
    each = tokens // documents
    with tempfile.TemporaryDirectory(prefix="roofline-") as work:
        model, data = os.path.join(work, "model"), os.path.join(work, "data")
        write_model(model, shape)
        inputs.write_documents(data, [each + 64] * (4 * documents))
        whole = {
            "stage": "sft",
            "finetuning_type": "full",
            "model_name_or_path": model,
            "dataset_dir": data,
            "dataset": "copy",
            "template": "chatml",
            "cutoff_len": each,
            "micro_batch_tokens": tokens,
            "per_device_train_batch_size": documents,
            "gradient_accumulation_steps": 1,
            "max_steps": 3,
            "bf16": True,
            "save_strategy": "no",
            "logging_steps": 1,
            "memory_check": "warn",
            "report_to": "none",
            "preprocessing_num_workers": 1,
            "overwrite_output_dir": True,
            "output_dir": os.path.join(work, "out"),
        } | keys
        config = os.path.join(work, "config.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.writelines(f"{key}: {json.dumps(value)}\n" for key, value in whole.items())
        return second_step(*(steps(host, work, config, count, products) for count in (1, 2)))


def second_step(first, both):
    """Returns the counts of a run with two steps minus those of a run with one step."""

    def key(row):
        return row["operator"], row["shapes"], row["by"]

    before = {key(row): row for row in first["work"]}
    rows = []
    for row in both["work"]:
        less = before.get(key(row), dict.fromkeys(COUNTS, 0))
        rows.append(row | {name: row[name] - less[name] for name in COUNTS})
    waits = both["all_synchronizations"] - first["all_synchronizations"]
    return {
        "work": [row for row in rows if row["calls"] != 0],
        "synchronizations": waits,
        "peak_bytes": both["peak_bytes"],
    }


# Predicted time


def computing(row, rates):
    """Returns the time of a row's operations, in seconds."""
    if not row["flops"]:
        return 0.0
    of_cudnn = row["by"].replace("attention", "cuDNN")
    by = of_cudnn if "cudnn" in row["operator"] and of_cudnn in rates else row["by"]
    return row["flops"] / rates[by]


def seconds_of(row, rates):
    """Returns the best possible time of a row; 0 for a copy over the link, which runs at the same
    time."""
    if row["by"] == "link":
        return 0.0
    moving = (row["read"] + row["written"]) / rates["bytes"]
    return max(moving, computing(row, rates))


def model_flops(shape, lengths):
    """Counts the operations of a forward and a backward of documents of these lengths: 6 N per
    token, 12 L h d T^2 per document. The head counts as one matrix, tied or not. Only the experts
    chosen for a token count, and only attention layers: the delta rule's own operations are
    omitted."""
    share = shape["chosen"] / shape["experts"] if "chosen" in shape else 1
    matrices = sum(
        inputs.numel(dims) * (share if ".experts." in name else 1)
        for name, dims in tensors_of(shape)
    )
    layers = sum(name.endswith("self_attn.q_proj.weight") for name, _ in tensors_of(shape))
    if not shape.get("tied"):
        matrices -= shape["vocabulary"] * shape["hidden"]  # the embedding: a lookup
    width = shape["heads"] * (shape.get("head_dim") or inputs.head_dim(shape))
    pairs = sum(length * length for length in lengths)
    return 6 * matrices * sum(lengths), 12 * layers * width * pairs


def predict(counted, shape, lengths, rates, peak):
    rows = [row | {"seconds": seconds_of(row, rates)} for row in counted["work"]]
    rows.sort(key=lambda row: -row["seconds"])
    on_device = [row for row in rows if row["by"] != "link"]
    seconds = sum(row["seconds"] for row in rows)
    linear, attention = model_flops(shape, lengths)
    # The time if products and attention moved no bytes. The rest of a row's time is spent on bytes.
    bound = sum(computing(row, rates) for row in on_device)
    return {
        "rows": rows,
        "seconds": seconds,
        "operations": bound,
        "calls": sum(row["calls"] for row in on_device),
        "bytes": sum(row["read"] + row["written"] for row in on_device),
        "link_bytes": sum(row["read"] for row in rows if row["by"] == "link"),
        "synchronizations": counted["synchronizations"],
        "peak_bytes": counted["peak_bytes"],
        "mfu": (linear + attention) / (peak * seconds),
        "mfu_causal": (linear + attention / 2) / (peak * seconds),
        "mfu_dense": (linear + attention * sum(lengths) ** 2 / sum(n * n for n in lengths))
        / (peak * seconds),
    }


# Tables


def table(headers, rows):
    widths = [max(len(line[i]) for line in [headers, *rows]) for i in range(len(headers))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
        for line in [headers, *rows]
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def cells(row, whole):
    return [
        f"{1e3 * row['seconds']:.2f}",
        f"{100 * row['seconds'] / whole:.1f}",
        f"{row['calls']:,}",
        f"{(row['read'] + row['written']) / 1e9:,.2f}",
        f"{row['flops'] / 1e12:,.2f}",
    ]


HEADERS = ["ms", "%", "calls", "GB", "TFLOP"]


def by_operator(rows):
    kinds = {}
    for row in rows:
        name = row["operator"] + (f" ({row['by']})" if row["by"] else "")
        kind = kinds.setdefault(name, dict.fromkeys((*COUNTS, "seconds"), 0))
        for field in kind:
            kind[field] += row[field]
    return sorted(kinds.items(), key=lambda each: -each[1]["seconds"])


def show(found, tokens, top):
    whole = found["seconds"]
    head = [
        ["roofline time of a step", f"{whole:.3f} s, {tokens / whole:,.0f} tokens/s"],
        ["of it by operations alone", f"{found['operations']:.3f} s"],
        ["MFU predicted", f"{100 * found['mfu']:.1f} %"],
        ["... attention halved", f"{100 * found['mfu_causal']:.1f} %"],
        ["... one T^2 for all documents", f"{100 * found['mfu_dense']:.1f} %"],
        ["operator calls", f"{found['calls']:,}"],
        ["bytes moved", f"{found['bytes'] / 1e9:,.1f} GB"],
        ["between host and device", f"{found['link_bytes'] / 1e9:,.3f} GB"],
        ["synchronisations", f"{found['synchronizations']:,}"],
        ["tensors at the most", f"{found['peak_bytes'] / 2**30:,.1f} GiB"],
    ]
    operators = [cells(kind, whole) + [name] for name, kind in by_operator(found["rows"])]
    shapes = [
        cells(row, whole) + [f"{row['operator']} {row['shapes'][:90]}"] for row in found["rows"]
    ]
    return "\n\n".join(
        [
            table([f"{tokens:,} tokens", ""], head),
            table(HEADERS + ["operator"], operators[:top]),
            table(HEADERS + ["operator, shapes"], shapes[:top]),
        ]
    )


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", default="8192,32768", help="lengths, with commas")
    parser.add_argument("--model", choices=list(SHAPES), default="llama", help="Llama-8B's sizes")
    parser.add_argument("--layers", type=int, help="in place of the model's")
    parser.add_argument("--documents", type=int, default=1, help="of equal lengths, in one step")
    parser.add_argument("--shape", help="JSON in place of Llama-8B's sizes")
    parser.add_argument("--host", help="the host on the pretend device; absent: it is built")
    parser.add_argument("--ceilings", help="ceilings.json of accept")
    parser.add_argument("--top", type=int, default=25, help="rows of each table")
    parser.add_argument("--out", help="all of it as JSON")
    parser.add_argument("keys", nargs="*", help="key=value of the configuration")
    return parser.parse_args()


def main():
    args = parse()
    target = "//tests/testing/pretend_device:host"
    host = args.host
    if host is None:
        subprocess.run(["./bazelw", "build", "--noshow_progress", target], cwd=ROOT, check=True)
        host = os.path.join(ROOT, "bazel-bin", target.strip("/").replace(":", "/"))
    rates, peak = dict(RATES), PEAK
    if args.ceilings:
        rates |= read_json(args.ceilings)["rates"]
    shape = dict(json.loads(args.shape) if args.shape else SHAPES[args.model])
    shape["layers"] = args.layers or shape["layers"]
    keys = {}
    for word in args.keys:
        name, value = word.split("=", 1)
        is_json = value[:1].isdigit() or value in ("true", "false")
        keys[name] = json.loads(value) if is_json else value
    every = {}
    for tokens in (int(word) for word in args.tokens.split(",")):
        counted = count_step(os.path.abspath(host), shape, tokens, keys, documents=args.documents)
        lengths = [tokens // args.documents] * args.documents
        every[tokens] = predict(counted, shape, lengths, rates, peak)
        print(show(every[tokens], tokens, args.top) + "\n", flush=True)
    if args.out:
        inputs.write_json(args.out, {"shape": shape, "rates": rates, "tokens": every})


if __name__ == "__main__":
    main()
