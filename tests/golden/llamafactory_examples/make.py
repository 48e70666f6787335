"""The keys and values of every training configuration in LLaMA-Factory's examples/: file -> {key:
value}.

    make.py [--oracle DIR]        writes examples.json

tests/scripts/llamafactory_examples_test.cc runs these configurations with its own model, data and
output folder.
"""

import argparse
import json
import os
import pathlib

import yaml

HERE = pathlib.Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    examples = pathlib.Path(parser.parse_args().oracle) / "llamafactory-0.9.5" / "examples"
    found = {}
    for path in sorted(examples.rglob("*.yaml")):
        keys = yaml.safe_load(path.read_text())
        if isinstance(keys, dict) and "stage" in keys:
            found[str(path.relative_to(examples))] = keys
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(keys)}" for name, keys in found.items())
    (HERE / "examples.json").write_text("{\n" + lines + "\n}\n")


main()
