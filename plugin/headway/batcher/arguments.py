"""Checks of numeric arguments. An error is one line that names the argument."""

from __future__ import annotations

import inspect
import math
import operator
import reprlib
from typing import Any, TypeVar

R = TypeVar("R")


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds, of any kind that can be an index. Raises ValueError in one line that names it."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be a whole number, not {shown(value)}")
    found = operator.index(value)
    if not least <= found <= most:
        raise ValueError(f"{name} must be {least} to {most}, not {shown(value)}")
    return found


def number(name: str, value: Any) -> float:
    """A number, infinity included. Raises ValueError in one line that names the argument."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, bool | str | bytes) or math.isnan(found):
        raise ValueError(f"{name} must be a number, not {shown(value)}")
    return found


def shown(value: Any) -> str:
    """The value, short enough for one line of a message."""
    try:
        return reprlib.repr(value)
    except Exception:  # a number of thousands of digits, or an object whose repr fails
        return f"this {type(value).__name__}"


def without_coroutine(value: Any) -> bool:
    """Whether the value is no coroutine; a coroutine is closed, for unawaited it would warn at its end."""
    if inspect.iscoroutine(value):
        value.close()
        return False
    return True


def must_be_plain(name: str) -> TypeError:
    """The error of a function that is async, or gave a coroutine, where a plain one is needed."""
    return TypeError(f"{name} must be a plain function, not one that must be awaited")


def plain(name: str, value: R) -> R:
    """The result of a plain function. Raises TypeError for a coroutine."""
    if not without_coroutine(value):
        raise must_be_plain(name)
    return value
