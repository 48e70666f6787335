"""Reads .gguf files that `moonring export` has written with other programs.

    gguf_export.py --moonring BINARY [--model DIR] [--keep DIR]

Golden families: each folder that GGUF can express is exported in F32. `probe` (fp32) gives the same
loss, logits and gradient norms for the file and for the folder within 5e-7 (sums in another order,
and factors that GGUF stores in fp32; 2e-6 if the file stores a norm plus one or an exponential),
and Transformers, if it can read the file, the same logits.

The model (default: SmolLM2 of $MOONRING_ORACLE) is exported in F32 and Q8_0. The gguf package reads
both, and its quantize gives the second file's blocks for the first file's numbers, byte by byte.
Transformers opens both with gguf_file=, and gives the folder's ids for the strings in
tests/golden/tokenizer and, for F32, its logits. Also prints the peak memory of each export. Run it
with Transformers 4.57 or 5.23.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
ORACLE = os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle"))
# What Transformers 4.57 and 5.23 do not read from the files of a family.
UNREAD = {
    "lfm2": "biases and the norms' epsilon",
    "llama_bias": "biases",
    "mixtral": "experts",
    "phi3": "the window",
    "phi3_longrope": "the window and the rotary scaling",
    "rope_linear": "the rotary scaling",
    "rope_yarn": "the rotary scaling",
}
ONE_IS_ADDED = ("gemma", "qwen3_next", "qwen3_5")


def run(moonring, *words):
    return subprocess.run([moonring, *words], capture_output=True, text=True)


def probe(moonring, model, stream, scratch):
    given, out = os.path.join(scratch, "in.json"), os.path.join(scratch, "out.json")
    json.dump(stream, open(given, "w"))
    done = run(moonring, "probe", f"model_name_or_path={model}", f"input={given}", f"out={out}")
    assert done.returncode == 0, done.stderr
    return json.load(open(out))


def far(a, b):
    """Returns the greatest relative distance between the numbers of two probes."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        return max((far(a[key], b[key]) for key in a), default=0.0)
    if isinstance(a, list):
        a, b = np.array(a, dtype=float), np.array(b, dtype=float)
        return float(np.abs(a - b).max() / np.abs(b).max()) if a.size else 0.0
    return abs(a - b) / max(abs(b), 1e-9)


def logits(model, ids):
    # 5.23 treats a model that was read from a GGUF file as quantized and rejects float().
    if not getattr(model, "is_quantized", False):
        model = model.float()
    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0]


def by_transformers(folder, file, ids):
    """Returns the relative distance of logits; None if Transformers cannot read the file."""
    wanted = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    try:
        found = transformers.AutoModelForCausalLM.from_pretrained(
            os.path.dirname(file), gguf_file=os.path.basename(file), dtype=torch.float32
        )
    except Exception as error:
        return str(error).splitlines()[0][:60]
    a, b = logits(wanted, ids), logits(found, ids)
    return ((a - b).norm() / a.norm()).item()


def family(options, name, scratch):
    folder = os.path.join(GOLDEN, "families", name)
    file = os.path.join(scratch, name, "x.gguf")
    done = run(options.moonring, "export", f"model_name_or_path={folder}", f"export_dir={file}")
    if done.returncode:
        print(f"{name:22} refused: {done.stderr.strip().split('x.gguf: ', 1)[-1][:110]}")
        return done.returncode == 2
    stream = json.load(open(os.path.join(folder, "golden.json")))["cases"][0]["input"]
    wanted, found = (probe(options.moonring, m, stream, scratch) for m in (folder, file))
    distance = far(found, wanted)
    right = distance <= (2e-6 if name.startswith(ONE_IS_ADDED) else 5e-7)
    try:
        other = by_transformers(folder, file, stream["input_ids"])
    except Exception as error:
        other = str(error).splitlines()[0][:60]
    if isinstance(other, float):
        right = right and (other < 1e-5 or name in UNREAD)
        other = f"{other:.1e}" + (f" (it leaves out {UNREAD[name]})" if name in UNREAD else "")
    end = "" if right else "  WRONG"
    print(f"{name:22} probe {distance:.1e}  transformers {other}{end}", flush=True)
    return right


def tensors(file):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}


def blocks_differ(plain, rounded):
    """Returns the tensors of the second file that differ from the package's quantization of the
    first file's."""
    wrong = []
    for name, tensor in rounded.items():
        numbers = gguf.quants.dequantize(plain[name].data, plain[name].tensor_type)
        made = gguf.quants.quantize(numbers, tensor.tensor_type)
        if made.tobytes() != tensor.data.tobytes():
            wrong.append(name)
    return wrong


def large(options, scratch):
    files, right = {}, True
    for kind in ("f32", "q8_0", "f16", "bf16"):
        files[kind] = os.path.join(scratch, f"{kind}.gguf")
        done = run(
            options.moonring,
            "export",
            f"model_name_or_path={options.model}",
            f"export_dir={files[kind]}",
            f"export_gguf_type={kind}",
        )
        assert done.returncode == 0, done.stderr
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        size = os.path.getsize(files[kind]) / 2**20
        print(f"{kind}: {size:.0f} MiB, peak of the exports so far {peak:.0f} MiB", flush=True)
    plain = tensors(files["f32"])
    for kind in ("q8_0", "f16", "bf16"):
        wrong = blocks_differ(plain, tensors(files[kind]))
        print(f"{kind}: {len(wrong)} tensors are not what the package makes", wrong[:3])
        right = right and not wrong
    strings = json.load(open(os.path.join(GOLDEN, "tokenizer", "strings.json")))
    wanted = transformers.AutoTokenizer.from_pretrained(options.model)
    for kind in ("f32", "q8_0"):
        found = transformers.AutoTokenizer.from_pretrained(scratch, gguf_file=f"{kind}.gguf")
        ids = [
            tokenizer(strings, add_special_tokens=False)["input_ids"]
            for tokenizer in (found, wanted)
        ]
        other = [text for text, a, b in zip(strings, *ids, strict=True) if a != b]
        print(f"{kind}: {len(other)} of {len(strings)} strings have other ids", other[:3])
        right = right and not other and found.chat_template == wanted.chat_template
    ids = wanted("The moon rose over the harbour, and 12 boats came in.")["input_ids"]
    for kind, most in (("f32", 1e-6), ("q8_0", 0.05)):
        distance = by_transformers(options.model, files[kind], ids)
        print(f"{kind}: logits differ by {distance}")
        right = right and distance < most
    return right


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True, help="the host binary")
    parser.add_argument("--model", default=os.path.join(ORACLE, "smollm2"))
    parser.add_argument("--families", nargs="*", help="these alone, and not the model")
    parser.add_argument("--keep", metavar="DIR", help="leave the files there")
    options = parser.parse_args()
    options.moonring = os.path.abspath(options.moonring)
    names = options.families or sorted(os.listdir(os.path.join(GOLDEN, "families")))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = options.keep or scratch
        right = [
            family(options, name, scratch)
            for name in names
            if os.path.exists(os.path.join(GOLDEN, "families", name, "golden.json"))
        ]
        if not options.families:
            right.append(large(options, scratch))
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
