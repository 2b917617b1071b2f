"""The columns of the table of several servers, their readings, and their cells."""

from __future__ import annotations

from dataclasses import dataclass

from headway_dashboard.analysis.catalogue import fleet_panels, panels
from headway_dashboard.analysis.catalogue.thresholds import ERROR_RATIO
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.server import identity
from headway_dashboard.analysis.server.fleet.outliers import Bound
from headway_dashboard.analysis.units import Unit


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of the table; ``of`` is that of all servers.

    ``of_steps``: it is of the engine's steps, and of the past while there is no engine.
    """

    title: str
    of: Expression
    unit: Unit
    bound: Bound | None = None
    of_steps: bool = False
    help: str = ""

    @property
    def each(self) -> Expression:
        """The figure of each server."""
        return by_instance(self.of)


REQUESTS = Column("Requests", panels.ARRIVALS, "per_s", Bound(1.0, below=True), help="Arrivals a second.")
SEATS = Column(
    "Seats", panels.SEATS, "count", Bound(4.0, below=True), help="Occupied seats, and the live limit of seats."
)
WAITING = Column("Waiting", panels.QUEUED, "count", Bound(5.0), help="Requests that wait for a seat.")
COLUMNS = (
    REQUESTS,
    SEATS,
    WAITING,
    Column("Oldest wait", panels.OLDEST, "seconds", Bound(1.0), help="The wait of the oldest request in the queue."),
    Column(
        "KV cache",
        panels.KV_USE,
        "ratio",
        Bound(0.2),
        of_steps=True,
        help="Share in use; in the last row of the fullest server.",
    ),
    Column(
        "TTFT p95",
        panels.TTFT[0.95],
        "seconds",
        Bound(0.5),
        help="In the last row from the merged histograms of all servers.",
    ),
    Column("Error share", panels.ERROR_SHARE, "ratio", Bound(ERROR_RATIO), help="Share of the ended requests."),
)
LIMIT, READY = by_instance(panels.LIMIT), by_instance(panels.READY)
IN_FLIGHT, PRESET, BUILD, ENGINE, STARTED = (
    by_instance(figure)
    for figure in (panels.IN_FLIGHT, panels.PRESET, identity.BUILD, panels.ENGINE_STATE, fleet_panels.STARTED_S)
)  # fmt: skip
EXPRESSIONS: tuple[Expression, ...] = (
    *(column.each for column in COLUMNS), *(column.of for column in COLUMNS), panels.LIMIT,
    LIMIT, READY, IN_FLIGHT, PRESET, BUILD, ENGINE, STARTED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its sort value; None comes after all values. ``note`` explains it."""

    text: str
    value: float | str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a column. ``numeric``: its cells are numbers."""

    title: str
    help: str = ""
    numeric: bool = False


#: The columns in their order; the first one names the server.
HEADINGS = (
    Heading("Server"),
    Heading("State", "Live: requests arrive. Stale and down: the server does not answer, so its figures are missing."),
    Heading("Ready", "Whether it takes requests."),
    *(Heading(column.title, column.help, numeric=True) for column in COLUMNS),
    Heading("Preset", "The preset in force and its revision."),
    Heading("Version", "The version of Headway."),
    Heading("Since", "Start of the server's process, or of its silence if it does not answer."),
)
