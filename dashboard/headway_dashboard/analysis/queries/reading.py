"""A reading: what a page gets from a source.

A page asks once a refresh for everything it draws, and never waits for a network: a source fetches in a thread of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import NOTHING, Series
from headway_dashboard.analysis.view import Span

#: The questions for each time.
Questions = Mapping[Span, Sequence[Expression]]


def stale_after_s(interval_s: float) -> float:
    """The age up to which the newest numbers count as current, where they are measured each ``interval_s``."""
    return 3 * interval_s + 2


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a source: how well it reaches its target.

    ``last_ok_s`` is when the newest numbers were measured. ``trouble`` is None while all goes well; "refused" means
    that no server is there or the answer was an error, "silent" that no answer came in time.
    """

    last_ok_s: float | None = None
    failures: int = 0
    trouble: Literal["refused", "silent"] | None = None
    detail: str = ""
    failing_since_s: float | None = None


@dataclass(frozen=True, slots=True)
class SourceReading:
    """The answers of one time.

    ``instances`` are the servers that the figures are of, by name, and how well each is reached; empty where a source
    does not tell them apart.
    """

    series: Mapping[Expression, Series]
    health: Health
    interval_s: float
    source: str
    note: str = ""
    range_s: float = 0.0
    end_s: float = 0.0
    instances: Mapping[str, Health] = field(default_factory=dict)

    def __getitem__(self, expression: Expression) -> Series:
        return self.series.get(expression, NOTHING)


class Source(Protocol):
    """Answers expressions over times of any length."""

    @property
    def longest_range_s(self) -> float:
        """The longest time back that the source can answer, in seconds."""
        ...

    def read(self, questions: Questions) -> dict[Span, SourceReading]:
        """Answer everything at one moment, from what is already here. Never raises for a target that is away."""
        ...

    def close(self) -> None:
        """Stop the thread behind this source. Reading goes on with what is known."""
        ...


def read(
    source: Source, expressions: Sequence[Expression], range_s: float, end_s: float | None = None
) -> SourceReading:
    """The answer of a source for one time."""
    span = Span(range_s, end_s)
    return source.read({span: expressions})[span]
