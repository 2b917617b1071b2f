"""The pause of the engine: whether it is paused or asleep, as it says itself.

An engine can be paused without Headway (vLLM's dev-mode routes, another API server, a program that calls its core), so
only its own answer counts: it is asked after each pause, resume, sleep and wake-up that goes through the policy client,
and with every ping of the supervisor. The desk has the answer as ``Hold.ENGINE_PAUSED`` and ``Hold.ENGINE_ASLEEP``,
apart from other holds. An answer to a query that is older than the last change is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headway.admission.gate import Gate
from headway_policies import Hold
from headway_policies.desk import ENGINE_HOLDS

log = logging.getLogger(__name__)

T = TypeVar("T")

_WORDS = {Hold.ENGINE_PAUSED: "paused", Hold.ENGINE_ASLEEP: "asleep"}


class EnginePause:
    """Carries the engine's answers into the desk. Call it on the gate's loop only."""

    def __init__(self, gate: Gate) -> None:
        self.changes = 0
        self._gate = gate
        self._beginning: set[Hold | None] = set()  # of changes that are under way

    async def change(self, work: Awaitable[T], hold: Hold | None, update: Callable[[], Awaitable[None]]) -> T:
        """Have the engine paused, resumed or the like; raises what that raises. A change towards ``hold`` suspends
        dispatch from its beginning; ``update`` asks the engine how it ended."""
        self.changes += 1
        if hold is None:
            self._beginning.clear()
        else:
            self._beginning.add(hold)
            self._gate.pause(hold)
        try:
            return await work
        finally:
            self._beginning.discard(hold)
            self.changes += 1
            await update()

    def said(self, holds: frozenset[Hold], changes: int) -> None:
        """The engine's answer to a query that was sent after so many ``changes``.

        An engine that lets its running requests finish first is not paused yet, and takes no new ones all the same.
        """
        if changes != self.changes:
            return
        before = self._gate.desk.mode.holds & ENGINE_HOLDS
        holds |= before & self._beginning
        for hold in holds - before:
            self._gate.pause(hold)
        for hold in before - holds:
            self._gate.resume(hold)
        if holds != before:
            log.info(
                "the engine is %s", " and ".join(_WORDS[hold] for hold in sorted(holds)) or "no longer paused or asleep"
            )

    def forget(self) -> None:
        """The engine died: another one is not paused."""
        self.changes += 1
        self.said(frozenset(), self.changes)
