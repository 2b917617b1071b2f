"""The figures of the step policy: what has come since a moment, and those of several engines."""

from __future__ import annotations

from headway_policies.step import StepFigures

BEFORE = StepFigures(10, 1, 4, 600, 80, 900, 1.0, 0.4, 0.5, held_s=7.0)
AFTER = StepFigures(30, 2, 4, 1600, 240, 2500, 3.0, 1.2, 1.3, held_s=7.0)


def test_what_has_come_since_a_moment_is_the_difference() -> None:
    """Shares are of that time; a prompt that was held before is not."""
    grown = AFTER.since(BEFORE)
    assert (grown.steps, grown.prompt_tokens, grown.decode_tokens, grown.budget_tokens) == (20, 1000, 160, 1600)
    assert (round(grown.prefill_share, 6), round(grown.target_share, 6)) == (0.4, 0.4)
    assert grown.held_s == 0.0
    assert StepFigures(11, held=5, held_s=2.0).since(BEFORE).held_s == 2.0


def test_an_engine_that_was_replaced_begins_anew() -> None:
    """Its counts are less than those of the one before it."""
    assert BEFORE.since(AFTER) is BEFORE


def test_several_engines_count_together() -> None:
    """The longest hold is the longest of any."""
    both = BEFORE + StepFigures(1, held_s=9.0)
    assert (both.steps, both.prompt_tokens, both.held_s) == (11, 600, 9.0)


def test_before_the_first_plan_no_time_was_shared() -> None:
    """Neither of the shares divides by nothing."""
    assert (StepFigures().prefill_share, StepFigures().target_share) == (0.0, 0.0)
