"""Steady traffic on a gate: one request after the other, each of which holds its seat for the same time."""

from __future__ import annotations

import asyncio

from headway.admission import Gate
from headway.errors import Refused
from headway_policies import Ending


async def steady_traffic(gate: Gate, per_s: float, hold_s: float, for_s: float, class_name: str = "normal") -> None:
    """So many requests a second for so long; by Little's law they fill ``per_s * hold_s`` seats."""
    calls = set[asyncio.Task[None]]()
    until_s = gate.now_s() + for_s
    while gate.now_s() < until_s:
        calls.add(asyncio.create_task(_request(gate, hold_s, class_name)))
        await asyncio.sleep(1.0 / per_s)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def _request(gate: Gate, hold_s: float, class_name: str) -> None:
    try:
        permit = gate.enter(class_name)
    except Refused:
        return
    ending = Ending.CANCELLED
    try:
        await permit.admitted()
        permit.first_token()
        await asyncio.sleep(hold_s)
        ending = Ending.COMPLETED
    except Refused:
        ending = Ending.FAILED
    finally:
        permit.leave(ending)
