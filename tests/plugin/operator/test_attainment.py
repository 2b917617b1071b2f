"""Which requests are judged by which objectives, and which of them met it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_presets import terms

from headway.admission import EndedRequest
from headway.operator.attainment import BOTH, FIRST_TOKEN, INTER_TOKEN, judged, objectives_s
from headway_policies import Outcome, PriorityClass, Usage

BOTH_STATED = terms(1, ttft_slo_s=1.0, inter_token_slo_ms=50)
FIRST_STATED = terms(1, ttft_slo_s=1.0)
PACE_STATED = terms(1, inter_token_slo_ms=50)


def ended(
    own: PriorityClass | None,
    outcome: Outcome = Outcome.COMPLETED,
    first_token_s: float | None = 0.5,
    pace_s: float = 0.04,
) -> EndedRequest:
    """A request with one sequence."""
    return EndedRequest("chat", outcome, own, True, first_token_s, 2.0, 3.0, pace_s, Usage(10, 20))


@pytest.mark.parametrize(
    ("request_", "verdicts"),
    [
        (ended(BOTH_STATED), {FIRST_TOKEN: True, INTER_TOKEN: True, BOTH: True}),
        (ended(BOTH_STATED, first_token_s=1.0, pace_s=0.05), {FIRST_TOKEN: True, INTER_TOKEN: True, BOTH: True}),
        (ended(BOTH_STATED, first_token_s=1.01), {FIRST_TOKEN: False, INTER_TOKEN: True, BOTH: False}),
        (ended(BOTH_STATED, pace_s=0.051), {FIRST_TOKEN: True, INTER_TOKEN: False, BOTH: False}),
        (ended(BOTH_STATED, pace_s=0.0), {FIRST_TOKEN: True, BOTH: True}),
        (ended(BOTH_STATED, Outcome.EXPIRED_RUNNING), {FIRST_TOKEN: False, BOTH: False}),
        (ended(BOTH_STATED, Outcome.REJECTED_FULL, None, 0.0), {FIRST_TOKEN: False, BOTH: False}),
        (ended(BOTH_STATED, Outcome.CANCELLED_RUNNING), {}),
        (ended(BOTH_STATED, Outcome.REJECTED_INVALID), {}),
        (ended(FIRST_STATED), {FIRST_TOKEN: True, BOTH: True}),
        (ended(PACE_STATED), {INTER_TOKEN: True, BOTH: True}),
        (ended(PACE_STATED, Outcome.SHED, None, 0.0), {BOTH: False}),
        (ended(terms(1)), {}),
        (ended(None), {}),
    ],
    ids=[
        "both met", "both exactly", "late", "slow", "one token", "timed out", "refused", "cancelled", "invalid",
        "first token alone", "pace alone", "pace alone, refused", "no objectives", "class of another preset",
    ],
)  # fmt: skip
def test_each_end_is_judged_once(request_: EndedRequest, verdicts: Mapping[str, bool]) -> None:
    """By every objective that its class states and that its end says something of."""
    assert judged(request_) == verdicts


@given(
    st.sampled_from([BOTH_STATED, FIRST_STATED, PACE_STATED, terms(1), None]),
    st.sampled_from(Outcome),
    st.none() | st.floats(0, 3),
    st.floats(0, 0.1),
)
def test_both_is_never_met_without_an_answer_or_with_an_objective_missed(
    own: PriorityClass | None, outcome: Outcome, first_token_s: float | None, pace_s: float
) -> None:
    """Whatever ends however: met means judged, and both means all."""
    found = judged(ended(own, outcome, first_token_s, pace_s))
    if found.get(BOTH):
        assert outcome is Outcome.COMPLETED
        assert all(found.values())
    assert set(found) <= {*objectives_s(own), BOTH}
    assert (BOTH in found) == bool(found)


def test_objectives_are_in_seconds() -> None:
    """Those that a class states, and no others."""
    assert objectives_s(BOTH_STATED) == {FIRST_TOKEN: 1.0, INTER_TOKEN: 0.05}
    assert objectives_s(terms(1)) == objectives_s(None) == {}
