"""A preset on trial, on virtual time: kept, taken back, overtaken by another change, in a restart, at a drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from engines import ServingEngine, assert_no_residue, installed, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.api.schema import TrialEnds
from headway.audit import Caller
from headway.engine.fake import FakeParams
from headway.errors import NoTrialError, StaleRevisionError
from headway.operator.commands.trials import PresetTrial
from headway.operator.control import Control
from headway_policies.trial import Condition, TrialEnd, TrialTerms

ME = Caller("ann", "operator")
SLOW = "normal.ttft_p95_s > 2 for 5 s"


def served() -> Control:
    """An engine behind the gate, under a preset of four seats; another one has a single seat."""
    control, _ = installed(ServingEngine(), small_preset(4))
    for name, seats in (("narrow", 1), ("wide", 8)):
        control.catalogue.include(small_preset(seats, name=name))
    return control


async def switch(control: Control, name: str, after_s: float | None = None, *conditions: str) -> int:
    """Switch on trial; the revision."""
    terms = TrialTerms(after_s, [Condition.parse(condition) for condition in conditions])
    done = await control.switch(name, expected_revision=control.revision, caller=ME, trial=terms)
    assert (done.trial is not None) == bool(terms)
    return done.revision


def trial_of(control: Control) -> PresetTrial:
    assert control.trials.last is not None
    return control.trials.last


def end_of(control: Control) -> tuple[str, str]:
    """How the last trial ended, and why."""
    result = trial_of(control).result
    assert result is not None
    return result.end, result.why


def lines(control: Control) -> list[tuple[str, str, str, str, str]]:
    """The audit, the oldest first: by whom, what, from what, to what, the result."""
    entries = reversed(control.audit.entries(50))
    return [(entry.actor, entry.action, entry.before, entry.after, entry.result) for entry in entries]


@asynccontextmanager
async def traffic(control: Control, every_s: float = 0.5, tokens: int = 8) -> AsyncIterator[None]:
    """A request of 0.4 s every half a second, which one seat can serve; with more tokens it cannot."""
    engine, calls = control.gateway.link.engine, set[asyncio.Task[None]]()

    async def call(number: int) -> None:
        async for _ in engine.generate("hello", FakeParams(tokens), f"request-{number}"):
            pass

    async def arrivals() -> None:
        for number in range(100_000):
            calls.add(asyncio.create_task(call(number)))
            await asyncio.sleep(every_s)

    engine.step_s = 0.05
    work = asyncio.create_task(arrivals())
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


@on_virtual_time
async def test_nobody_confirms_it() -> None:
    """After its time the server itself goes back, as a new revision, and says so."""
    control = served()
    assert await switch(control, "wide", 60.0) == 2
    status = control.status().preset
    assert (status.name, status.revision) == ("wide", 2)
    assert status.trial == TrialEnds(back_to="small", left_s=60.0)
    await asyncio.sleep(59.5)
    assert control.preset.name == "wide"
    await asyncio.sleep(1.0)
    assert (control.preset.name, control.revision, control.gateway.gate.desk.limit) == ("small", 3, 4)
    assert end_of(control) == (TrialEnd.REVERTED, "not confirmed within 60 s")
    assert control.status().preset.trial is None
    assert lines(control) == [
        ("ann", "switch_preset", "small", "wide, on trial", "applied"),
        ("headway", "end_trial", "wide", "wide", "reverted: not confirmed within 60 s"),
        ("headway", "switch_preset", "wide", "small", "applied"),
    ]


@on_virtual_time
async def test_somebody_keeps_it() -> None:
    """Then it stays, and a second confirmation finds no trial."""
    control = served()
    await switch(control, "wide", 60.0, SLOW)
    await asyncio.sleep(30.0)
    with pytest.raises(StaleRevisionError):
        control.keep(expected_revision=1, caller=ME)
    kept = control.keep(expected_revision=2, caller=ME, reason="fine")
    assert (kept.end, kept.why) == (TrialEnd.KEPT, "confirmed by ann")
    with pytest.raises(NoTrialError):
        control.keep(expected_revision=2, caller=ME)
    await asyncio.sleep(3600.0)
    assert (control.preset.name, control.revision) == ("wide", 2)
    assert [line[4] for line in lines(control)] == [
        "applied",
        "refused: the preset was switched meanwhile; its revision is now 2",
        "kept: confirmed by ann",
        "refused: no preset is on trial",
    ]


@on_virtual_time
async def test_a_preset_that_hurts_goes_back_and_loses_nobody() -> None:
    """One seat in place of four for more than it can serve: taken back by the condition, long before the time."""
    control = served()
    async with traffic(control, tokens=30):
        await asyncio.sleep(70.0)
        await switch(control, "narrow", 600.0, SLOW)
        await asyncio.sleep(60.0)
        assert control.preset.name == "small"
        end, why = end_of(control)
        assert end is TrialEnd.REVERTED
        assert why.startswith("normal.ttft_p95_s is ")
        trial = trial_of(control)
        assert trial.ended_s is not None
        assert trial.ended_s - trial.trial.began_s < 40.0
        before, now = trial.before["normal"], trial.now
        assert now is not None
        assert before.ttft_p95_s is not None
        assert before.ttft_p95_s < 0.1
        assert (now["normal"].ttft_p95_s or 0.0) > 2.0
    assert set(outcomes(control)) == {"completed"}
    await assert_no_residue(control)


@on_virtual_time
async def test_what_ended_since_the_switch_is_counted() -> None:
    """By class and by how it ended, exactly; not what ended before, and no more after the end."""
    control = served()
    async with traffic(control):
        await asyncio.sleep(20.0)
        await switch(control, "narrow", 600.0)
        await asyncio.sleep(20.2)
        ended = control.trials.report(trial_of(control)).ended["normal"]
        assert (ended.ended, ended.completed, ended.refused) == (40, 40, 0)
        control.keep(expected_revision=2, caller=ME)
        await asyncio.sleep(20.0)
        assert control.trials.report(trial_of(control)).ended["normal"].ended in (40, 41)


@on_virtual_time
async def test_a_preset_that_does_not_hurt_stays() -> None:
    """The watch ends after ten minutes where no time was given to go back."""
    control = served()
    async with traffic(control):
        await switch(control, "wide", None, SLOW, "error_ratio > 0.05")
        await asyncio.sleep(599.0)
        assert control.trials.running is not None
        await asyncio.sleep(2.0)
        assert end_of(control) == (TrialEnd.KEPT, "no condition was met within 600 s")
        assert control.preset.name == "wide"


@on_virtual_time
async def test_what_waited_before_the_switch_does_not_count() -> None:
    """The queue that made an operator switch is not the fault of the preset that is tried against it."""
    control = served()
    control.catalogue.include(small_preset(1, name="start"))
    await switch(control, "start")
    async with traffic(control, every_s=0.5, tokens=16):  # more than one seat can serve
        await asyncio.sleep(30.0)
        waiting = control.gateway.gate.desk.ledger.queued
        assert waiting > 10
        await switch(control, "wide", None, "normal.ttft_p95_s > 2 for 1 s")
        await asyncio.sleep(20.0)
        assert control.trials.running is not None


@pytest.mark.parametrize("how", ["switch", "undo", "order"])
@on_virtual_time
async def test_another_change_ends_it(how: str) -> None:
    """Nothing is taken back from the operator who came later."""
    control = served()
    await switch(control, "wide", 60.0)
    if how == "switch":
        await switch(control, "narrow")
    elif how == "undo":
        await control.undo(expected_revision=2, caller=ME)
    else:
        await control.order_limit(5, expected_revision=2, caller=ME)
    now = control.preset.name
    assert end_of(control) == (TrialEnd.OVERTAKEN, f"{now} was put in force before its end")
    assert control.trials.running is None
    await asyncio.sleep(3600.0)
    assert (control.preset.name, control.revision) == (now, 3)
    assert ("headway", "end_trial", "wide", "wide") in [line[:4] for line in lines(control)]


@on_virtual_time
async def test_one_trial_follows_another() -> None:
    """The second goes back to what was in force before it, also where that was on trial itself."""
    control = served()
    await switch(control, "wide", 60.0)
    await asyncio.sleep(30.0)
    await switch(control, "narrow", 60.0)
    await asyncio.sleep(59.0)
    assert control.preset.name == "narrow"
    await asyncio.sleep(2.0)
    assert (control.preset.name, control.revision) == ("wide", 4)


@on_virtual_time
async def test_the_preset_in_force_is_not_tried() -> None:
    """Nothing changes, so there is nothing to take back."""
    control = served()
    done = await control.switch("small", expected_revision=1, caller=ME, trial=TrialTerms(10.0))
    assert done.trial is None
    await asyncio.sleep(60.0)
    assert control.revision == 1


@on_virtual_time
async def test_a_limit_ordered_for_a_time_does_not_come_back_for_good() -> None:
    """The trial of a preset goes back to what the order would have gone back to."""
    control = served()
    await control.order_limit(9, expires_s=30.0, expected_revision=1, caller=ME)
    await switch(control, "wide", 60.0)
    await asyncio.sleep(61.0)
    assert (control.preset.name, control.gateway.gate.desk.limit) == ("small", 4)


@on_virtual_time
async def test_an_engine_that_is_being_restarted_says_nothing_of_a_preset() -> None:
    """Requests wait for many seconds meanwhile; the conditions begin anew when it serves again."""
    control = served()
    gate = control.gateway.gate
    async with traffic(control):
        await asyncio.sleep(10.0)
        await switch(control, "wide", 600.0, "normal.ttft_p95_s > 2 for 3 s")
        gate.engine_restarting(lambda permit: True)
        await asyncio.sleep(30.0)
        assert trial_of(control).now is None
        assert control.trials.running is not None
        gate.engine_back()
        await asyncio.sleep(1.0)
        assert trial_of(control).now is not None


@on_virtual_time
async def test_its_time_runs_in_a_restart_too() -> None:
    """A preset that nobody has confirmed goes back, whatever the engine does."""
    control = served()
    await switch(control, "wide", 60.0)
    control.gateway.gate.engine_restarting(lambda permit: True)
    await asyncio.sleep(61.0)
    assert (control.preset.name, control.revision) == ("small", 3)


@on_virtual_time
async def test_at_a_drain_nothing_is_judged() -> None:
    """Requests are refused because the server ends: the condition on refusals is not for that."""
    control = served()
    async with traffic(control):
        await switch(control, "wide", None, "refused_ratio > 0.1 for 1 s")
        await asyncio.sleep(5.0)
        control.gateway.gate.drain()
        await asyncio.sleep(20.0)
        assert control.preset.name == "wide"


@on_virtual_time
async def test_a_caller_who_leaves_during_the_switch_leaves_a_trial() -> None:
    """The preset is in force at once, and so is its trial: whatever becomes of the terminal."""
    control = served()
    call = asyncio.create_task(switch(control, "wide", 60.0))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert control.preset.name == "wide"
    await asyncio.sleep(61.0)
    assert control.preset.name == "small"
