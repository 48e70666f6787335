"""The keys that LLaMA-Factory's `train` takes and their defaults, from its own dataclasses and those
of Transformers that they extend: name -> default; null where it has none.

    make.py        writes keys.json, with the Python of the oracle's venv

tests/lua/every_key_test.lua looks each of them up in Moonring's table; docs/keys.lua counts them.
"""

import dataclasses
import enum
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def plain(value):
    """A default as JSON can say it."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if isinstance(value, (bool, int, float, str, dict)) else None


def main():
    from llamafactory.hparams import parser

    keys = {}
    for arguments in parser._TRAIN_ARGS:
        for field in dataclasses.fields(arguments):
            if not field.init:
                continue
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            keys[field.name] = plain(None if default is dataclasses.MISSING else default)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(keys[name])}" for name in sorted(keys))
    (HERE / "keys.json").write_text("{\n" + lines + "\n}\n")


main()
