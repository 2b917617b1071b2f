"""The last changes of a server: commands by its audit log, with who gave them and why, and the states of its engine.

A server that does not show its audit log has its preset switches in the metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timezone

from headway.api.schema import AuditEntry
from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.changes.audit_rows import refused, zone_words
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server import switches
from headway_dashboard.analysis.server.status import Status

EXPRESSIONS: tuple[Expression, ...] = switches.EXPRESSIONS
MOST = 8
#: Results that say nothing more.
_DONE = ("applied", "accepted")
_FORM = "%Y-%m-%d %H:%M:%S"

#: The time of a change, what it was, by whom, why, and of which server.
Change = tuple[float, str, str, str, str]


def change_rows(history: SourceReading, status: Status, zone: timezone = UTC) -> list[dict[str, str]]:
    """The last changes up to the end of a reading, the newest first, on the clock of a zone."""
    told = dict(_servers(status))
    found = [change for name, entries in told.items() for change in _commands(entries, name)]
    found += [
        (mark.time_s, f"Preset {mark.label}", "", "", mark.of)
        for mark in switches.switches(history)
        if mark.of not in told and not ("" in told and not mark.of)
    ]
    found += [
        (mark.time_s, f"{mark.label[:1].upper()}{mark.label[1:]}", "", "", mark.of)
        for mark in switches.engine_onsets(history, palette.ENGINE_WORDS)
    ]
    newest = sorted((change for change in found if change[0] <= history.end_s), reverse=True)[:MOST]
    several = len(status.servers) > 1 or any(change[4] for change in newest)
    return [
        {f"When ({zone_words(zone)})": datetime.fromtimestamp(time_s, zone).strftime(_FORM)}
        | ({"Server": server} if several else {})
        | {"Change": what, "By": actor, "Reason": reason}
        for time_s, what, actor, reason, server in newest
    ]


def _servers(status: Status) -> Iterator[tuple[str, tuple[AuditEntry, ...]]]:
    """The audit entries of each server that shows them; the name of the only one is empty."""
    each: Mapping[str, Status] = status.servers or {"": status}
    for name, own in each.items():
        if own.changes is not None:
            yield name, own.changes


def _commands(entries: tuple[AuditEntry, ...], server: str) -> Iterator[Change]:
    for entry in entries:
        if refused(entry):
            continue
        try:
            time_s = datetime.fromisoformat(entry.time).timestamp()
        except ValueError:
            continue
        named = entry.action.replace("_", " ")
        steps = " → ".join(dict.fromkeys(text for text in (entry.before, entry.after) if text))
        why = entry.reason or ("" if entry.result in _DONE else entry.result)
        yield time_s, f"{named[:1].upper()}{named[1:]}: {steps}", entry.actor or entry.role, why, server
