"""A bounded list of entries in which the same attempt is counted, so that repetitions push nothing out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from headway.api.schema import AuditEntry, AuditKind
from headway.audit.network import network_of


@dataclass(frozen=True, slots=True)
class Line:
    """An entry with its kind, and its place among all: clocks may stand still, or jump."""

    number: int
    kind: AuditKind
    entry: AuditEntry


class Attempts:
    """At most ``most`` attempts, the newest first; the same one again is counted, and the oldest gives way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: OrderedDict[AuditEntry, Line] = OrderedDict()

    def add(self, line: Line) -> Line:
        """Keep this attempt; returns its line with how often it was made. All addresses of a network are one."""
        key = line.entry.model_copy(update={"time": "", "address": network_of(line.entry.address)})
        before = self._lines.pop(key, None)
        if before is not None:
            line = Line(line.number, line.kind, line.entry.model_copy(update={"times": before.entry.times + 1}))
        self._lines[key] = line
        if len(self._lines) > self._most:
            self._lines.popitem(last=False)
        return line

    def __iter__(self) -> Iterator[Line]:
        return reversed(self._lines.values())
