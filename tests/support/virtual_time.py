"""Tests in virtual time: the loop's clock jumps to the next timer as soon as no task is ready."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import looptime

P = ParamSpec("P")


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop whose clock starts at 0 and moves after one idle cycle; looptime's own 42 cycles are for plain threads."""
    return looptime.new_event_loop(start=0, noop_cycles=1)


def now_s() -> float:
    """The time of the loop that runs."""
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def on_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a loop of its own whose clock starts at 0 and costs nothing to wait for."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(*args, **kwargs))

    return run
