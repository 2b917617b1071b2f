"""Expressions: one definition, evaluated in PromQL and from the ring with the same result."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headway_dashboard.analysis.queries import expressions as ex
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.sources.exposition import canonical, samples
from headway_dashboard.sources.ring import Ring

DEPTH = ex.Metric("headway_queue_depth", by=("class",))
TTFT = ex.Metric("headway_time_to_first_token_seconds")
TOKENS = ex.Metric("vllm:generation_tokens_total")


@pytest.mark.parametrize(
    ("expression", "promql"),
    [
        (ex.Gauge(DEPTH), "sum by (class) (headway_queue_depth)"),
        (ex.Gauge(ex.Metric("x", (("kind", ("live",)),)), largest=True), 'max (x{kind=~"live"})'),
        (ex.Peak(ex.Metric("x", (("kind", ("live",)),))), 'max (max_over_time(x{kind=~"live"}[1m]))'),
        (ex.Peak(DEPTH), "max by (class) (max_over_time(headway_queue_depth[1m]))"),
        (ex.Rate(TOKENS), 'sum (rate({__name__=~"(ray_)?vllm[:_]generation_tokens_total"}[1m]))'),
        (
            ex.Quantile(0.95, TTFT),
            "histogram_quantile(0.95, sum by (le) (rate(headway_time_to_first_token_seconds_bucket[1m])))",
        ),
        (
            ex.Mean(ex.Metric("headway_batch_size")),
            "sum (rate(headway_batch_size_sum[1m])) / (sum (rate(headway_batch_size_count[1m])) > 0)",
        ),
        (
            ex.Share(ex.Rate(ex.Metric("a")), ex.Rate(ex.Metric("b"))),
            "sum (rate(a[1m])) / (sum (rate(b[1m])) > 0)",
        ),
        (ex.Either(ex.Gauge(ex.Metric("a")), ex.Gauge(ex.Metric("b"))), "sum (a) or sum (b)"),
        (
            ex.Rate(ex.Metric("a", (("class", ("x",)),), ("class",), ("b",), (("outcome", ("y", "z")),))),
            'sum by (class) (rate({__name__=~"a|b",class=~"x",outcome!~"y|z"}[1m]))',
        ),
        (
            ex.Quantile(0.5, TTFT, ex.Metric("longest")),
            "((max (max_over_time(longest[1m])) > 0) < "
            "histogram_quantile(0.5, sum by (le) (rate(headway_time_to_first_token_seconds_bucket[1m])))) or "
            "histogram_quantile(0.5, sum by (le) (rate(headway_time_to_first_token_seconds_bucket[1m])))",
        ),
        (ex.Buckets(TTFT), "sum by (le) (increase(headway_time_to_first_token_seconds_bucket[1m]))"),
        (
            ex.Portion(ex.Rate(DEPTH), ex.Rate(ex.Metric("b"))),
            "sum by (class) (rate(headway_queue_depth[1m])) / on () group_left () (sum (rate(b[1m])) > 0)",
        ),
        (
            ex.Burn(ex.Over(ex.Share(ex.Rate(ex.Metric("a")), ex.Rate(ex.Metric("b"))), 300.0), 0.99),
            "(1 - sum (rate(a[300s])) / (sum (rate(b[300s])) > 0)) / 0.01",
        ),
        (
            ex.Imbalance(ex.Gauge(ex.Metric("a")), 5.0),
            "(max (sum by (instance) (a)) >= 5) / avg (sum by (instance) (a))",
        ),
        (
            ex.Imbalance(ex.Gauge(DEPTH), 5.0),
            "(max by (class) (sum by (instance, class) (headway_queue_depth)) >= 5)"
            " / avg by (class) (sum by (instance, class) (headway_queue_depth))",
        ),
        (
            ex.limited(ex.Worst(ex.Quantile(0.95, TTFT)), "class", ("batch",)),
            "max (histogram_quantile(0.95, sum by (le, instance)"
            ' (rate(headway_time_to_first_token_seconds_bucket{class=~"batch"}[1m]))))',
        ),
        (ex.limited(ex.Gauge(DEPTH), "class", ('a"b', "c.d")), None),
    ],
    ids=[
        "by class",
        "largest",
        "peak",
        "peak by class",
        "engine name",
        "quantile",
        "mean",
        "share",
        "either",
        "two metrics",
        "quantile cut to the longest",
        "buckets",
        "portion of a whole",
        "burn over a window of its own",
        "imbalance",
        "imbalance by class",
        "quantile of the worst server",
        "hostile label values",
    ],
)
def test_promql(expression: ex.Expression, promql: str | None) -> None:
    """The text that Prometheus gets."""
    expected = promql or 'sum by (class) (headway_queue_depth{class=~"a\\"b|c\\\\.d"})'
    assert expression.promql("1m") == expected


@pytest.mark.parametrize("spelling", ["vllm:x_total", "vllm_x_total", "ray_vllm_x_total", "ray_vllm:x_total"])
def test_engine_names_are_met_in_every_spelling(spelling: str) -> None:
    """Ray and some servers rewrite the colon; the dashboard must not go blank over it."""
    assert canonical(spelling) == "vllm:x_total"


def test_foreign_metrics_are_ignored() -> None:
    """The ring keeps the dashboard's own series only: no python or _created series, of the process its start alone."""
    registry = CollectorRegistry()
    Gauge("process_open_fds", "-", registry=registry).set(3)
    Gauge("process_start_time_seconds", "-", registry=registry).set(900)
    Counter("headway_arrivals", "-", registry=registry).inc()
    Gauge("vllm:cache_config_info", "-", ["block_size"], registry=registry).labels("16").set(1)
    names = {name for (name, _), _ in samples(generate_latest(registry).decode())}
    assert names == {"headway_arrivals_total", "process_start_time_seconds"}


