"""What can be said of any expression: the metrics in it, and the same expression with each of them changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import Metric, with_metrics
from headway_dashboard.export.ratio import Ratio

Readable = Expression | Ratio


def names_of(expression: Readable) -> tuple[str, ...]:
    """The names of all metrics that an expression reads, each once."""
    return tuple(dict.fromkeys(name for one in _metrics(expression) for name in (one.name, *one.also)))


def only(expression: Readable, label: str, value: str) -> Readable:
    """The expression over one value of a label that all its metrics have."""
    return with_metrics(expression, lambda metric: metric.only(label, (value,)))


def by_server(expression: Readable) -> Readable:
    """The expression with its lines kept apart by server as well."""
    return with_metrics(expression, lambda metric: replace(metric, by=("job", "instance", *metric.by)))


def _metrics(expression: object) -> Iterator[Metric]:
    if isinstance(expression, Metric):
        yield expression
    elif is_dataclass(expression):
        for field in fields(expression):
            yield from _metrics(getattr(expression, field.name))
