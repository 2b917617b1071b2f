"""The readings of a server that is played by the test; what one of them says is tested in test_ray_signals.py."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from headway_fleet.reading import Reading, Readings, read

GOOD = 'headway_ready 1\nheadway_seats_taken 3\nheadway_limit{kind="live"} 8\nheadway_prefill_seconds_count 100\n'


def answering(*answers: str | Exception) -> Callable[[], Awaitable[str]]:
    """Scrapes with these answers, one after the other."""
    left = iter(answers)

    async def scrape() -> str:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return scrape


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        aiohttp.ServerDisconnectedError(),
        FileNotFoundError("the token"),
        UnicodeDecodeError("utf-8", b"", 0, 1, ""),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_scrape_that_fails_keeps_what_was_known_and_is_stale(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a server is not ready, its counts stand still, and the log says so once."""
    known = read(GOOD)
    readings = Readings(answering(GOOD, error, error, GOOD), fresh_s=1.0)
    assert await readings.newest(0.0) == known
    with caplog.at_level(logging.WARNING, logger="ray.serve"):
        for now_s in (1.0, 2.0):
            stale = await readings.newest(now_s)
            assert (stale.stale, stale.ready) == (True, False)
            assert (stale.seats, stale.running, stale.seated) == (8, 3, 100.0)
    assert [type(error).__name__ in one.getMessage() for one in caplog.records] == [True]
    assert await readings.newest(3.0) == known


async def test_a_server_that_has_never_answered_is_stale_and_has_nothing() -> None:
    """Nothing is made up for it."""
    assert await Readings(answering(TimeoutError()), fresh_s=1.0).newest(0.0) == Reading(stale=True)


async def test_one_scrape_is_under_way_at_a_time_and_a_fresh_one_is_not_asked_again() -> None:
    """Else a late answer would follow a newer one, and counts would seem to fall."""
    asked, answer = 0, asyncio.get_running_loop().create_future()

    async def scrape() -> str:
        nonlocal asked
        asked += 1
        return str(await answer)

    readings = Readings(scrape, fresh_s=1.0)
    first = asyncio.ensure_future(readings.newest(0.0))
    await asyncio.sleep(0)
    assert await readings.newest(5.0) == Reading()
    answer.set_result(GOOD)
    assert await first == read(GOOD) == await readings.newest(0.5)
    assert asked == 1
    assert await readings.newest(1.0) == read(GOOD)
    assert asked == 2


async def test_a_call_that_is_cancelled_leaves_the_next_one_free_to_ask() -> None:
    """As when Serve waits for an answer no longer."""
    hangs = True

    async def scrape() -> str:
        if hangs:
            await asyncio.get_running_loop().create_future()
        return GOOD

    readings = Readings(scrape, fresh_s=1.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await readings.newest(0.0)
    hangs = False
    assert await readings.newest(1.0) == read(GOOD)
