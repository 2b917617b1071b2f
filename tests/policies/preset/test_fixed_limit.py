"""A preset on another number of seats: what changes, what stays, and what contradicts it."""

from __future__ import annotations

import pytest

from headway_policies import Preset, PresetError, bundled_presets, changes, parse_preset
from headway_policies.preset import with_fixed_limit

PRESETS = bundled_presets()


def changed(before: Preset, after: Preset) -> dict[str, object]:
    """The settings that differ, with their new values."""
    return {one.setting: one.after for one in changes(before, after)}


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda one: one.name)
def test_every_bundled_preset_can_have_any_limit_above_its_reserved_seats(preset: Preset) -> None:
    """Seats and limit change, and nothing else; the name stays."""
    for seats in (8, 48, 300):
        after = with_fixed_limit(preset, seats)
        assert (after.name, after.batching.seats, after.limit.policy) == (preset.name, seats, "fixed")
        assert after.max_seats() == seats + preset.bypass_seats()
        allowed = {"batching.seats", "limit.policy", "limit.min_seats", "limit.max_seats", "limit.shadow"}
        assert changed(preset, after).keys() <= allowed


def test_the_window_changes_only_where_one_is_given() -> None:
    """0 is a window, too."""
    dynamic = PRESETS["dynamic"]
    assert changed(dynamic, with_fixed_limit(dynamic, 32)) == {}
    assert changed(dynamic, with_fixed_limit(dynamic, 32, 0)) == {"batching.window_ms": 0}


def test_the_bound_by_kv_space_stays_and_the_others_go() -> None:
    """`interactive` follows the time between tokens; a fixed limit does not, but still heeds memory."""
    after = with_fixed_limit(PRESETS["interactive"], 100)
    assert (after.limit.memory_aware, after.limit.max_seats, after.limit.min_seats) == (True, None, 1)


def test_preferred_sizes_that_no_batch_can_reach_go() -> None:
    """Sizes that fit stay."""
    text = 'name = "a"\nextends = "dynamic"\n[batching]\npreferred_batch_sizes = [4, 8, 16]'
    assert with_fixed_limit(parse_preset(text, "a"), 8).batching.preferred_batch_sizes == (4, 8)


def test_seats_that_are_all_reserved_are_refused_in_one_line() -> None:
    """With the preset, the seats and the key."""
    reserved = parse_preset('name = "mine"\nextends = "balanced"\n[classes.realtime]\nreserved_seats = 2', "r")
    with pytest.raises(PresetError, match=r"^mine with 2 seats: classes: 2 reserved_seats of 2 leave none") as at:
        with_fixed_limit(reserved, 2)
    assert [one.where for one in at.value.issues] == ["classes"]
