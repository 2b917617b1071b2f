"""The order of a switch: seats and fallback ladder in one step, then the engine's limit, then the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from admin_api import client_of
from admin_api import switch as put_preset
from engines import ServingEngine, installed
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.audit import Caller
from headway.engine.port import PlainAdapter
from headway.errors import UnusablePresetError
from headway.operator.control import Control
from headway_policies import Ending, Preset
from headway_policies.fallback import Rung
from headway_policies.queueing.factory import OrderSettings

ME = Caller("ann", "operator")
UNCONFIRMED = "applied; the engine has not confirmed its limit"


class Knob(PlainAdapter):
    """An engine with a limit of its own; ``answer`` is what becomes of telling it."""

    def __init__(self, answer: Callable[[int], Awaitable[int | None]]) -> None:
        self._answer = answer

    async def limit_engine(self, engine: Any, seats: int) -> int | None:
        """The result that the test sets."""
        return await self._answer(seats)


async def _takes(seats: int) -> int:
    await asyncio.sleep(1.0)
    return seats


async def _raises(seats: int) -> int:
    raise RuntimeError("no such call")


async def _never(seats: int) -> int:
    await asyncio.Event().wait()
    return seats


async def _has_none(seats: int) -> None:
    return None


def served(answer: Callable[[int], Awaitable[int | None]], *more: Preset) -> Control:
    """An engine of one seat behind the gate, and presets that it may switch to."""
    control, _ = installed(ServingEngine(), small_preset(1), adapter=Knob(answer))
    for preset in (small_preset(2, name="other"), *more):
        control.catalogue.include(preset)
    return control


def results(control: Control) -> list[tuple[str, int, str]]:
    """Each line of the audit: the preset, the revision, the result."""
    return [(line.after, line.revision, line.result) for line in control.audit.entries(9)]


@pytest.mark.parametrize(
    ("answer", "confirmed"),
    [(_takes, True), (_raises, False), (_never, False), (_has_none, True)],
    ids=["confirms", "refuses", "does not answer", "has no limit of its own"],
)
@on_virtual_time
async def test_a_switch_says_whether_the_engine_has_confirmed_its_limit(
    answer: Callable[[int], Awaitable[int | None]], confirmed: bool
) -> None:
    """In its result, in the audit and in the answer to PUT; the preset is in force either way."""
    control = served(answer)
    done = await control.switch("other", expected_revision=1, caller=ME)
    assert (done.engine_limit_confirmed, control.gateway.gate.desk.limit) == (confirmed, 2)
    assert results(control) == [("other", 2, "applied" if confirmed else UNCONFIRMED)]
    again = await control.switch("other", expected_revision=2, caller=ME)
    assert (again.changes, again.engine_limit_confirmed) == ([], confirmed)
    async with client_of(control) as client:
        response = await put_preset(client, "small", match='"2"')
    assert (response.status_code, response.json()["engine_limit_confirmed"]) == (200, confirmed)


@on_virtual_time
async def test_two_switches_at_once_are_each_answered_with_their_own_preset() -> None:
    """Also the first, which the second has overtaken while the engine was told."""
    control = served(_takes)
    both = [control.switch(name, expected_revision=None, caller=ME) for name in ("other", "small")]
    first, second = await asyncio.gather(*both)
    assert [(one.previous, one.name, one.revision) for one in (first, second)] == [
        ("small", "other", 2),
        ("other", "small", 3),
    ]


@on_virtual_time
async def test_the_audit_says_applied_once_the_engine_knows() -> None:
    """Not before: while the engine's limit is being set, the preset is in force and nothing is in the audit."""
    control = served(_takes)
    switch = asyncio.create_task(control.switch("other", expected_revision=1, caller=ME))
    await asyncio.sleep(0.5)
    assert (control.preset.name, control.gateway.link.core_limit, results(control)) == ("other", None, [])
    await switch
    assert (control.gateway.link.core_limit, results(control)) == (2, [("other", 2, "applied")])


@on_virtual_time
async def test_a_switch_whose_caller_disconnects_is_in_the_audit() -> None:
    """The preset is in force, and the line says that the engine's confirmation is missing."""
    control = served(_never)
    switch = asyncio.create_task(control.switch("other", expected_revision=1, caller=ME))
    await asyncio.sleep(0.5)
    switch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await switch
    assert (control.preset.name, results(control)) == ("other", [("other", 2, UNCONFIRMED)])


def _capped(name: str, seats: int, most_tokens: int | None) -> Preset:
    classes = {
        "normal": terms(2, fallback_max_tokens=most_tokens),
        "urgent": terms(3),
        "batch": terms(1, sheddable=True),
    }
    return small_preset(seats, name=name, classes=classes)


@pytest.mark.parametrize(("before", "after"), [(None, 5), (5, None)], ids=["gains a rung", "loses a rung"])
@on_virtual_time
async def test_the_new_preset_is_never_seen_with_the_old_ladder(before: int | None, after: int | None) -> None:
    """A request that the switch itself dispatches is cut as the rungs of the new preset say, not those of the old."""
    control = served(_has_none, _capped("old", 1, before), _capped("new", 2, after))
    await control.switch("old", expected_revision=None, caller=ME)
    control.order_fallback("shed", caller=ME)
    gate = control.gateway.gate
    first, waiting = gate.enter(max_tokens=100), gate.enter(max_tokens=100)
    assert (first.most_tokens, gate.desk.ledger.queued) == (before, 1)
    await control.switch("new", expected_revision=None, caller=ME)
    assert (gate.desk.ledger.queued, waiting.most_tokens) == (0, after)
    in_force = control.fallback_controller.ladder.in_force
    assert gate.desk.mode.in_force == in_force == ({Rung.SHED} if after is None else {Rung.CAP, Rung.SHED})
    for permit in (first, waiting):
        permit.leave(Ending.COMPLETED)
    gate.close()


@on_virtual_time
async def test_a_switch_that_is_refused_does_not_change_the_ladder() -> None:
    """A custom policy that cannot be made: preset, seats and rungs are those of before."""
    broken = small_preset(2, name="broken").model_copy(
        update={"ordering": OrderSettings(inside="faulty_policy:Unwilling")}
    )
    control = served(_has_none, _capped("capped", 1, 5), broken)
    await control.switch("capped", expected_revision=None, caller=ME)
    control.order_fallback("cap", caller=ME)
    with pytest.raises(UnusablePresetError):
        await control.switch("broken", expected_revision=None, caller=ME)
    in_force = control.gateway.gate.desk.mode.in_force
    assert (control.preset.name, in_force, control.fallback_controller.ladder.rung) == ("capped", {Rung.CAP}, Rung.CAP)
    assert results(control)[0][2].startswith("refused: broken: a policy it names cannot be made")
