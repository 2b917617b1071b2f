"""The line of a TOML text on which a key is set."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

_MAX_CHARS = 32_768
_MAX_READINGS = 12
_MAX_VALUE_LINES = 12


def toml_line(text: str, path: Sequence[str]) -> int | None:
    """The number of the line, from 1 on, on which the value under this path of keys begins.

    The key of a list's item stands for the list. None where the text does not set the key, is not TOML, has more than
    ``_MAX_CHARS``, or would have to be parsed more than about ``_MAX_READINGS`` times to find the line.
    """
    keys = list(path)
    while keys and keys[-1].isdecimal():
        keys.pop()
    lines, readings = text.splitlines() if len(text) <= _MAX_CHARS else [], 0
    for number, line in enumerate(lines):
        if not keys or keys[-1] not in line or line.lstrip().startswith("#"):
            continue
        before = _read(lines[:number])
        readings += 1
        if before is None or _sets(before, keys):
            continue
        for end in range(number + 1, min(number + _MAX_VALUE_LINES, len(lines)) + 1):
            readings += 1
            table = _read(lines[:end])
            if table is not None:
                if _sets(table, keys):
                    return number + 1
                break
        if readings > _MAX_READINGS:
            return None
    return None


def _read(lines: Sequence[str]) -> Mapping[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None


def _sets(table: Any, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(table, Mapping) or key not in table:
            return False
        table = table[key]
    return True
