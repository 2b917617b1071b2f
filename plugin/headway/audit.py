"""Audit of changes and refused attempts.

The last ones are in memory for the admin API, and each is a log line. Never a token, never a prompt.

What a client wrote is kept short and without control characters. Refused attempts have places of their own, so that
they push out nothing that was changed, and those without a token have places of their own among them. An attempt that
is repeated is counted in its line; it is logged again when the count has doubled.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from headway.api.schema import AuditEntry

log = logging.getLogger(__name__)

NO_ROLE = "none"
MAX_CHANGES = 500
MAX_REFUSED = 100
MAX_STRANGERS = 50
#: Characters of any one field that are kept and logged.
MAX_CHARS = 400


@dataclass(frozen=True, slots=True)
class Caller:
    """The person or program behind an action, as far as the server knows."""

    actor: str = "unknown"
    role: str = NO_ROLE
    address: str = "-"


#: An entry with its place among all: clocks may stand still, or jump.
Numbered = tuple[int, AuditEntry]


class _Attempts:
    """Refused attempts, the newest first; the same one again is counted, and the oldest gives way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[AuditEntry, Numbered] = OrderedDict()

    def add(self, number: int, entry: AuditEntry) -> AuditEntry:
        """The entry of this attempt, with how often it was made."""
        key = entry.model_copy(update={"time": ""})
        before = self._entries.pop(key, None)
        counted = entry if before is None else entry.model_copy(update={"times": before[1].times + 1})
        self._entries[key] = number, counted
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return counted

    def __iter__(self) -> Iterator[Numbered]:
        return reversed(self._entries.values())


class Audit:
    """The record of changes, newest first."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._changes: deque[Numbered] = deque(maxlen=MAX_CHANGES)
        self._refused = _Attempts(MAX_REFUSED)
        self._strangers = _Attempts(MAX_STRANGERS)

    def record(
        self, caller: Caller, action: str, *, before: str, after: str, revision: int, reason: str, result: str
    ) -> None:
        """Record a change, or one that was refused once it had been read."""
        entry = _entry(caller, action, before, after, revision, reason, result)
        self._changes.appendleft((next(self._numbers), entry))
        _log(entry)

    def refuse(self, caller: Caller, action: str, why: str, *, preset: str, revision: int) -> None:
        """Record an attempt that was refused before it was read."""
        kept = self._refused if caller.role != NO_ROLE else self._strangers
        entry = kept.add(next(self._numbers), _entry(caller, action, preset, preset, revision, "", f"refused: {why}"))
        if entry.times.bit_count() == 1:  # 1, 2, 4, 8, ...
            _log(entry)

    def entries(self, most: int) -> list[AuditEntry]:
        """The newest ``most`` entries."""
        rings: tuple[Iterable[Numbered], ...] = (self._changes, self._refused, self._strangers)
        merged = heapq.merge(*rings, key=lambda numbered: numbered[0], reverse=True)
        return [entry for _, entry in itertools.islice(merged, most)]


def _entry(caller: Caller, action: str, before: str, after: str, revision: int, reason: str, result: str) -> AuditEntry:
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    actor, role, address, action, before, after, reason, result = map(
        plain, (caller.actor, caller.role, caller.address, action, before, after, reason, result)
    )
    return AuditEntry(
        time=time,
        actor=actor,
        role=role,
        address=address,
        action=action,
        before=before,
        after=after,
        revision=revision,
        reason=reason,
        result=result,
    )


def plain(text: str) -> str:
    """The beginning of a text of a client, with terminal control characters written as escapes."""
    kept = text[:MAX_CHARS]
    return kept if kept.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in kept)


def _log(entry: AuditEntry) -> None:
    log.info(
        "audit: %s by %r (%s, %s): %r -> %r, revision %d, reason %r, result %r, times %d",
        entry.action, entry.actor, entry.role, entry.address, entry.before, entry.after, entry.revision, entry.reason,
        entry.result, entry.times,
    )  # fmt: skip
