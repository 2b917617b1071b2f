"""The lag of the event loop, measured five times a second.

The timer's own call-back measures, and not a task: when a process goes on, this call-back runs before all that was due
later. So no time-out is settled before it is known that the process stood still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.background_tasks import TURN_S, next_turn_s

EVERY_S = TURN_S


async def watch_loop(report: Callable[[float], None]) -> None:
    """Report the lag of each measurement in seconds, until cancelled."""
    loop = asyncio.get_running_loop()
    handle: asyncio.TimerHandle | None = None

    def look(due_s: float) -> None:
        report(loop.time() - due_s)
        look_later()

    def look_later() -> None:
        nonlocal handle
        due_s = next_turn_s(EVERY_S)
        handle = loop.call_at(due_s, look, due_s)

    look_later()
    try:
        await asyncio.Event().wait()
    finally:
        if handle is not None:
            handle.cancel()
