"""Background tasks of a server: one of a name at a time."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import on_virtual_time

from headway.background_tasks import BackgroundTasks


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
