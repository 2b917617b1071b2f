"""Some of the servers of a source, as if there were no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.reading import Health, Reading, Source
from headway_dashboard.analysis.server.instances import of_instances


class ChosenSource:
    """One server of ``whole``, by its name. Closing it closes nothing: it has no thread of its own."""

    def __init__(self, whole: Source, name: str) -> None:
        self.whole = whole
        self.name = name

    @property
    def longest_range_s(self) -> float:
        """How far back the whole source can answer."""
        return self.whole.longest_range_s

    def read(self, expressions: Sequence[Expression], range_s: float, end_s: float | None = None) -> Reading:
        """The answers for this server, under the expressions as they were asked."""
        narrowed = {one: of_instances(one, (self.name,)) for one in expressions}
        found = self.whole.read(tuple(narrowed.values()), range_s, end_s)
        health = found.instances.get(self.name, found.health)
        answers = {one: found.series[narrow] for one, narrow in narrowed.items() if narrow in found.series}
        return replace(found, series=answers, health=health, instances=_only(found, self.name))

    def close(self) -> None:
        """Leave the whole source open: others read it."""


def _only(found: Reading, name: str) -> dict[str, Health]:
    return {name: found.instances[name]} if name in found.instances else {}
