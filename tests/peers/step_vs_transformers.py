"""Compares step time and peak memory of `moonring train` with Transformers: full fine-tuning, one
document per step.

    step_vs_transformers.py --moonring PATH --model DIR [--tokens 512,2048,4096] [--dtype fp32,bf16]
        [--steps 4] [--rounds 2] [--threads N] [--device cpu|cuda]
        [--keys activation_offload=disk,...] [--limit-gib 24] [--budget-gib 6] [--folder DIR]

Transformers runs with sdpa attention, gradient checkpointing, clipping at 1.0 and AdamW (fused);
bf16 is autocast over fp32 weights, as in LLaMA-Factory. Moonring gets the same documents as an
alpaca data set and a YAML. Both run alternately as separate processes with the same number of
threads; the first step of each process is excluded, and the median of the others is shown. Memory
is sampled for both in the same way, over the whole process tree: `anon` is RssAnon + RssShmem
(allocated memory), `rss` all resident pages (with mapped weight files). On cuda, the programs' own
numbers are shown. Both losses of the first step are printed: if they differ, the two did not do the
same work. This requires the chatml template.

At the end, prints for each dtype the memory per token (the slope between the two greatest lengths),
compared with that of the blocks' inputs, (layers + 1) x hidden x 4 bytes; and the length that this
slope predicts for --budget-gib. A program that fails within --limit-gib of address space for data
is not run with greater lengths. --keys are added to Moonring's configuration. --steps 0 only
measures the first step, in whose backward there are no AdamW states yet; for the memory of
training, use at least --steps 1. Up to some length the peak is in the optimizer's step, so the
slope is only meaningful between longer lengths.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WORDS = (
    "moon ring tide anchor sail rope light cape harbour wind star mast deck compass chart bell "
    "watch north south east west water stone "
    "and the of a to over under with long small bright quiet old far near every one two three seven"
).split()


def text_of(index, tokens):
    rng = random.Random(1000 + index)
    return " ".join(rng.choice(WORDS) for _ in range(tokens + 64))


def documents(tokenizer, tokens, count):
    """Yields the ids and labels that a LLaMA-Factory configuration with template chatml and
    cutoff_len = tokens gives."""
    for i in range(count):
        source = tokenizer.encode(
            "<|im_start|>user\nCopy.<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False
        )
        target = tokenizer.encode(text_of(i, tokens) + "<|im_end|>\n", add_special_tokens=False)[
            : tokens - len(source)
        ]
        yield source + target, [-100] * len(source) + target


def transformers_child(args):
    import contextlib

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(args.threads)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="sdpa"
    ).to(args.device)
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    for ids, labels in documents(tokenizer, args.child_tokens, args.steps + 1):
        ids, labels = (torch.tensor([x], device=args.device) for x in (ids, labels))
        begin = time.perf_counter()
        with (
            torch.autocast(args.device, torch.bfloat16)
            if args.child_dtype == "bf16"
            else contextlib.nullcontext()
        ):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        if args.device == "cuda":
            torch.cuda.synchronize()
        line = {"loss": value, "seconds": time.perf_counter() - begin}
        if args.device == "cuda":
            line["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
        print("STEP " + json.dumps(line), flush=True)


def tree(pid):
    out = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in open(f"/proc/{pid}/task/{task}/children").read().split():
                out += tree(int(child))
    except OSError:
        pass
    return out


def memory(pid):
    anon = rss = 0
    for one in tree(pid):
        try:
            fields = dict(line.split(":", 1) for line in open(f"/proc/{one}/status"))
            kib = {k: int(fields[k].split()[0]) for k in ("RssAnon", "RssShmem", "VmRSS")}
        except (OSError, KeyError, ValueError):
            continue
        anon += (kib["RssAnon"] + kib["RssShmem"]) * 1024
        rss += kib["VmRSS"] * 1024
    return anon, rss


class Failed(Exception):
    pass


def watch(command, environment, log, limit_gib=None):
    """Runs a command. Returns its output and its peaks of memory."""
    peak = [0, 0]

    def limit():
        if limit_gib:
            resource.setrlimit(resource.RLIMIT_DATA, (int(limit_gib * 2**30),) * 2)

    with open(log, "w+") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=subprocess.STDOUT, preexec_fn=limit
        )
        done = threading.Event()

        def sample():
            while not done.is_set():
                peak[:] = map(max, peak, memory(process.pid))
                done.wait(0.02)

        thread = threading.Thread(target=sample)
        thread.start()
        code = process.wait()
        done.set()
        thread.join()
        out.seek(0)
        text = out.read()
    if code != 0:
        raise Failed(f"exit {code}: {' '.join(command)}\n{text[-3000:]}")
    return text, peak


def run_transformers(args, tokens, dtype, environment, folder):
    text, peak = watch(
        [
            sys.executable,
            os.path.abspath(__file__),
            "--model",
            args.model,
            "--steps",
            str(args.steps),
            "--threads",
            str(args.threads),
            "--device",
            args.device,
            "--child-tokens",
            str(tokens),
            "--child-dtype",
            dtype,
        ],
        environment,
        os.path.join(folder, "transformers.log"),
        args.limit_gib,
    )
    steps = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("STEP ")]
    own = max((s.get("peak_memory_bytes", 0) for s in steps), default=0)
    return {
        "first_loss": steps[0]["loss"],
        "seconds": [s["seconds"] for s in steps[1:] or steps],
        "anon": peak[0],
        "rss": peak[1],
        "own": own,
    }


def write_config(path, keys):
    with open(path, "w") as f:
        f.writelines(f"{k}: {json.dumps(v)}\n" for k, v in keys.items())


def run_moonring(args, tokens, dtype, environment, folder):
    with open(os.path.join(folder, "copy.json"), "w") as f:
        json.dump(
            [
                {"instruction": "Copy.", "input": "", "output": text_of(i, tokens)}
                for i in range(args.steps + 1)
            ],
            f,
        )
    with open(os.path.join(folder, "dataset_info.json"), "w") as f:
        json.dump({"copy": {"file_name": "copy.json"}}, f)
    out, config = os.path.join(folder, "out"), os.path.join(folder, "config.yaml")
    keys = {
        "model_name_or_path": os.path.abspath(args.model),
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "full",
        "dataset": "copy",
        "dataset_dir": folder,
        "template": "chatml",
        "cutoff_len": tokens,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": 1,
        "learning_rate": 1e-5,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1.0,
        "max_steps": args.steps + 1,
        "logging_steps": 1,
        "disable_shuffling": True,
        "save_strategy": "no",
        "report_to": "none",
        "output_dir": out,
        "overwrite_output_dir": True,
    }
    if dtype == "bf16":
        keys["bf16"] = True
    keys |= dict(pair.split("=", 1) for pair in args.keys.split(",") if pair)
    write_config(config, keys)
    _, peak = watch(
        [os.path.abspath(args.moonring), "-n", "1", "--device", args.device, "train", config],
        environment,
        os.path.join(folder, "moonring.log"),
        args.limit_gib,
    )
    lines = [json.loads(line) for line in open(os.path.join(out, "trainer_log.jsonl"))]
    steps = [line for line in lines if "loss" in line]
    own = max((s.get("peak_memory_bytes", 0) for s in steps), default=0)
    return {
        "first_loss": steps[0]["loss"],
        "seconds": [tokens / s["tokens_per_second"] for s in steps[1:] or steps],
        "anon": peak[0],
        "rss": peak[1],
        "own": own,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--moonring", help="the host binary; without it only Transformers is measured"
    )
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--tokens", default="512,2048,4096")
    parser.add_argument("--dtype", default="fp32,bf16")
    parser.add_argument(
        "--steps", type=int, default=4, help="measured steps a process, after one that is not"
    )
    parser.add_argument("--rounds", type=int, default=2, help="processes of each, in turn")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--keys", default="", help="of Moonring's configuration, key=value and commas"
    )
    parser.add_argument("--limit-gib", type=float, help="of each process's data")
    parser.add_argument(
        "--folder", help="where the runs' folders are made: on a disk, for activation_offload=disk"
    )
    parser.add_argument("--budget-gib", type=float, default=6)
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--child-tokens", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--child-dtype", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child_tokens:
        return transformers_child(args)

    environment = os.environ | {
        "OMP_NUM_THREADS": str(args.threads),
        "MKL_NUM_THREADS": str(args.threads),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    for name in ("RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    sides = {"transformers": run_transformers} | (
        {"moonring": run_moonring} if args.moonring else {}
    )
    figures, failed = [], set()
    columns = "{:>5} {:>6} {:>13} {:>10} {:>9} {:>9} {:>9} {:>11}"
    print(
        columns.format(
            "dtype", "tokens", "", "s / step", "anon MiB", "rss MiB", "own MiB", "first loss"
        ),
        flush=True,
    )
    for dtype in args.dtype.split(","):
        for tokens in map(int, args.tokens.split(",")):
            runs = {name: [] for name in sides}
            for _ in range(args.rounds):
                for name, side in sides.items():
                    if (name, dtype) in failed:
                        continue
                    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                        try:
                            runs[name].append(side(args, tokens, dtype, environment, folder))
                        except Failed as why:
                            if args.limit_gib is None:
                                sys.exit(str(why))
                            failed.add((name, dtype))
                            print(
                                f"{dtype:>5} {tokens:>6} {name:>13} fails: "
                                f"{str(why).strip().splitlines()[-1][:200]}",
                                flush=True,
                            )
            row = {}
            for name, results in runs.items():
                if not results or (name, dtype) in failed:
                    continue
                row[name] = {
                    "seconds": statistics.median(s for r in results for s in r["seconds"]),
                    "first_loss": results[0]["first_loss"],
                    **{k: max(r[k] for r in results) for k in ("anon", "rss", "own")},
                }
                r = row[name]
                print(
                    columns.format(
                        dtype,
                        tokens,
                        name,
                        f"{r['seconds']:.3f}",
                        *(f"{r[k] / 2**20:.0f}" for k in ("anon", "rss", "own")),
                        f"{r['first_loss']:.6f}",
                    ),
                    flush=True,
                )
            if len(row) == 2:
                t, m = row["transformers"], row["moonring"]
                memory_key = "own" if args.device == "cuda" else "anon"
                row["time_ratio"], row["memory_ratio"] = (
                    m["seconds"] / t["seconds"],
                    m[memory_key] / t[memory_key],
                )
                print(
                    f"{dtype:>5} {tokens:>6} moonring / transformers: time "
                    f"{row['time_ratio']:.3f}, memory {row['memory_ratio']:.3f}",
                    flush=True,
                )
            figures.append(
                {
                    "dtype": dtype,
                    "tokens": tokens,
                    "threads": args.threads,
                    "device": args.device,
                    **row,
                }
            )
    config = json.load(open(os.path.join(args.model, "config.json")))
    floor = (config["num_hidden_layers"] + 1) * config["hidden_size"] * 4
    for dtype in args.dtype.split(","):
        for name in sides:
            points = [
                (f["tokens"], f[name]["own" if args.device == "cuda" else "anon"])
                for f in figures
                if f["dtype"] == dtype and name in f
            ]
            if len(points) < 2:
                continue
            (t0, m0), (t1, m1) = points[-2:]
            slope = (m1 - m0) / (t1 - t0)
            length = t1 + (args.budget_gib * 2**30 - m1) / slope if slope > 0 else float("inf")
            print(
                f"{dtype:>5} {name:>13}: {slope:.0f} bytes a token from {t0} to {t1} "
                f"({slope / floor:.2f} of the blocks' inputs); {length:.0f} tokens in "
                f"{args.budget_gib:g} GiB"
            )
    if args.json:
        with open(args.json, "w") as f:
            json.dump(figures, f, indent=1)


if __name__ == "__main__":
    main()
