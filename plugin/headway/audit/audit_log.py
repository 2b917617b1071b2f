"""The audit in memory, for the admin API; each entry is a line of the log and of the audit file too.

A client's words are kept short and without control characters. Each kind of entry has places of its own, so that
refused attempts and commands that change nothing push out no change; attempts without a token have places of their own
among the refused ones, and a file of their own. An attempt that is repeated is counted in its entry; it is written
again when the count has doubled.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Iterable

from headway.api.schema import AuditEntry, AuditKind
from headway.audit.attempts import Attempts, Line
from headway.audit.audit_file import AuditFile
from headway.audit.caller import NO_ROLE, Caller
from headway.utc_text import utc_text
from headway_policies import Desk

log = logging.getLogger("headway.audit")

MAX_CHANGES = 500
#: Of commands that were read and then refused, and of attempts that were refused before: so many of each.
MAX_REFUSED = 100
MAX_STRANGERS = 50
MAX_NO_OPS = 100
#: Characters of any one field that are kept and logged.
MAX_CHARS = 400

_REFUSED = "refused"
_LISTED = frozenset(AuditKind) - {AuditKind.NOOP}


class Audit:
    """The record of changes, newest first. Call it on one thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._file: AuditFile | None = None
        self._strangers_file: AuditFile | None = None
        self._recorded = 0
        self._changes: deque[Line] = deque(maxlen=MAX_CHANGES)
        self._refused_commands: deque[Line] = deque(maxlen=MAX_REFUSED)
        self._refused = Attempts(MAX_REFUSED)
        self._strangers = Attempts(MAX_STRANGERS)
        self._no_ops = Attempts(MAX_NO_OPS)

    def write_to(self, file: AuditFile | None) -> None:
        """Write every entry from now on to this file as well, those of strangers to one beside it; None: to none."""
        self._file, self._strangers_file = file, None if file is None else file.of_strangers()

    @property
    def lost(self) -> int:
        """The number of lines that could not be written to the files."""
        return sum(file.lost for file in (self._file, self._strangers_file) if file is not None)

    @property
    def recorded(self) -> int:
        """The number of recorded changes and refused commands; a command that leaves it alone has changed nothing."""
        return self._recorded

    def record(
        self, caller: Caller, action: str, *, before: str, after: str, revision: int, reason: str, result: str
    ) -> None:
        """Record a change, or a command that was refused once it had been read: its result begins with "refused"."""
        entry = _entry(caller, action, before, after, revision, reason, result)
        refused = result.startswith(_REFUSED)
        line = Line(next(self._numbers), AuditKind.REFUSED if refused else AuditKind.CHANGE, entry)
        (self._refused_commands if refused else self._changes).appendleft(line)
        self._recorded += 1
        self._write(line, caller, self._file)

    def command(self, caller: Caller, action: str, desk: Desk, reason: str, result: str) -> None:
        """Record a command to the engine, under the preset in force."""
        name, revision = desk.preset.name, desk.mode.revision
        self.record(caller, action, before=name, after=name, revision=revision, reason=reason, result=result)

    def refuse(self, caller: Caller, action: str, why: str, *, preset: str, revision: int) -> None:
        """Record an attempt that was refused before it was read; ``action`` begins with the method."""
        kind = AuditKind.READ if action.startswith(("GET ", "HEAD ")) else AuditKind.REFUSED
        entry = _entry(caller, action, preset, preset, revision, "", f"{_REFUSED}: {why}")
        known = caller.role != NO_ROLE
        file = self._file if known else self._strangers_file
        self._count(self._refused if known else self._strangers, kind, entry, caller, file)

    def no_op(self, caller: Caller, action: str, result: str, *, preset: str, revision: int, reason: str = "") -> None:
        """Record a command that was carried out and changed nothing."""
        entry = _entry(caller, action, preset, preset, revision, reason, result)
        self._count(self._no_ops, AuditKind.NOOP, entry, caller, self._file)

    def entries(self, most: int, kind: AuditKind | None = None) -> list[AuditEntry]:
        """The newest ``most`` entries of one kind; None: of all but those that changed nothing."""
        rings: tuple[Iterable[Line], ...] = (
            self._changes, self._refused_commands, self._refused, self._strangers, self._no_ops,
        )  # fmt: skip
        wanted = _LISTED if kind is None else frozenset({kind})
        merged = heapq.merge(*rings, key=lambda line: line.number, reverse=True)
        return list(itertools.islice((line.entry for line in merged if line.kind in wanted), most))

    # ------------------------------------------------------------------ inside

    def _count(
        self, kept: Attempts, kind: AuditKind, entry: AuditEntry, caller: Caller, file: AuditFile | None
    ) -> None:
        line = kept.add(Line(next(self._numbers), kind, entry))
        if line.entry.times.bit_count() == 1:  # 1, 2, 4, 8, ...
            self._write(line, caller, file)

    def _write(self, line: Line, caller: Caller, file: AuditFile | None) -> None:
        _log(line.entry)
        if file is not None:
            file.write({"kind": line.kind.value, "token": caller.token_id, **line.entry.model_dump()})


def _entry(caller: Caller, action: str, before: str, after: str, revision: int, reason: str, result: str) -> AuditEntry:
    written = utc_text(time.time(), "milliseconds")
    actor, role, address, action, before, after, reason, result = map(
        plain, (caller.actor, caller.role, caller.address, action, before, after, reason, result)
    )
    return AuditEntry(
        time=written,
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
    return kept if kept.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in kept)


def _log(entry: AuditEntry) -> None:
    log.info(
        "audit: %s by %r (%s, %s): %r -> %r, revision %d, reason %r, result %r, times %d",
        entry.action, entry.actor, entry.role, entry.address, entry.before, entry.after, entry.revision, entry.reason,
        entry.result, entry.times,
    )  # fmt: skip
