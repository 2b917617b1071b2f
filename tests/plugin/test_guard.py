"""Engine calls behind the gate: the phase x fault matrix at one seat, on virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from virtual_time import on_virtual_time

import headway
from headway.fake import FakeEngine, FakeParams
from headway_policies import Preset

CLASSES = {
    name: {"priority": priority, "max_waiting": 5, "queue_timeout_s": 10.0, "total_timeout_s": 100.0}
    for name, priority in (("realtime", 3), ("normal", 2), ("batch", 1))
}


def tight(seats: int = 1, **overrides: Any) -> Preset:
    """A preset with few seats."""
    table = {
        "name": "tight",
        "default_class": "normal",
        "batching": {"seats": seats, "window_ms": 0},
        "queue": {"max_waiting": 5},
        "classes": CLASSES,
    }
    return Preset.model_validate(table | overrides)


async def run(engine: FakeEngine, request_id: str = "a", max_tokens: int = 8, n: int = 1, **options: Any) -> int:
    """One whole call; returns how many outputs came."""
    stream = engine.generate("prompt", FakeParams(max_tokens, n), request_id, **options)
    return len([output async for output in stream])


def outcomes(engine: FakeEngine) -> Counter[str]:
    """All outcomes over all classes."""
    total: Counter[str] = Counter()
    for one in engine.headway.status()["classes"]:  # type: ignore[attr-defined]  # wrap adds it
        total.update(one["outcomes"])
    return total


async def at_rest(engine: FakeEngine) -> None:
    """Nothing is left: no seat, no call, no request in the engine; and the next request is served."""
    await asyncio.sleep(1)
    control = engine.headway  # type: ignore[attr-defined]  # wrap adds it
    status = control.status()
    assert (status["seats_taken"], status["queued"], status["in_flight"]) == (0, 0, 0)
    assert control.guard.open_calls == 0
    assert engine.running == {}
    assert all(counts.balanced for counts in control.guard.gate.desk.ledger.classes.values())
    if status["engine"]["healthy"] and status["state"] == "open":
        assert await run(engine, "next") == 8


@on_virtual_time
async def test_a_wrapped_engine_serves_and_still_is_itself() -> None:
    """Priority by name or number, tenant and time-out are Headway's; the rest of the engine is untouched."""
    engine = headway.wrap(FakeEngine(), preset="balanced")
    assert isinstance(engine, FakeEngine)
    assert await run(engine, priority="realtime", tenant="a", timeout_s=20) == 8
    assert await run(engine, priority=1) == 8
    assert [one["arrived"] for one in engine.headway.status()["classes"]] == [1, 0, 1]  # type: ignore[attr-defined]
    assert engine.priorities == {"a": 2}
    await at_rest(engine)


@on_virtual_time
async def test_an_unknown_class_is_told_the_known_ones() -> None:
    """A class nobody knows costs no ticket."""
    engine = headway.wrap(FakeEngine(), preset="balanced")
    with pytest.raises(headway.UnknownClassError, match="realtime, normal, batch"):
        await run(engine, priority="nonsense")
    await at_rest(engine)


@on_virtual_time
async def test_refusals_are_typed_and_carry_reason_and_retry_after() -> None:
    """Full, waited too long and ran too long are three types, each with its reason."""
    engine = headway.wrap(FakeEngine(step_s=1), preset=tight(queue={"max_waiting": 1}))
    running = asyncio.create_task(run(engine, "first", max_tokens=50))
    await asyncio.sleep(0.1)
    waiting = asyncio.create_task(run(engine, "second"))
    await asyncio.sleep(0.1)
    with pytest.raises(headway.Rejected) as full:
        await run(engine, "third")
    assert (full.value.reason, full.value.status) == (headway.Reason.QUEUE_FULL, 429)
    assert 1 <= full.value.retry_after_s <= 30
    loop = asyncio.get_running_loop()
    with pytest.raises(headway.Expired):
        await waiting
    assert loop.time() == pytest.approx(10.1, abs=0.01)
    await running
    with pytest.raises(headway.TimedOut) as slow:
        await run(engine, "fourth", max_tokens=50, timeout_s=5)
    assert slow.value.retry is False
    await at_rest(engine)
    assert engine.aborted == ["fourth", "fourth"]


