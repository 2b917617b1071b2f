"""A condition on the figures of a server: ``[class.]figure > value [for 30 s]``.

The condition holds once every reading for that long has met its comparison, like ``for`` in an alert of Prometheus. An
unknown figure meets no comparison.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headway_policies.close_name import no_such
from headway_policies.trial.figures import ALL, FIGURES, Served
from headway_policies.units import above, compact, duration, percent

DEFAULT_FOR_S = 30.0
MIN_FOR_S, MAX_FOR_S = 1.0, 3600.0
MAX_CHARS = 200

_FORM = "[CLASS.]FIGURE > NUMBER [for SECONDS s]"
_TEXT = re.compile(
    r"(?:(?P<class_name>[^\s.<>]+)\.)?(?P<figure>[a-z0-9_]+)\s*(?P<sign>[<>])\s*(?P<value>[0-9.eE+-]+)"
    r"(?:\s+for\s+(?P<number>[0-9.]+)\s*(?P<unit>s|m))?"
)
_SECONDS = {"s": 1.0, "m": 60.0}


class ConditionError(ValueError):
    """A condition that cannot be read, or whose result no figure can change."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A figure of a class (``ALL``: of all requests) that is above or below a value for ``for_s``."""

    class_name: str
    figure: str
    above: bool
    value: float
    for_s: float = DEFAULT_FOR_S

    @classmethod
    def parse(cls, text: str, class_names: Collection[str] | None = None) -> Condition:
        """Read a condition; ``class_names`` are the known classes. Raises ConditionError.

        ``_share`` may be written for ``_ratio``.
        """
        shown = text[:60]
        if len(text) > MAX_CHARS:
            raise ConditionError(f"a condition has {MAX_CHARS} characters at most")
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise ConditionError(f"{shown!r} is not of the form {_FORM}, such as realtime.ttft_p95_s > 2 for 30 s")
        figure = re.sub("_share$", "_ratio", found["figure"])
        if figure not in FIGURES:
            raise ConditionError(no_such("figure", figure, FIGURES))
        class_name = found["class_name"] or ALL
        if class_names is not None and class_name != ALL and class_name not in class_names:
            raise ConditionError(no_such("class", class_name, class_names))
        value = _number(found["value"])
        if value is None:
            raise ConditionError(f"{found['value'][:20]!r} is not a number")
        for_s = DEFAULT_FOR_S
        if found["number"] is not None:
            number = _number(found["number"])
            for_s = math.nan if number is None else number * _SECONDS[found["unit"]]
            if not MIN_FOR_S <= for_s <= MAX_FOR_S:
                raise ConditionError(f"{shown!r}: the time after 'for' is {MIN_FOR_S:g} to {MAX_FOR_S:g} s")
        above = found["sign"] == ">"
        if why := _pointless(figure, value, above=above):
            raise ConditionError(why)
        return cls(class_name, figure, above, value, for_s)

    def __str__(self) -> str:
        return f"{self.name} {'>' if self.above else '<'} {self.value:g} for {self.for_s:g} s"

    @property
    def name(self) -> str:
        """The figure with its class."""
        return self.figure if self.class_name == ALL else f"{self.class_name}.{self.figure}"

    def reading(self, served: Mapping[str, Served]) -> float | None:
        """The figure; None where it is not known."""
        own = served.get(self.class_name)
        found: float | None = None if own is None else getattr(own, self.figure)
        return found

    def words(self, reading: float) -> str:
        """A value of the figure with its unit."""
        if self.figure.endswith("_ratio"):
            return percent(reading)
        if self.figure.endswith("_per_s"):
            return compact(reading)
        return above(reading, self.value) if reading > self.value else duration(reading)

    def beyond(self, reading: float | None) -> bool:
        """Whether the comparison is true."""
        if reading is None:
            return False
        return reading > self.value if self.above else reading < self.value


def _pointless(figure: str, value: float, *, above: bool) -> str:
    """The reason why a comparison is always true, or never; empty where it may be either. No figure is below 0."""
    most, share = (1.0, "between 0 and 1") if figure.endswith("_ratio") else (math.inf, "never below 0")
    if not 0 <= value <= most:
        return f"{figure} is {share}: {value:g} cannot be passed"
    if value == (most if above else 0):
        return f"{figure} is {share}: it is never {'above' if above else 'below'} {value:g}"
    return ""


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
