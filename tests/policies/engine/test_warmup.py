"""The warm-up: which stage runs next, when it ends, and how fast the seats are opened afterwards."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies import PresetError, bundled_presets, parse_preset
from headway_policies.engine.warmup import Ramp, Stage, Warmup, WarmupPlan, keep_warm_due, retry_after_s

SINGLE, LOGPROBS, JSON_SCHEMA, BATCH, ALONE = Stage
BARE = {"logprobs": False, "json_schema": False}


def stages(config: Warmup, batches_s: list[float], probation_s: float = 0.1) -> list[Stage]:
    """The stages that run when single requests take ``probation_s`` and the batches these times."""
    plan, ran, rounds = WarmupPlan(config), [], iter(batches_s)
    while (stage := plan.stage) is not None:
        ran.append(stage)
        plan.ran(next(rounds) if stage is BATCH else probation_s)
    return ran


@pytest.mark.parametrize(
    ("keys", "batches_s", "expected"),
    [
        ({}, [1.0, 1.0], [SINGLE, LOGPROBS, JSON_SCHEMA, BATCH, BATCH, ALONE]),
        ({"logprobs": False}, [1.0, 1.0], [SINGLE, JSON_SCHEMA, BATCH, BATCH, ALONE]),
        ({"json_schema": False}, [1.0, 1.0], [SINGLE, LOGPROBS, BATCH, BATCH, ALONE]),
        (BARE, [9.0, 3.0, 1.0, 0.85], [SINGLE] + [BATCH] * 4 + [ALONE]),
        (BARE, [1.0, 0.81], [SINGLE] + [BATCH] * 2 + [ALONE]),
        (BARE, [0.81, 1.0], [SINGLE] + [BATCH] * 2 + [ALONE]),
        (BARE, [1.0, 0.79, 0.79], [SINGLE] + [BATCH] * 3 + [ALONE]),
        (BARE, [0.0, 0.0], [SINGLE] + [BATCH] * 2 + [ALONE]),
        (BARE | {"tolerance_ratio": 0.5}, [1.0, 0.51], [SINGLE] + [BATCH] * 2 + [ALONE]),
        (BARE | {"max_rounds": 3}, [1.0, 2.0, 4.0], [SINGLE] + [BATCH] * 3 + [ALONE]),
        (BARE | {"max_rounds": 1}, [1.0], [SINGLE, BATCH, ALONE]),
        (BARE | {"timeout_s": 10.0}, [1.0, 3.0, 5.0], [SINGLE] + [BATCH] * 3),
        (BARE | {"timeout_s": 10.0}, [8.0], [SINGLE, BATCH]),
        (BARE | {"timeout_s": 10.0}, [1.7, 1.7], [SINGLE] + [BATCH] * 2),
        (BARE | {"timeout_s": 10.0, "output_tokens": 64}, [3.0, 3.0], [SINGLE] + [BATCH] * 2 + [ALONE]),
    ],
    ids=[
        "all",
        "no logprobs",
        "no schema",
        "until two agree",
        "a little faster",
        "a little slower",
        "too much faster",
        "nothing to measure",
        "agreeing on less",
        "never agreeing",
        "one is enough",
        "no time for another",
        "no time for a second",
        "no time for four times the tokens",
        "time for fewer tokens",
    ],
)
def test_the_stages_run_in_order_until_the_last_two_batches_agree(
    keys: dict[str, Any], batches_s: list[float], expected: list[Stage]
) -> None:
    """Alone, logprobs, schema, then batches: until two agree, there were enough, or another would not be in time."""
    assert stages(Warmup(**keys), batches_s) == expected


@pytest.mark.parametrize("refused", Stage)
def test_a_refused_stage_is_left_out_and_not_tried_again(refused: Stage) -> None:
    """The others run all the same."""
    plan, ran = WarmupPlan(Warmup()), []
    while (stage := plan.stage) is not None:
        if stage is refused:
            plan.refuse()
        else:
            ran.append(stage)
            plan.ran(1.0)
    assert (plan.refused, set(ran)) == ([refused], set(Stage) - {refused})
    assert plan.settled == (refused is not BATCH)


def test_a_warm_up_that_is_over_stays_over() -> None:
    """Neither event is allowed any more, and neither changes anything."""
    plan = WarmupPlan(Warmup(**BARE, max_rounds=1))
    for _ in (SINGLE, BATCH, ALONE):
        plan.ran(1.0)
    for event in (lambda: plan.ran(1.0), plan.refuse):
        with pytest.raises(ValueError, match="the warm-up is over"):
            event()
    assert (plan.stage, plan.took_s, plan.refused) == (None, {SINGLE: [1.0], BATCH: [1.0], ALONE: [1.0]}, [])


@given(
    st.lists(st.floats(0, 50), min_size=12, max_size=12),
    st.integers(1, 10),
    st.floats(1.0, 100.0),
    st.floats(0.01, 0.99),
)
def test_every_plan_ends_with_a_reason(rounds_s: list[float], most: int, cap_s: float, within: float) -> None:
    """At least one batch, never more than allowed; and only agreement, number or time ends it."""
    config = Warmup(**BARE, max_rounds=most, timeout_s=cap_s, tolerance_ratio=within)
    plan = WarmupPlan(config)
    plan.ran(0.0)
    for took_s in rounds_s:
        if plan.stage is None:
            break
        plan.ran(took_s)
    ran_s = plan.took_s[BATCH]
    assert plan.stage is None
    assert 1 <= len(ran_s) <= most
    late = sum(ran_s) + ran_s[-1] > cap_s
    assert plan.settled or len(ran_s) == most or late
    if plan.settled:
        assert min(ran_s[-2:]) >= (1 - within) * max(ran_s[-2:]) - 1e-9


@pytest.mark.parametrize(
    ("limit", "after_s", "seats"),
    [(32, 0, 1), (32, 1.9, 1), (32, 2, 2), (32, 4, 4), (32, 6, 8), (32, 8, 16), (32, 9.9, 30), (32, 10, 32), (1, 0, 1)],
)
def test_the_seats_double_in_equal_times(limit: int, after_s: float, seats: int) -> None:
    """32 seats in 10 s: one more factor of two every 2 s."""
    assert Ramp(10.0).seats(limit, 100.0, 100.0 + after_s) == seats


def test_without_a_ramp_all_seats_are_open_at_once() -> None:
    """The default, and that of every bundled preset."""
    assert Ramp(0.0).seats(64, 5.0, 5.0) == 64
    assert Ramp(0.0).due_s(64, 5.0, 5.0) is None
    assert {preset.warmup.ramp_s for preset in bundled_presets().values()} == {0.0}


@given(st.integers(2, 300), st.floats(0.1, 1000), st.floats(0, 1e6))
def test_following_the_due_times_meets_every_seat(limit: int, ramp_s: float, opened_s: float) -> None:
    """Each due time is later than the one before, and at that moment, not a moment later, there is a seat more."""
    ramp, now_s, steps = Ramp(ramp_s), opened_s, 0
    while (due_s := ramp.due_s(limit, opened_s, now_s)) is not None:
        before = ramp.seats(limit, opened_s, now_s)
        assert due_s > now_s
        assert ramp.seats(limit, opened_s, due_s) > before
        assert ramp.seats(limit, opened_s, math.nextafter(due_s, -math.inf)) == before
        now_s, steps = due_s, steps + 1
    assert (ramp.seats(limit, opened_s, now_s), steps <= limit) == (limit, True)


def test_failures_are_tried_again_later_and_later() -> None:
    """5 s, doubled, and never more than a minute, however many there were."""
    assert [retry_after_s(failures) for failures in (1, 2, 3, 4, 5, 6, 5000)] == [5, 10, 20, 40, 60, 60, 60]


def test_an_idle_engine_wants_a_request_when_the_preset_says_so() -> None:
    """Off unless it is set; then when it has been idle for so long."""
    assert not keep_warm_due(Warmup(), 1e9)
    config = Warmup(keep_warm_after_s=30.0)
    assert [keep_warm_due(config, idle_s) for idle_s in (0, 29, 30, 1000)] == [False, False, True, True]


BASE = 'name = "mine"\nextends = "balanced"\nwarmup.'


@pytest.mark.parametrize(("value", "lengths"), [("512", (512,)), ("[16, 2048]", (16, 2048))])
def test_prompt_lengths_are_one_number_or_several(value: str, lengths: tuple[int, ...]) -> None:
    """A number is short for a list of one."""
    assert parse_preset(f"{BASE}prompt_tokens = {value}", "mine.toml").warmup.prompt_tokens == lengths


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("prompt_tokens = []", "warmup.prompt_tokens: at least one length is needed"),
        ("prompt_tokens = 0", "warmup.prompt_tokens.0: must be greater than or equal to 1"),
        ("prompt_tokens = true", "warmup.prompt_tokens.0: must be a valid integer"),
        ('prompt_tokens = [8, "9"]', "warmup.prompt_tokens.1: must be a valid integer"),
        ("logprobs = 1", "warmup.logprobs: must be a valid boolean"),
        ("tolerance_ratio = 0", "warmup.tolerance_ratio: must be greater than 0"),
        ("max_rounds = 0", "warmup.max_rounds: must be greater than or equal to 1"),
        ("timeout_s = 0", "warmup.timeout_s: must be greater than 0"),
        ("keep_warm_after_s = 0", "warmup.keep_warm_after_s: must be greater than or equal to 1"),
        ("ramp_s = -1", "warmup.ramp_s: must be greater than or equal to 0"),
        ("ramp = 1", "warmup.ramp: unknown key; allowed here: json_schema"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line(line: str, message: str) -> None:
    """The key, what is wrong, what is allowed; once."""
    with pytest.raises(PresetError) as caught:
        parse_preset(BASE + line, "mine.toml")
    assert message in str(caught.value)
    assert str(caught.value).replace("; did you mean", "").count(";") <= 1
