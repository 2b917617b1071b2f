"""Objectives: absolute numbers, or multiples of what the engine needs for one request alone.

An absolute objective that suits one engine is out of reach for a slow one and meaningless for a fast one. A relative
objective is a text: ``"2.5x"`` is 2.5 times the unloaded figure, ``"2.5x 5..250"`` the same, but never below 5 nor
above 250; either bound may be left out (``"8x 0.3.."``). The bounds have the unit of the setting. The unloaded figure
is the time between tokens of a single sequence, or the time to the first token of a prompt of that length in an idle
engine; both follow from the fitted step time (``limits.EngineFit``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Annotated

from pydantic import PlainValidator

_TEXT = re.compile(r"(?P<times>\d+(\.\d+)?)x( (?P<least>\d+(\.\d+)?)?\.\.(?P<most>\d+(\.\d+)?)?)?", re.ASCII)
_MAX_TIMES = 10_000.0
_MAX_CHARS = 60


@dataclass(frozen=True, slots=True)
class Relative:
    """A multiple of an unloaded figure within bounds, all in one unit."""

    times: float
    least: float = 0.0
    most: float = inf

    def of(self, unloaded: float) -> float:
        """The objective on an engine with this unloaded figure."""
        return min(max(self.times * unloaded, self.least), self.most)


@lru_cache(maxsize=256)
def relative(text: str) -> Relative:
    """Read a relative objective. Raises ValueError."""
    found = _TEXT.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if found is None:
        raise ValueError('must be a number, or a multiple of the unloaded figure such as "2.5x" or "2.5x 5..250"')
    least, most = float(found["least"] or 0), float(found["most"] or inf)
    times = float(found["times"])
    if not 0 < times <= _MAX_TIMES:
        raise ValueError(f"the multiple must be above 0 and at most {_MAX_TIMES:g}")
    if not least < most:
        raise ValueError("the lower bound must be below the upper one")
    return Relative(times, least, most)


def resolve(objective: float | str, unloaded: float) -> float:
    """The objective as a number in its unit, on an engine with this unloaded figure."""
    return relative(objective).of(unloaded) if isinstance(objective, str) else objective


def least_of(objective: float | str | None) -> float | None:
    """The shortest value of an objective on any engine; None without an objective."""
    return relative(objective).least if isinstance(objective, str) else objective


def shortest(objectives: Sequence[object]) -> float | str | None:
    """An objective at most as long as each of these, on any engine; None without any.

    Of relative ones it has the smallest multiple and the smallest bounds, and an absolute one counts as both bounds.
    Values that are no objective are left out.
    """
    numbers = [float(value) for value in objectives if isinstance(value, int | float) and not isinstance(value, bool)]
    texts = [found for value in objectives if isinstance(value, str) and (found := _readable(value)) is not None]
    if not texts:
        return min(numbers, default=None)
    least = min([*numbers, *(text.least for text in texts)])
    most = min([*numbers, *(text.most for text in texts)])
    if least >= most:
        return most
    return _text(Relative(min(text.times for text in texts), least, most))


def _readable(text: str) -> Relative | None:
    """The relative objective of a text, or None: its own validation refuses it, and names its key."""
    try:
        return relative(text)
    except ValueError:
        return None


def _text(objective: Relative) -> str:
    """The text that is read as this objective."""
    least = _number(objective.least) if objective.least else ""
    most = _number(objective.most) if objective.most < inf else ""
    return f"{_number(objective.times)}x" + (f" {least}..{most}" if least or most else "")


def _number(value: float) -> str:
    """A number without an exponent."""
    return f"{value:.12f}".rstrip("0").rstrip(".")


def _within(highest: float) -> Callable[[object], float | str]:
    """A validator: a number above 0 up to ``highest``, or a relative objective whose bounds are no larger."""

    def check(value: object) -> float | str:
        if isinstance(value, str):
            found = relative(value)
            if found.least > highest or (found.most > highest and found.most != inf):
                raise ValueError(f"its bounds must be at most {highest:g}")
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= highest:
            raise ValueError(f'must be above 0 and at most {highest:g}, or a multiple such as "2.5x"')
        return float(value)

    return check


_DAY_S = 86_400.0
_MINUTE_MS = 60_000.0
#: Seconds to the first token, or a multiple of the unloaded time of a prompt of that length.
FirstTokenObjective = Annotated[float | str, PlainValidator(_within(_DAY_S))]
#: Milliseconds between tokens, or a multiple of the pace of one sequence.
InterTokenObjective = Annotated[float | str, PlainValidator(_within(_MINUTE_MS))]
