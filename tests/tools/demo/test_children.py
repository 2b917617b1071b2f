"""Supervision of real processes: whatever they do, none remains."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from headway_tools.demo.children import Child, Family

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
WAIT = "print('up', flush=True); import time; time.sleep(600)"
SPAWN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {code!r}]); "


class Nursery:
    """Starts small Python programs as children of a family."""

    def __init__(self, folder: Path) -> None:
        self.family = Family()
        self._folder = folder

    async def start(self, code: str, lines: int = 1) -> Child:
        """Start one and wait until it and its own children have reported that they are up."""
        name = f"child{len(self.family.children)}"
        child = self.family.start(name, [sys.executable, "-c", code], os.environ, self._folder / name)
        until_s = time.monotonic() + 20
        while len(child.output()) < lines and child.exit_code is None:
            assert time.monotonic() < until_s
            await asyncio.sleep(0.02)
        return child


@pytest.fixture
async def nursery(tmp_path: Path) -> AsyncIterator[Nursery]:
    """A family that is ended whatever happens."""
    one = Nursery(tmp_path)
    yield one
    one.family.hurry()
    assert await one.family.stop(0.0) == []


def tree(child: Child) -> list[psutil.Process]:
    process = psutil.Process(child.process.pid)
    return [process, *process.children(recursive=True)]


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


async def test_children_that_listen_end_at_once(nursery: Nursery) -> None:
    """SIGTERM is enough; the grace period is not used up."""
    processes = [one for _ in range(2) for one in tree(await nursery.start(WAIT))]
    async with asyncio.timeout(300):
        assert await nursery.family.stop(3000.0) == []
    assert running(processes) == []
    assert {child.exit_code for child in nursery.family.children} == {-15}


async def test_a_grandchild_that_ignores_sigterm_is_killed(nursery: Nursery) -> None:
    """Its parent has exited, so its parent is init by then."""
    child = await nursery.start(SPAWN.format(code=DEAF + WAIT) + WAIT, lines=2)
    processes = tree(child)
    assert len(processes) == 2
    nursery.family.hurry()
    assert await nursery.family.stop(0.0) == []
    assert running(processes) == []


@pytest.mark.slow
async def test_a_grandchild_in_a_session_of_its_own_is_found(nursery: Nursery) -> None:
    """The grandchild was seen below its parent once, which is enough."""
    code = "import os; os.setsid(); " + WAIT
    child = await nursery.start(SPAWN.format(code=code) + WAIT, lines=2)
    processes = tree(child)
    assert await nursery.family.stop(5.0) == []
    assert len(processes) == 2
    assert running(processes) == []


@pytest.mark.slow
async def test_children_of_a_dead_child_are_ended(nursery: Nursery) -> None:
    """An orphan stays in its session and is found there."""
    child = await nursery.start(SPAWN.format(code=WAIT) + "import time; time.sleep(0.5); print('bye')", lines=1)
    processes = tree(child)
    assert await nursery.family.first_exit() is child
    assert len(running(processes)) == 1
    assert await nursery.family.stop(1.0) == []
    assert running(processes) == []


async def test_the_first_to_end_is_reported_with_its_output(nursery: Nursery) -> None:
    """Exit code and lines of both streams, without empty lines."""
    await nursery.start(WAIT)
    ending = await nursery.start("import sys; print('one\\n\\ntwo', file=sys.stderr); sys.exit(7)")
    ended = await asyncio.wait_for(nursery.family.first_exit(), 20)
    assert ended is ending
    assert (ended.name, ended.exit_code, ended.output()) == ("child1", 7, ["one", "two"])


async def test_a_stop_without_children_is_nothing(nursery: Nursery) -> None:
    """Nothing was started, nothing remains."""
    assert await nursery.family.stop(1.0) == []
