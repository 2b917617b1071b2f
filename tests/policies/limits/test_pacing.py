"""Prefill pacing: the token bucket, its accounts, and what it holds back."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.limits import EngineFit, LimitSettings, Load, PrefillPacer
from headway_policies.limits.fit.step_time import StepTime

SET_POINT_S = 0.92 * 0.075
COSTS = StepTime(base_s=0.029, sequence_s=0.001, prefill_token_s=0.001)
SETTINGS = LimitSettings(policy="model", inter_token_slo_ms=75, stale_after_s=10)


def pacer(costs: StepTime = COSTS, settings: LimitSettings = SETTINGS) -> PrefillPacer:
    """One that has seen a step at the set point just now, at 0 s."""
    engine = EngineFit()
    engine.costs = costs
    one = PrefillPacer(settings, engine)
    step(one, SET_POINT_S)
    return one


def step(one: PrefillPacer, step_s: float | None, *, first_tokens: int | None = 0, now_s: float = 0.0) -> None:
    one.observe(Load(4, 0, 0.1, inter_token_s=step_s, first_tokens=first_tokens), now_s)


def test_a_prompt_waits_until_the_steps_have_made_up_for_the_last_one() -> None:
    """A prompt of 500 ms, in steps that take 30 ms less than they may: the next one goes after the eighth."""
    one = pacer()
    assert one.open(4, 0.0)
    one.sent(1, 500, 1, 0.0)
    assert not one.open(4, 0.0)
    step(one, SET_POINT_S + 0.5, first_tokens=1)
    waited = 0
    while not one.open(4, 0.0):
        step(one, SET_POINT_S - 0.03)
        waited += 1
    assert waited == 8  # 500 ms less the 4 set points of 69 ms that were spare, in steps of 30 ms


@pytest.mark.parametrize(("more_tokens", "steps"), [(0, 4), (1, 8)])
def test_a_short_prompt_waits_for_a_quarter_of_the_excess_of_a_long_one(more_tokens: int, steps: int) -> None:
    """A prompt of 500 ms exceeds the two set points of a short one by 362 ms. A short prompt does not wait for 271 ms
    of them, and has a margin of four set points, not two: it waits for 91 ms, in steps that take 30 ms less than they
    may. A prompt that is longer by a token waits for 224 ms.
    """
    one = pacer()
    one.sent(1, 500, 1, 0.0)
    step(one, SET_POINT_S + 0.5, first_tokens=1)
    waited, tokens = 0, int(2 * SET_POINT_S / 0.001) + more_tokens
    while not (one.open(4, 0.0) or one.open_to_short(tokens)):
        step(one, SET_POINT_S - 0.03)
        waited += 1
    assert waited == steps


def test_the_excess_is_forgotten_once_it_is_made_up_for() -> None:
    """Short prompts have nothing of it to pass then: they wait for each other as all prompts do."""
    one = pacer()
    one.sent(0, 500, 1, 0.0)
    step(one, SET_POINT_S + 0.5, first_tokens=1)
    for _ in range(200):
        step(one, SET_POINT_S - 0.005)
    sent = 0
    while one.open(4, 0.0):
        sent += 1
        one.sent(sent, 50, 1, 0.0)
    assert sent == 6  # of 50 ms, in the four set points of 69 ms above the margin
    assert not one.open_to_short(1)


def test_what_was_dispatched_counts_before_it_is_computed() -> None:
    """Three short prompts may go together; the fourth would be more than the pace has to spare."""
    one = pacer()
    for ticket_id in (1, 2, 3):
        assert one.open(4, 0.0)
        one.sent(ticket_id, 100, 1, 0.0)
    assert not one.open(4, 0.0)


def test_the_computed_part_of_a_prompt_counts_by_its_steps_alone() -> None:
    """A prompt of 700 ms in steps of the set point: the next one goes once what is left of it fits beside the margin,
    and not only with its first token. Its steps took their time already.
    """
    one = pacer()
    one.sent(1, 700, 1, 0.0)
    for computed in (200, 200, 200):
        assert not one.open(4, 0.0)
        one.observe(Load(4, 0, 0.1, inter_token_s=SET_POINT_S, first_tokens=0, prefill_tokens=computed), 0.0)
    assert one.open(4, 0.0)


@pytest.mark.parametrize("sequence_s", [0.004, 0.001, 0.0005, 0.0001])
@pytest.mark.parametrize(("used", "depth"), [(0.97, 6.0), (0.8, 6.0), (0.7, 15.0), (0.6, 24.0), (0.1, 24.0)])
def test_the_less_of_the_set_point_is_used_the_more_is_saved(sequence_s: float, used: float, depth: float) -> None:
    """Six set points while steps take most of one, four times as many on a calm engine; two of them are the margin."""
    for more_tokens, is_open in ((-3, True), (3, False)):
        one = pacer(StepTime(0.029, sequence_s, 0.001))
        for _ in range(4000):
            step(one, used * SET_POINT_S)
        one.sent(1, round(1000 * (depth - 2.0) * SET_POINT_S) + more_tokens, 1, 0.0)
        assert one.open(4, 0.0) is is_open


@pytest.mark.parametrize(("used", "held"), [(0.97, True), (0.6, False), (0.3, False)])
def test_a_long_prompt_is_made_up_for_only_where_there_is_no_room(used: float, held: bool) -> None:
    """After its step of a second the next prompts wait for dozens of steps, or go within a few on an engine with room;
    a pause of the machine is no load.
    """
    one = pacer()
    for _ in range(4000):
        step(one, used * SET_POINT_S)
    step(one, 60.0)
    one.sent(1, 1000, 1, 0.0)
    step(one, 1.0, first_tokens=1)
    waited = 0
    while not one.open(4, 0.0):
        step(one, used * SET_POINT_S)
        waited += 1
    assert (waited > 40) is held
    assert waited <= 10 or held


def test_a_pause_is_forgotten_after_some_steps() -> None:
    """Half a minute without a token: prompts go again within 18 set points' worth of steps, not within 30 s."""
    one = pacer()
    step(one, 30.0)
    steps = 0
    while not one.open(4, 0.0):
        step(one, SET_POINT_S / 2)
        steps += 1
    assert 34 <= steps <= 38