class Filled:
    """A ring that was fed by a real registry, one scrape every two seconds."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.depth = Gauge("headway_queue_depth", "-", ["class"], registry=self.registry)
        self.arrivals = Counter("headway_arrivals", "-", ["class"], registry=self.registry)
        self.first = Histogram(
            "headway_time_to_first_token_seconds", "-", ["class"], buckets=(0.1, 0.5, 1.0), registry=self.registry
        )
        self.batch = Histogram("headway_batch_size", "-", buckets=(8, 16), registry=self.registry)
        self.ring = Ring(keep_s=60, stale_s=6)
        self.now_s = 1000.0

    def scrape(self) -> None:
        """Two seconds later."""
        self.now_s += 2
        self.ring.add(self.now_s, samples(generate_latest(self.registry).decode()))

    def latest(self, expression: ex.Expression, *labels: str) -> float | None:
        """The newest point."""
        return self.ring.evaluate(expression, Grid(self.now_s - 10, self.now_s, 2, 30)).latest(*labels)


@pytest.fixture
def filled() -> Filled:
    """Ten scrapes: 3 realtime and 1 batch arrivals and one 0.3 s first token each, steps of 4 and 12 sequences."""
    one = Filled()
    for index in range(10):
        one.depth.labels("realtime").set(index)
        one.depth.labels("batch").set(5)
        one.arrivals.labels("realtime").inc(3)
        one.arrivals.labels("batch").inc(1)
        one.first.labels("realtime").observe(0.3)
        one.batch.observe(4)
        one.batch.observe(12)
        one.scrape()
    return one


def test_ring_reads_what_the_registry_said(filled: Filled) -> None:
    """Each kind of expression, with its answer worked out by hand."""
    arrivals = ex.Metric("headway_arrivals_total", by=("class",))
    assert filled.latest(ex.Gauge(DEPTH), "realtime") == 9
    assert filled.latest(ex.Gauge(ex.Metric("headway_queue_depth"))) == 14
    assert filled.latest(ex.Gauge(ex.Metric("headway_queue_depth"), largest=True)) == 9
    assert filled.latest(ex.Rate(arrivals), "realtime") == pytest.approx(1.5)
    assert filled.latest(ex.Rate(ex.Metric("headway_arrivals_total"))) == pytest.approx(2.0)
    assert filled.latest(ex.Quantile(0.5, TTFT)) == pytest.approx(0.3)
    assert filled.latest(ex.Mean(ex.Metric("headway_batch_size"))) == pytest.approx(8.0)
    share = ex.Share(
        ex.Rate(ex.Metric("headway_arrivals_total", (("class", ("batch",)),))),
        ex.Rate(ex.Metric("headway_arrivals_total")),
    )
    assert filled.latest(share) == pytest.approx(0.25)
    limited = ex.limited(ex.Rate(ex.Metric("headway_arrivals_total")), "class", ("batch",))
    assert filled.latest(limited) == pytest.approx(0.5)


def test_ring_reads_what_is_made_of_others(filled: Filled) -> None:
    """Buckets, portions, fixed look backs, burn rates and bounds, worked out by hand."""
    by_class = ex.Rate(ex.Metric("headway_arrivals_total", by=("class",)))
    everything = ex.Rate(ex.Metric("headway_arrivals_total"))
    assert filled.latest(ex.Portion(by_class, everything), "realtime") == pytest.approx(0.75)
    assert filled.latest(ex.limited(ex.Portion(by_class, everything), "class", ("batch",)), "batch") == pytest.approx(
        0.25
    )
    buckets = ex.Buckets(ex.Metric("headway_batch_size"))
    assert [filled.latest(buckets, le) for le in ("8.0", "16.0", "+Inf")] == pytest.approx([15.0, 30.0, 30.0])
    batch = ex.Share(by_class, by_class)
    kept = ex.Share(ex.Rate(ex.Metric("headway_arrivals_total", (("class", ("realtime",)),))), everything)
    assert filled.latest(ex.Over(batch, 4.0), "batch") == 1.0
    assert filled.latest(ex.Burn(ex.Over(kept, 8.0), 0.9)) == pytest.approx(2.5)


def test_a_look_back_of_its_own_is_kept(filled: Filled) -> None:
    """An event of 40 s ago is in the longer look back and not in the shorter one."""
    share = ex.Share(
        ex.Rate(ex.Metric("headway_arrivals_total", (("class", ("batch",)),))),
        ex.Rate(ex.Metric("headway_arrivals_total")),
    )
    for _ in range(20):
        filled.arrivals.labels("realtime").inc(3)
        filled.scrape()
    assert filled.latest(ex.Over(share, 10.0)) == 0.0
    longer = filled.latest(ex.Over(share, 55.0))
    assert longer is not None
    assert longer > 0.05


def test_limits_reach_every_metric() -> None:
    """A class filter is in all parts of an expression, but for the whole of a portion."""
    rate = ex.Rate(ex.Metric("a", by=("class",)))
    whole: list[tuple[ex.Expression, int]] = [
        (ex.Burn(ex.Over(ex.Share(rate, rate), 60.0), 0.99), 2),
        (ex.Quantile(0.5, TTFT, TTFT), 3),
        (ex.Buckets(TTFT), 1),
        (ex.Peak(DEPTH), 1),
        (ex.Portion(rate, ex.Rate(ex.Metric("a"))), 1),
    ]
    for expression, parts in whole:
        assert ex.limited(expression, "class", ("one",)).promql("1m").count('class=~"one"') == parts
        assert ex.limited(expression, "class", ()) is expression


def test_either_takes_the_second_where_the_first_is_absent(filled: Filled) -> None:
    """The engine's own metric is used instead of Headway's."""
    absent, present = ex.Gauge(ex.Metric("headway_nothing")), ex.Gauge(ex.Metric("headway_queue_depth"))
    assert filled.latest(ex.Either(absent, present)) == 14
    assert filled.latest(ex.Either(present, absent)) == 14


def test_two_metrics_are_read_as_one_and_labels_omitted(filled: Filled) -> None:
    """As in PromQL, a label that a series does not have is empty, and so is not omitted."""
    both = ex.Metric("headway_arrivals_total", also=("headway_time_to_first_token_seconds_count",))
    assert filled.latest(ex.Rate(both)) == pytest.approx(2.5)
    assert filled.latest(ex.Rate(replace(both, without=(("class", ("batch",)),)))) == pytest.approx(2.0)
    assert filled.latest(ex.Rate(replace(both, without=(("outcome", ("batch",)),)))) == pytest.approx(2.5)
    assert filled.latest(ex.Rate(replace(both, without=(("outcome", ("",)),)))) is None


def test_unknown_metrics_are_missing_not_zero(filled: Filled) -> None:
    """Nothing is drawn where nothing was measured."""
    assert filled.latest(ex.Gauge(ex.Metric("headway_nothing"))) is None
    assert filled.latest(ex.Quantile(0.5, ex.Metric("headway_nothing"))) is None


def test_ring_forgets_and_survives_a_clock_set_back(filled: Filled) -> None:
    """Old scrapes go; when the clock goes back, the scrapes it contradicts go as well."""
    for _ in range(60):
        filled.scrape()
    assert len(filled.ring) <= 31
    filled.now_s -= 20
    filled.scrape()
    assert filled.latest(ex.Gauge(ex.Metric("headway_queue_depth"))) == 14


def test_series_that_vanish_leave_a_gap() -> None:
    """A label set that a later scrape no longer has ends; it is not carried on."""
    ring = Ring(keep_s=60, stale_s=3)
    key = ("headway_preset_info", (("preset", "balanced"), ("revision", "1")))
    for time_s in (0.0, 2.0, 4.0):
        ring.add(time_s, [(key, 1.0)])
    for time_s in (6.0, 8.0, 10.0, 12.0):
        ring.add(time_s, [(("headway_ready", ()), 1.0)])
    line = ring.evaluate(ex.Gauge(ex.Metric("headway_preset_info")), Grid(0, 12, 2, 30)).line()
    assert line[:3] == [1, 1, 1]
    assert line[-1] is None
    assert not any(isinstance(point, float) and math.isnan(point) for point in line)
