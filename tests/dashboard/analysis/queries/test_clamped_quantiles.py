"""Quantiles that are cut to the longest observation: from the ring, and by what PromQL's operators mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.queries.durations import quantile
from headway_dashboard.analysis.queries.expressions import Gauge, Quantile, limited
from headway_dashboard.analysis.queries.model import Grid, Point, cut, peaks
from headway_dashboard.sources.exposition import SampleKey
from headway_dashboard.sources.ring import Ring

BOUNDS = (0.1, 1.0, 5.0, 30.0, 45.0, math.inf)
CLASSES = ("realtime", "batch")
STEP_S = 2.0
WINDOW_S = 10.0
#: How many scrapes back the gauge of the longest looks: as far as the window, or a little further.
LOOKS_BACK = (5, 9)

Seen = Sequence[Mapping[str, Sequence[float]]]


def scrapes(seen: Seen, looks_back: int, *, longest: bool = True) -> list[dict[SampleKey, float]]:
    """What a server shows after each turn in which it saw these times to first token, in seconds, by class."""
    found: list[dict[SampleKey, float]] = []
    for turn in range(len(seen)):
        shown: dict[SampleKey, float] = {}
        for name in CLASSES:
            all_s = [value for one in seen[: turn + 1] for value in one.get(name, ())]
            recent_s = [value for one in seen[max(0, turn + 1 - looks_back) : turn + 1] for value in one.get(name, ())]
            for bound in BOUNDS:
                le = "+Inf" if math.isinf(bound) else str(bound)
                key = ("headway_time_to_first_token_seconds_bucket", (("class", name), ("le", le)))
                shown[key] = float(sum(value <= bound for value in all_s))
            if longest:
                shown["headway_longest_seconds", (("class", name), ("of", "first_token"))] = max(recent_s, default=0.0)
                shown["headway_longest_seconds", (("class", name), ("of", "wait"))] = 0.001
        found.append(shown)
    return found


def filled(history: Sequence[Mapping[SampleKey, float]]) -> tuple[Ring, Grid]:
    """A ring that scraped them all, and the instants of the scrapes."""
    ring = Ring(keep_s=600.0, stale_s=3 * STEP_S)
    for turn, shown in enumerate(history):
        ring.add(turn * STEP_S, shown.items())
    return ring, Grid(0.0, (len(history) - 1) * STEP_S, STEP_S, WINDOW_S)


def test_no_quantile_is_above_the_longest() -> None:
    """Nearly all first tokens came after 31.3 s: interpolated, p95 is 44.2 s, which nobody waited."""
    seen: Seen = [{"batch": [31.3] * 9 + [29.0]} for _ in range(8)]
    ring, on = filled(scrapes(seen, 30))
    p95 = quantile(0.95, "first_token")
    assert ring.evaluate(Quantile(0.95, p95.of), on).latest() == pytest.approx(44.1667, abs=0.001)
    assert ring.evaluate(p95, on).latest() == pytest.approx(31.3)
    assert ring.evaluate(panels.TTFT[0.95], on).latest() == pytest.approx(31.3)
    assert ring.evaluate(panels.TTFT_P95_BY_CLASS, on).latest("batch") == pytest.approx(31.3)


def test_an_older_server_is_read_as_before() -> None:
    """Without the gauge of the longest, and where that gauge saw none, the quantile is what the buckets give."""
    seen: Seen = [{"batch": [31.3]} for _ in range(8)]
    ring, on = filled(scrapes(seen, 30, longest=False))
    assert ring.evaluate(quantile(0.5, "first_token"), on).latest() == pytest.approx(37.5)
    ring, on = filled(scrapes(seen, 0))
    assert ring.evaluate(quantile(0.5, "first_token"), on).latest() == pytest.approx(37.5)


def test_a_class_filter_filters_the_longest_too() -> None:
    """The longest of another class must not let a quantile through."""
    seen: Seen = [{"batch": [44.0], "realtime": [31.3]} for _ in range(8)]
    ring, on = filled(scrapes(seen, 30))
    chosen = limited(quantile(0.95, "first_token"), "class", ("realtime",))
    assert ring.evaluate(chosen, on).latest() == pytest.approx(31.3)
    assert chosen.promql("1m").count('class=~"realtime"') == 3


def test_every_quantile_of_a_duration_is_cut() -> None:
    """Of the durations that the server knows the longest of, no panel shows a quantile that is not cut."""
    shown = [expression for page in ALL_PANELS.values() for panel in page for expression in panel.expressions]
    quantiles = [one for one in (*shown, panels.TTFT_P95_BY_CLASS) if isinstance(one, Quantile)]
    uncut = {quantile.of.name for quantile in quantiles if quantile.longest is None}
    assert uncut == set()
    assert {quantile.longest.by == quantile.of.by for quantile in quantiles if quantile.longest is not None} == {True}


# ---------------------------------------------------------------------- any history, and both readers

Vector = dict[tuple[str, ...], float]


def less(left: Vector, right: Vector) -> Vector:
    """PromQL's ``left < right``: the left elements that are less than those of the same labels on the right."""
    return {labels: value for labels, value in left.items() if labels in right and value < right[labels]}


