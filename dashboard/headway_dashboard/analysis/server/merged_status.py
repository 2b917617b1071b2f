"""The status of several servers as one: counts are summed, and what differs between them is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway_dashboard.analysis.server.objectives import merged_objectives
from headway_dashboard.analysis.server.status import NO_LADDER, Status
from headway_policies.fallback import Rung

_RUNGS = tuple(rung.word for rung in Rung)


def merged_status(servers: Mapping[str, Status]) -> Status:
    """What holds for all servers that tell their status; that of a single one as it is.

    The ladder is that of the server on the worst rung. The engine, the warm-up, a trial, a held limit and the diagnosis
    are of one server: they are left out, so that the metrics of all servers speak in their place. A reason why no
    request is taken counts only where every server has one.
    """
    statuses = list(servers.values())
    if len(statuses) == 1:
        return statuses[0]
    known = [one for one in statuses if one.known]
    reasons = tuple(dict.fromkeys(reason for one in statuses for reason in one.reasons))
    reasons = reasons if statuses and all(one.reasons for one in statuses) else ()
    if not known:
        return Status(reasons=reasons, servers=servers)
    return Status(
        known=True,
        version=_same([one.version for one in known], ""),
        model=_same([one.model for one in known], ""),
        uptime_s=min((one.uptime_s for one in known if one.uptime_s is not None), default=None),
        reasons=reasons,
        seats_taken=sum(one.seats_taken for one in known),
        queued=sum(one.queued for one in known),
        preset=_same([one.preset for one in known], ""),
        limit_reason=_same([one.limit_reason for one in known], ""),
        admission=_same([one.admission for one in known], "open"),
        ladder=max((one.ladder for one in known), key=lambda one: _place(one.rung), default=NO_LADDER),
        strategy=_same([one.strategy for one in known], ""),
        adaptive=_same([one.adaptive for one in known], None),
        objectives=merged_objectives([one.objectives for one in known]),
        servers=servers,
    )


def _same(values: Sequence[Any], otherwise: Any) -> Any:
    """The value that all have, else another one."""
    return values[0] if all(one == values[0] for one in values) else otherwise


def _place(rung: str) -> int:
    return _RUNGS.index(rung) if rung in _RUNGS else -1
