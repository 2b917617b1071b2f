"""The audit log as a table and as CSV: filtered, searched, and on the reader's own clock, as the charts are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Literal

from headway.api.schema import AuditEntry

Shown = Literal["all", "changes", "refused"]
SHOWN: tuple[Shown, ...] = ("all", "changes", "refused")
_FIELDS = ("time", "actor", "role", "address", "action", "before", "after", "revision", "reason", "result", "times")
#: A cell that begins so is a formula for a spreadsheet; clients wrote some of these texts.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def zone_of(offset_min: int | None) -> timezone:
    """The zone of a browser by ``Date.getTimezoneOffset``, minutes behind UTC; UTC where it is not known."""
    if offset_min is None or abs(offset_min) >= 24 * 60:
        return UTC
    return timezone(timedelta(minutes=-offset_min)) if offset_min else UTC


def zone_words(zone: timezone) -> str:
    """A zone as it stands in a heading: UTC, or its offset."""
    return zone.tzname(None)


def clock(time: str, zone: tzinfo) -> str:
    """A time of the server, ISO 8601 in UTC, on the clock of a zone; unreadable ones as they are."""
    try:
        read = datetime.fromisoformat(time)
    except ValueError:
        return time
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def refused(entry: AuditEntry) -> bool:
    """Whether nothing was changed, because the server refused it."""
    return entry.result.startswith("refused")


def chosen(entries: Iterable[AuditEntry], shown: Shown = "all", search: str = "") -> list[AuditEntry]:
    """The entries of one kind in which every word of ``search`` stands, in any column."""
    words = search.lower().split()
    kinds = {"all": (True, False), "changes": (False,), "refused": (True,)}[shown]
    return [entry for entry in entries if refused(entry) in kinds and all(word in _text(entry) for word in words)]


def _text(entry: AuditEntry) -> str:
    text = " ".join(str(getattr(entry, field)) for field in _FIELDS).lower()
    return f"{text} {text.replace('_', ' ')}"


def audit_rows(entries: Sequence[AuditEntry], zone: timezone) -> list[dict[str, str]]:
    """A table row for each entry."""
    when = f"When ({zone_words(zone)})"
    return [
        {
            when: clock(entry.time, zone),
            "Actor": entry.actor or entry.role,
            "Role": entry.role,
            "Address": entry.address,
            "Action": entry.action.replace("_", " "),
            "Before": entry.before,
            "After": entry.after,
            "Revision": str(entry.revision),
            "Reason": entry.reason,
            "Result": entry.result + (f" ({entry.times} times)" if entry.times > 1 else ""),
        }
        for entry in entries
    ]


def audit_csv(entries: Iterable[AuditEntry]) -> str:
    """The entries as CSV, with the server's own times in UTC. No cell is a formula."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(_FIELDS)
    for entry in entries:
        rows.writerow([formula_free(str(getattr(entry, field))) for field in _FIELDS])
    return out.getvalue()


def formula_free(text: str) -> str:
    """A cell that a spreadsheet takes for a text, not for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def revisions(entries: Iterable[AuditEntry], current: int) -> dict[int, str]:
    """The earlier revisions that the log names, the newest first, with the preset of each.

    A limit that was set by hand does not come back with its revision: the preset's own does.
    """
    found: dict[int, str] = {}
    for entry in entries:
        if refused(entry) or entry.action not in ("switch_preset", "order_limit") or entry.revision >= current:
            continue
        preset = entry.after.partition(": ")[0]
        limited = entry.action == "order_limit" and preset != entry.after
        found.setdefault(entry.revision, f"{preset}, with its own limit" if limited else entry.after)
    return dict(sorted(found.items(), reverse=True))
