"""Isolation of the requests that were running when the engine crashed.

A crash ends all running requests, and its cause among them is unknown. All of them become suspects. They are retried
one at a time, before all other requests, so that a second crash has a single suspect. A request that was running at
two crashes in a row is not retried. A suspect is cleared when it ends, or has run for ``probation_s`` without a
crash; it then keeps running, and the next suspect is dispatched beside it if a seat is free.

If the engine dies while one suspect runs alone, that one is at fault and no other; else all that ran at both crashes.

Bound: with S suspects, other requests wait at most ``S * probation_s`` longer, plus the time in which cleared suspects
hold all seats.
"""

from __future__ import annotations


class CrashSuspects:
    """``suspects`` in the order of their retries; ``cleared_s``: when the one that runs alone is cleared."""

    def __init__(self) -> None:
        self.crashes = 0
        self.suspects: dict[int, None] = {}
        self.cleared_s: float | None = None
        self._alone: int | None = None

    def __len__(self) -> int:
        return len(self.suspects)

    def crash(self) -> int | None:
        """The engine died: returns the suspect that ran alone, which is at fault; None if none did."""
        self.crashes += 1
        alone, self._alone, self.cleared_s = self._alone, None, None
        return alone

    def suspect(self, ticket_id: int) -> None:
        """This ticket was running, and will be retried."""
        self.suspects[ticket_id] = None

    def next(self) -> int | None:
        """The suspect to retry now; None while another one runs alone."""
        return None if self._alone is not None else next(iter(self.suspects), None)

    def sent(self, ticket_id: int, cleared_s: float) -> None:
        """This suspect was dispatched alone; it is cleared at that time."""
        self._alone, self.cleared_s = ticket_id, cleared_s

    def drop(self, ticket_id: int) -> None:
        """This suspect ended, or was given up."""
        self.suspects.pop(ticket_id, None)
        if ticket_id == self._alone:
            self._alone = self.cleared_s = None

    def update(self, now_s: float) -> bool:
        """Clear the suspect that has run long enough. Returns whether one was cleared."""
        if self._alone is None or self.cleared_s is None or now_s < self.cleared_s:
            return False
        self.drop(self._alone)
        return True
