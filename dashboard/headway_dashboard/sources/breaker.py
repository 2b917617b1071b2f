"""When to stop asking a target that does not answer?

Closed: ask. After ``failures`` in a row it opens: nobody asks for ``open_s``; then one trial decides.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Breaker:
    """Counts failures in a row. Its owner serialises the calls and tells it the time."""

    failures: int = 2
    open_s: float = 10.0
    in_a_row: int = 0
    opened_s: float | None = None

    def allows(self, now_s: float) -> bool:
        """Whether to ask now. After ``open_s`` a trial is allowed; its outcome closes or opens again."""
        return self.opened_s is None or now_s - self.opened_s >= self.open_s

    def succeeded(self) -> None:
        """An answer came."""
        self.in_a_row, self.opened_s = 0, None

    def failed(self, now_s: float) -> None:
        """No answer came."""
        self.in_a_row += 1
        if self.in_a_row >= self.failures:
            self.opened_s = now_s
