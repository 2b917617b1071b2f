"""The catalogue by page: which charts and key figures each page of the dashboard draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.catalogue.panels import Tile
from headway_dashboard.export import watched
from headway_dashboard.export.chart import Chart, chart_of

#: The page that no page of the dashboard is.
ALERTS_PAGE = "What the alerts compare"


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its title, its key figures, its charts."""

    title: str
    tiles: tuple[Tile, ...]
    charts: tuple[Chart, ...]


def pages() -> tuple[Page, ...]:
    """Every page that has charts, the first one with the key figures; at the end what only the alerts compare."""
    return (*_of_dashboard(), Page(ALERTS_PAGE, (), watched.CHARTS))


def _of_dashboard() -> Iterator[Page]:
    for number, (title, shown) in enumerate(ALL_PANELS.items()):
        yield Page(title, () if number else panels.TILES, tuple(chart_of(panel) for panel in shown))
