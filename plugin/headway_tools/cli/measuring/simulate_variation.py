"""The options of ``headway simulate`` that let the engine's speed vary, and how they are read.

    6x:20s-60s      factor, from, to          10s@30s    length, time
    2x:5s/20s       factor, for, every        0.5:3600s  part, over
    0.2, 0.2:5s     coefficient of variation, held for

A time without a unit is in seconds.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

from headway_simulator.engine_model.disturbances import Drift, Neighbour, Pause, Spell
from headway_simulator.engine_model.variation import Variation
from headway_tools.console import UsageError

T = TypeVar("T")

_NUMBER = r"(\d+\.?\d*|\.\d+)"
_TIME = rf"{_NUMBER}(ms|s|m|h)?"
_UNIT_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_CHARS = 60


def add_variation(group: argparse._ArgumentGroup) -> None:
    """Add the options. Each is checked as it is read."""
    group.add_argument(
        "--slow",
        type=_spell,
        action="append",
        metavar="Fx:FROM-TO",
        help="6x:20s-60s: each step that begins from 20 s to 60 s takes 6 times as long; may be repeated",
    )
    group.add_argument(
        "--pause",
        type=_pause,
        action="append",
        metavar="S@AT",
        help="10s@30s: the first step that begins at 30 s or later takes 10 s longer, as by a compilation or a stall "
        "of the whole engine; may be repeated",
    )
    group.add_argument(
        "--neighbour",
        type=_neighbour,
        metavar="Fx:FOR/EVERY",
        help="2x:5s/20s: once in every 20 s, at a time drawn by --seed, steps take 2 times as long for 5 s",
    )
    group.add_argument(
        "--drift",
        type=_drift,
        metavar="PART:OVER",
        help="0.5:3600s: the speed falls linearly to half within an hour, returns within the next one, and so on",
    )
    group.add_argument(
        "--jitter",
        type=_jitter,
        metavar="CV[:HOLD]",
        help="0.2: each step's time is multiplied by a lognormal number of mean 1 with this coefficient of variation, "
        "drawn by --seed; 0.2:5s draws one for each 5 s, of mean speed 1",
    )


def check_variation(chosen: argparse.Namespace) -> None:
    """Refuse what has no use for a variation. Raises UsageError."""
    if (chosen.sweep or chosen.timeline) and variation_of(chosen) is not None:
        raise UsageError(
            "--sweep and --timeline are of a steady engine: no --slow, --pause, --neighbour, --drift, --jitter"
        )


def variation_of(chosen: argparse.Namespace) -> Variation | None:
    """The requested variation; None without one."""
    ratio, hold_s = chosen.jitter or (0.0, 0.0)
    variation = Variation(
        slow=tuple(chosen.slow or ()),
        pauses=tuple(chosen.pause or ()),
        neighbour=chosen.neighbour,
        drift=chosen.drift,
        jitter_ratio=ratio,
        jitter_hold_s=hold_s,
        seed=chosen.seed,
    )
    return variation if variation.disturbs else None


def _spell(text: str) -> Spell:
    factor, begin, begin_unit, end, end_unit = _parts(rf"{_NUMBER}x:{_TIME}-{_TIME}", text, "6x:20s-60s")
    spell = float(factor), _seconds(begin, begin_unit), _seconds(end, end_unit)
    return _checked(spell, lambda: Variation(slow=(spell,)))


def _pause(text: str) -> Pause:
    length, length_unit, at, at_unit = _parts(rf"{_TIME}@{_TIME}", text, "10s@30s")
    pause = _seconds(length, length_unit), _seconds(at, at_unit)
    return _checked(pause, lambda: Variation(pauses=(pause,)))


def _neighbour(text: str) -> Neighbour:
    factor, there, there_unit, every, every_unit = _parts(rf"{_NUMBER}x:{_TIME}/{_TIME}", text, "2x:5s/20s")
    neighbour = float(factor), _seconds(there, there_unit), _seconds(every, every_unit)
    return _checked(neighbour, lambda: Variation(neighbour=neighbour))


def _drift(text: str) -> Drift:
    ratio, over, unit = _parts(rf"{_NUMBER}:{_TIME}", text, "0.5:3600s")
    drift = float(ratio), _seconds(over, unit)
    return _checked(drift, lambda: Variation(drift=drift))


def _jitter(text: str) -> tuple[float, float]:
    ratio, hold, unit = _parts(rf"{_NUMBER}(?::{_TIME})?", text, "0.2 or 0.2:5s")
    jitter = float(ratio), _seconds(hold, unit) if hold else 0.0
    return _checked(jitter, lambda: Variation(jitter_ratio=jitter[0], jitter_hold_s=jitter[1]))


def _parts(pattern: str, text: str, example: str) -> tuple[str, ...]:
    """The groups of the pattern. Raises argparse.ArgumentTypeError."""
    found = re.fullmatch(pattern, text, re.ASCII)
    if found is None or len(text) > _MAX_CHARS:
        raise argparse.ArgumentTypeError(f"words such as {example} are needed, not {text[:_MAX_CHARS]!r}")
    return found.groups()


def _seconds(number: str, unit: str | None) -> float:
    return float(number) * _UNIT_S[unit or "s"]


def _checked(value: T, build: Callable[[], Variation]) -> T:
    """The value, where a variation can have it. Raises argparse.ArgumentTypeError."""
    try:
        build()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value
