"""How engine calls end behind the gateway: read to the end, aborted, cut short, stalled, or with the engine."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from engines import assert_no_residue, outcomes
from gateway_calls import Silent, Whole, behind_a_gate, read
from virtual_time import on_virtual_time

from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import Ended, PlainAdapter
from headway.errors import Refused
from headway_policies import AdmissionState, Load, Reason, Timeouts, Watchdog


@on_virtual_time
async def test_a_seat_is_free_when_the_engine_says_so_however_slowly_the_client_reads() -> None:
    """The engine ended the sequence: the next goes, while the first is still being read."""
    engine, control = behind_a_gate(1)
    slow = engine.generate("text", FakeParams(3), "slow")
    await anext(slow)
    reading = asyncio.create_task(read(engine, "next"))
    await asyncio.sleep(0)
    control.activity.step(Load(1, 0, 0.5), sequences=1, ended=[Ended("slow"), Ended("slow"), Ended("unknown")])
    assert control.gateway.gate.desk.ledger.queued == 0
    assert control.activity.load == Load(1, 0, 0.5)
    assert await reading == 3
    assert [len(one.tokens) async for one in slow] == [2, 3]
    await assert_no_residue(control)
    assert outcomes(control) == {"completed": 2}


class StopFails(FakeEngine):
    """An engine that obeys an abort only at the third call."""

    def __init__(self) -> None:
        super().__init__(step_s=0.1, add_s=2.0)

    async def abort(self, request_id: str) -> None:
        if self.aborted.count(request_id) >= 2:
            await super().abort(request_id)
        else:
            self.aborted.append(request_id)


@on_virtual_time
async def test_the_seats_of_an_aborted_call_are_free_though_it_is_not_read() -> None:
    """Time is up, and the engine has stopped it: the next has its seat, while the reader is still to come."""
    engine, control = behind_a_gate(1)
    slow = engine.generate("text", FakeParams(100), "slow", timeout_s=2.5)
    await anext(slow)
    assert await read(engine, "next") == 3
    assert "slow" in engine.aborted
    with pytest.raises(Refused):
        await anext(slow)
    await assert_no_residue(control)
    assert outcomes(control) == {"completed": 1, "expired_running": 1}


@on_virtual_time
async def test_an_abort_is_repeated_until_the_call_is_over() -> None:
    """An abort that overtakes its request finds nothing to stop, so it is sent again."""
    engine, control = behind_a_gate(1, StopFails())
    with pytest.raises(Refused):
        await read(engine, "a", timeout_s=0.5)
    assert engine.aborted.count("a") >= 3
    await assert_no_residue(control)
    assert outcomes(control) == {"expired_running": 1}


@on_virtual_time
async def test_an_abort_that_fails_has_no_effect_on_other_requests(caplog: pytest.LogCaptureFixture) -> None:
    """An engine that cannot be reached: the caller gets its time-out, no seat or task remains, and it is logged
    once."""

    class Mute(FakeEngine):
        async def abort(self, request_id: str) -> None:
            raise ConnectionError("no answer")

    engine, control = behind_a_gate(1, Mute(step_s=0.1))
    with caplog.at_level(logging.WARNING, "headway.admission.engine_link"):
        for _ in range(2):
            with pytest.raises(Refused):
                await read(engine, "a secret", 100, timeout_s=5)
        assert await read(engine, "a") == 3
        await assert_no_residue(control)
    assert [record.getMessage() for record in caplog.records] == [
        "the engine could not abort a request: ConnectionError"
    ]


@on_virtual_time
async def test_a_call_cut_short_by_the_engine_is_not_completed() -> None:
    """A stream that the engine ended before its time counts as failed where the engine adapter can detect it."""

    class Strict(PlainAdapter):
        def unfinished(self, output: Any) -> bool:
            return bool(output.finish_reason == "abort")

    engine, control = behind_a_gate(1, kind=Strict())
    reading = asyncio.create_task(read(engine, "a", 100))
    await asyncio.sleep(1.5)
    await engine.abort("a")
    await reading
    await assert_no_residue(control)
    assert outcomes(control) == {"failed": 1}


@on_virtual_time
async def test_an_engine_that_gives_nothing_has_not_completed() -> None:
    """A call without a single output is a failure."""

    class Silent(FakeEngine):
        async def generate(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
            for output in list[Any]():
                yield output

    engine, control = behind_a_gate(1, Silent())
    assert await read(engine, "a") == 0
    await assert_no_residue(control)
    assert outcomes(control) == {"failed": 1}


@pytest.mark.parametrize("stalls_s", [None, 4.5], ids=["goes on", "stalls"])
@on_virtual_time
async def test_a_whole_answer_is_timed_by_the_engines_progress(stalls_s: float | None) -> None:
    """Nothing shows for nine seconds: that is no stall while tokens are made, and one when they are not."""
    engine, control = behind_a_gate(1, Whole(), Silent())
    own = {"timeouts": Timeouts(first_token_s=2.0, stall_s=2.0)}
    reading = asyncio.create_task(asyncio.wait_for(read(engine, "a", 9, **own), 1_000))
    loop = asyncio.get_running_loop()
    for step in range(1, 40):
        loop.call_later(0.25 * step, control.activity.step, None, 1, [])
    if stalls_s is not None:
        loop.call_later(stalls_s, setattr, engine, "stalled", True)
    (result,) = await asyncio.gather(reading, return_exceptions=True)
    assert (result == 1) if stalls_s is None else (getattr(result, "reason", None) is Reason.STALL_TIMEOUT)
    await assert_no_residue(control)
    assert outcomes(control) == ({"completed": 1} if stalls_s is None else {"expired_running": 1})


@on_virtual_time
async def test_a_step_of_the_engine_is_a_sign_of_life() -> None:
    """The watchdog gets it, with the time."""
    _, control = behind_a_gate(1)
    control.gateway.link.watchdog = watchdog = Watchdog(0.0)
    await asyncio.sleep(5.0)
    assert watchdog.silent_s(5.0) == 5.0
    control.activity.step(None, 0, [])
    assert watchdog.silent_s(6.0) == 1.0


@on_virtual_time
async def test_a_call_that_shows_nothing_is_looked_at_a_few_times_a_second() -> None:
    """However often the engine steps, it is asked ten times a second how far it is, and not at all for a stream."""
    asked: list[float] = []

    class Counting(Silent):
        def tokens(self, engine: Any, request_id: str) -> int | None:
            asked.append(asyncio.get_running_loop().time())
            return super().tokens(engine, request_id)

    engine, control = behind_a_gate(1, Whole(), Counting())
    reading = asyncio.create_task(read(engine, "a", 3, timeouts=Timeouts(stall_s=30.0)))
    for step in range(1, 200):
        asyncio.get_running_loop().call_later(0.015 * step, control.activity.step, None, 1, [])
    await reading
    apart_s = [later - sooner for sooner, later in itertools.pairwise(asked)]
    assert 20 <= len(asked) <= 30
    assert min(apart_s) >= 0.1
    await assert_no_residue(control)
    asked.clear()
    streaming, control = behind_a_gate(1, FakeEngine(step_s=1.0), PlainAdapter())
    assert await read(streaming, "b", 3) == 3
    assert asked == []
    await assert_no_residue(control)


@pytest.mark.parametrize("looks", [[0, 3, 3, 3], [0, None, None, None]], ids=["no progress", "unknown"])
@on_virtual_time
async def test_only_a_call_that_gets_no_further_has_stalled(looks: list[int | None]) -> None:
    """The same number of tokens at every poll is a stall; an engine that reports no progress is not suspected."""
    known = iter(looks)

    class ProgressAdapter(Silent):
        last: int | None = None

        def tokens(self, engine: Any, request_id: str) -> int | None:
            self.last = next(known, self.last)
            return self.last

    engine, control = behind_a_gate(1, Whole(), ProgressAdapter())
    reading = asyncio.create_task(read(engine, "a", 20, timeouts=Timeouts(stall_s=4.0)))
    for step in range(1, 80):
        asyncio.get_running_loop().call_later(0.25 * step, control.activity.step, None, 1, [])
    (result,) = await asyncio.gather(reading, return_exceptions=True)
    assert (getattr(result, "reason", None) is Reason.STALL_TIMEOUT) == (looks[-1] is not None), result
    await assert_no_residue(control)


async def test_closing_from_a_thread_waits_for_the_running_requests(caplog: pytest.LogCaptureFixture) -> None:
    """New requests are refused at once; the thread goes on when the last has ended, with what is left of its time."""
    caplog.set_level(logging.INFO, "headway.admission.engine_link")
    engine, control = behind_a_gate(1, FakeEngine(step_s=0.01))
    slow = engine.generate("text", FakeParams(3), "slow")
    await anext(slow)
    closing = asyncio.create_task(asyncio.to_thread(control.gateway.link.close_from_any_thread, 600.0))
    while control.gateway.gate.desk.mode.state is not AdmissionState.DRAINING:  # noqa: ASYNC110 - the other thread rings no bell here
        await asyncio.sleep(0.01)
    with pytest.raises(Refused):
        await read(engine, "new")
    assert not (await asyncio.wait({closing}, timeout=0.3))[0]
    assert [len(one.tokens) async for one in slow] == [2, 3]
    left_s = await closing
    assert left_s is not None
    assert 0.0 < left_s < 600.0
    assert "requests that may still finish, within 600 s: 1" in caplog.text


async def test_closing_from_a_thread_waits_no_longer_than_its_time_out() -> None:
    """The time-out has passed; none at all was given, and nothing is waited for on the loop itself."""
    engine, control = behind_a_gate(1, FakeEngine(step_s=0.01))
    slow = engine.generate("text", FakeParams(3), "slow")
    await anext(slow)
    close = control.gateway.link.close_from_any_thread
    assert await asyncio.to_thread(close, 0.01) == 0.0
    assert await asyncio.to_thread(close, None) is None
    assert close(5.0) == 5.0
    assert control.gateway.gate.desk.ledger.in_flight == 1
    await slow.aclose()


@on_virtual_time
async def test_an_engine_that_is_back_can_be_lost_again() -> None:
    """Lost, back, lost: each time all requests are refused."""
    engine, control = behind_a_gate(1)
    for _ in range(2):
        reading = asyncio.create_task(read(engine, "a", 100))
        await asyncio.sleep(0.5)
        engine.die()
        with pytest.raises(Refused):
            await reading
        assert control.gateway.link.engine_lost
        engine.revive()
        control.gateway.link.engine_back()
        assert not control.gateway.link.engine_lost
    assert await read(engine, "b") == 3
    await assert_no_residue(control)
    assert outcomes(control) == {"engine_lost": 2, "completed": 1}
