"""The pause of the engine: whether it reports that it is paused or asleep.

An engine can be paused without Headway (vLLM's dev-mode routes, another API server, a program that calls its core), so
only its own answer counts: it is asked after each pause, resume, sleep and wake-up that goes through the policy client,
and with every ping of the supervisor. The desk has the answer as ``Block.ENGINE_PAUSED`` and ``Block.ENGINE_ASLEEP``,
apart from other blocks. An answer to a query that is older than the last change is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headway.admission.gate import Gate
from headway_policies import Block
from headway_policies.desk import ENGINE_BLOCKS

log = logging.getLogger(__name__)

T = TypeVar("T")

_WORDS = {Block.ENGINE_PAUSED: "paused", Block.ENGINE_ASLEEP: "asleep"}


class EnginePause:
    """The link from the engine's answers to the desk, used on the gate's loop only."""

    def __init__(self, gate: Gate) -> None:
        self.changes = 0
        self._gate = gate
        self._beginning: set[Block | None] = set()  # of changes that are under way

    @property
    def known(self) -> bool:
        """Whether the engine is paused or asleep, or becomes so, by its last answer."""
        return bool(self._gate.desk.mode.blocks & ENGINE_BLOCKS)

    async def change(self, work: Awaitable[T], block: Block | None, update: Callable[[], Awaitable[None]]) -> T:
        """Have the engine paused, resumed or the like; raises what that raises. A change towards ``block`` suspends
        dispatch from its beginning; ``update`` asks the engine how it ended."""
        self.changes += 1
        if block is None:
            self._beginning.clear()
        else:
            self._beginning.add(block)
            self._gate.pause(block)
        try:
            return await work
        finally:
            self._beginning.discard(block)
            self.changes += 1
            await update()

    def said(self, blocks: frozenset[Block], changes: int) -> None:
        """Apply the engine's answer to a query that was sent after this number of ``changes``.

        An engine that lets its running requests finish first is not paused yet, and takes no new ones all the same.
        """
        if changes != self.changes:
            return
        before = self._gate.desk.mode.blocks & ENGINE_BLOCKS
        blocks |= before & self._beginning
        for block in blocks - before:
            self._gate.pause(block)
        for block in before - blocks:
            self._gate.resume(block)
        if blocks != before:
            log.info(
                "the engine is %s",
                " and ".join(_WORDS[block] for block in sorted(blocks)) or "no longer paused or asleep",
            )

    def forget(self) -> None:
        """The engine died: another one is not paused."""
        self.changes += 1
        self.said(frozenset(), self.changes)
