"""Some of the servers of a source, as if there were no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.reading import Health, Questions, Source, SourceReading
from headway_dashboard.analysis.server.instances import of_instances
from headway_dashboard.analysis.view import Span


class ChosenSource:
    """A server of ``whole``, by its name. Closing it closes nothing: it has no thread of its own."""

    def __init__(self, whole: Source, name: str) -> None:
        self.whole = whole
        self.name = name

    @property
    def longest_range_s(self) -> float:
        """The longest time back that the whole source can answer."""
        return self.whole.longest_range_s

    def read(self, questions: Questions) -> dict[Span, SourceReading]:
        """The answers for this server, under the expressions as they were asked."""
        narrowed = {
            span: {wide: of_instances(wide, (self.name,)) for wide in asked} for span, asked in questions.items()
        }
        found = self.whole.read({span: tuple(asked.values()) for span, asked in narrowed.items()})
        return {span: self._of_one(found[span], asked) for span, asked in narrowed.items()}

    def _of_one(self, found: SourceReading, narrowed: Mapping[Expression, Expression]) -> SourceReading:
        answers = {wide: found.series[narrow] for wide, narrow in narrowed.items() if narrow in found.series}
        health = found.instances.get(self.name, found.health)
        return replace(found, series=answers, health=health, instances=_only(found, self.name))

    def close(self) -> None:
        """Leave the whole source open: others read it."""


def _only(found: SourceReading, name: str) -> dict[str, Health]:
    return {name: found.instances[name]} if name in found.instances else {}
