"""Limits that an operator sets in place of the preset's: the one in force, and its end.

A command with an end is a trial: when its time is over the server itself puts back what was in force before, whatever
has become of the client. A command without one holds until the next switch. A trial may stand on a command without an
end, never the other way round: that one replaces the trial.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headway.background_tasks import BackgroundTasks
from headway_policies import Preset

TASK = "limit of an operator"


@dataclass(frozen=True, slots=True)
class OperatorLimit:
    """A command: the seats, the batch window where one was given, its author and reason.

    ``own`` is the preset without any command. ``back_to`` comes back when the command ends, and with it the command
    ``beneath``, if there was one. ``ends_s`` is a time of the gate's clock; None: the next switch ends it.
    """

    seats: int
    window_ms: float | None
    own: Preset
    back_to: Preset
    beneath: OperatorLimit | None = None
    ends_s: float | None = None
    actor: str = ""
    reason: str = ""

    @property
    def words(self) -> str:
        """The command in the audit log."""
        window = "" if self.window_ms is None else f", window {self.window_ms:g} ms"
        return f"{self.own.name}: {self.seats} seats{window}"

    def takes_over(self, other: OperatorLimit | None) -> bool:
        """Whether this command has another author, or another reason, than the command before it."""
        return other is not None and (self.actor, self.reason) != (other.actor, other.reason)


class OperatorLimits:
    """The command in force, and the task that ends it. Call it on the event loop's thread only."""

    def __init__(self, tasks: BackgroundTasks) -> None:
        self._tasks = tasks
        self.in_force: OperatorLimit | None = None

    def left_s(self, now_s: float) -> float | None:
        """How long the command in force still holds; None where nothing is set, or it has no end."""
        limit = self.in_force
        return None if limit is None or limit.ends_s is None else max(0.0, limit.ends_s - now_s)

    def next(self, seats: int, window_ms: float | None, current: Preset, ends_s: float | None) -> OperatorLimit:
        """The command, without an author yet, that would follow the one in force."""
        before = self.in_force
        own = current if before is None else before.own
        if ends_s is None:
            return OperatorLimit(seats, window_ms, own, own)
        if before is None or before.ends_s is None:
            return OperatorLimit(seats, window_ms, own, current, before, ends_s)
        return OperatorLimit(seats, window_ms, own, before.back_to, before.beneath, ends_s)

    def adopt(self, limit: OperatorLimit, now_s: float, end: Callable[[OperatorLimit], Awaitable[None]]) -> None:
        """Put a command in force; ``end`` is awaited when its time is over."""
        self.in_force = limit
        if limit.ends_s is None:
            self._tasks.stop(TASK)
        else:
            self._tasks.start(TASK, _after(limit.ends_s - now_s, limit, end))

    def leave(self, beneath: OperatorLimit | None = None) -> None:
        """Forget the command in force, for the one beneath it where that holds again."""
        self.in_force = beneath
        self._tasks.stop(TASK)

    def expire(self, limit: OperatorLimit) -> None:
        """The time of the command in force is over: the one beneath it holds again. Its task tells the engine."""
        self.in_force = limit.beneath


async def _after(delay_s: float, limit: OperatorLimit, end: Callable[[OperatorLimit], Awaitable[None]]) -> None:
    await asyncio.sleep(delay_s)
    await end(limit)
