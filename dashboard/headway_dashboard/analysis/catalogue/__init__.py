"""The catalogue by pages: every panel that a page can show.

The first page's panels stand in ``panels``, the engine's in ``engine_panels``; the others by their page. ``thresholds``
has the bounds, ``palette`` the colours, ``causes`` the words for why a request ended without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.catalogue.fleet_panels import FLEET_SECTION
from headway_dashboard.analysis.catalogue.latency_panels import LATENCY_SECTION
from headway_dashboard.analysis.catalogue.memory_panels import BATCH_SECTION, GPU_BUSY_PANEL, MEMORY_SECTION
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.catalogue.priority_panels import LADDER_SECTION, REQUESTS_SECTION
from headway_dashboard.analysis.catalogue.slo_panels import SLO_SECTION
from headway_dashboard.analysis.catalogue.tenant_panels import TENANTS_SECTION

__all__ = ["ALL_PANELS"]

#: The panels of each page, by its title. On a page each has an id of its own. Not listed are ``panels.CPU_PANEL`` and
#: ``panels.GPU_UNKNOWN_PANEL``: they are ``RESIDENT_PANEL`` under the title that a server without GPU figures needs.
ALL_PANELS: Mapping[str, tuple[Panel, ...]] = {
    "Overview": (panels.QUEUE_PANEL, panels.BATCH_PANEL, panels.TTFT_PANEL, panels.ERROR_PANEL),
    "Fleet": FLEET_SECTION,
    "Latency & SLO": (*LATENCY_SECTION, *SLO_SECTION),
    "Requests & priorities": (*LADDER_SECTION, *REQUESTS_SECTION),
    "Tenants": TENANTS_SECTION,
    "Batching & memory": (
        *BATCH_SECTION,
        panels.GPU_PANEL,
        GPU_BUSY_PANEL,
        engine_panels.RESIDENT_PANEL,
        *MEMORY_SECTION,
    ),
    "Server & diagnostics": engine_panels.SERVER_PAGE,
}
