"""Reports of the accounting as a server sends them, of a few tenants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.api.schema import BudgetRow, UsageReport, UsageRow


def row(tenant: str, tokens: int, requests: int = 10, refused: int = 0, **more: Any) -> UsageRow:
    """The figures of one tenant; ``group`` replaces its name."""
    group = more.pop("group", {"tenant": tenant})
    figures = {"cached_tokens": 0, "seat_s": 5.0, "kv_token_s": 1.0, "queue_s": 0.0} | more
    output = tokens // 2
    return UsageRow(
        group=group, requests=requests, refused=refused, prompt_tokens=tokens - output, output_tokens=output, **figures
    )


def report(
    *rows: UsageRow,
    shares: dict[str, float] | None = None,
    budgets: Sequence[BudgetRow] = (),
    by: str = "tenant",
    organisations: dict[str, str] | None = None,
) -> UsageReport:
    """What was used from noon until five minutes later."""
    total = row(
        "", sum(one.prompt_tokens + one.output_tokens for one in rows), sum(one.requests for one in rows),
        sum(one.refused for one in rows), group={}, seat_s=sum(one.seat_s for one in rows),
        queue_s=sum(one.queue_s for one in rows),
    )  # fmt: skip
    return UsageReport(
        since="2026-11-28T12:00:00Z", until="2026-11-28T12:05:00Z", kept_since=None, by=by.split(","), rows=list(rows),
        total=total, waiting=0, lost=0, budgets=list(budgets), shares=shares or {},
        organisations=organisations or {},
    )  # fmt: skip


def noisy() -> UsageReport:
    """One that floods, one that is held back by it, one that is quiet, and the server's own work."""
    month = {"resets": "2026-12-01T00:00:00Z", "held": 0.0}
    return report(
        row("loud", 900, 90, 60, queue_s=900.0),
        row("held", 60, 20, 14, queue_s=60.0),
        row("quiet", 40, 4),
        row("(server)", 10, 1),
        shares={"held": 2.0},
        organisations={"loud": "acme", "held": "acme"},
        budgets=[
            BudgetRow(owner="tenant loud", bound="tokens_per_month", limit=10_000.0, used=9_100.0, **month),
            BudgetRow(owner="organisation acme", bound="requests_per_month", limit=1_000.0, used=100.0, **month),
            BudgetRow(owner="tenant quiet", bound="concurrency", limit=4.0, used=0.0, held=1.0, resets=None),
        ],
    )
