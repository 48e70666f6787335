"""The keys that LLaMA-Factory's `train` accepts, from its own dataclasses and those of Transformers
that they extend: name -> {type, default, choices}. `type` is bool, int, float, string, list or map,
or several of them as "map | string"; `default` is null if there is none; `choices` exists only for
keys with a fixed set of values.

    make.py        writes keys.json, with the Python of the oracle's venv

tests/lua/every_key_test.lua looks up each key in Moonring's table and gives values to it;
docs/keys.lua counts the keys.
"""

import dataclasses
import enum
import json
import pathlib
import types
import typing

HERE = pathlib.Path(__file__).parent
NAMES = {bool: "bool", int: "int", float: "float", str: "string", list: "list", dict: "map"}


def plain(value):
    """Converts a default to a value that JSON can represent."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if isinstance(value, (bool, int, float, str, dict)) else None


def described(hint):
    """The types of a type hint, and its choices."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        names, choices = set(), []
        for each in typing.get_args(hint):
            if each is not type(None):
                more = described(each)
                names |= more[0]
                choices += more[1]
        return names, choices
    if origin is typing.Literal:
        return {"string"}, list(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"string"}, [each.value for each in hint]
    return {NAMES.get(origin or hint, "map")}, []


def main():
    from llamafactory.hparams import parser

    keys = {}
    for arguments in parser._TRAIN_ARGS:
        hints = typing.get_type_hints(arguments)
        for field in dataclasses.fields(arguments):
            if not field.init:
                continue
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            names, choices = described(hints[field.name])
            key = {"type": " | ".join(sorted(names))}
            key["default"] = plain(None if default is dataclasses.MISSING else default)
            choices = choices or field.metadata.get("choices") or []
            if choices:
                key["choices"] = [plain(each) for each in choices]
            keys[field.name] = key
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(keys[name])}" for name in sorted(keys))
    (HERE / "keys.json").write_text("{\n" + lines + "\n}\n")


main()
