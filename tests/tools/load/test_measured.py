"""The figures of an arm: each request counts once, and memory does not grow."""

from __future__ import annotations

import random
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.traffic.workload import Request
from headway_tools.load.measured import MAX_REASONS, Measured
from headway_tools.load.quantiles import ERROR_RATIO, Quantiles
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, UNANSWERED, Served

SLO = Slo(1.0, 0.05)


@given(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_is_within_its_error_of_the_nearest_rank(values: list[float], ratio: float) -> None:
    """Of any values."""
    sketch = Quantiles()
    for value in values:
        sketch.add(value)
    rank = max(-int(-ratio * len(values) // 1), 1)
    found = sketch.quantile(ratio)
    assert found == pytest.approx(sorted(values)[rank - 1], rel=1.01 * ERROR_RATIO)


def test_a_sketch_does_not_grow_with_what_it_has_seen() -> None:
    """A hundred thousand values of all sizes, zero and infinity too: a bounded number of buckets; merged as if one."""
    draw = random.Random(1)
    whole, parts = Quantiles(), (Quantiles(), Quantiles())
    for number in range(100_000):
        value = 10 ** draw.uniform(-9, 9)
        whole.add(value)
        parts[number % 2].add(value)
    whole.add(0.0)
    whole.add(1e300)
    assert len(whole._counts) < 1300
    parts[0].merge(parts[1])
    assert (parts[0].count, parts[0].quantile(0.5)) == (100_000, whole.quantile(0.5))
    assert Quantiles().quantile(0.5) is Quantiles().spread().mean_s is None


def measured() -> Measured:
    """One class of each ending, after a warm-up of 10 s."""
    found = Measured(SLO, 10.0, 90.0)
    ends = {
        "good": Served("", COMPLETED, 0.5, 11, inter_token_s=0.02),
        "late": Served("", COMPLETED, 1.5, 11, inter_token_s=0.02),
        "slow": Served("", COMPLETED, 0.5, 11, inter_token_s=0.06),
        "refused": Served("", REFUSED, why="429 shed", retry_after_s=3),
        "bare": Served("", REFUSED, why="status 503"),
        "error": Served("", FAILED, 0.5, 2, why="status 500"),
        "cut": Served("", UNANSWERED, 0.5, 2, why="cut"),
    }
    for name, served in ends.items():
        for at_s in (5.0, 20.0):
            request = Request(at_s, name, 8, 11, tenant=name)
            found.offer(request)
            found.end(request, served, at_s + 1)
    found.offer(Request(30.0, "open", 8, 11))
    return found


def test_every_request_is_counted_by_its_end() -> None:
    """Within both objectives or not; refused with its advice; with an error; without an answer, or without an end."""
    one = measured().all
    assert (one.offered, one.completed, one.good, one.good_tokens, one.tokens) == (8, 3, 1, 11, 37)
    assert (one.refused, one.failed) == ({"429 shed": 1, "status 503": 1}, {"status 500": 1, "cut": 1})
    assert (one.advised, one.advice_s) == (1, (3, 3))
    assert (one.unanswered, one.attained_ratio) == (2, 1 / 8)


def test_the_warm_up_counts_only_where_no_answer_came() -> None:
    """One cut stream in it, one after it, and one request that never ended."""
    assert measured().unanswered == 3


def test_two_times_of_an_arm_are_added() -> None:
    """Counts, spans, sketches, tenants; the range of the advice and the largest lag."""
    first, second = measured(), measured()
    second.lag_s = 0.5
    extra = Request(20.0, "refused", 8, 11)
    second.offer(extra)
    second.end(extra, Served("refused", REFUSED, why="429 shed", retry_after_s=9), 190.0)
    first.merge(second)
    assert (first.span_s, first.serving_s, first.unanswered, first.lag_s) == (180.0, 270.0, 6, 0.5)
    one = first.by_class()["refused"]
    assert (one.offered, one.refused, one.advised, one.advice_s) == (3, {"429 shed": 3}, 3, (3, 9))
    assert first.by_class()["all"].ttft.count == 10


def test_tokens_a_second_are_of_the_time_until_the_last_end() -> None:
    """A server that falls behind made no more than it made; a server that is idle at the end no less."""
    late, early = Measured(SLO, 1.0, 9.0), Measured(SLO, 1.0, 9.0)
    for arm, ended_s in ((late, 31.0), (early, 3.0)):
        request = Request(2.0, "c", 5, 60)
        arm.offer(request)
        arm.end(request, Served("c", COMPLETED, 0.1, 60), ended_s)
    assert (late.tokens_per_s, early.tokens_per_s) == (2.0, pytest.approx(60 / 9))


def test_fairness_needs_several_tenants() -> None:
    """1 where each got its max-min share."""
    alone, both = Measured(SLO, 0, 1), Measured(SLO, 0, 1)
    for arm, names in ((alone, ("",)), (both, ("a", "b"))):
        for name in names:
            request = Request(0.0, "c", 5, 5, tenant=name)
            arm.offer(request)
            arm.end(request, Served("c", COMPLETED, 0.1, 5), 0.5)
    assert (alone.jain, both.jain) == (None, pytest.approx(1.0))
    request = Request(0.0, "c", 5, 5, tenant="c")
    both.offer(request)
    assert both.jain is not None
    assert both.jain < 1


def test_reasons_without_end_count_together() -> None:
    """A server that names each refusal differently."""
    found = Measured(SLO, 0.0, 1.0)
    for number in range(200):
        request = Request(0.0, "c", 1, 1)
        found.offer(request)
        found.end(request, Served("c", REFUSED, why=f"reason {number}"), 1.0)
    refused = found.classes["c"].refused
    assert (len(refused), refused.total(), refused["other"]) == (MAX_REASONS + 1, 200, 200 - MAX_REASONS)


def test_the_quantiles_of_many_values_are_those_of_the_standard_library() -> None:
    """Within the error of the sketch."""
    draw = random.Random(3)
    values = [draw.lognormvariate(-3, 1) for _ in range(20_000)]
    sketch = Quantiles()
    for value in values:
        sketch.add(value)
    exact = quantiles(values, n=100)
    for percent in (50, 95, 99):
        assert sketch.quantile(percent / 100) == pytest.approx(exact[percent - 1], rel=2 * ERROR_RATIO)
