"""Expressions: the meaning of a chart's line, as PromQL and for the ring.

One expression, two readers: the ring in memory evaluates it (``sources.ring``), and Prometheus, Grafana and the help
text get it as PromQL. A panel can therefore not show one thing here and another there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

Where = tuple[tuple[str, tuple[str, ...]], ...]

_ENGINE = "vllm:"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, the label values it is limited to, and the labels its lines are kept apart by.

    ``also`` names metrics whose series are read as if they were its own; ``without`` are label values that are left
    out. A label that a series does not have counts as empty, as in PromQL.
    """

    name: str
    where: Where = ()
    by: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    without: Where = ()

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels is read."""
        return all(labels.get(label, "") in values for label, values in self.where) and not any(
            labels.get(label, "") in values for label, values in self.without
        )

    def only(self, label: str, values: tuple[str, ...]) -> Metric:
        """The same metric, limited to these values of a label; limits already there are kept."""
        return replace(self, where=(*self.where, (label, values)))

    def promql(self, suffix: str = "") -> str:
        """The PromQL selector. The engine's names are met in every spelling that proxies and Ray give them."""
        limits = [f'{label}=~"{_any_of(values)}"' for label, values in self.where]
        limits += [f'{label}!~"{_any_of(values)}"' for label, values in self.without]
        if self.also:
            names = "|".join(name + suffix for name in (self.name, *self.also))
            return "{" + ",".join((f'__name__=~"{names}"', *limits)) + "}"
        if self.name.startswith(_ENGINE):
            limits.insert(0, f'__name__=~"(ray_)?vllm[:_]{self.name.removeprefix(_ENGINE)}{suffix}"')
            return "{" + ",".join(limits) + "}"
        return self.name + suffix + ("{" + ",".join(limits) + "}" if limits else "")


class _OfOne:
    """What reads one metric."""

    __slots__ = ()
    of: Metric

    @property
    def by(self) -> tuple[str, ...]:
        """The labels by which the lines are kept apart."""
        return self.of.by

    @property
    def metric(self) -> Metric:
        """The metric it reads."""
        return self.of


@dataclass(frozen=True, slots=True)
class Gauge(_OfOne):
    """The value itself, summed (or the largest taken) over the labels that are not kept apart."""

    of: Metric
    largest: bool = False

    def promql(self, window: str) -> str:
        """PromQL; a gauge needs no window."""
        return f"{'max' if self.largest else 'sum'}{_by(self.of)} ({self.of.promql()})"


@dataclass(frozen=True, slots=True)
class Rate(_OfOne):
    """A counter's increase a second."""

    of: Metric

    def promql(self, window: str) -> str:
        """PromQL with this rate window."""
        return f"sum{_by(self.of)} (rate({self.of.promql()}[{window}]))"


@dataclass(frozen=True, slots=True)
class Quantile(_OfOne):
    """A quantile of a histogram's new observations, its buckets merged first."""

    share: float
    of: Metric

    def promql(self, window: str) -> str:
        """PromQL with this rate window."""
        labels = ", ".join(("le", *self.of.by))
        return f"histogram_quantile({self.share}, sum by ({labels}) (rate({self.of.promql('_bucket')}[{window}])))"


@dataclass(frozen=True, slots=True)
class Mean(_OfOne):
    """The exact mean of a histogram's new observations."""

    of: Metric

    def promql(self, window: str) -> str:
        """PromQL with this rate window."""
        top, bottom = (f"sum{_by(self.of)} (rate({self.of.promql(part)}[{window}]))" for part in ("_sum", "_count"))
        return f"{top} / ({bottom} > 0)"


@dataclass(frozen=True, slots=True)
class Share:
    """One rate as a share of another; a gap, not 0, while nothing happens."""

    part: Rate
    whole: Rate

    @property
    def by(self) -> tuple[str, ...]:
        """The labels by which the lines are kept apart."""
        return self.part.of.by

    @property
    def metric(self) -> Metric:
        """The metric that stands for the whole."""
        return self.part.of

    def promql(self, window: str) -> str:
        """PromQL with this rate window."""
        return f"{self.part.promql(window)} / ({self.whole.promql(window)} > 0)"


@dataclass(frozen=True, slots=True)
class Either:
    """The first of two expressions that has data: our own metric, or the engine's where ours is absent."""

    first: Gauge
    second: Gauge

    @property
    def by(self) -> tuple[str, ...]:
        """The labels by which the lines are kept apart."""
        return self.first.of.by

    @property
    def metric(self) -> Metric:
        """The metric that stands for the whole."""
        return self.first.of

    def promql(self, window: str) -> str:
        """PromQL with this rate window."""
        return f"{self.first.promql(window)} or {self.second.promql(window)}"


Expression = Gauge | Rate | Quantile | Mean | Share | Either


def limited(expression: Expression, label: str, values: tuple[str, ...]) -> Expression:
    """The expression over these values of a label only. No values mean all of them."""
    if not values:
        return expression
    match expression:
        case Share(part, whole):
            return Share(Rate(part.of.only(label, values)), Rate(whole.of.only(label, values)))
        case Either(first, second):
            return Either(
                replace(first, of=first.of.only(label, values)), replace(second, of=second.of.only(label, values))
            )
        case _:
            return replace(expression, of=expression.of.only(label, values))


def _by(metric: Metric) -> str:
    return f" by ({', '.join(metric.by)})" if metric.by else ""


def _any_of(values: tuple[str, ...]) -> str:
    return "|".join(_literal(value) for value in values)


def _literal(value: str) -> str:
    """A label value inside a PromQL regular expression inside a PromQL string."""
    return re.sub(r"([\\.^$|?*+()\[\]{}])", r"\\\1", value).replace("\\", "\\\\").replace('"', '\\"')
