"""What the exports do with an expression: every kind of the catalogue, by server and with Grafana's variables."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.queries.expressions import (
    Either,
    Expression,
    Gauge,
    Mean,
    Metric,
    Quantile,
    Rate,
    Share,
)
from headway_dashboard.analysis.queries.metric import by_server, names_of
from headway_dashboard.export.board_query import board_promql

A, B = Metric("headway_a", by=("gpu",)), Metric("headway_b", by=("gpu",))


@pytest.mark.parametrize(
    ("expression", "promql"),
    [
        (Gauge(A), "sum by (job, instance, gpu) (headway_a)"),
        (Rate(A), "sum by (job, instance, gpu) (rate(headway_a[5m]))"),
        (
            Quantile(0.95, A),
            "histogram_quantile(0.95, sum by (le, job, instance, gpu) (rate(headway_a_bucket[5m])))",
        ),
        (
            Share(Rate(A), Rate(B)),
            "sum by (job, instance, gpu) (rate(headway_a[5m]))"
            " / (sum by (job, instance, gpu) (rate(headway_b[5m])) > 0)",
        ),
        (
            Either(Gauge(A), Gauge(B)),
            "sum by (job, instance, gpu) (headway_a) or sum by (job, instance, gpu) (headway_b)",
        ),
    ],
    ids=["gauge", "rate", "quantile", "share", "either"],
)
def test_an_alert_keeps_servers_apart(expression: Expression, promql: str) -> None:
    """One server's trouble is not averaged away by the others."""
    assert by_server(expression).promql("5m") == promql


@pytest.mark.parametrize(
    "expression",
    [
        Gauge(A),
        Mean(A),
        Share(Rate(A), Rate(B)),
        Share(Gauge(A), Gauge(B)),
        Either(Gauge(A), Gauge(Metric("vllm:c"))),
    ],
    ids=["gauge", "mean", "share", "ratio", "either"],
)
def test_a_board_limits_every_metric_of_an_expression(expression: Expression) -> None:
    """Both parts of a quotient are of the same servers."""
    text = board_promql(expression)
    assert text.count('job=~"$job"') == text.count('instance=~"$instance"') == text.count("{")
    assert "$class" not in text


def test_a_class_is_chosen_only_where_the_metric_has_one() -> None:
    """Batch size has none: its chart would be empty."""
    assert 'class=~"$class"' in board_promql(Gauge(Metric("headway_queue_depth")))
    assert "$class" not in board_promql(Mean(Metric("headway_batch_size")))


def test_the_metrics_of_an_expression_are_named_once() -> None:
    """In the order in which they are read."""
    ends = Metric("headway_x", also=("headway_y",))
    assert names_of(Share(Rate(ends), Rate(ends))) == ("headway_x", "headway_y")
