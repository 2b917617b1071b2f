"""A preset in front of several instances: as many times the seats, and the same policies."""

from __future__ import annotations

import pytest

from headway_policies import Preset, PresetError, bundled_presets, changes, parse_preset
from headway_policies.preset import for_instances

PRESETS = bundled_presets()


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda one: one.name)
def test_every_bundled_preset_keeps_its_policies(preset: Preset) -> None:
    """Before one instance it is the same; before four there are four times the seats, in all their parts, and four
    times the tokens that may run; nothing else changes.
    """
    assert for_instances(preset, 1) == preset
    after = for_instances(preset, 4)
    assert after.batching.seats == 4 * preset.batching.seats
    assert after.limit.policy == preset.limit.policy
    tokens, bypass = preset.batching.max_total_tokens, preset.fallback.bypass_seats
    assert after.batching.max_total_tokens == (None if tokens is None else 4 * tokens)
    assert after.fallback.bypass_seats == 4 * bypass
    for name, terms in preset.classes.items():
        assert after.classes[name].reserved_seats == (terms.reserved_seats and 4 * terms.reserved_seats)
    allowed = {"batching.seats", "batching.max_total_tokens", "limit.min_seats", "limit.max_seats"}
    allowed |= {"fallback.bypass_seats", *(f"classes.{name}.reserved_seats" for name in preset.classes)}
    assert {one.setting for one in changes(preset, after)} <= allowed


def test_reserved_seats_and_tokens_of_an_own_preset_are_those_of_each_instance() -> None:
    """Else further instances would stay empty, however long the queue is."""
    text = (
        'name = "a"\nextends = "dynamic"\n[batching]\nmax_total_tokens = 5000\n'
        "[classes.realtime]\nreserved_seats = 3\n[fallback]\nbypass_seats = 400\n"
    )
    after = for_instances(parse_preset(text, "a"), 3)
    assert (after.batching.max_total_tokens, after.classes["realtime"].reserved_seats) == (15_000, 9)
    assert after.fallback.bypass_seats == 1024


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
