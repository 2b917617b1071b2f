"""Whatever the facts are: the diagnosis never praises what goes wrong, and has no holes."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

from diagnosed_facts import INF, JUST_ABOVE, NAN, is_favourable
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.diagnosis import (
    ClassFacts,
    Facts,
    Forecasted,
    Severity,
    diagnose,
)
from headway_policies.engine import EngineState
from headway_policies.limits import WHYS

NAMES = st.sampled_from(["realtime", "normal", "batch"])
maybe = st.none() | st.floats(0, 1000) | st.sampled_from([NAN, INF, 0.0])
bounds = st.none() | st.floats(0.001, 1000) | st.just(INF)
shares = st.none() | st.floats(0, 0.02) | st.floats(0, 1) | st.sampled_from([NAN, 0.0, 0.01, JUST_ABOVE])
class_facts = st.builds(
    ClassFacts,
    NAMES,
    ttft_p95_s=maybe,
    inter_token_p95_s=maybe,
    error_share=shares,
    ttft_slo_s=bounds,
    first_token_timeout_s=bounds,
    inter_token_slo_s=bounds,
    overloaded=st.booleans(),
    idle=st.booleans(),
)
forecasts = st.builds(
    Forecasted,
    st.sampled_from(["latency", "throughput"]),
    st.integers(1, 64),
    st.floats(0, 1),
    st.booleans(),
    st.none() | st.floats(0, 100),
    st.none() | st.floats(0, 1),
)
any_facts = st.builds(
    Facts,
    engine=st.none() | st.sampled_from(EngineState),
    stopped=st.sampled_from(["", "", "", "draining"]),
    planned=st.booleans(),
    replaceable=st.none() | st.booleans(),
    restarts_hung=st.none() | st.booleans(),
    strategy=st.sampled_from(["", "static", "dynamic", "continuous"]),
    adaptive=st.none() | st.booleans(),
    seats_taken=maybe,
    limit=maybe,
    ceiling=maybe,
    limit_reason=st.sampled_from(["", *WHYS]),
    reserved_seats=st.floats(0, 10) | st.just(NAN),
    queued=maybe,
    oldest_wait_s=maybe,
    used_while_waiting=shares,
    window_s=st.sampled_from([0.0, INF, NAN]) | st.floats(0.01, 1),
    capped=st.booleans(),
    mean_batch=maybe,
    kv_ratio=shares,
    preemptions=st.none() | st.integers(0, 3).map(float),
    doubling_gain=shares,
    error_share=shares,
    failed_share=shares,
    invalid_share=shares,
    expired_share=shares,
    refused_share=shares,
    causes=st.dictionaries(st.sampled_from(["failed", "shed", "other: x"]), st.floats(0, 10)),
    rung=st.sampled_from(["", "normal", "cap", "shed", "pause"]),
    rung_set=st.booleans(),
    ttft_p95_s=maybe,
    classes=st.lists(class_facts, max_size=3).map(tuple),
    forecast=st.none() | forecasts,
    forecasts=st.lists(forecasts, max_size=2).map(tuple),
)


def over(value: float | None, *bounds_of_it: float | None) -> bool:
    """Whether a number is measured and above a bound that is known."""
    return value is not None and math.isfinite(value) and any(b is not None and value > b for b in bounds_of_it)


def goes_wrong(facts: Facts) -> bool:
    """Written anew, not taken from the diagnosis."""
    invalid = facts.invalid_share if over(facts.invalid_share, 0.0) else 0.0
    faults = None if facts.error_share is None else facts.error_share - (invalid or 0.0)
    return any(over(share, 0.01) for share in (faults, *(one.error_share for one in facts.classes))) or any(
        over(one.ttft_p95_s, one.ttft_slo_s, one.first_token_timeout_s)
        or over(one.inter_token_p95_s, one.inter_token_slo_s)
        for one in facts.classes
    )


@given(any_facts)
def test_it_never_praises_a_server_that_errs_or_misses_an_objective(facts: Facts) -> None:
    """Errors above 1 % in all or in one class, or an objective missed; nor one of which too little is known."""
    found = diagnose(facts)
    unknown = [facts.queued, facts.limit, facts.seats_taken]
    if goes_wrong(facts):
        assert found.severity >= Severity.DEGRADED
    if any(figure is None or not math.isfinite(figure) for figure in unknown):
        assert not is_favourable(found)
    if facts.engine not in (None, EngineState.UP) or facts.stopped:
        assert found.severity > Severity.OK if facts.planned else found.severity is Severity.DOWN


@given(any_facts)
def test_it_always_is_one_paragraph_without_holes(facts: Facts) -> None:
    """Whatever is missing or no number, there are sentences, and they never say None, nan or inf."""
    found = diagnose(facts)
    assert found.sentence.endswith(".")
    texts = [found.sentence, *(text for one in found.remedies for text in (one.action, one.cost))]
    assert not any(re.search(r"\b(None|nan|inf)\b", text) for text in texts)
    assert all(one.action and one.cost for one in found.remedies)
    assert all(math.isfinite(one.value) for one in found.evidence)


@given(any_facts)
def test_more_seats_are_never_advised_where_they_would_hurt(facts: Facts) -> None:
    """While tokens come too slowly, or the memory is full, a setting with more seats is no remedy."""
    found = diagnose(facts)
    slow = any(over(one.inter_token_p95_s, one.inter_token_slo_s) for one in facts.classes)
    if slow or over(facts.kv_ratio, 0.95):
        assert not any("more seats" in one.action for one in found.remedies)


@given(any_facts, st.floats(0.02, 1))
def test_it_gets_no_better_with_more_errors(facts: Facts, share: float) -> None:
    """The severity never falls as the share of errors grows."""
    course = [diagnose(replace(facts, error_share=one)).severity for one in (0.0, share)]
    if facts.error_share is not None:
        assert all(before <= after for before, after in pairwise(course))
