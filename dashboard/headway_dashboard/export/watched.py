"""The charts of what the alerts compare and no page of the dashboard draws."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.alerts.errors import FAILED_SHARE, TIMEOUT_SHARE
from headway_dashboard.analysis.catalogue.alerts.resources import GPU_MEMORY_SHARE, MEMORY_SHARE
from headway_dashboard.export.chart import Chart, Curve

CHARTS = (
    Chart(
        "failed-share",
        "Share of requests that failed in the engine",
        "Of the requests that ended, those that failed in the engine or were lost with it.",
        "ratio",
        (Curve("failed", FAILED_SHARE, palette.RED),),
        "no request ended in this time",
    ),
    Chart(
        "timeout-share",
        "Share of requests that ran out of time",
        "Of the requests that ended, those whose time ran out while they waited or ran.",
        "ratio",
        (Curve("out of time", TIMEOUT_SHARE, palette.ORANGE),),
        "no request ended in this time",
    ),
    Chart(
        "gpu-memory-share",
        "GPU memory in use, as a share",
        "Used memory of each GPU as a share of all of it.",
        "ratio",
        (Curve("GPU {{gpu}}", GPU_MEMORY_SHARE),),
        "no GPU figures",
        ceiling=1.0,
    ),
    Chart(
        "memory-share",
        "Memory of the server's processes against their limit",
        "Resident memory of the server's processes as a share of the limit of their control group, else of the "
        "machine's memory.",
        "ratio",
        (Curve("of the limit", MEMORY_SHARE, palette.GOLD),),
        ceiling=1.0,
    ),
)
