"""The demands of a preset on an engine that has yet to start: a line for the banner, and a warning.

How many sequences the engine can run is vLLM's own choice for its hardware, which only vLLM knows; here is known what
the user gives it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.operator import Listed, PresetCatalogue, follows_engine, stated_seats
from headway_policies import Preset
from headway_policies.preset import seat_words
from headway_tools.cli.serving.environment import setting_of

_FLAG = "--max-num-seqs"


def seats_line(engine: Sequence[str], preset: Preset) -> str:
    """The seats that the preset starts with, and its reach."""
    return seat_words(preset.settings(), _given(engine))


def seats_warning(engine: Sequence[str], chosen: Listed, catalogue: PresetCatalogue) -> str | None:
    """A warning where the user gives the engine fewer seats than the preset, or one in a file of theirs, states."""
    given, largest = _given(engine), catalogue.largest()
    if given is None:
        return None
    seats, asked = stated_seats(chosen.preset), stated_seats(largest.preset)
    if given < seats:
        name = chosen.preset.name
        whose = f"with which preset {name} starts" if follows_engine(chosen.preset) else f"of preset {name}"
        return f"{_FLAG} {given} is less than the {seats} seats {whose}: {given} is the limit"
    if not largest.is_file or asked <= given:
        return None
    asks = f"{largest.source} asks for {asked} seats (preset {largest.preset.name})"
    return f"{asks}, more than {_FLAG} {given}: {given} is the limit"


def _given(engine: Sequence[str]) -> int | None:
    """The seats that the user gives the engine; None for none, and for what vLLM will refuse."""
    given = setting_of(engine, _FLAG) or ""
    return int(given) if given.isascii() and given.isdecimal() else None
