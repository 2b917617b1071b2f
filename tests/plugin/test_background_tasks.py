"""Background tasks of a server: one of a name at a time."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import now_s, on_virtual_time

from headway.background_tasks import TURN_S, BackgroundTasks, sleep_until_turn


@on_virtual_time
async def test_a_chore_takes_the_place_of_its_namesake(caplog: pytest.LogCaptureFixture) -> None:
    """One of a name at a time; a task that ends is dropped, and an error is logged and not lost."""
    tasks, ended = BackgroundTasks(), []

    async def work(name: str, *, fails: bool = False) -> None:
        await asyncio.sleep(10)
        ended.append(name)
        if fails:
            raise RuntimeError("no good")

    tasks.start("a", work("first"))
    tasks.start("a", work("second"))
    tasks.start("b", work("other", fails=True))
    await asyncio.sleep(5)
    assert "a" in tasks
    await asyncio.sleep(6)
    assert (ended, "a" in tasks, "b" in tasks) == (["second", "other"], False, False)
    assert "background task b ended with RuntimeError" in caplog.text


@on_virtual_time
async def test_loops_of_all_periods_wake_up_together() -> None:
    """At multiples of their periods, whenever they began and however long a round takes; none of these is left out."""
    woken: dict[float, list[float]] = {}

    async def loop(period_s: float) -> None:
        while True:
            await sleep_until_turn(period_s)
            woken.setdefault(period_s, []).append(now_s())
            await asyncio.sleep(0.3 * period_s)

    loops = []
    for period_s in (TURN_S, 1.0, 5.0):
        await asyncio.sleep(0.07)
        loops.append(asyncio.create_task(loop(period_s)))
    await asyncio.sleep(19.9)
    for one in loops:
        one.cancel()
    for period_s, times in woken.items():
        assert times == pytest.approx([period_s * (turn + 1) for turn in range(len(times))])
    assert {period_s: len(times) for period_s, times in woken.items()} == {TURN_S: 100, 1.0: 20, 5.0: 4}
