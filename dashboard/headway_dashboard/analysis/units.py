"""Numbers as text: milliseconds below a second, KiB, MiB and GiB, and a dash for what was not measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from headway_policies import units
from headway_policies.units import compact

__all__ = ["GIB", "KIB", "MIB", "MISSING", "Scale", "Unit", "compact", "counted", "duration", "scale", "written"]

Unit = Literal["count", "per_s", "seconds", "bytes", "ratio"]

MISSING = "—"
#: Keeps a number and its unit on one line.
_SPACE = "\u00a0"
_BEFORE_UNIT = re.compile(r"(?<=\d) ")

KIB = 1024.0
MIB = 1024.0**2
GIB = 1024.0**3


@dataclass(frozen=True, slots=True)
class Scale:
    """The factor and the suffix with which an axis shows a unit."""

    factor: float
    suffix: str


def scale(unit: Unit, values: Iterable[float | None]) -> Scale:
    """The scale for one axis, chosen by its largest value."""
    largest = max((value for value in values if value is not None), default=0.0)
    match unit:
        case "seconds":
            return Scale(1000, f"{_SPACE}ms") if largest < 1 else Scale(1, f"{_SPACE}s")
        case "bytes":
            if largest < MIB:
                return Scale(1 / KIB, f"{_SPACE}KiB")
            return Scale(1 / MIB, f"{_SPACE}MiB") if largest < GIB else Scale(1 / GIB, f"{_SPACE}GiB")
        case "ratio":
            return Scale(100, f"{_SPACE}%")
        case "per_s":
            return Scale(1, f"{_SPACE}/s")
        case "count":
            return Scale(1, "")


def written(value: float | None, unit: Unit) -> str:
    """The words of a value for a tile or a table."""
    if value is None:
        return MISSING
    match unit:
        case "seconds":
            return duration(value)
        case "count":
            return compact(value)
        case _:
            chosen = scale(unit, [value])
            return f"{compact(value * chosen.factor)}{chosen.suffix}"


def counted(number: float, one: str, more: str) -> str:
    """A number with its noun: ``one`` after 1, else ``more``."""
    return f"{compact(number)} {one if number == 1 else more}"


def duration(value_s: float) -> str:
    """A time span: "85 ms", "2.4 s", "3 min 5 s", "2 h 10 min"; each number stays with its unit."""
    return _BEFORE_UNIT.sub(_SPACE, units.duration(value_s))
