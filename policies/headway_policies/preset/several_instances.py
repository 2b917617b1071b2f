"""A preset in front of several instances: its numbers of seats, and of tokens in all, are those of one."""

from __future__ import annotations

from headway_policies.preset.fixed_limit import revised
from headway_policies.preset.model import Preset

_MOST_SEATS, _MOST_BYPASS_SEATS = 65_536, 1024
_BOUNDS = ("min_seats", "max_seats")


def for_instances(preset: Preset, instances: int) -> Preset:
    """The preset with as many times the seats, and the bounds of its limit and of what runs at once likewise.

    The time between tokens that the limit keeps is that of each instance, so its policy stays. Raises PresetError where
    the rest of the preset contradicts it.
    """
    table = preset.model_dump(exclude_none=True)
    batching, classes = table["batching"], table["classes"]
    batching["seats"] = min(_MOST_SEATS, preset.batching.seats * instances)
    if preset.batching.max_total_tokens is not None:
        batching["max_total_tokens"] = preset.batching.max_total_tokens * instances
    table["fallback"]["bypass_seats"] = min(_MOST_BYPASS_SEATS, preset.fallback.bypass_seats * instances)
    for name, terms in preset.classes.items():
        if terms.reserved_seats:
            classes[name]["reserved_seats"] = min(_MOST_SEATS, terms.reserved_seats * instances)
    if preset.limit.policy != "fixed":
        bounds = {name: table["limit"][name] for name in _BOUNDS if name in table["limit"]}
        table["limit"] |= {name: min(_MOST_SEATS, seats * instances) for name, seats in bounds.items()}
    return revised(table, f"{preset.name} for {instances} instances")
