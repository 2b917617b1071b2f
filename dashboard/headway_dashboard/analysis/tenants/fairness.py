"""The use of each tenant in a range of time, compared with a fair share of the whole use.

share       of the tokens of all tenants
entitled    the tenant's weight (its share in the keys file, else 1) over the weights of all that asked for anything
wanted      its tokens, and for each refused request as many as the others of it had on the mean
fair        the max-min fair share: the tokens of all, given out by weight, to none more than it asked for
Jain        Jain's index of x = tokens / fair
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headway.api.schema import UsageReport, UsageRow
from headway_policies.usage import SERVER, fair_shares

#: The tenants beyond those that the accounting keeps apart, counted as one.
OTHER = "(other)"


@dataclass(frozen=True, slots=True)
class TenantUse:
    """The use of one tenant. Ratios are None where they mean nothing: of the server itself, and of many counted as one.

    ``fair_ratio`` is 1 where the tenant had its fair share, or all that it wanted.
    """

    name: str
    tokens: int
    requests: int
    refused: int
    seat_s: float
    wait_s: float
    share: float | None = None
    entitled: float | None = None
    fair_ratio: float | None = None


def tenant_uses(report: UsageReport) -> list[TenantUse]:
    """Each tenant of a report, the one with the most tokens first."""
    rows = {row.group.get("tenant", ""): row for row in report.rows}
    told = {name: row for name, row in rows.items() if name not in (SERVER, OTHER)}
    tokens = {name: _tokens(row) for name, row in told.items()}
    weights = {name: report.shares.get(name, 1.0) for name in told}
    fair = fair_shares.max_min(_wanted(told), sum(tokens.values()), weights)
    whole = sum(_tokens(row) for name, row in rows.items() if name != SERVER)
    found = []
    for name, row in rows.items():
        served = _tokens(row)
        use = TenantUse(name, served, row.requests, row.refused, row.seat_s, row.queue_s / max(1, row.requests))
        if name in told:
            use = TenantUse(
                name, served, use.requests, use.refused, use.seat_s, use.wait_s,
                share=served / whole if whole else None,
                entitled=weights[name] / sum(weights.values()),
                fair_ratio=served / fair[name] if fair[name] else None,
            )  # fmt: skip
        found.append(use)
    return sorted(found, key=lambda use: (-use.tokens, use.name))


def jain(uses: Iterable[TenantUse]) -> float | None:
    """Jain's index of the tenants' parts of their fair shares; None for fewer than two tenants."""
    ratios = [use.fair_ratio for use in uses if use.fair_ratio is not None]
    return fair_shares.jain(ratios) if len(ratios) > 1 and any(ratios) else None


def _tokens(row: UsageRow) -> int:
    return row.prompt_tokens + row.output_tokens


def _wanted(rows: Mapping[str, UsageRow]) -> dict[str, float]:
    served = sum(row.requests - row.refused for row in rows.values())
    usual = sum(_tokens(row) for row in rows.values()) / served if served else 0.0
    wanted = {}
    for name, row in rows.items():
        own = row.requests - row.refused
        wanted[name] = _tokens(row) + row.refused * (_tokens(row) / own if own else usual)
    return wanted
