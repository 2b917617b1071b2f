"""A preset in front of several instances: as many times the seats, and the same policies."""

from __future__ import annotations

import pytest

from headway_policies import Preset, PresetError, bundled_presets, changes, parse_preset
from headway_policies.preset import for_instances

PRESETS = bundled_presets()


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda one: one.name)
def test_every_bundled_preset_keeps_its_policies(preset: Preset) -> None:
    """Before one instance it is the same; before four the seats are four times as many, and nothing else changes."""
    assert for_instances(preset, 1) == preset
    after = for_instances(preset, 4)
    assert after.batching.seats == 4 * preset.batching.seats
    assert after.limit.policy == preset.limit.policy
    allowed = {"batching.seats", "limit.min_seats", "limit.max_seats"}
    assert {one.setting for one in changes(preset, after)} <= allowed


def test_the_bounds_of_an_adaptive_limit_are_those_of_each_instance() -> None:
    """Stated bounds are meant; a limit that is fixed has none."""
    text = 'name = "a"\nextends = "balanced"\n[limit]\nmin_seats = 4\nmax_seats = 100'
    limit = for_instances(parse_preset(text, "a"), 3).limit
    assert (limit.min_seats, limit.max_seats) == (12, 300)


def test_more_seats_than_there_can_be_are_the_most() -> None:
    """A fleet of 256 large instances."""
    text = 'name = "a"\nextends = "balanced"\n[batching]\nseats = 1024\n[limit]\nmax_seats = 2048'
    after = for_instances(parse_preset(text, "a"), 256)
    assert (after.batching.seats, after.limit.max_seats) == (65_536, 65_536)


def test_what_contradicts_it_is_one_line() -> None:
    """With the preset, the number and the key."""
    text = 'name = "mine"\nextends = "dynamic"\n[batching]\npreferred_batch_sizes = [8]'
    assert for_instances(parse_preset(text, "p"), 2).batching.preferred_batch_sizes == (8,)
    with pytest.raises(PresetError, match=r"^mine for 0 instances: batching.seats"):
        for_instances(parse_preset(text, "p"), 0)
