"""Expressions: the meaning of a chart's line, as PromQL and for the ring.

An expression has two readers: the ring in memory evaluates it (``sources.ring``), and Prometheus, Grafana and the help
text get it as PromQL. A panel can therefore not show one thing here and another there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway_dashboard.analysis.queries.metric import Metric as Metric  # what reads an expression needs it too
from headway_dashboard.analysis.queries.metric import by_instance, metrics_of, with_metrics


class Expression:
    """A reader of metrics that can be asked for: each kind is a frozen dataclass, a tree whose leaves are metrics."""

    __slots__ = ()

    @property
    def metric(self) -> Metric:
        """The metric that the expression reads; of several, the first, which stands for all."""
        return next(metrics_of(self))

    @property
    def by(self) -> tuple[str, ...]:
        """The labels by which the lines are kept apart."""
        return self.metric.by

    def promql(self, window: str) -> str:
        """PromQL; rates without a look back of their own get this window."""
        raise NotImplementedError


class OfExpression(Expression):
    """An expression that is computed from another one."""

    __slots__ = ()
    of: Expression

    @property
    def by(self) -> tuple[str, ...]:
        return self.of.by


@dataclass(frozen=True, slots=True)
class Gauge(Expression):
    """The value itself, summed over the labels that are not kept apart; or the largest, the least or the mean of them.

    With several servers the sum is over all of them. The sum has a meaning for what can be counted together: requests,
    seats, bytes. Of ratios, states, numbers that stand for a word, and what holds for one server, the worst is taken.
    """

    of: Metric
    largest: bool = False
    least: bool = False
    mean: bool = False

    def promql(self, window: str) -> str:
        merge = "min" if self.least else "max" if self.largest else "avg" if self.mean else "sum"
        return f"{merge}{self.of.grouping} ({self.of.promql()})"


@dataclass(frozen=True, slots=True)
class Peak(Expression):
    """The largest value of a gauge that was sampled since the instant before: what held for less than a step is seen.

    Its window is the step of the grid.
    """

    of: Metric

    def promql(self, window: str) -> str:
        return f"max{self.of.grouping} (max_over_time({self.of.promql()}[{window}]))"


@dataclass(frozen=True, slots=True)
class Rate(Expression):
    """A counter's increase a second; ``counted``: the increase itself, over the same window."""

    of: Metric
    counted: bool = False

    def promql(self, window: str) -> str:
        read = "increase" if self.counted else "rate"
        return f"sum{self.of.grouping} ({read}({self.of.promql()}[{window}]))"


@dataclass(frozen=True, slots=True)
class Quantile(Expression):
    """A quantile of a histogram's new observations, its buckets merged first.

    Between the bounds of a bucket it is interpolated, and may so come out above every observation. ``longest`` is a
    gauge of the largest one, with the same labels: the quantile is at most its largest value in the window. Values of
    0 or less of that gauge mean that it saw none, and cut nothing.
    """

    share: float
    of: Metric
    longest: Metric | None = None

    def promql(self, window: str) -> str:
        labels = ", ".join(("le", *self.of.by))
        found = f"histogram_quantile({self.share}, sum by ({labels}) (rate({self.of.promql('_bucket')}[{window}])))"
        if self.longest is None:
            return found
        return f"(({Peak(self.longest).promql(window)} > 0) < {found}) or {found}"


@dataclass(frozen=True, slots=True)
class Mean(Expression):
    """The exact mean of a histogram's new observations."""

    of: Metric

    def promql(self, window: str) -> str:
        top, bottom = (f"sum{self.of.grouping} (rate({self.of.promql(part)}[{window}]))" for part in ("_sum", "_count"))
        return f"{top} / ({bottom} > 0)"


@dataclass(frozen=True, slots=True)
class Buckets(Expression):
    """A histogram's new observations by bucket: a line for each bound, of the observations at or below it."""

    of: Metric

    @property
    def by(self) -> tuple[str, ...]:
        """The labels by which the lines are kept apart; the last one is the bound."""
        return (*self.of.by, "le")

    def promql(self, window: str) -> str:
        """PromQL; each point counts the observations of this window."""
        return f"sum by ({', '.join(self.by)}) (increase({self.of.promql('_bucket')}[{window}]))"


@dataclass(frozen=True, slots=True)
class Share(Expression):
    """An expression as a share (or a multiple) of another; a gap, not 0, where the whole is 0."""

    part: Expression
    whole: Expression

    def promql(self, window: str) -> str:
        return f"{self.part.promql(window)} / ({self.whole.promql(window)} > 0)"


@dataclass(frozen=True, slots=True)
class Portion(Share):
    """Each line of a rate as a share of one whole: ``whole`` has a single line, and a class filter leaves it alone."""

    def promql(self, window: str) -> str:
        matching = f"on ({', '.join(self.whole.by)}) group_left ()"
        return f"{self.part.promql(window)} / {matching} ({self.whole.promql(window)} > 0)"


@dataclass(frozen=True, slots=True)
class Sum(Expression):
    """Two expressions with the same labels, added; a gap where one of them is."""

    first: Expression
    second: Expression

    def promql(self, window: str) -> str:
        return f"({self.first.promql(window)} + {self.second.promql(window)})"


@dataclass(frozen=True, slots=True)
class Either(Expression):
    """The first of two expressions that has data: our own metric, or the engine's where ours is absent."""

    first: Gauge
    second: Gauge

    def promql(self, window: str) -> str:
        return f"{self.first.promql(window)} or {self.second.promql(window)}"


@dataclass(frozen=True, slots=True)
class Over(OfExpression):
    """A share with a look back of its own, in seconds, whatever the range of the chart."""

    of: Share
    window_s: float

    def promql(self, window: str) -> str:
        return self.of.promql(f"{self.window_s:.0f}s")


@dataclass(frozen=True, slots=True)
class Burn(OfExpression):
    """The speed at which an error budget is used up: 1 uses it up exactly in time, 2 in half of the time.

    ``of`` is the share of good events, ``target`` the share that is promised, below 1.
    """

    of: Over
    target: float

    @property
    def budget(self) -> float:
        """The share of bad events that the target allows."""
        return 1 - self.target

    def promql(self, window: str) -> str:
        return f"(1 - {self.of.promql(window)}) / {self.budget:.4g}"


@dataclass(frozen=True, slots=True)
class Imbalance(OfExpression):
    """The unevenness of a gauge over the servers: its largest value on a server divided by its mean over them.

    1 is even, and the number of servers means that one of them has everything. A gap where no server has ``least``:
    of so few the quotient is chance. A server that does not answer counts as none.
    """

    of: Gauge
    least: float

    def promql(self, window: str) -> str:
        each, merge = by_instance(self.of).promql(window), self.of.of.grouping
        return f"(max{merge} ({each}) >= {self.least:g}) / avg{merge} ({each})"


@dataclass(frozen=True, slots=True)
class Worst(OfExpression):
    """The largest of the quantiles of the servers, each read from the buckets of that server alone."""

    of: Quantile

    def promql(self, window: str) -> str:
        return f"max{self.of.of.grouping} ({by_instance(self.of).promql(window)})"


def limited(expression: Expression, label: str, values: tuple[str, ...]) -> Expression:
    """The expression over these values of a label only; a portion keeps its whole. No values mean all of them."""
    if not values:
        return expression
    if isinstance(expression, Portion):
        return replace(expression, part=limited(expression.part, label, values))
    return with_metrics(expression, lambda metric: metric.only(label, values))
