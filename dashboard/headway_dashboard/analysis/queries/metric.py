"""A metric as it is asked for: its name, the limits on its labels, and its PromQL selector."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

Where = tuple[tuple[str, tuple[str, ...]], ...]

_ENGINE = "vllm:"
#: Prometheus' label for the server that a series is of: its host and port.
INSTANCE = "instance"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, the label values it is limited to, and the labels its lines are kept apart by.

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

    def but(self, label: str, values: tuple[str, ...]) -> Metric:
        """The same metric, without these values of a label."""
        return replace(self, without=(*self.without, (label, values)))

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

    @property
    def grouping(self) -> str:
        """The PromQL clause that keeps its lines apart; empty where there is one line."""
        return f" by ({', '.join(self.by)})" if self.by else ""


def with_metrics(expression: T, change: Callable[[Metric], Metric]) -> T:
    """The same expression with each of its metrics changed: a tree of dataclasses, the leaves metrics and numbers."""

    def walk(node: Any) -> Any:
        if isinstance(node, Metric):
            return change(node)
        if not is_dataclass(node) or isinstance(node, type):
            return node
        return replace(node, **{field.name: walk(getattr(node, field.name)) for field in fields(node)})

    return cast(T, walk(expression))


def names_of(expression: object) -> tuple[str, ...]:
    """The names of all metrics that an expression reads, each once."""
    return tuple(dict.fromkeys(name for metric in metrics_of(expression) for name in (metric.name, *metric.also)))


def metrics_of(node: object) -> Iterator[Metric]:
    """The metrics that an expression reads, in the order of its parts."""
    if isinstance(node, Metric):
        yield node
    elif is_dataclass(node):
        for field in fields(node):
            yield from metrics_of(getattr(node, field.name))


def by_instance(expression: T) -> T:
    """The same expression with the lines of each server apart: the server's name is the first label."""
    return with_metrics(expression, lambda metric: replace(metric, by=(INSTANCE, *metric.by)))


def by_server(expression: T) -> T:
    """The same expression with the lines of each job and server apart, as rules of Prometheus keep them."""
    return with_metrics(expression, lambda metric: replace(metric, by=("job", INSTANCE, *metric.by)))


def _any_of(values: tuple[str, ...]) -> str:
    return "|".join(_literal(value) for value in values)


def _literal(value: str) -> str:
    """A label value inside a PromQL regular expression inside a PromQL string."""
    return re.sub(r"([\\.^$|?*+()\[\]{}])", r"\\\1", value).replace("\\", "\\\\").replace('"', '\\"')
