"""Reads and writes every family's folder with `moonring export`, and opens the result with
Transformers: tensors are bit-identical, and config.json is equal except for documented keys.

    roundtrip_families.py --moonring BINARY [FOLDER]
        FOLDER: contains the models; default: tests/golden/families

config.json may differ in torch_dtype / dtype (the dtype that was written).
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open

HERE = os.path.dirname(os.path.abspath(__file__))


def tensors(folder):
    found = {}
    for path in glob.glob(os.path.join(folder, "model*.safetensors")):
        with safe_open(path, "pt") as file:
            found.update({name: file.get_tensor(name) for name in file.keys()})
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("folder", nargs="?", default=os.path.join(HERE, "..", "golden", "families"))
    options = parser.parse_args()
    from transformers import AutoConfig, AutoModelForCausalLM

    wrong = 0
    for path in sorted(glob.glob(os.path.join(options.folder, "*", "config.json"))):
        model = os.path.dirname(path)
        with tempfile.TemporaryDirectory() as out:
            run = subprocess.run(
                [options.moonring, "export", f"model_name_or_path={model}", f"export_dir={out}"],
                capture_output=True,
                text=True,
            )
            said = []
            if run.returncode:
                said.append(run.stderr.strip())
            else:
                before, after = tensors(model), tensors(out)
                said += [f"missing {name}" for name in before.keys() - after.keys()] + [
                    f"extra {name}" for name in after.keys() - before.keys()
                ]
                said += [
                    f"{name} differs"
                    for name in before.keys() & after.keys()
                    if before[name].dtype != after[name].dtype
                    or not torch.equal(before[name], after[name])
                ]
                a, b = json.load(open(path)), json.load(open(os.path.join(out, "config.json")))
                said += [
                    f"config: {key}: {a.get(key)} -> {b.get(key)}"
                    for key in sorted(a.keys() | b.keys())
                    if a.get(key) != b.get(key) and key not in ("dtype", "torch_dtype")
                ]
                if "InternLM" not in a["architectures"][0]:  # whose code is not in Transformers
                    if (
                        AutoConfig.from_pretrained(out).to_diff_dict()
                        != AutoConfig.from_pretrained(model).to_diff_dict()
                    ):
                        said.append("the configs differ as Transformers reads them")
                    loaded, info = AutoModelForCausalLM.from_pretrained(
                        out, output_loading_info=True
                    )
                    said += [f"{key}: {value}" for key, value in info.items() if value]
                    del loaded
        wrong += bool(said)
        print(f"{os.path.basename(model):24}", "; ".join(said) or "the same")
    sys.exit(1 if wrong else 0)


main()
