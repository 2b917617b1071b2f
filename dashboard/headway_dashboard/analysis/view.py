"""The view: what the bar above every page chooses, and the text of each choice in the address of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway_dashboard.analysis.window import FROM, LONGEST_S, TO, window_of

RANGES_S: Mapping[str, float] = {
    "5m": 300.0,
    "15m": 900.0,
    "30m": 1800.0,
    "1h": 3600.0,
    "6h": 6 * 3600.0,
    "24h": 24 * 3600.0,
}
DEFAULT_RANGE = "5m"
#: Any other range, as its text in the address; at least a minute.
_TEXT = re.compile(r"([1-9][0-9]{0,4})([mhd])", re.ASCII)
_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}
_SHORTEST_S = 60.0

#: The time that the charts are compared with: none, or the time before the last change of the preset.
COMPARISONS = ("off", "before")
DEFAULT_COMPARISON = "off"

#: The names of the choices in the address.
RANGE, CLASSES, COMPARE = "range", "classes", "compare"

#: The screen on a wall: no controls, larger type. Asked for with ``wall=1``.
WALL, WALL_ON = "wall", "1"


@dataclass(frozen=True, slots=True)
class Span:
    """The time that charts show: so many seconds up to ``end_s``, or up to now where that is None."""

    range_s: float
    end_s: float | None = None

    @property
    def live(self) -> bool:
        """Whether the span moves on with the time."""
        return self.end_s is None


@dataclass(frozen=True, slots=True)
class View:
    """The view of a page: a range in seconds, some of the classes there are (none: all), and a comparison.

    The range ends at ``end_s``, or now where that is None. ``several`` servers are shown as one.
    """

    range_s: float = RANGES_S[DEFAULT_RANGE]
    known: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    before_change: bool = False
    end_s: float | None = None
    several: bool = False

    @property
    def span(self) -> Span:
        """The time of its charts."""
        return Span(self.range_s, self.end_s)


def ranges(longest_s: float, asked: Sequence[str] = ()) -> tuple[str, ...]:
    """The ranges that a source with so long a memory can fill; always the shortest, and those that are asked for."""
    usual = tuple(name for name, range_s in RANGES_S.items() if range_s <= longest_s or name == DEFAULT_RANGE)
    found = {text: range_s for text in asked if (range_s := range_s_of(text)) is not None and text not in RANGES_S}
    return (*usual, *(text for text, range_s in found.items() if _SHORTEST_S <= range_s <= min(longest_s, LONGEST_S)))


def range_s_of(text: str) -> float | None:
    """A range in seconds: one of the usual, or a number of minutes, hours or days such as "90m", "3d"."""
    if text in RANGES_S:
        return RANGES_S[text]
    found = _TEXT.fullmatch(text)
    return None if found is None else float(int(found[1]) * _UNITS_S[found[2]])


def view_of(chosen: Mapping[str, Sequence[str]], known: Iterable[str], longest_s: float) -> View:
    """The view of these texts, by the names of the choices. A text that is no choice here counts as not given.

    A fixed time takes the place of the range.
    """
    classes = tuple(known)
    asked = chosen.get(RANGE, ())
    name = _first(asked, ranges(longest_s, asked), DEFAULT_RANGE)
    wanted = set(chosen.get(CLASSES, ()))
    window = window_of(chosen.get(FROM, ()), chosen.get(TO, ()))
    return View(
        range_s=(range_s_of(name) or RANGES_S[DEFAULT_RANGE]) if window is None else window.range_s,
        known=classes,
        classes=tuple(name for name in classes if name in wanted),
        before_change=_first(chosen.get(COMPARE, ()), COMPARISONS, DEFAULT_COMPARISON) == "before",
        end_s=None if window is None else float(window.end_s),
    )


def _first(texts: Sequence[str], choices: Sequence[str], default: str) -> str:
    return next((text for text in texts if text in choices), default)
