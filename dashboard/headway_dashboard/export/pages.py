"""The catalogue by page: which panels and key figures each page of the dashboard draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import ALL_PANELS, palette, panels
from headway_dashboard.analysis.catalogue.alerts.errors import FAILED_SHARE, TIMEOUT_SHARE
from headway_dashboard.analysis.catalogue.alerts.resources import GPU_MEMORY_SHARE, MEMORY_SHARE
from headway_dashboard.analysis.catalogue.panels import Line, Panel, Tile
from headway_dashboard.analysis.queries.metric import by_instance

#: The page that no page of the dashboard is.
ALERTS_PAGE = "What the alerts compare"
WATCHED = (
    Panel(
        "failed-share",
        "Share of requests that failed in the engine",
        "Share of the ended requests that failed in the engine or were lost with it.",
        "ratio",
        (Line("", by_instance(FAILED_SHARE), palette.RED),),
        idle="no request ended in this time",
    ),
    Panel(
        "timeout-share",
        "Share of requests that ran out of time",
        "Share of the ended requests whose time ran out while they waited or ran.",
        "ratio",
        (Line("", by_instance(TIMEOUT_SHARE), palette.ORANGE),),
        idle="no request ended in this time",
    ),
    Panel(
        "gpu-memory-share",
        "GPU memory in use, as a share",
        "Used memory of each GPU as a share of all of it.",
        "ratio",
        (Line("", by_instance(GPU_MEMORY_SHARE)),),
        idle="no GPU figures",
        ceiling=1.0,
    ),
    Panel(
        "memory-share",
        "Memory of the server's processes against their limit",
        "Resident memory of the server's processes as a share of the limit of their control group, else of the "
        "machine's memory.",
        "ratio",
        (Line("", by_instance(MEMORY_SHARE), palette.GOLD),),
        ceiling=1.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its title, its key figures, its panels."""

    title: str
    tiles: tuple[Tile, ...]
    panels: tuple[Panel, ...]


def pages() -> Iterator[Page]:
    """Every page that has charts, the first one with the key figures; at the end what only the alerts compare."""
    for number, (title, shown) in enumerate(ALL_PANELS.items()):
        yield Page(title, () if number else panels.TILES, shown)
    yield Page(ALERTS_PAGE, (), WATCHED)
