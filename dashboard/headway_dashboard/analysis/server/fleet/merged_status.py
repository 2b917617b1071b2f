"""The status of several servers as one: counts are summed, and what differs between them is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.api.schema import Silence
from headway_dashboard.analysis.server.objectives import merged_objectives
from headway_dashboard.analysis.server.status import NO_LADDER, Status
from headway_policies.fallback import Rung

_RUNGS = tuple(rung.word for rung in Rung)


def merged_status(servers: Mapping[str, Status]) -> Status:
    """The common status of all servers that report a status; a single server's status is unchanged.

    The ladder is that of the server on the worst rung. The engine, the warm-up, a trial, a held limit and the diagnosis
    are of one server: they are left out, so that the metrics of all servers speak in their place. A reason why no
    request is taken, or a silence, counts only where every server has one.
    """
    statuses = list(servers.values())
    if len(statuses) == 1:
        return statuses[0]
    known = [status for status in statuses if status.known]
    reasons = tuple(dict.fromkeys(reason for status in statuses for reason in status.reasons))
    reasons = reasons if statuses and all(status.reasons for status in statuses) else ()
    if not known:
        return Status(reasons=reasons, servers=servers)
    return Status(
        known=True,
        version=_same([status.version for status in known], ""),
        model=_same([status.model for status in known], ""),
        uptime_s=min((status.uptime_s for status in known if status.uptime_s is not None), default=None),
        reasons=reasons,
        seats_taken=sum(status.seats_taken for status in known),
        queued=sum(status.queued for status in known),
        preset=_same([status.preset for status in known], ""),
        limit_reason=_same([status.limit_reason for status in known], ""),
        admission=_admission([status.admission for status in known]),
        blocks=tuple(block for block in known[0].blocks if all(block in status.blocks for status in known)),
        silences=_silent_everywhere(known),
        ladder=max((status.ladder for status in known), key=lambda ladder: _place(ladder.rung), default=NO_LADDER),
        strategy=_same([status.strategy for status in known], ""),
        adaptive=_same([status.adaptive for status in known], None),
        objectives=merged_objectives([status.objectives for status in known]),
        batches=tuple(batch for status in known for batch in status.batches),
        servers=servers,
    )


def _admission(states: Sequence[str]) -> str:
    """Open where any server is; else the state of the first."""
    return "open" if "open" in states else states[0]


def _silent_everywhere(statuses: Sequence[Status]) -> tuple[Silence, ...]:
    """The silences of the alerts that every server has silenced, each with the end that comes first."""
    by_alert: dict[str, list[Silence]] = {}
    for silence in sorted(
        (silence for status in statuses for silence in status.silences), key=lambda found: found.ends
    ):
        by_alert.setdefault(silence.alert, []).append(silence)
    return tuple(found[0] for found in by_alert.values() if len(found) == len(statuses))


def _same(values: Sequence[Any], otherwise: Any) -> Any:
    """The value that all have, else another one."""
    return values[0] if all(value == values[0] for value in values) else otherwise


def _place(rung: str) -> int:
    return _RUNGS.index(rung) if rung in _RUNGS else -1
