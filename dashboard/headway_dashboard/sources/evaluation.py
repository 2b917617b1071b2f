"""The value of an expression, read from columns of samples as PromQL would read it.

Rates and increases are of one series each, and are summed after; buckets are summed before a quantile is read. So a
series of one server that begins again, or ends, changes nothing in those of the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import eq, ge, gt, lt
from statistics import fmean

from headway_dashboard.analysis.catalogue.thresholds import MEASURED_RATIO
from headway_dashboard.analysis.queries.conditions import (
    Average,
    Compared,
    Grown,
    Joined,
    Kinds,
    Least,
    Most,
    Sign,
    TimeShare,
)
from headway_dashboard.analysis.queries.expressions import (
    Buckets,
    Burn,
    Either,
    Expression,
    Gauge,
    Imbalance,
    Mean,
    Metric,
    Over,
    Peak,
    Portion,
    Quantile,
    Rate,
    Share,
    Sum,
    Worst,
)
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.queries.model import (
    Grid,
    Labels,
    Point,
    Series,
    added,
    cut,
    growth,
    held,
    peaks,
    quantiles,
    quotient,
    rate,
    total,
)  # fmt: skip

_MAX_KNOWN = 1000
_SIGNS: Mapping[Sign, Callable[[float, float], bool]] = {"<": lt, "==": eq, ">=": ge, ">": gt}

Line = Sequence[Point]
Reader = Callable[[Sequence[float], Sequence[float]], list[Point]]
Merge = Callable[[Iterable[Line]], list[Point]]
#: One series: its labels, and the times and values of its samples, the oldest first.
Column = tuple[Mapping[str, str], Sequence[float], Sequence[float]]
#: The series of a metric, with this suffix of its name, with all samples since a time.
Columns = Callable[[Metric, str, float], Iterable[Column]]


class Evaluator:
    """Reads expressions from ``columns``. A sample older than ``stale_s`` is not shown any more.

    Not thread-safe. Its owner calls ``forget`` when a sample has come.
    """

    def __init__(self, columns: Columns, stale_s: float) -> None:
        self._columns = columns
        self._stale_s = stale_s
        self._known: dict[tuple[Expression, Grid], dict[Labels, Line]] = {}

    def forget(self) -> None:
        """Keep no line for later: the columns have changed."""
        self._known.clear()

    def evaluate(self, expression: Expression, on: Grid) -> Series:
        """The expression's lines on a grid."""
        return Series(on.times_s, self._lines(expression, on))

    def _lines(self, expression: Expression, on: Grid) -> dict[Labels, Line]:
        """Kept until the next sample: quantiles of one histogram, and the rules of alerts, read the same lines."""
        key = (expression, on)
        if key not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = self._read(expression, on)
        return self._known[key]

    def _read(self, expression: Expression, on: Grid) -> dict[Labels, Line]:
        match expression:
            case Gauge(metric):
                return self._grouped(metric, on, self._holder(on), _merge_of(expression))
            case Peak(metric):
                return self._peaks(metric, replace(on, window_s=on.step_s))
            case Rate(metric):
                return self._grouped(metric, on, self._counter(on) if expression.counted else self._rater(on), total)
            case Mean(metric):
                sums = self._grouped(metric, on, self._rater(on.brisk), total, "_sum")
                counts = self._grouped(metric, on, self._rater(on.brisk), total, "_count")
                return {key: quotient(line, counts[key]) for key, line in sums.items() if key in counts}
            case Quantile(share, metric, longest):
                return self._cut(self._quantiles(share, metric, on), longest, on)
            case Buckets(metric):
                lines = self._rates_of_buckets(replace(metric, by=expression.by), on)
                return {key: _scaled(line, on.window_s) for key, line in lines.items()}
            case Portion(part, whole):
                whole_line = self._lines(whole, on).get((), [None] * len(on.times_s))
                return {key: quotient(line, whole_line) for key, line in self._lines(part, on).items()}
            case Share(part, whole):
                wholes = self._lines(whole, on)
                return {
                    key: quotient(line, wholes[key]) for key, line in self._lines(part, on).items() if key in wholes
                }
            case Sum(first, second):
                others = self._lines(second, on)
                return {key: added(line, others[key]) for key, line in self._lines(first, on).items() if key in others}
            case Either(first, second):
                others = self._lines(second, on)
                return others | {
                    key: _either(line, others.get(key, line)) for key, line in self._lines(first, on).items()
                }
            case _:
                return self._derived(expression, on)

    def _derived(self, expression: Expression, on: Grid) -> dict[Labels, Line]:
        """The lines that are computed from those of another expression."""
        match expression:
            case Over(share, window_s):
                return self._lines(share, replace(on, window_s=window_s))
            case Burn(kept, _):
                return {key: _burnt(line, expression.budget) for key, line in self._lines(kept, on).items()}
            case Imbalance(gauge, least):
                return {key: _imbalance(lines, least) for key, lines in self._by_server(gauge, on).items()}
            case Worst(quantile):
                return {key: largest(lines) for key, lines in self._by_server(quantile, on).items()}
            case _:
                return self._condition(expression, on)

    def _condition(self, expression: Expression, on: Grid) -> dict[Labels, Line]:
        """The lines that alerts compare."""
        match expression:
            case Grown(metric, window_s):
                over = replace(on, window_s=window_s)
                return self._grouped(metric, over, self._counter(over), total)
            case Most(metric, window_s):
                return self._windows(Gauge(metric, largest=True), on, window_s, max)
            case Least(of, window_s) | Average(of, window_s):
                most, read = MEASURED_RATIO * window_s / on.step_s, min if isinstance(expression, Least) else fmean
                return self._windows(of, on, window_s, lambda known: read(known) if len(known) >= most else None)
            case TimeShare(of, value, window_s):
                return self._windows(of, on, window_s, lambda known: known.count(value) / len(known))
            case Kinds(metric, label):
                apart = replace(metric, by=(*expression.by, label))
                found: dict[Labels, list[Line]] = defaultdict(list)
                for key, line in self._grouped(apart, on, self._holder(on), largest).items():
                    found[key[:-1]].append(line)
                return {key: total(_ones(line) for line in lines) for key, lines in found.items()}
            case Compared(of, sign, bound):
                return {key: _where(line, _SIGNS[sign], bound) for key, line in self._lines(of, on).items()}
            case Joined(first, "or", second):
                others = self._lines(second, on)
                return others | {
                    key: _either(line, others.get(key, line)) for key, line in self._lines(first, on).items()
                }
            case Joined(first, how, second):
                places = [first.by.index(label) for label in second.by]
                others = self._lines(second, on)
                return {
                    key: _joined(line, others.get(tuple(key[at] for at in places)), how == "and")
                    for key, line in self._lines(first, on).items()
                }
            case _:
                raise TypeError(f"no reader for {type(expression).__name__}")

    def _windows(
        self, of: Expression, on: Grid, window_s: float, read: Callable[[list[float]], Point]
    ) -> dict[Labels, Line]:
        """Each point read from the measured points of the window that ends with it; a gap without measured points."""
        reach = math.floor(window_s / on.step_s)
        longer = self._lines(of, replace(on, start_s=on.start_s - reach * on.step_s))
        return {
            key: [
                read(known) if (known := [point for point in line[at : at + reach + 1] if point is not None]) else None
                for at in range(len(on.times_s))
            ]
            for key, line in longer.items()
        }

    def _by_server(self, expression: Expression, on: Grid) -> dict[Labels, list[Line]]:
        """The lines of all servers, by the labels that the expression keeps apart."""
        found: dict[Labels, list[Line]] = defaultdict(list)
        for key, line in self._lines(by_instance(expression), on).items():
            found[key[1:]].append(line)
        return found

    def _cut(self, found: dict[Labels, Line], longest: Metric | None, on: Grid) -> dict[Labels, Line]:
        """Quantile lines, nowhere above the longest observation of their window."""
        if longest is None:
            return found
        tops = self._peaks(longest, on)
        return {key: cut(line, tops[key]) if key in tops else line for key, line in found.items()}

    def _peaks(self, metric: Metric, on: Grid) -> dict[Labels, Line]:
        """The largest sample of each window."""
        return self._grouped(metric, on, lambda times_s, values: peaks(times_s, values, on), largest)

    def _holder(self, on: Grid) -> Reader:
        return lambda times_s, values: held(times_s, values, on, self._held_s(on))

    def _rater(self, on: Grid) -> Reader:
        return lambda times_s, values: rate(times_s, values, on, self._held_s(on))

    def _counter(self, on: Grid) -> Reader:
        return lambda times_s, values: growth(times_s, values, on, self._held_s(on))

    def _held_s(self, on: Grid) -> float:
        """The greatest age of a sample at a point of the grid: the last point lies up to a step after now."""
        return self._stale_s + on.step_s

    def _grouped(self, metric: Metric, on: Grid, read: Reader, merge: Merge, suffix: str = "") -> dict[Labels, Line]:
        groups: dict[Labels, list[list[Point]]] = defaultdict(list)
        for labels, times_s, values in self._columns(metric, suffix, on.start_s - on.window_s):
            key = tuple(labels.get(label, "") for label in metric.by)
            groups[key].append(read(times_s, values))
        return {key: lines[0] if len(lines) == 1 else merge(lines) for key, lines in groups.items()}

    def _quantiles(self, share: float, metric: Metric, on: Grid) -> dict[Labels, Line]:
        apart = replace(metric, by=(*metric.by, "le"))
        buckets: dict[Labels, dict[float, Line]] = defaultdict(dict)
        for key, line in self._rates_of_buckets(apart, on).items():
            buckets[key[:-1]][float(key[-1])] = line
        return {key: quantiles(share, lines) for key, lines in buckets.items()}

    def _rates_of_buckets(self, metric: Metric, on: Grid) -> dict[Labels, Line]:
        name, *also = (f"{name}_bucket" for name in (metric.name, *metric.also))
        return self._lines(Rate(replace(metric, name=name, also=tuple(also))), on)


