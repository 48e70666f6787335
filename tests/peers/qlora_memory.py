"""Measures the peak memory of one step of QLoRA on a model of Llama-2-7B's shape: nf4 with double
quantization, bf16, LoRA of rank 8 on every linear map.

    qlora_memory.py --moonring PATH [--tokens 128] [--layers 32] [--pack "nf4 double"]

The weights are zeros in a sparse file, which takes no space on the disk; memory does not depend on
the values. Prints the peak of anonymous memory (without pages of the mapped file, which the kernel
can read again), the closed forms of the packed bytes and of a block's buffer, and the seconds of
loading and of the step.
"""

import argparse
import json
import os
import struct
import subprocess
import tempfile
import time

SCRIPT = """
local moonring = require "moonring"
local tokens, pack = tonumber(arg[2]), arg[3]
local mesh = moonring.comm.mesh {}
local attention = moonring.attention.create { mesh = mesh }
local checkpoint = moonring.model.open(arg[1])
local sizes = checkpoint:packed_sizes(pack)
print(("packed %d numbers in %d bytes; a block's, unpacked in bf16: %d bytes"):format(sizes.numbers,
  sizes.bytes, 2 * sizes.layer_numbers))
local base = moonring.model.load(checkpoint, { frozen = true, precision = "bf16", pack = pack,
  pack_dtype = "bf16" })
print "loaded"
io.stdout:flush()
local adapted = moonring.model.adapt(base, { rank = 8 })
local document = {}
for i = 1, tokens do document[i] = i % 1000 end
local sequence = moonring.comm.sequence { documents = { document }, labels = { document } }
local ids, positions, targets, plan = attention:cut(sequence)
local weights = adapted:parameters()
local adamw = moonring.trainer.adamw(weights)
local hidden = adapted:forward(ids, positions, plan)
local log_prob = moonring.objectives.log_prob(hidden, adapted:head(), targets, { dtype = "bf16" })
local loss = -log_prob:sum() / tokens
loss:backward()
adamw:step(1e-4)
print(("loss %.4f"):format(loss:item()))
"""


def weights(layers):
    hidden, wide, vocabulary = 4096, 11008, 32000
    yield "model.embed_tokens.weight", [vocabulary, hidden]
    for layer in range(layers):
        name = f"model.layers.{layer}."
        for each in "qkvo":
            yield f"{name}self_attn.{each}_proj.weight", [hidden, hidden]
        yield f"{name}mlp.gate_proj.weight", [wide, hidden]
        yield f"{name}mlp.up_proj.weight", [wide, hidden]
        yield f"{name}mlp.down_proj.weight", [hidden, wide]
        yield f"{name}input_layernorm.weight", [hidden]
        yield f"{name}post_attention_layernorm.weight", [hidden]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [vocabulary, hidden]


def write_model(folder, layers):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    header, end = {}, 0
    for name, shape in weights(layers):
        begin = end
        size = 2
        for each in shape:
            size *= each
        end += size
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def anonymous(pid):
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--pack", default="nf4 double")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, args.layers)
        script = os.path.join(folder, "step.lua")
        open(script, "w").write(SCRIPT)
        began, peak, loaded = time.time(), 0, None
        output = open(os.path.join(folder, "output"), "w+")
        run = subprocess.Popen(
            [args.moonring, "--device", "cpu", script, folder, str(args.tokens), args.pack],
            stdout=output,
        )
        while run.poll() is None:
            peak = max(peak, anonymous(run.pid))
            if loaded is None and "loaded" in open(output.name).read():
                loaded = time.time() - began
            time.sleep(0.02)
        print(open(output.name).read(), end="")
        if run.returncode != 0 or loaded is None:
            raise SystemExit(f"moonring ended with {run.returncode}")
        print(
            f"peak of anonymous memory {peak / 1e9:.2f} GB; loaded after {loaded:.0f} s, "
            f"the step took {time.time() - began - loaded:.0f} s"
        )


if __name__ == "__main__":
    main()
