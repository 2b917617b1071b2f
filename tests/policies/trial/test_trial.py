"""The end of a trial: by time, by a condition, and against a plain oracle for any course of a figure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.trial import (
    ALL,
    NO_TRIAL,
    Condition,
    ConditionError,
    Served,
    Trial,
    TrialEnd,
    TrialTerms,
    read_condition,
)
from headway_policies.trial.trial import WATCH_S

SLOW = Condition.parse("ttft_p95_s > 2 for 5 s")


def served(ttft_s: float | None) -> dict[str, Served]:
    """What was served: a first token after so long."""
    return {ALL: Served(ttft_p95_s=ttft_s)}


def test_without_a_time_and_a_condition_there_is_no_trial() -> None:
    """The switch is for good."""
    assert not NO_TRIAL
    assert TrialTerms(revert_after_s=1.0)
    assert TrialTerms(revert_if=[SLOW])


def test_what_nobody_confirms_goes_back_in_time() -> None:
    """To the second, and with the reason."""
    trial = Trial(TrialTerms(60.0), 100.0)
    assert [trial.look(served(9.0), now_s) for now_s in (100.0, 130.0, 159.9)] == [None] * 3
    end = trial.look(served(9.0), 160.0)
    assert end is not None
    assert (end.end, end.why) == (TrialEnd.REVERTED, "not confirmed within 60 s")


def test_a_watch_without_a_time_ends_well_where_nothing_hurts() -> None:
    """After ten minutes."""
    trial = Trial(TrialTerms(revert_if=[SLOW]), 0.0)
    assert trial.look(served(1.0), WATCH_S - 1) is None
    end = trial.look(served(1.0), WATCH_S)
    assert end is not None
    assert (end.end, end.why) == (TrialEnd.KEPT, "no condition was met within 600 s")


def test_a_condition_ends_it_once_it_has_held() -> None:
    """The reason has the figure, and what it should have been."""
    trial = Trial(TrialTerms(600.0, [Condition.parse("error_ratio > 0.5"), SLOW]), 0.0)
    assert [trial.look(served(2.5), now_s) for now_s in (1.0, 3.0, 5.9)] == [None] * 3
    assert trial.held_s(5.9) == [0.0, 4.9]
    end = trial.look(served(3.25), 6.0)
    assert end is not None
    assert (end.end, end.why) == (TrialEnd.REVERTED, "ttft_p95_s is 3.2 s: ttft_p95_s > 2 for 5 s")


@given(st.lists(st.sampled_from([0.5, 2.0, 2.5, None, "cannot be judged"]), max_size=60), st.integers(1, 8))
def test_a_condition_has_held_when_it_was_true_at_every_look(course: list[float | str | None], for_s: int) -> None:
    """A look at which it was not true, or nothing could be judged, begins it anew: as a plain count says."""
    trial = Trial(TrialTerms(revert_if=[Condition(ALL, "ttft_p95_s", True, 2.0, float(for_s))]), 0.0)
    run = 0
    for second, value in enumerate(course):
        end = trial.look(None if isinstance(value, str) else served(value), float(second))
        run = run + 1 if value == 2.5 else 0
        assert (end is not None) == (run > for_s)
        if end is not None:
            break


def test_a_condition_that_could_not_hold_before_the_end_is_refused() -> None:
    """The trial would keep a preset that fails all the time. With a time to go back after it does not."""
    for text in ("error_ratio > 0.05 for 10m", "error_ratio > 0.05 for 15m"):
        with pytest.raises(ConditionError, match=r"cannot be met: a trial .* ends after 600 s"):
            read_condition(text, None, None)
        assert read_condition(text, None, 60.0) == Condition.parse(text)
    assert read_condition("error_ratio > 0.05 for 599s", None, None).for_s == 599