def either(left: Vector, right: Vector) -> Vector:
    """PromQL's ``left or right``."""
    return {**right, **left}


times_s = st.lists(st.floats(0.01, 60.0), max_size=4)
histories = st.lists(st.dictionaries(st.sampled_from(CLASSES), times_s), min_size=3, max_size=14)


@given(histories, st.sampled_from(LOOKS_BACK), st.sampled_from([0.5, 0.95, 0.99]), st.sampled_from([(), ("class",)]))
def test_ring_and_promql_cut_alike(seen: Seen, looks_back: int, share: float, by: tuple[str, ...]) -> None:
    """At every instant the ring shows what PromQL's operators give, and never more than the longest that was seen."""
    ring, on = filled(scrapes(seen, looks_back))
    expression = quantile(share, "first_token", *by)
    assert expression.longest is not None
    uncut = replace_longest(expression)
    text = expression.promql("1m")
    assert text == f"(({peak_text(expression)} > 0) < {uncut.promql('1m')}) or {uncut.promql('1m')}"
    shown, plain = ring.evaluate(expression, on), ring.evaluate(uncut, on)
    assert shown.lines.keys() == plain.lines.keys()
    gauges = ring.evaluate(Gauge(expression.longest, largest=True), Grid(on.start_s, on.end_s, STEP_S, STEP_S))
    for at in range(len(on.times_s)):
        window = slice(max(0, at - int(WINDOW_S / STEP_S)), at + 1)
        tops = {labels: largest(line[window]) for labels, line in gauges.lines.items()}
        quantiles: Vector = {labels: point for labels, line in plain.lines.items() if (point := line[at]) is not None}
        expected = either(less({labels: top for labels, top in tops.items() if top > 0}, quantiles), quantiles)
        assert {labels: line[at] for labels, line in shown.lines.items() if line[at] is not None} == expected
        longest_s = max((value for one in seen for values in one.values() for value in values), default=0.0)
        assert all(value <= longest_s + 1e-9 for value in expected.values())


def replace_longest(expression: Quantile) -> Quantile:
    """The same quantile, not cut."""
    return Quantile(expression.share, expression.of)


def peak_text(expression: Quantile) -> str:
    """The PromQL of the longest in the window."""
    by = " by (class)" if expression.by else ""
    return f'max{by} (max_over_time(headway_longest_seconds{{of=~"first_token"}}[1m]))'


def largest(points: Sequence[Point]) -> float:
    """The largest point; 0 without any."""
    return max((point for point in points if point is not None), default=0.0)


@given(st.lists(st.none() | st.floats(0, 100), max_size=20), st.data())
def test_a_cut_only_lowers(line: list[float | None], data: st.DataObject) -> None:
    """A gap stays a gap, no point rises, and a top that is missing or 0 changes nothing."""
    tops = data.draw(st.lists(st.none() | st.floats(0, 100), min_size=len(line), max_size=len(line)))
    for before, top, after in zip(line, tops, cut(line, tops), strict=True):
        if before is None or not top:
            assert after == before
        else:
            assert after == min(before, top)


def test_peaks_look_back_as_far_as_a_rate() -> None:
    """Both ends of the window count; an empty window is a gap."""
    on = Grid(0.0, 40.0, 10.0, 20.0)
    assert peaks([5.0, 10.0], [3.0, 1.0], on) == [None, 3.0, 3.0, 1.0, None]