@pytest.mark.parametrize(("owed", "steps"), [(False, 16), (True, 4)])
def test_a_margin_is_kept_for_what_is_urgent(owed: bool, steps: int) -> None:
    """An urgent prompt may go where others cannot, for sixteen set points in a row and one prompt more; four where it
    is owed to its tenant.
    """
    one = pacer()
    one.sent(1, 400, 1, 0.0)
    assert not one.open(4, 0.0)
    urgent = 1
    while one.open(4, 0.0, urgent=True, owed=owed):
        urgent += 1
        one.sent(urgent, 50, 1, 0.0)
    assert urgent - 1 == ceil(steps * SET_POINT_S / 0.05)


def test_a_relative_objective_paces_once_it_is_known() -> None:
    """At first each prompt goes; at 2.5 times the 30 ms of a single sequence those are paced that are too much."""
    engine = EngineFit()
    one = PrefillPacer(SETTINGS.model_copy(update={"inter_token_slo_ms": "2.5x"}), engine)
    step(one, SET_POINT_S)
    one.sent(1, 5000, 1, 0.0)
    assert one.open(4, 0.0)
    engine.recall({"base_s": 0.029, "sequence_s": 0.001, "prefill_token_s": 0.001, "prefill_tokens_per_sequence": 0.0})
    step(one, SET_POINT_S)
    assert not one.open(4, 0.0)


def test_without_an_objective_the_engine_has_no_more_prompts_than_it_needs() -> None:
    """Under ``knee``: as many as take eight steps without a prompt, what is urgent up to twice as many, one always."""
    engine = EngineFit()
    engine.recall({"base_s": 0.026, "sequence_s": 0.001, "prefill_token_s": 0.001, "prefill_tokens_per_sequence": 0.0})
    one = PrefillPacer(LimitSettings(policy="knee"), engine)
    step(one, 0.03)
    sent = 0
    while one.open(4, 0.0):
        sent += 1
        one.sent(sent, 10, 1, 0.0)
    assert sent == 25  # 240 ms and one more
    while one.open(4, 0.0, urgent=True):
        sent += 1
        one.sent(sent, 10, 1, 0.0)
    assert sent == 49
    step(one, 0.03, first_tokens=49)
    one.sent(50, 100_000, 1, 0.0)
    assert not one.open(4, 0.0, urgent=True)
    step(one, 100.0, first_tokens=1)
    assert one.open(4, 0.0)


def test_what_is_urgent_cannot_keep_it_closed() -> None:
    """Urgent prompts as soon as they may go, more of them than the pace bears: others have their turn all the same."""
    one, urgent, others = pacer(), 0, 0
    for number in range(1000):
        fresh = 0
        if one.open(4, 0.0):
            others, fresh = others + 1, 1
        elif one.open(4, 0.0, urgent=True):
            urgent, fresh = urgent + 1, 1
        if fresh:
            one.sent(number, 300, 1, 0.0)
        step(one, 0.035 + 0.3 * fresh, first_tokens=fresh)
    assert min(urgent, others) > 15


def test_an_idle_engine_and_the_lowest_limit_are_never_held_back() -> None:
    """Below ``min_seats`` any prompt goes, also on an engine that is too slow for its objective at all."""
    one = pacer(settings=SETTINGS.model_copy(update={"min_seats": 3}))
    for _ in range(50):
        step(one, 5.0)
    assert [one.open(taken, 0.0) for taken in range(5)] == [True, True, True, False, False]


