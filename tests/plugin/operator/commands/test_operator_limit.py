"""An ordered limit: in force at once, ended by the server itself, and never in the way of a switch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, installed
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.api.schema import OperatorLimit
from headway.audit import Caller
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import PlainAdapter
from headway.errors import LimitCommandError, StaleRevisionError
from headway.operator.control import Control
from headway_policies import Preset, bundled_presets

ME = Caller("ann", "operator")


class SixtyFour(PlainAdapter):
    """An engine that was started with 64 seats."""

    def engine_seats(self, engine: Any) -> int:
        """Its ceiling."""
        return 64


#: The status of an order of nine seats without an end.
ORDERED = OperatorLimit(seats=9, actor="ann")


def served(preset: Preset | None = None) -> Control:
    """An engine behind the gate, under a preset of four seats."""
    control, _ = installed(ServingEngine(), preset or small_preset(4))
    control.catalogue.include(small_preset(2, name="other"))
    return control


async def order(control: Control, seats: int | None, expires_s: float | None = None, **options: float) -> int:
    """Order a limit at the present revision; the revision after it."""
    done = await control.order_limit(
        seats, expires_s=expires_s, expected_revision=control.revision, caller=ME, **options
    )
    return done.revision


def lines(control: Control) -> list[tuple[str, str, str, int]]:
    """The audit, the oldest first: by whom, from what, to what, the revision."""
    return [(entry.actor, entry.before, entry.after, entry.revision) for entry in reversed(control.audit.entries(50))]


@on_virtual_time
async def test_a_trial_ends_by_itself() -> None:
    """Both changes are switches: a revision, a count, a line of the audit; the second by the server."""
    control = served()
    assert await order(control, 9, 30) == 2
    assert (control.gateway.gate.desk.limit, control.preset.name) == (9, "small")
    await asyncio.sleep(29)
    assert control.status().limit.ordered == ORDERED.model_copy(update={"left_s": 1.0})
    await asyncio.sleep(2)
    assert (control.gateway.gate.desk.limit, control.revision) == (4, 3)
    assert (control.status().limit.ordered, control.history.switches["small"]) == (None, 2)
    assert lines(control) == [
        ("ann", "small", "small: 9 seats, for 30 s", 2),
        ("headway", "small: 9 seats", "small", 3),
    ]


@on_virtual_time
async def test_a_trial_that_follows_another_goes_back_to_the_preset() -> None:
    """Not to the trial before it, and not at the end of that one."""
    control = served()
    await order(control, 9, 30)
    await asyncio.sleep(20)
    await order(control, 12, 30, window_ms=5)
    await asyncio.sleep(20)
    assert (control.gateway.gate.desk.limit, control.preset.batching.window_ms) == (12, 5)
    await asyncio.sleep(20)
    assert control.preset == small_preset(4)


@on_virtual_time
async def test_a_trial_is_prolonged_without_a_revision() -> None:
    """The same seats again move the end, and nothing else; the end holds."""
    control = served()
    await order(control, 9, 30)
    for _ in range(5):
        await asyncio.sleep(20)
        assert await order(control, 9, 30) == 2
    assert len(lines(control)) == 1
    await asyncio.sleep(31)
    assert control.gateway.gate.desk.limit == 4


@on_virtual_time
async def test_an_order_that_another_client_takes_over_is_recorded() -> None:
    """The same seats: nothing changes but the author and the end, which the status names."""
    control = served()
    await order(control, 9, 30)
    await control.order_limit(9, expires_s=30, expected_revision=2, caller=Caller("another"))
    assert [actor for actor, *_ in lines(control)] == [ME.actor, "another"]
    ordered = control.status().limit.ordered
    assert ordered is not None
    assert (control.revision, ordered.actor) == (2, "another")


@on_virtual_time
async def test_a_trial_of_the_seats_in_force_changes_nothing() -> None:
    """No revision, no line, no count; it is shown until it ends, and a later trial goes back to the preset."""
    control = served()
    assert await order(control, 4, 30) == 1
    assert control.status().limit.ordered == ORDERED.model_copy(update={"seats": 4, "left_s": 30.0})
    assert (await order(control, 9, 30), await order(control, 4, 30), await order(control, None)) == (2, 3, 3)
    assert await order(control, 4, 30) == 3
    await asyncio.sleep(31)
    assert (control.revision, control.status().limit.ordered, control.preset) == (3, None, small_preset(4))
    assert (len(lines(control)), control.history.switches["small"]) == (2, 2)


@on_virtual_time
async def test_an_order_of_null_goes_back_now() -> None:
    """A second one changes nothing."""
    control = served()
    await order(control, 9, 30)
    assert (await order(control, None), await order(control, None)) == (3, 3)
    assert control.preset == small_preset(4)
    await asyncio.sleep(60)
    assert control.revision == 3


@on_virtual_time
async def test_an_order_without_an_end_holds_until_the_next_switch() -> None:
    """A switch to the preset of the same name puts its own limit back."""
    control = served()
    await order(control, 9)
    await asyncio.sleep(10_000)
    assert control.status().limit.ordered == ORDERED
    await control.switch("small", expected_revision=2, caller=ME)
    assert (control.preset, control.status().limit.ordered) == (small_preset(4), None)
    assert lines(control)[-1] == ("ann", "small: 9 seats", "small", 3)


@on_virtual_time
async def test_a_trial_on_an_order_without_an_end_goes_back_to_that() -> None:
    """And an order without an end takes the place of a trial: the end of that is no more."""
    control = served()
    await order(control, 9)
    await order(control, 12, 30)
    await asyncio.sleep(31)
    assert control.status().limit.ordered == ORDERED
    await order(control, 12, 30)
    await order(control, None)
    assert control.status().limit.ordered == ORDERED
    await order(control, 12, 30)
    await order(control, 6)
    await asyncio.sleep(31)
    assert control.gateway.gate.desk.limit == 6
    await order(control, None)
    assert control.preset == small_preset(4)


@on_virtual_time
async def test_a_switch_ends_a_trial_for_good() -> None:
    """The server does not go back from a preset that somebody has chosen meanwhile."""
    control = served()
    await order(control, 9, 30)
    await control.switch("other", expected_revision=2, caller=ME)
    await asyncio.sleep(60)
    assert (control.preset.name, control.revision) == ("other", 3)


@pytest.mark.parametrize("seats", [9, None])
@on_virtual_time
async def test_a_stale_order_changes_nothing(seats: int | None) -> None:
    """As with a switch; the audit has the refusal."""
    control = served()
    await order(control, 5, 30)
    with pytest.raises(StaleRevisionError):
        await control.order_limit(seats, expected_revision=1, caller=ME)
    assert (control.gateway.gate.desk.limit, control.revision) == (5, 2)
    assert control.audit.entries(1)[0].result.startswith("refused: the preset was switched meanwhile")


@on_virtual_time
async def test_a_limit_that_cannot_be_is_refused() -> None:
    """More than the engine was started with, or none left to the least urgent class; nothing changes."""
    control, _ = installed(FakeEngine(), bundled_presets()["balanced"], adapter=SixtyFour())
    with pytest.raises(LimitCommandError, match="65 seats are more than the 64 that the engine was started with"):
        await order(control, 65, 30)
    reserving = served(small_preset(4, classes={"normal": terms(2, reserved_seats=2), "batch": terms(1)}))
    with pytest.raises(LimitCommandError, match="2 reserved_seats of 2 leave none"):
        await order(reserving, 2, 30)
    assert [(one.revision, one.status().limit.ordered) for one in (control, reserving)] == [(1, None), (1, None)]


@on_virtual_time
async def test_nobody_is_dropped_by_a_trial_of_fewer_seats() -> None:
    """Running requests go on above the limit, waiting ones keep their places, and all complete."""
    engine = FakeEngine(step_s=0.1)
    control, _ = installed(engine, small_preset(4))

    async def ask(number: int) -> int:
        return len([one async for one in engine.generate("text", FakeParams(20), f"r{number}")])

    asked = [asyncio.create_task(ask(number)) for number in range(12)]
    await asyncio.sleep(0.5)
    await order(control, 1, 3)
    assert control.gateway.gate.desk.seats_taken == 4
    done = await asyncio.gather(*asked)
    assert all(done)
    await asyncio.sleep(5)
    assert control.gateway.gate.desk.limit == 4
    await assert_no_residue(control)
