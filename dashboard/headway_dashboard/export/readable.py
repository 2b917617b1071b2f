"""What can be said of any expression: the metrics in it, and the same expression with each of them changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from headway_dashboard.analysis.queries.expressions import Expression, Metric
from headway_dashboard.export.ratio import Ratio

Readable = Expression | Ratio


def names_of(expression: Readable) -> tuple[str, ...]:
    """The names of all metrics that an expression reads, each once."""
    return tuple(dict.fromkeys(name for one in _metrics(expression) for name in (one.name, *one.also)))


def only(expression: Readable, label: str, value: str) -> Readable:
    """The expression over one value of a label that all its metrics have."""
    return _changed(expression, lambda metric: metric.only(label, (value,)))


def by_server(expression: Readable) -> Readable:
    """The expression with its lines kept apart by server as well."""
    return _changed(expression, lambda metric: replace(metric, by=("job", "instance", *metric.by)))


def _metrics(expression: object) -> Iterator[Metric]:
    if isinstance(expression, Metric):
        yield expression
    elif is_dataclass(expression):
        for field in fields(expression):
            yield from _metrics(getattr(expression, field.name))


def _changed(expression: Readable, change: Callable[[Metric], Metric]) -> Readable:
    """An expression is a tree of dataclasses whose leaves are metrics and numbers."""

    def walk(node: Any) -> Any:
        if isinstance(node, Metric):
            return change(node)
        if not is_dataclass(node) or isinstance(node, type):
            return node
        return replace(node, **{field.name: walk(getattr(node, field.name)) for field in fields(node)})

    return cast(Readable, walk(expression))
