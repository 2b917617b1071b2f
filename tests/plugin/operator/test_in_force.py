"""Switches, trials, ordered limits, their ends and undos in any order: what is in force is a preset of the catalogue,
or one of them under an ordered limit that is shown and can be ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from engines import ServingEngine, installed
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.audit import Caller
from headway.errors import HeadwayError
from headway.operator.control import Control
from headway_policies import Preset, changes
from headway_policies.preset import with_fixed_limit
from headway_policies.trial import TrialTerms

ME = Caller("ann", "operator")
PRESETS = {one.name: one for one in (small_preset(4), small_preset(1, name="narrow"), small_preset(8, name="wide"))}


def served() -> Control:
    """An engine behind the gate, under a preset of four seats."""
    control, _ = installed(ServingEngine(), PRESETS["small"])
    for preset in PRESETS.values():
        control.catalogue.include(preset)
    return control


def same(one: Preset, other: Preset) -> bool:
    return one.name == other.name and not changes(one, other)


def assert_shown(control: Control) -> None:
    """Nothing is in force that no preset and no shown order explains."""
    order, preset = control.limits.in_force, control.preset
    if order is None:
        assert same(preset, PRESETS[preset.name])
        return
    assert same(order.own, PRESETS[preset.name])
    assert same(preset, with_fixed_limit(order.own, order.seats, order.window_ms))
    shown = control.status().limit.ordered
    assert shown is not None
    assert shown.seats == control.gateway.gate.desk.limit == order.seats


async def order(control: Control, seats: int | None, expires_s: float | None = None) -> None:
    await control.order_limit(seats, expires_s=expires_s, expected_revision=None, caller=ME)


async def switch(control: Control, name: str, after_s: float | None = None) -> None:
    await control.switch(name, expected_revision=None, caller=ME, trial=TrialTerms(after_s))


async def undo(control: Control, revision: int | None = None) -> None:
    await control.undo(revision, expected_revision=None, caller=ME)


@on_virtual_time
async def test_an_undo_after_an_order_has_ended_does_not_order_it_for_good() -> None:
    """The limit that held for half a second is no setting to come back to: what was before it is."""
    control = served()
    await switch(control, "wide")
    await order(control, 2, 0.5)
    await asyncio.sleep(1.0)
    await undo(control)
    assert_shown(control)
    assert (control.preset.name, control.limits.in_force) == ("small", None)
    await undo(control)
    assert control.preset.name == "wide"


@on_virtual_time
async def test_an_undo_under_an_order_ends_the_order() -> None:
    """The preset without it is what was in force before."""
    control = served()
    await order(control, 2)
    await undo(control)
    assert same(control.preset, PRESETS["small"])
    assert_shown(control)


@pytest.mark.parametrize("first_s", [None, 60.0])
@on_virtual_time
async def test_a_trial_that_is_taken_back_brings_a_standing_order_back(first_s: float | None) -> None:
    """An order without an end holds again, and can be ended; one with an end is over."""
    control = served()
    await order(control, 3)
    if first_s is not None:
        await order(control, 2, first_s)
    await switch(control, "wide", 5.0)
    assert control.limits.in_force is None
    await asyncio.sleep(6.0)
    assert_shown(control)
    assert control.limits.in_force is not None
    assert control.limits.in_force.seats == control.gateway.gate.desk.limit == 3
    await order(control, None)
    assert same(control.preset, PRESETS["small"])
    assert_shown(control)


@pytest.mark.parametrize("seed", range(40))
@on_virtual_time
async def test_whatever_is_ordered_what_is_in_force_is_shown(seed: int) -> None:
    """Thirty steps of a random history, at random times."""
    control, draw = served(), random.Random(seed)
    steps: list[Callable[[], Awaitable[None]]] = [
        lambda: switch(control, draw.choice(list(PRESETS))),
        lambda: switch(control, draw.choice(list(PRESETS)), draw.choice([1.0, 5.0])),
        lambda: order(control, draw.randint(1, 9)),
        lambda: order(control, draw.randint(1, 9), draw.choice([0.5, 3.0])),
        lambda: order(control, None),
        lambda: undo(control),
        lambda: undo(control, draw.randint(1, max(1, control.revision))),
    ]
    for _ in range(30):
        with suppress(HeadwayError):
            await draw.choice(steps)()
        assert_shown(control)
        await asyncio.sleep(draw.choice([0.0, 0.2, 2.0, 7.0]))
        assert_shown(control)
