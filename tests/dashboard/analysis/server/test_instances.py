"""Several servers: their names, their health together, and whether the expressions can be merged."""

from __future__ import annotations

from itertools import chain

import pytest

from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.catalogue.fleet_panels import READY_SERVERS
from headway_dashboard.analysis.queries import expressions as ex
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server.instances import (
    away_details,
    away_words,
    by_instance,
    health_of_all,
    instance_name,
    of_instances,
)

GOOD = Health(last_ok_s=100.0)
REFUSED = Health(90.0, 5, "refused", "nothing answers", 92.0)
SILENT = Health(80.0, 3, "silent", "no answer in time", 85.0)
#: What is one-hot, a share, a number for a word, or of one server: a sum of it over servers says nothing.
NO_SUM = ("ratio", "_perc", "ready", "severity", "bottleneck", "state", "info", "rung", "oldest", "objective_seconds",
          "window_seconds", "timestamp", "overloaded")  # fmt: skip


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://10.0.0.5:8000", "10.0.0.5:8000"),
        ("https://llm.example", "llm.example"),
        ("http://h:1/a/", "h:1/a"),
        ("http://[::1]:8000", "[::1]:8000"),
    ],
)
def test_a_server_has_the_name_that_prometheus_gives_it(url: str, name: str) -> None:
    """Host and port, as in the label instance."""
    assert instance_name(url) == name


@pytest.mark.parametrize(
    ("healths", "expected"),
    [
        ([REFUSED], REFUSED),
        ([GOOD, REFUSED], Health(last_ok_s=100.0)),
        ([Health(), REFUSED], Health(last_ok_s=90.0)),
        ([SILENT, REFUSED], Health(90.0, 3, "silent", "none of the 2 servers answers", 92.0)),
        ([REFUSED, REFUSED], Health(90.0, 5, "refused", "nothing answers", 92.0)),
        ([Health(), Health()], Health()),
        ([], Health()),
    ],
    ids=["one", "one answers", "one not asked yet", "none answers", "all refuse", "none asked yet", "none"],
)
def test_the_health_of_all(healths: list[Health], expected: Health) -> None:
    """One that answers is enough; where none does, what is true of the last."""
    assert health_of_all(healths) == expected


def test_words_about_those_that_are_away() -> None:
    """How many, which and why; silence where all answer, or none."""
    reading = SourceReading({}, GOOD, 2.0, "test", instances={"a": GOOD, "b": REFUSED, "c": SILENT})
    assert away_words(reading, 100.0) == "2 of 3 servers do not answer."
    assert "b (nothing answers), c (no answer in time)" in away_details(reading, 100.0)
    for instances in ({"a": GOOD, "b": GOOD}, {"a": REFUSED, "b": SILENT}, {"a": REFUSED}, {}):
        assert away_words(SourceReading({}, GOOD, 2.0, "test", instances=instances), 100.0) == ""


def test_limits_and_lines_by_instance_reach_every_metric() -> None:
    """Also the whole of a portion, which a class filter leaves alone, and the metric that cuts a quantile."""
    rate = ex.Rate(ex.Metric("a", by=("class",)))
    for expression, parts in (
        (ex.Portion(rate, ex.Rate(ex.Metric("a"))), 2),
        (ex.Quantile(0.5, ex.Metric("h"), ex.Metric("longest")), 3),
        (ex.Peak(ex.Metric("a", by=("state",))), 1),
        (ex.Burn(ex.Over(ex.Share(rate, rate), 60.0), 0.99), 2),
        (ex.Either(ex.Gauge(ex.Metric("a")), ex.Gauge(ex.Metric("b"))), 2),
    ):
        assert of_instances(expression, ("h:1",)).promql("1m").count('instance=~"h:1"') == parts
        assert of_instances(expression, ()) is expression
    assert by_instance(ex.Gauge(ex.Metric("a"))).promql("1m") == "sum by (instance) (a)"
    assert by_instance(panels.KV_USE).promql("1m").count("by (instance)") == 2


def gauges(expression: ex.Expression) -> list[ex.Gauge]:
    """The gauges in an expression."""
    match expression:
        case ex.Gauge():
            return [expression]
        case ex.Either(first, second):
            return [first, second]
        case _:
            return []


def test_no_gauge_is_summed_over_servers_that_has_no_sum() -> None:
    """Ratios, states, numbers that stand for a word, ages and objectives: the worst one is taken.

    Only the number of ready servers is meant as a sum.
    """
    shown = chain.from_iterable(panel.expressions for page in ALL_PANELS.values() for panel in page)
    facts = (*panels.FACTS, *panels.FACTS_BY_CLASS, *panels.HEAD, *panels.CLASS_TABLE, *panels.IDENTITY)
    found = [gauge for one in (*shown, *facts) for gauge in gauges(one) if gauge != READY_SERVERS]
    summed = {one.of.name for one in found if not (one.largest or one.least)}
    assert "headway_queue_depth" in summed
    assert [name for name in summed if any(word in name for word in NO_SUM)] == []
