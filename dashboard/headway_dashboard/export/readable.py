"""The metrics in an expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import Metric


def names_of(expression: Expression) -> tuple[str, ...]:
    """The names of all metrics that an expression reads, each once."""
    return tuple(dict.fromkeys(name for one in _metrics(expression) for name in (one.name, *one.also)))


def _metrics(expression: object) -> Iterator[Metric]:
    if isinstance(expression, Metric):
        yield expression
    elif is_dataclass(expression):
        for field in fields(expression):
            yield from _metrics(getattr(expression, field.name))
