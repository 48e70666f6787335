"""Python values as the words KEY=VALUE of a configuration."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any

_KEY = re.compile(r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$")
# Text that YAML, or the reader of words, would not take as it is.
_SPECIAL = re.compile(r"""^\s*[\[{"']|^(null|Null|NULL|~|)$|[\n\r\t]""")


def _plain(name: str, value: Any) -> Any:
    """The value with Python's own types only."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name}: expected a finite number, got {value}")
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{name}: expected keys that are strings, got {key!r}")
        return {key: _plain(f"{name}.{key}", each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(f"{name}[{i}]", each) for i, each in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return _plain(name, value.tolist())
    raise TypeError(
        f"{name}: expected None, a bool, a number, a string, a path, a list or a dict, got "
        f"{type(value).__name__}"
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if _SPECIAL.search(value) else value
    return json.dumps(value, ensure_ascii=False)


def words_of(keys: Mapping[str, Any]) -> list[str]:
    """The keys as words. Errors: TypeError and ValueError for what is no configuration."""
    words = []
    for name, value in keys.items():
        if not isinstance(name, str):
            raise TypeError(f"expected keys that are strings, got {name!r}")
        if not _KEY.match(name):
            raise ValueError(f"expected the name of a key, got {name!r}")
        words.append(f"{name}={_text(_plain(name, value))}")
    return words