#: phase -> (seconds after the request's start at which the fault comes, is another request holding the seat?)
PHASES = {
    "waiting": (0.5, True),
    "at dispatch": (1.0, True),
    "in add": (0.2, False),
    "before first token": (0.9, False),
    "mid stream": (2.6, False),
    "last token": (3.99, False),
}
FAULTS = ("cancel", "deadline", "engine death", "drain", "switch", "close the generator")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("phase", PHASES)
@on_virtual_time
async def test_whatever_happens_whenever_one_outcome_and_no_residue(phase: str, fault: str) -> None:
    """At one seat, each fault in each phase: exactly one outcome for each request, nothing left, the next is served."""
    at_s, behind_another = PHASES[phase]
    engine = headway.wrap(FakeEngine(step_s=0.8, add_s=0.8), preset=tight())
    gate = engine.headway.guard.gate  # type: ignore[attr-defined]  # wrap adds it
    asked = 1
    if behind_another:
        holder = asyncio.create_task(run(engine, "holder", max_tokens=1, timeout_s=1.0))
        await asyncio.sleep(0)
        asked += 1
    stream = engine.generate("p", FakeParams(4), "subject", timeout_s=at_s if fault == "deadline" else None)

    async def consume() -> None:
        async for _ in stream:
            if fault == "close the generator" and asyncio.get_running_loop().time() >= at_s:
                break
        await stream.aclose()

    subject = asyncio.create_task(consume())
    await asyncio.sleep(at_s)
    if fault == "cancel":
        subject.cancel()
    elif fault == "engine death":
        engine.die()
    elif fault == "drain":
        gate.drain()
    elif fault == "switch":
        gate.switch(tight(seats=2))
    tasks = [subject, holder] if behind_another else [subject]
    await asyncio.wait(tasks, timeout=50)
    assert all(task.done() for task in tasks)
    for task in tasks:
        error = None if task.cancelled() else task.exception()
        assert error is None or isinstance(error, headway.Refused), repr(error)
    if fault == "drain":
        gate.resume()
    assert sum(outcomes(engine).values()) == asked, outcomes(engine)
    await at_rest(engine)


@on_virtual_time
async def test_one_id_twice_never_crosses() -> None:
    """Two requests under one id at once: the engine sees two ids, and cancelling one leaves the other alone."""
    engine = headway.wrap(FakeEngine(), preset="balanced")
    first, second = (asyncio.create_task(run(engine, "same", max_tokens=20)) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    assert await second == 20
    assert engine.started == ["same", "same~2"]
    await at_rest(engine)


@on_virtual_time
async def test_seats_are_counted_in_sequences() -> None:
    """A request of three sequences takes three seats; one wider than the limit runs alone, and blocks nobody."""
    engine = headway.wrap(FakeEngine(step_s=1), preset=tight(seats=4))
    work = [asyncio.create_task(run(engine, f"wide-{index}", 2, n=3)) for index in range(3)]
    work.append(asyncio.create_task(run(engine, "too-wide", 2, n=9)))
    await asyncio.sleep(0.5)
    assert engine.headway.status()["seats_taken"] == 3  # type: ignore[attr-defined]  # wrap adds it
    assert await asyncio.gather(*work) == [2] * 4
    await at_rest(engine)


@on_virtual_time
async def test_a_limit_of_ten_holds_against_a_hundred_tasks() -> None:
    """100 tasks of 100 requests each, limit 10: never more than ten in the engine, and every one accounted for."""
    places = {name: terms | {"max_waiting": 200} for name, terms in CLASSES.items()}
    engine = headway.wrap(FakeEngine(max_num_seqs=64), preset=tight(10, queue={"max_waiting": 200}, classes=places))

    async def client(number: int) -> int:
        return sum([await run(engine, f"{number}-{index}", max_tokens=1) for index in range(100)])

    assert sum(await asyncio.gather(*(client(number) for number in range(100)))) == 10_000
    assert engine.most_running == 10
    assert outcomes(engine) == {"completed": 10_000}
    await at_rest(engine)


@on_virtual_time
async def test_a_switch_fills_more_seats_at_once_and_ends_nobody() -> None:
    """More seats start the waiting in the same turn; fewer seats end nobody and drain."""
    engine = headway.wrap(FakeEngine(step_s=1), preset=tight())
    work = [asyncio.create_task(run(engine, f"r{index}", max_tokens=5)) for index in range(4)]
    await asyncio.sleep(0.5)
    control = engine.headway  # type: ignore[attr-defined]  # wrap adds it
    gate = control.guard.gate
    gate.switch(tight(seats=4))
    assert (control.status()["queued"], control.status()["seats_taken"]) == (0, 4)
    gate.switch(tight(seats=1))
    assert control.status()["seats_taken"] == 4
    assert await asyncio.gather(*work) == [5] * 4
    await at_rest(engine)
