"""What a preset asks of an engine that has yet to start: a line for the banner, and a warning.

How many sequences the engine can run is vLLM's own choice for its hardware, which only vLLM knows; here is known what
the user gives it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.cli.environment import setting_of
from headway.operator import Listed, PresetCatalogue, follows_engine, reach, stated_seats
from headway_policies import Preset

_FLAG = "--max-num-seqs"


def seats_line(engine: Sequence[str], preset: Preset, api_servers: int) -> str:
    """The seats that the preset starts with, and its reach; before several API servers a limit does not move."""
    if api_servers > 1 and preset.limit.moves:
        return f"{preset.batching.seats} seats, fixed before several API servers"
    given = setting_of(engine, _FLAG)
    return reach(preset, f"{_FLAG} {given}" if given else f"its {_FLAG}")


def seats_warning(engine: Sequence[str], chosen: Listed, catalogue: PresetCatalogue) -> str | None:
    """One line where the user gives the engine fewer seats than the preset, or one in a file of theirs, states."""
    given, largest = setting_of(engine, _FLAG) or "", catalogue.largest()
    if not (given.isascii() and given.isdecimal()):
        return None
    seats, asked = stated_seats(chosen.preset), stated_seats(largest.preset)
    if int(given) < seats:
        name = chosen.preset.name
        whose = f"that preset {name} starts with" if follows_engine(chosen.preset) else f"of preset {name}"
        return f"{_FLAG} {given} is less than the {seats} seats {whose}: {given} is the limit"
    if not largest.is_file or asked <= int(given):
        return None
    asks = f"{largest.source} asks for {asked} seats (preset {largest.preset.name})"
    return f"{asks}, more than {_FLAG} {given}: {given} is the limit"
