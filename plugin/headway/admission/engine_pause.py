"""Is the engine paused or asleep?

An engine may be told so past us (vLLM's dev-mode routes, another API server, a program that calls its core), so its own
word alone decides: it is asked after each pause, resume, sleep and wake-up that goes through the policy client, and
with every question of the supervisor. The desk holds what it said (``Hold.ENGINE_PAUSED``, ``Hold.ENGINE_ASLEEP``),
apart from the holds of others. While a change is being made an older word does not count.
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
    """Carries the engine's word into the desk. Call it on the gate's loop only."""

    def __init__(self, gate: Gate) -> None:
        self.changes = 0
        self._gate = gate

    async def change(self, work: Awaitable[T], hold: Hold | None, look: Callable[[], Awaitable[None]]) -> T:
        """Have the engine paused, resumed or the like; raises what that raises. Nobody goes to it from the first moment
        of a change towards ``hold``; how it ended, ``look`` asks the engine itself."""
        self.changes += 1
        if hold is not None:
            self._gate.pause(hold)
        try:
            return await work
        finally:
            self.changes += 1
            await look()

    def said(self, holds: frozenset[Hold], changes: int) -> None:
        """The engine's word, asked for when there had been so many ``changes``."""
        if changes != self.changes:
            return
        before = self._gate.desk.holds & ENGINE_HOLDS
        for hold in holds - before:
            self._gate.pause(hold)
        for hold in before - holds:
            self._gate.resume(hold)
        if holds != before:
            log.info(
                "the engine is %s", " and ".join(_WORDS[one] for one in sorted(holds)) or "no longer paused or asleep"
            )

    def forget(self) -> None:
        """The engine is gone, and its pause with it: another one is not paused."""
        self.changes += 1
        self.said(frozenset(), self.changes)
