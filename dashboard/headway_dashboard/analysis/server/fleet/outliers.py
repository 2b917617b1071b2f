"""The outliers among several servers: the rule, its bounds, and what it finds.

A value stands out where it is more than half of the median above the median of all servers, and also by more than a
least difference, so that small numbers do not count. Where few are as bad as many (no traffic, an empty batch), a value
as far below the median stands out as well.

With two servers the median lies in the middle between both, and neither is the usual one: only the larger value can
stand out, and does where it is more than three times the smaller one and twice the least difference above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

from headway_dashboard.analysis.queries.model import Point

#: The share of the median by which a value may differ from it.
FAR_RATIO = 0.5

Side = Literal["above", "below"]


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of a figure: ``least`` is the least difference, in its unit; ``below``: few are as bad as many."""

    least: float
    below: bool = False


def standing_out(values: Mapping[str, Point], bound: Bound) -> dict[str, Side]:
    """The servers whose value stands out, and on which side of the median. Servers without a value are left out."""
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) < 2:
        return {}
    middle = median(known.values())
    far = max(FAR_RATIO * middle, bound.least)
    below = bound.below and len(known) > 2
    found: dict[str, Side] = {}
    for name, value in known.items():
        if value - middle > far:
            found[name] = "above"
        elif below and middle - value > far:
            found[name] = "below"
    return found


def differing(texts: Mapping[str, str]) -> set[str]:
    """The servers whose text differs from the majority's; servers without a text are left out."""
    known = {name: text for name, text in texts.items() if text}
    counted = Counter(known.values())
    usual = next((text for text, number in counted.items() if 2 * number > len(known)), None)
    return {name for name, text in known.items() if text != usual} if len(counted) > 1 else set()
