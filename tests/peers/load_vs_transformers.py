"""Compares seconds and peak memory of loading a random checkpoint (default: 2 GB) in Moonring and
in Transformers, each in a separate process.

    load_vs_transformers.py --moonring PATH [--gigabytes 2] [--folder DIR]
        [--dtype float32 bfloat16]

Prints a line for each program and dtype (of file and model): seconds since the start of the
process, and the peaks in /proc/PID/status of anonymous memory, of mapped files, and of both. The
memory of a process without a model is subtracted; `base` is its anonymous memory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch

SCRIPT = """local moonring = require "moonring"
if arg[1] ~= "none" then
  local began = moonring.system.clock()
  local model = moonring.model.load(moonring.model.open(arg[1]), { precision = arg[2] })
  print(("%.2f s, %s"):format(moonring.system.clock() - began, tostring(model)))
end
"""
PEER = """import sys, time, torch
from transformers import AutoModelForCausalLM
if sys.argv[1] != "none":
    began = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=getattr(torch, sys.argv[2]))
    total = sum(p.double().sum().item() * 0 + 1 for p in model.parameters())
    print(f"{time.perf_counter() - began:.2f} s, {total:.0f} tensors")
"""


def make(folder, gigabytes, dtype):
    from transformers import LlamaConfig, LlamaForCausalLM

    size = {"float32": 4, "bfloat16": 2}[dtype]
    layer = 4 * 2048 * 2048 + 3 * 2048 * 5632
    layers = max(1, round((gigabytes * 1e9 / size - 32000 * 2048) / layer))
    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=16,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to_empty(device="cpu").to(getattr(torch, dtype))
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.02)
    model.save_pretrained(folder, max_shard_size="1GB")


def watch(words):
    began = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peak = {"RssAnon": 0, "RssFile": 0, "VmRSS": 0}
    while process.poll() is None:
        try:
            for line in open(f"/proc/{process.pid}/status"):
                name = line.split(":")[0]
                if name in peak:
                    peak[name] = max(peak[name], int(line.split()[1]) / 1e6)
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.002)
    return time.perf_counter() - began, peak, process.stdout.read().strip().splitlines()[-1:]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--folder")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        script, peer = os.path.join(scratch, "load.lua"), os.path.join(scratch, "load.py")
        open(script, "w").write(SCRIPT)
        open(peer, "w").write(PEER)
        for dtype in options.dtype:
            folder = os.path.join(scratch, dtype)
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    f"import sys; sys.argv = ['']; sys.path.insert(0, "
                    f"{os.path.dirname(os.path.abspath(__file__))!r}); "
                    f"import load_vs_transformers as l; l.make({folder!r}, {options.gigabytes}, "
                    f"{dtype!r})",
                ],
                check=True,
                capture_output=True,
            )
            size = (
                sum(
                    os.path.getsize(os.path.join(folder, f))
                    for f in os.listdir(folder)
                    if f.endswith(".safetensors")
                )
                / 1e9
            )
            precision = {"float32": "fp32", "bfloat16": "pure_bf16"}[dtype]
            for name, words in (
                ("Moonring", [options.moonring, script, folder, precision]),
                ("Transformers", [sys.executable, peer, folder, dtype]),
            ):
                _, base, _ = watch([*words[:2], "none", words[3]])
                seconds, peak, said = watch(words)
                print(
                    f"{dtype:9} file {size:.2f} GB  {name:13} {seconds:6.2f} s "
                    f"({' '.join(said)})  anonymous {peak['RssAnon']:.2f} GB (base "
                    f"{base['RssAnon']:.2f})"
                    f"  files {peak['RssFile']:.2f}  both {peak['VmRSS']:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
