"""The tenants that use the most, over time: tokens and refusals."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.panels import Line, Panel
from headway_dashboard.analysis.queries.expressions import Metric, Rate

_IDLE = "no request of a tenant ended in this time, or the accounting is off (HEADWAY_USAGE_DB)"

TOKENS_PANEL = Panel(
    "tenant-tokens",
    "Tokens by tenant",
    "Tokens a second of prompts and answers, of the requests that ended; cached ones too. The 32 tenants that use the "
    "most have a line of their own, all others are (other).",
    "per_s",
    (Line("", Rate(Metric("headway_tenant_tokens_total", by=("tenant",))), colours=palette.of_tenant),),
    "One tenant far above the others while they wait: see the column Of fair share.",
    idle=_IDLE,
)
REFUSALS_PANEL = Panel(
    "tenant-refusals",
    "Refusals by tenant",
    "Requests a second of the same tenants that were refused or given up, without refusals by a rate or a budget.",
    "per_s",
    (Line("", Rate(Metric("headway_tenant_refusals_total", by=("tenant",))), kind="bar", colours=palette.of_tenant),),
    "If a tenant is refused although it uses little, another tenant takes its share.",
    quiet="no request of a tenant was refused in this time",
    idle=_IDLE,
)
TENANTS_SECTION = (TOKENS_PANEL, REFUSALS_PANEL)