def _merge_of(gauge: Gauge) -> Merge:
    if gauge.least:
        return partial(_extreme, min)
    if gauge.mean:
        return partial(_extreme, fmean)
    return largest if gauge.largest else total


def largest(lines: Iterable[Line]) -> list[Point]:
    """The largest of the measured values, point by point; a gap where none was measured."""
    return _extreme(max, lines)


def _extreme(choose: Callable[[list[float]], float], lines: Iterable[Line]) -> list[Point]:
    columns = ([point for point in column if point is not None] for column in zip(*lines, strict=True))
    return [choose(known) if known else None for known in columns]


def _imbalance(lines: Iterable[Line], least: float) -> list[Point]:
    """The largest value over the mean, point by point; a gap where the largest is below ``least``."""
    columns = ([point for point in column if point is not None] for column in zip(*lines, strict=True))
    return [max(known) * len(known) / math.fsum(known) if known and max(known) >= least else None for known in columns]


def _scaled(line: Line, factor: float) -> list[Point]:
    return [None if point is None else point * factor for point in line]


def _burnt(line: Line, budget: float) -> list[Point]:
    return [None if point is None else (1 - point) / budget for point in line]


def _where(line: Line, holds: Callable[[float, float], bool], bound: float) -> list[Point]:
    return [point if point is not None and holds(point, bound) else None for point in line]


def _joined(line: Line, other: Line | None, wanted: bool) -> list[Point]:
    """The points of a line where another one has a point, or where it has none."""
    if other is None:
        return [None] * len(line) if wanted else list(line)
    return [point if (filled is not None) == wanted else None for point, filled in zip(line, other, strict=True)]


def _either(line: Line, other: Line) -> list[Point]:
    return [filled if point is None else point for point, filled in zip(line, other, strict=True)]


def _ones(line: Line) -> list[Point]:
    return [None if point is None else 1.0 for point in line]
