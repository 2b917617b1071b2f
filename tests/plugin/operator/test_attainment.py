"""Which requests are judged by which objectives, and which of them met it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.admission import EndedRequest
from headway.operator.attainment import BOTH, FIRST_TOKEN, INTER_TOKEN, judged, objectives_s
from headway_policies import Outcome, Usage
from headway_policies.limits import Resolved

#: The objectives of a class in seconds: first token, and between tokens.
Own = tuple[float | None, float | None]

BOTH_STATED: Own = (1.0, 0.05)
FIRST_STATED: Own = (1.0, None)
PACE_STATED: Own = (None, 0.05)
NONE: Own = (None, None)


def ended(
    own: Own,
    outcome: Outcome = Outcome.COMPLETED,
    first_token_s: float | None = 0.5,
    pace_s: float = 0.04,
) -> EndedRequest:
    """A request with one sequence."""
    return EndedRequest("chat", outcome, *own, True, first_token_s, 2.0, 3.0, pace_s, Usage(10, 20))


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
        (ended(NONE), {}),
    ],
    ids=[
        "both met", "both exactly", "late", "slow", "one token", "timed out", "refused", "cancelled", "invalid",
        "first token alone", "pace alone", "pace alone, refused", "no objectives, or not known yet",
    ],
)  # fmt: skip
def test_each_end_is_judged_once(request_: EndedRequest, verdicts: Mapping[str, bool]) -> None:
    """By every objective of its class that is known and that its end says something of."""
    assert judged(request_) == verdicts


@given(
    st.sampled_from([BOTH_STATED, FIRST_STATED, PACE_STATED, NONE]),
    st.sampled_from(Outcome),
    st.none() | st.floats(0, 3),
    st.floats(0, 0.1),
)
def test_both_is_never_met_without_an_answer_or_with_an_objective_missed(
    own: Own, outcome: Outcome, first_token_s: float | None, pace_s: float
) -> None:
    """Whatever ends however: met means judged, and both means all."""
    found = judged(ended(own, outcome, first_token_s, pace_s))
    if found.get(BOTH):
        assert outcome is Outcome.COMPLETED
        assert all(found.values())
    assert set(found) <= {*objectives_s(Resolved(*own, relative=False)), BOTH}
    assert (BOTH in found) == bool(found)


def test_only_objectives_that_are_known_are_numbers() -> None:
    """By name, in seconds; one that is relative to an engine that is not known is none."""
    assert objectives_s(Resolved(1.0, 0.05, relative=True)) == {FIRST_TOKEN: 1.0, INTER_TOKEN: 0.05}
    assert objectives_s(Resolved(None, 0.05, relative=True)) == {INTER_TOKEN: 0.05}
    assert objectives_s(Resolved(None, None, relative=True)) == {}
