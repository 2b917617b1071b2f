"""Who must run alone after a crash?

An engine that dies takes everything it ran with it and does not say whose fault it was. Those it ran are the suspects:
they go again one after another, before anybody else, so that a second crash has one suspect only. One that was running
at two crashes in a row is not sent a third time. A suspect is cleared when it ends, or has run ``probation_s`` without
harm; then it runs on, and the next one goes beside it if there is a seat.

When the engine dies while one runs alone, that one is to blame and nobody beside it; else all who were there twice are.

Bound: with S suspects everybody else waits at most ``S * probation_s`` longer, and while the cleared ones leave no
seat.
"""

from __future__ import annotations


class CrashSuspects:
    """``suspects`` in the order in which they go, and ``cleared_s``, when the one that runs alone is cleared."""

    def __init__(self) -> None:
        self.crashes = 0
        self.suspects: dict[int, None] = {}
        self.cleared_s: float | None = None
        self._alone: int | None = None

    def __len__(self) -> int:
        return len(self.suspects)

    def crash(self) -> int | None:
        """The engine died; whoever ran alone is to blame."""
        self.crashes += 1
        alone, self._alone, self.cleared_s = self._alone, None, None
        return alone

    def suspect(self, ticket_id: int) -> None:
        """This one was running, and will go again."""
        self.suspects[ticket_id] = None

    def next(self) -> int | None:
        """Whose turn it is; nobody's while another one runs alone."""
        return None if self._alone is not None else next(iter(self.suspects), None)

    def sent(self, ticket_id: int, cleared_s: float) -> None:
        """It runs alone, and is cleared at that time."""
        self._alone, self.cleared_s = ticket_id, cleared_s

    def drop(self, ticket_id: int) -> None:
        """It ended, or was given up."""
        self.suspects.pop(ticket_id, None)
        if ticket_id == self._alone:
            self._alone = self.cleared_s = None

    def update(self, now_s: float) -> bool:
        """Clear whoever has run long enough. Whether anybody was."""
        if self._alone is None or self.cleared_s is None or now_s < self.cleared_s:
            return False
        self.drop(self._alone)
        return True
