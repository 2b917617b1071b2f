"""A lower ``max_tokens`` in the sampling parameters of an engine call.

The bound is set in a copy: the caller may use the original again. Beam search counts its own tokens, one call each, and
is not cut.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TypeVar

Params = TypeVar("Params")


def shortened(params: Params, most_tokens: int | None) -> Params:
    """The same parameters with at most this many tokens; the same object where that changes nothing.

    Parameters that generate no tokens have no ``max_tokens``, and stay as they are.
    """
    asked = getattr(params, "max_tokens", 0)
    if most_tokens is None or (asked is not None and asked <= most_tokens):
        return params
    changes = {"max_tokens": most_tokens}
    if (getattr(params, "min_tokens", 0) or 0) > most_tokens:
        changes["min_tokens"] = most_tokens
    if dataclasses.is_dataclass(params) and not isinstance(params, type):
        return dataclasses.replace(params, **changes)
    cut = copy.copy(params)
    for name, value in changes.items():
        setattr(cut, name, value)
    return cut
