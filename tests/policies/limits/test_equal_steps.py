"""Steps that are alike, reported as one."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies import Load
from headway_policies.limits import EqualSteps, StepReport

STEP = Load(8, 0, 0.25, 0.02, first_tokens=0)


def reported(loads: list[Load], every_s: float = 0.02) -> list[StepReport]:
    """The reports of these steps, with what is left at the end."""
    steps = EqualSteps()
    complete = [report for number, load in enumerate(loads) for report in steps.add(load, number * every_s)]
    return [*complete, *steps.take()]


def test_eight_steps_that_are_alike_are_one_report() -> None:
    """At the time of the last one, with their mean."""
    loads = [replace(STEP, inter_token_s=0.016 + 0.001 * number, kv_usage_ratio=0.1 * number) for number in range(8)]
    (alike, at_s), after = reported([*loads, STEP])
    assert alike.inter_token_s == pytest.approx(0.0195)
    assert replace(alike, inter_token_s=loads[-1].inter_token_s) == replace(loads[-1], steps=8)
    assert at_s == pytest.approx(7 * 0.02)
    assert after == StepReport(STEP, 8 * 0.02)


@pytest.mark.parametrize(
    "other",
    [
        replace(STEP, running=9),
        replace(STEP, waiting=1),
        replace(STEP, prefill_tokens=5),
        replace(STEP, preemptions=1),
        replace(STEP, first_tokens=1),
        replace(STEP, prefix_queried_tokens=5),
        replace(STEP, prefix_cleared=True),
        replace(STEP, rank=1),
        replace(STEP, gpu_busy_ratio=0.5),
        replace(STEP, inter_token_s=None),
        replace(STEP, inter_token_s=0.05),
        replace(STEP, inter_token_s=0.01),
        replace(STEP, steps=8),
    ],
)
def test_a_step_of_another_kind_is_a_report_of_its_own(other: Load) -> None:
    """A pause is not averaged away; those before it are reported before it."""
    assert [report.load for report in reported([STEP, STEP, other, STEP])] == [replace(STEP, steps=2), other, STEP]


def test_steps_of_a_slow_engine_are_reported_one_by_one() -> None:
    """None is kept for longer than a quarter of a second beside the next."""
    slow = replace(STEP, inter_token_s=0.3)
    assert [report.load for report in reported([slow] * 3, every_s=0.3)] == [slow] * 3


LOADS = st.builds(
    Load,
    running=st.integers(1, 2),
    waiting=st.sampled_from([0, 0, 0, 1]),
    kv_usage_ratio=st.just(0.0),
    inter_token_s=st.sampled_from([None, 0.01, 0.011, 0.05]),
    prefill_tokens=st.sampled_from([0, 0, 0, 7]),
    first_tokens=st.sampled_from([0, 0, None, 1]),
    steps=st.sampled_from([1, 1, 2, 9]),
)


def totals(loads: list[Load]) -> list[float]:
    """The time of all steps, their prompt tokens and their first tokens."""
    return [
        sum(load.steps * (load.inter_token_s or 0.0) for load in loads),
        sum(load.steps * load.prefill_tokens for load in loads),
        sum(load.first_tokens or 0 for load in loads),
    ]


@given(st.lists(LOADS, max_size=60))
def test_nothing_is_lost_and_nothing_changes_places(loads: list[Load]) -> None:
    """The reports have the steps, the times and the tokens of all steps, in their order."""
    found = [report.load for report in reported(loads)]
    assert sum(load.steps for load in found) == sum(load.steps for load in loads)
    assert totals(found) == pytest.approx(totals(loads))
    kinds = [[key for key, _ in groupby((load.running, load.waiting) for load in those)] for those in (found, loads)]
    assert kinds[0] == kinds[1]
