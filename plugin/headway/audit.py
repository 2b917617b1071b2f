"""Who changed what, when?

The last changes and refused attempts, in memory for the admin API and as a log line each. Never a token, never a
prompt.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

log = logging.getLogger(__name__)

NO_ROLE = "none"
_KEPT = 500
_KEPT_STRANGERS = 50  # apart, so that nobody without a token can push out what operators did


@dataclass(frozen=True, slots=True)
class Who:
    """The person or program behind an action, as far as the server knows."""

    actor: str = "unknown"
    role: str = NO_ROLE
    address: str = "-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit."""

    time: str
    actor: str
    role: str
    address: str
    action: str
    before: str
    after: str
    revision: int
    reason: str
    result: str


class Audit:
    """The record of changes, newest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=_KEPT)
        self._strangers: deque[Entry] = deque(maxlen=_KEPT_STRANGERS)

    def record(
        self, who: Who, action: str, *, before: str, after: str, revision: int, reason: str, result: str
    ) -> None:
        """Write one line."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = Entry(time, who.actor, who.role, who.address, action, before, after, revision, reason, result)
        kept = self._entries if who.role != NO_ROLE else self._strangers
        kept.appendleft(entry)
        log.info(
            "audit: %s by %r (%s, %s): %r -> %r, revision %d, reason %r: %r",
            action, who.actor, who.role, who.address, before, after, revision, reason, result,
        )  # fmt: skip

    def entries(self, most: int) -> list[dict[str, Any]]:
        """The newest ``most`` lines."""
        merged = heapq.merge(self._entries, self._strangers, key=lambda entry: entry.time, reverse=True)
        return [asdict(entry) for entry in islice(merged, most)]
