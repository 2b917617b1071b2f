"""A preset with another limit: the same policies on a fixed number of seats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from headway_policies.preset.errors import PresetError, explain
from headway_policies.preset.model import Preset


def with_fixed_limit(preset: Preset, seats: int, window_ms: float | None = None) -> Preset:
    """The preset with a fixed limit of so many seats, and with another batch window where one is given.

    The bounds of an adaptive limit and preferred batch sizes that are larger go; the bound by KV space stays. Raises
    PresetError where the rest of the preset contradicts it.
    """
    batching = preset.batching
    sizes = tuple(size for size in batching.preferred_batch_sizes if size <= seats)
    window = batching.window_ms if window_ms is None else window_ms
    table = preset.model_dump(exclude_none=True)
    table["batching"] |= {"seats": seats, "window_ms": window, "preferred_batch_sizes": sizes}
    table["limit"] = {key: value for key, value in table["limit"].items() if key != "max_seats"}
    table["limit"] |= {"policy": "fixed", "min_seats": 1, "shadow": False}
    return revised(table, f"{preset.name} with {seats} seats")


def revised(table: Mapping[str, Any], what: str) -> Preset:
    """The preset of this table. Raises PresetError, which begins with ``what``, where it contradicts itself."""
    try:
        return Preset.model_validate(table)
    except ValidationError as error:
        issues = explain(error, Preset)
        raise PresetError(f"{what}: {'; '.join(map(str, issues))}", issues) from None
