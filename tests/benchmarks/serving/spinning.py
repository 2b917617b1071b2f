"""A block with two processes beside it that only burn processor time: what a machine does that is shared for a while.

They run while the block counts. Its lead is the time before them and its tail the time after them; each of the three is
judged by itself, the last one from ``RECOVERY_S`` after their end on. What arrives then is what arrived before, request
by request: forty seconds of one load differ by more than a spell may leave behind. Each process also ends by itself,
should nobody end it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from headway_simulator.traffic.workload import Request
from serving.form import SPINNING, Span

PROCESSES = 2
RECOVERY_S = 10.0
BEFORE, DURING, AFTER = (f"{SPINNING}, {when}" for when in ("before", "during", "after"))
_SETTLE_S, _TAIL_S = 8.0, 10.0  # of the block: until its limit is learnt, and until what was counted has ended
_SPIN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


def spells(workload: str, span: Span) -> Mapping[str, tuple[float, float]]:
    """What is counted of a block, in seconds from its begin, by the workload's name in the results."""
    from_s, to_s = span.lead_s, span.lead_s + span.count_s
    if workload != SPINNING:
        return {workload: (from_s, to_s)}
    return {BEFORE: (_SETTLE_S, from_s), DURING: (from_s, to_s), AFTER: (to_s + RECOVERY_S, span.block_s - _TAIL_S)}


def repeated(requests: Sequence[Request], span: Span) -> list[Request]:
    """The requests of a block, those that are counted after the processes replaced by those counted before them."""
    after_s = span.lead_s + span.count_s + RECOVERY_S - _SETTLE_S
    again = [one._replace(at_s=one.at_s + after_s) for one in requests if one.at_s < span.block_s - after_s]
    return [*(request for request in requests if request.at_s < after_s), *again]


@asynccontextmanager
async def beside(workload: str, span: Span) -> AsyncIterator[None]:
    """Let the processes run in their part of the block that begins now; none for any other workload."""
    if workload != SPINNING:
        yield
        return
    task = asyncio.create_task(spin(span.lead_s, span.count_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def spin(after_s: float, length_s: float) -> None:
    """Start the processes after a while, and end them by their ids."""
    await asyncio.sleep(after_s)
    command = (sys.executable, "-c", _SPIN, f"{length_s:g}")
    processes = [await asyncio.create_subprocess_exec(*command) for _ in range(PROCESSES)]
    try:
        await asyncio.sleep(length_s)
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                process.kill()