def test_an_engine_that_reports_nothing_is_not_paced() -> None:
    """From ``stale_after_s`` on, and until it reports again."""
    one = pacer()
    one.sent(1, 5000, 1, 0.0)
    assert [one.open(4, now_s) for now_s in (0.0, 9.9, 10.0, 60.0)] == [False, False, True, True]
    assert one.stale_s == 10.0
    step(one, SET_POINT_S, now_s=60.0)
    assert not one.open(4, 60.0)


def test_an_idle_engine_is_expected_to_report_again() -> None:
    """After a minute without requests the first prompt goes, and the next ones are paced from the first moment."""
    one = pacer()
    assert one.open(0, 60.0)
    one.sent(1, 5000, 1, 60.0, alone=True)
    assert not one.open(1, 60.0)
    assert one.open(1, 70.0)


def test_one_that_has_never_heard_of_a_step_holds_nothing_back() -> None:
    """Nothing is known of such an engine: not even whether it reports."""
    one = PrefillPacer(SETTINGS, EngineFit())
    one.sent(1, 5000, 1, 0.0, alone=True)
    assert one.open(1, 0.0)


def test_a_prompt_in_the_cache_costs_only_what_it_took() -> None:
    """The prompt is taken for a long one until its first token is here, and then for what the step really took."""
    one = pacer()
    one.sent(1, 5000, 1, 0.0)
    assert not one.open(4, 0.0)
    step(one, 0.03, first_tokens=1)
    assert one.open(4, 0.0)


def test_sequences_of_one_request_are_counted_each() -> None:
    """A request for three sequences is computed when the third has its first token."""
    one = pacer()
    one.sent(1, 400, 3, 0.0)
    for left in (2, 1):
        step(one, 0.03, first_tokens=1)
        assert not one.open(4, 0.0), left
    step(one, 0.03, first_tokens=1)
    assert one.open(4, 0.0)


def test_an_engine_that_does_not_count_first_tokens_is_paced_by_its_steps() -> None:
    """Nothing is taken to be uncomputed after a step."""
    one = pacer()
    one.sent(1, 5000, 1, 0.0)
    step(one, 0.03, first_tokens=None)
    assert one.open(4, 0.0)


@given(st.lists(st.tuples(st.sampled_from(["sent", "gone", "step"]), st.integers(0, 5), st.integers(0, 4))))
def test_nothing_is_left_once_all_are_gone(events: list[tuple[str, int, int]]) -> None:
    """In any order of dispatches, aborts and first tokens, also such as belong to others: no debt stays for ever."""
    one, here = pacer(), set[int]()
    for number, (what, place, many) in enumerate(events):
        if what == "sent":
            here.add(number)
            one.sent(number, 10_000, 1 + many, 0.0)
        elif what == "gone" and here:
            one.gone(sorted(here)[place % len(here)])
            here.discard(sorted(here)[place % len(here)])
        elif what == "step":
            step(one, SET_POINT_S, first_tokens=many or None)
    for number in here:
        one.gone(number)
    assert one.open(4, 0.0)


def step_times(one: PrefillPacer, steps: int, prompt_tokens: int, slowness: Callable[[int], float]) -> list[float]:
    """The steps of an engine where a request is always waiting, with answers of 40 tokens, 64 at once at most."""
    running: list[int] = []
    sent, times_s = 0, list[float]()
    for number in range(steps):
        fresh = 0
        while len(running) + fresh < 64 and one.open(len(running) + fresh, 0.0):
            sent, fresh = sent + 1, fresh + 1
            one.sent(sent, prompt_tokens, 1, 0.0)
        running = [left - 1 for left in running if left > 1]
        step_s = slowness(number) * COSTS.step_s(len(running), fresh * prompt_tokens)
        step(one, step_s if running else None, first_tokens=fresh)
        times_s.append(step_s)
        running += [40] * fresh
    return times_s


@pytest.mark.parametrize("wrong", [0.0, 0.25, 1.0, 4.0])
@pytest.mark.parametrize("prompt_tokens", [16, 64, 400])
def test_the_mean_step_keeps_the_set_point_whatever_the_mix_and_the_estimate(wrong: float, prompt_tokens: int) -> None:
    """With an estimate of the cost that is far off, or none at all: within 4 per cent."""
    one = pacer(StepTime(COSTS.base_s, COSTS.sequence_s, wrong * COSTS.prefill_token_s))
    assert mean(step_times(one, 4000, prompt_tokens, lambda number: 1.0)[500:]) == pytest.approx(SET_POINT_S, rel=0.04)


def test_an_engine_that_slows_down_is_followed_within_an_answer() -> None:
    """At 0.6 of the speed: over the length of an answer the steps keep the set point, from the first one on."""
    times_s = step_times(pacer(), 1000, 64, lambda number: 1.0 if number < 500 else 1.7)
    for begin in range(500, 1000, 40):
        assert mean(times_s[begin : begin + 40]) == pytest.approx(SET_POINT_S, rel=0.1)
