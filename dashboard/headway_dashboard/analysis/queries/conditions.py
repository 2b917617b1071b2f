"""The conditions of alerts: growth and least values over a window, and comparisons.

A line of a condition has a value where the condition holds, and a gap where it does not, as in PromQL.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

from headway_dashboard.analysis.queries.expressions import Either, Expression, OfExpression
from headway_dashboard.analysis.queries.metric import INSTANCE, Metric

#: Of a window that is sampled anew, the distance of the samples in Prometheus.
_STEP = "15s"
_GROWTH_S = 60.0

Sign = Literal["<", "==", ">=", ">"]


@dataclass(frozen=True, slots=True)
class Grown(Expression):
    """The growth of a counter in a window, in seconds, whatever the range of the chart."""

    of: Metric
    window_s: float

    def promql(self, window: str) -> str:
        return f"sum{self.of.grouping} (increase({self.of.promql()}[{self.window_s:.0f}s]))"


@dataclass(frozen=True, slots=True)
class Most(Expression):
    """The largest measured value of a gauge in a window of so many seconds."""

    of: Metric
    window_s: float

    def promql(self, window: str) -> str:
        return f"max{self.of.grouping} (max_over_time({self.of.promql()}[{self.window_s:.0f}s]))"


@dataclass(frozen=True, slots=True)
class Least(OfExpression):
    """The least value of an expression in a window, in seconds.

    The ring gives none where the window is hardly measured: a server that is known for a minute has done nothing for
    ten. Prometheus takes what it has.
    """

    of: Expression
    window_s: float

    def promql(self, window: str) -> str:
        return f"min_over_time(({self.of.promql(window)})[{self.window_s:.0f}s:{_STEP}])"


@dataclass(frozen=True, slots=True)
class Average(OfExpression):
    """The mean value of an expression in a window, in seconds; measured as far as ``Least`` wants it."""

    of: Expression
    window_s: float

    def promql(self, window: str) -> str:
        return f"avg_over_time(({self.of.promql(window)})[{self.window_s:.0f}s:{_STEP}])"


@dataclass(frozen=True, slots=True)
class TimeShare(OfExpression):
    """The share of a window, in seconds, in which an expression has a value."""

    of: Expression
    value: float
    window_s: float

    def promql(self, window: str) -> str:
        return f"avg_over_time(({self.of.promql(window)} == bool {self.value:g})[{self.window_s:.0f}s:{_STEP}])"


@dataclass(frozen=True, slots=True)
class Kinds(Expression):
    """The number of different values of a label, over all servers."""

    of: Metric
    label: str

    @property
    def by(self) -> tuple[str, ...]:
        """The labels that keep the lines apart, without the server."""
        return tuple(label for label in self.of.by if label != INSTANCE)

    def promql(self, window: str) -> str:
        by = ", ".join(self.by)
        return f"count by ({by}) (count by ({by}, {self.label}) ({self.of.promql()}))"


@dataclass(frozen=True, slots=True)
class Absent(Expression):
    """1 while Prometheus has no series of a metric; it names the line by the job that the metric is limited to."""

    of: Metric

    @property
    def by(self) -> tuple[str, ...]:
        """The job alone."""
        return ("job",)

    def promql(self, window: str) -> str:
        """PromQL; an exact match gives the line the label."""
        limits = (
            f'{label}="{values[0]}"' if label == "job" else Metric("", ((label, values),)).promql()[1:-1]
            for label, values in self.of.where
        )
        return f"absent({self.of.name}{{{','.join(limits)}}})"


@dataclass(frozen=True, slots=True)
class Compared(OfExpression):
    """The lines of an expression where they compare so with a bound."""

    of: Expression
    sign: Sign
    bound: float

    def promql(self, window: str) -> str:
        """PromQL with this window; the bound has no more digits than it was written with."""
        return f"{_operand(self.of, window)} {self.sign} {self.bound:.9g}"


@dataclass(frozen=True, slots=True)
class Joined(Expression):
    """The lines of the first where the second has a line ("and"), or where it has none ("unless"); or both ("or").

    Lines belong together by the labels of the second, which the first has as well.
    """

    first: Expression
    how: Literal["and", "unless", "or"]
    second: Expression

    @property
    def by(self) -> tuple[str, ...]:
        return self.first.by

    def promql(self, window: str) -> str:
        """PromQL with this window, each further part in a line of its own."""
        matching = "" if self.how == "or" else f" on ({', '.join(self.second.by)})"
        return f"{self.first.promql(window)}\n  {self.how}{matching} {_operand(self.second, window)}"


def _operand(expression: Expression, window: str) -> str:
    text = expression.promql(window)
    return f"({text})" if isinstance(expression, Joined | Either) else text


def needed_s(node: object) -> float:
    """The time that must have been measured until the beginning of a condition can be seen, in seconds.

    A least value and a mean want their whole window. What a counter gained is known from the second sample on, but that
    a condition on it did not hold before is known only after a while.
    """
    window_s = getattr(node, "window_s", 0.0)
    own_s = window_s if isinstance(node, Least | Average) else min(window_s, _GROWTH_S)
    parts = [getattr(node, field.name) for field in fields(node)] if is_dataclass(node) else []
    return max([own_s, *map(needed_s, parts)])
