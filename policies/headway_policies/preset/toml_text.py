"""TOML text of a setting's value.

The text is exact: a TOML parser reads the same value from it, and two different values of a setting never have the same
text. A float that is a whole number is written without a point; the preset's model makes it a float again.
"""

from __future__ import annotations

from collections.abc import Sequence

_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def toml_text(value: str | int | float | bool | Sequence[str] | Sequence[int]) -> str:
    """The value after ``key =`` in a preset file: ``0.98``, ``true``, ``"weighted"``, ``[8, 16]``.

    Unprintable characters, which a terminal might interpret, are escaped.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_letter, value))}"'
    if isinstance(value, int | float):
        return repr(value).removesuffix(".0")  # the shortest text that is read as the same number
    return f"[{', '.join(map(toml_text, value))}]"


def _letter(letter: str) -> str:
    if letter in _ESCAPED:
        return _ESCAPED[letter]
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
