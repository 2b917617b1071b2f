"""A preset in front of several instances: its numbers of seats are those of one."""

from __future__ import annotations

from headway_policies.preset.fixed_limit import revised
from headway_policies.preset.model import Preset

_MOST_SEATS = 65_536
_BOUNDS = ("min_seats", "max_seats")


def for_instances(preset: Preset, instances: int) -> Preset:
    """The preset with as many times the seats, and the bounds of its limit likewise.

    The time between tokens that the limit keeps is that of each instance, so its policy stays. Raises PresetError where
    the rest of the preset contradicts it.
    """
    table = preset.model_dump(exclude_none=True)
    table["batching"]["seats"] = min(_MOST_SEATS, preset.batching.seats * instances)
    if preset.limit.policy != "fixed":
        bounds = {name: table["limit"][name] for name in _BOUNDS if name in table["limit"]}
        table["limit"] |= {name: min(_MOST_SEATS, seats * instances) for name, seats in bounds.items()}
    return revised(table, f"{preset.name} for {instances} instances")
