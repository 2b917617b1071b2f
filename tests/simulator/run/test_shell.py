"""Whole runs: every request has one end, three records agree, the same seed gives the same run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from small_presets import small_preset, terms

from headway_policies import Desk, Outcome, Preset, Reason, Requeue, bundled_presets
from headway_policies.limits.limit import LimitSettings
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import Engine, EngineModel
from headway_simulator.report.summary import summarise
from headway_simulator.run.result import Result
from headway_simulator.run.shell import Shell, simulate
from headway_simulator.studies.strategies import plain
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.workload import WORKLOADS, Request

MODEL, SLO = EngineModel(), Slo()
UNIT = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0)
ROUGH = Clients(patience_s=8.0, cancel_ratio=0.2, retries=2, obedient_ratio=0.5)
PRESETS = {
    **bundled_presets(),
    "small": small_preset(4, most_waiting=20),
    "static": plain("static", 8, flush_after_s=2.0),
    "dynamic": plain("dynamic", 8),
    "adaptive": small_preset(
        8, name="adaptive", limit=LimitSettings(policy="aimd", memory_aware=True, min_seats=2, max_seats=64)
    ),
    "stalls": small_preset(8, name="stalls", classes={"normal": terms(1, stall_timeout_s=0.5)}),
    "engine alone": None,
}


def chat(duration_s: float = 60.0, seed: int = 1, load: float = 1.5) -> list[Request]:
    """The usual chat."""
    return WORKLOADS["W1"].requests(duration_s, seed, model=MODEL, slo=SLO, load=load)


def log(result: Result) -> list[tuple[object, ...]]:
    """All that the clients of a run observed."""
    return [
        (one.id, one.attempt, one.arrived_s, one.dispatched_s, one.first_s, one.ended_s, one.outcome, one.reason)
        for one in result.visits
    ]


def assert_records_agree(result: Result) -> None:
    """All visits have ended, and the desk's ledger has the same ends."""
    assert all(visit.outcome is not None and visit.ended_s is not None for visit in result.visits)
    for class_name, counts in result.ledger.classes.items():
        seen = [visit for visit in result.visits if visit.class_name == class_name]
        assert counts.arrived == len(seen)
        assert (counts.queued, counts.in_flight) == (0, 0)
        assert +counts.outcomes == Counter(visit.outcome for visit in seen)
        assert +counts.refusals == Counter(visit.reason for visit in seen if visit.reason is not None)


@pytest.mark.parametrize("clients", [None, ROUGH], ids=["patient", "rough"])
@pytest.mark.parametrize("name", PRESETS)
def test_every_request_has_one_end_and_three_books_agree(name: str, clients: Clients | None) -> None:
    """The clients' observations equal the desk's ledger, class by class and outcome by outcome; no request is open."""
    requests = chat(40.0, load=2.5)
    tight = replace(MODEL, kv_tokens=4096)
    result = simulate(requests, PRESETS[name], tight, clients=clients, seed=7)
    assert sum(not visit.attempt for visit in result.visits) == len(requests)
    assert_records_agree(result)
    for visit in result.visits:
        if visit.outcome is Outcome.COMPLETED:
            assert visit.made_tokens == visit.request.output_tokens


@pytest.mark.parametrize("name", PRESETS)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    """To the last digit, clients' whims included."""
    first, second = (simulate(chat(20.0), PRESETS[name], MODEL, clients=ROUGH, seed=3) for _ in range(2))
    assert log(first) == log(second)


def test_another_seed_gives_other_whims() -> None:
    """The seed of the run is that of the clients."""
    first, second = (simulate(chat(20.0), PRESETS["balanced"], MODEL, clients=ROUGH, seed=seed) for seed in (3, 4))
    assert log(first) != log(second)


@pytest.mark.parametrize("name", [name for name, one in PRESETS.items() if one is None or one.limit.policy == "fixed"])
def test_leaping_over_steps_changes_nothing(name: str) -> None:
    """At low load, where whole answers are one leap, and at high load; only a limit that learns counts steps."""
    for load in (0.2, 1.5):
        requests = chat(40.0, load=load)
        leaping = simulate(requests, PRESETS[name], MODEL, clients=ROUGH, seed=3)
        walking = simulate(requests, PRESETS[name], MODEL, clients=ROUGH, seed=3, one_by_one=True)
        assert log(leaping) == log(walking)
        assert (leaping.steps, leaping.running_steps) == (walking.steps, walking.running_steps)
        assert leaping.busy_s == pytest.approx(walking.busy_s)


def test_a_request_alone_is_served_at_once() -> None:
    """Prompt, then a step for each further token."""
    result = simulate([Request(3.0, "normal", 10, 5)], small_preset(1), UNIT)
    (visit,) = result.visits
    assert (visit.wait_s, visit.ttft_s, visit.ended_s, visit.inter_token_s) == (0.0, 1.0, 8.0, 1.0)
    assert (result.ended_s, result.mean_batch, result.utilisation_ratio) == (8.0, 1.0, 5 / 8)


def test_a_static_batch_waits_for_its_last_member_and_its_successor_for_the_longest() -> None:
    """Exactly N, and the barrier."""
    requests = [Request(float(at_s), "normal", 1, length) for at_s, length in ((0, 2), (4, 6), (5, 2), (5, 2))]
    result = simulate(requests, plain("static", 2, flush_after_s=None), UNIT)
    assert [visit.dispatched_s for visit in result.visits] == [4.0, 4.0, 10.0, 10.0]
    assert len({visit.batch for visit in result.visits}) == 2


def test_a_continuous_seat_is_refilled_at_the_next_step() -> None:
    """Two seats: the third goes where the first ended."""
    requests = [Request(0.0, "normal", 1, length) for length in (2, 6, 2)]
    result = simulate(requests, plain("continuous", 2), UNIT)
    assert [visit.dispatched_s for visit in result.visits] == [0.0, 0.0, 2.0]


def test_a_static_batch_that_never_fills_is_drained_at_the_end() -> None:
    """Every request is served."""
    result = simulate([Request(0.0, "normal", 1, 2)], plain("static", 2, flush_after_s=None), UNIT)
    assert result.visits[0].outcome is Outcome.DRAINED


def test_a_time_out_while_running_ends_the_request_and_frees_the_seat_at_the_end_of_the_step() -> None:
    """3.5 s in all, in steps of one second: the next one gets the seat at 4."""
    preset = small_preset(1, classes={"normal": terms(1, total_s=3.5)})
    result = simulate([Request(0.0, "normal", 1, 50), Request(1.0, "normal", 1, 2)], preset, UNIT)
    first, second = result.visits
    assert (first.outcome, first.reason, first.ended_s) == (Outcome.EXPIRED_RUNNING, Reason.TOTAL_TIMEOUT, 3.5)
    assert second.dispatched_s == 4.0


def test_a_stall_time_out_ends_the_stalled_request_only() -> None:
    """Steps of one second and 1.5 s allowed: no stall. Preempted and computed again much later is a stall."""
    preset = small_preset(2, classes={"normal": terms(1, stall_timeout_s=1.5)})
    requests = [Request(0.0, "normal", 16, 30), Request(0.0, "normal", 16, 30)]
    roomy = simulate(requests, preset, UNIT)
    assert [visit.outcome for visit in roomy.visits] == [Outcome.COMPLETED, Outcome.COMPLETED]
    tight = simulate(requests, preset, replace(UNIT, kv_tokens=64))
    assert [visit.reason for visit in tight.visits] == [None, Reason.STALL_TIMEOUT]
    assert tight.visits[1].ended_s == 17.0 + 1.5


def test_computing_a_prompt_again_is_no_token() -> None:
    """Preempted at 20, let in again at 33 when the first ends, and still without a token at 35: that is 15 s."""
    preset = small_preset(2, classes={"normal": terms(1, stall_timeout_s=15.0)})
    slow = replace(UNIT, kv_tokens=64, step_tokens=5)
    requests = [Request(0.0, "normal", 16, 30), Request(0.0, "normal", 16, 30)]
    first, second = simulate(requests, preset, slow).visits
    assert (first.outcome, first.ended_s) == (Outcome.COMPLETED, 33.0)
    assert (second.reason, second.ended_s) == (Reason.STALL_TIMEOUT, 35.0)


def test_an_impatient_client_cancels_in_the_queue_or_in_the_engine() -> None:
    """Only before the first token; a request with a first token continues."""
    requests = [Request(0.0, "normal", 1, 9), Request(0.0, "normal", 1, 9)]
    waiting, running = (
        simulate(requests, small_preset(seats), replace(UNIT, step_tokens=1), clients=Clients(patience_s=1.5))
        for seats in (1, 2)
    )
    assert [visit.outcome for visit in waiting.visits] == [Outcome.COMPLETED, Outcome.CANCELLED_QUEUED]
    assert [visit.outcome for visit in running.visits] == [Outcome.COMPLETED, Outcome.CANCELLED_RUNNING]


def test_a_refused_client_retries_after_its_retry_after() -> None:
    """Once for each retry it has; at once where it ignores Retry-After."""
    preset = small_preset(1, most_waiting=0)
    requests = [Request(0.0, "normal", 1, 20), Request(1.0, "normal", 1, 2)]
    obedient = simulate(requests, preset, UNIT, clients=Clients(retries=1))
    again = obedient.visits[2]
    assert (again.attempt, again.request) == (1, requests[1])
    assert again.arrived_s == 1.0 + round(again.arrived_s - 1.0) >= 2.0
    hasty = simulate(requests, preset, UNIT, clients=Clients(retries=3, obedient_ratio=0.0, hasty_s=0.25))
    assert [visit.arrived_s for visit in hasty.visits[1:]] == [1.0, 1.25, 1.5, 1.75]


def test_a_class_the_preset_lacks_is_served_as_its_default_class_and_reported_under_its_own_name() -> None:
    """Any workload runs under any preset."""
    result = simulate([Request(0.0, "gold", 1, 2)], small_preset(1), UNIT)
    assert result.visits[0].class_name == "normal"
    assert list(summarise("x", result, SLO).classes) == ["all", "gold"]


def test_what_the_engine_cannot_hold_fails() -> None:
    """The request does not wait before the engine for ever."""
    result = simulate([Request(0.0, "normal", 100, 2)], small_preset(1), replace(UNIT, kv_tokens=64))
    assert result.visits[0].outcome is Outcome.FAILED


@pytest.mark.parametrize("seed", range(2, 6))
def test_what_fails_at_its_dispatch_may_have_made_room_in_the_same_event(seed: int) -> None:
    """A request that no KV cache holds, recalled for a more urgent one: it has one end, and the records agree."""
    random, requests = Random(seed), []
    for number in range(240):
        prompt_tokens = 4000 if random.random() < 0.25 else random.randint(10, 200)
        name = random.choice(["realtime", "normal", "batch"])
        requests.append(Request(number / 6, name, prompt_tokens, random.randint(5, 60)))
    result = simulate(requests, bundled_presets()["balanced"], EngineModel(kv_tokens=2048), clients=ROUGH, seed=seed)
    assert_records_agree(result)


def test_a_switch_takes_effect_at_its_time() -> None:
    """From one seat to three."""
    requests = [Request(0.0, "normal", 1, 20) for _ in range(3)]
    result = simulate(requests, small_preset(1), UNIT, switches=[(4.5, small_preset(3, name="wide"))])
    assert [visit.dispatched_s for visit in result.visits] == [0.0, 4.5, 4.5]


def test_the_engine_alone_may_refuse_beyond_a_number_inside() -> None:
    """Of any class: the cap does not depend on it."""
    requests = [Request(0.0, name, 1, 5) for name in ("batch", "batch", "realtime")]
    result = simulate(requests, None, UNIT, most_inside=2)
    assert [visit.outcome for visit in result.visits] == [Outcome.COMPLETED, Outcome.COMPLETED, Outcome.REJECTED_FULL]


def test_the_engine_alone_may_go_by_the_priority_of_the_usual_classes() -> None:
    """One seat: the realtime one passes those that came before it."""
    requests = [Request(float(at_s), name, 1, 5) for at_s, name in enumerate(("batch", "batch", "normal", "realtime"))]
    result = simulate(requests, None, replace(UNIT, max_num_seqs=1, order="priority"))
    ended = sorted(result.visits, key=lambda visit: visit.ended_s or 0.0)
    assert [visit.id for visit in ended] == [0, 3, 2, 1]


def test_the_limit_policy_gets_the_engines_signals() -> None:
    """An adaptive limit moves from its starting point under a load."""
    result = simulate(chat(60.0, load=3.0), PRESETS["adaptive"], MODEL)
    assert len({moment.limit for moment in result.moments}) > 1


@cache
def ten_minutes() -> tuple[Result, list[int]]:
    """A long run, with the progress that it reported."""
    reported: list[int] = []
    return simulate(chat(600.0), PRESETS["small"], MODEL, progress=reported.append), reported


def test_the_points_for_the_charts_stay_few() -> None:
    """However long the run."""
    short, (long, _) = simulate(chat(30.0), PRESETS["small"], MODEL), ten_minutes()
    assert 50 < len(short.moments) <= 601
    assert len(long.moments) <= 601
    times_s = [moment.at_s for moment in long.moments]
    assert times_s == sorted(times_s)
    assert times_s[-1] > 500


def test_progress_counts_the_arrivals() -> None:
    """From 0 on, now and then."""
    assert ten_minutes()[1] == [0, 2000, 4000]


def _ratio(better: Preset, worse: Preset, workload: str) -> float:
    requests = WORKLOADS[workload].requests(0, 1, model=MODEL, slo=SLO)
    rates = [summarise("", simulate(requests, one, MODEL), SLO).tokens_per_s for one in (better, worse)]
    return rates[0] / rates[1]


def test_batching_gains_over_serial_what_the_model_says() -> None:
    """Fixed lengths have a closed form: (A + B + p C / o) against (A + B n + n p C / o) / n, with n = 32."""
    seats, prompt, output = 32, 64, 64
    decode = output - 1
    probation_s = MODEL.base_s + prompt * MODEL.prefill_s + decode * MODEL.step_s(1)
    batch_s = MODEL.base_s + seats * prompt * MODEL.prefill_s + decode * MODEL.step_s(seats)
    expected = seats * probation_s / batch_s
    assert _ratio(plain("static", seats), plain("continuous", 1), "W4-fixed") == pytest.approx(expected, rel=0.001)


def test_refilling_seats_gains_over_a_barrier_what_the_lengths_say() -> None:
    """Exponential lengths: about (A H + B n + P) / (A + B n + P) of a step a token, with the longest of n at H times
    the mean; H is the harmonic number where nothing cuts the lengths off, and 512 / 64 cuts off little of 32.
    """
    seats = 32
    harmonic = sum(1 / place for place in range(1, seats + 1))
    rest_s = seats * (MODEL.seat_s + MODEL.prefill_s)  # 64 prompt tokens to 64 output tokens
    expected = (MODEL.base_s * harmonic + rest_s) / (MODEL.base_s + rest_s)
    measured = _ratio(plain("continuous", seats), plain("static", seats), "W4-exponential")
    assert measured == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize(
    ("effect", "error"), [(Requeue(0), "never dies"), (object(), "unreachable")], ids=["requeue", "unknown"]
)
def test_an_effect_that_cannot_follow_is_an_error(effect: object, error: str) -> None:
    """No effect of the desk is silently ignored: the error names the effect that this shell does not support."""
    shell = Shell(Desk(small_preset()), Engine(MODEL), Clients(), Random(0), one_by_one=False)
    with pytest.raises(AssertionError, match=error):
        shell._carry_out([effect])  # type: ignore[list-item]  # one of them is no effect at all


def test_an_order_by_prefixes_finds_more_of_them_and_learns_the_engine_s_space() -> None:
    """A minute of the workload with system prompts: more tokens from the cache than first come, first served."""
    model = replace(MODEL, kv_tokens=8 * 512, prefix_cache=True)
    requests = WORKLOADS["W7"].requests(60.0, 1, model=model, slo=SLO)
    ratios = {}
    for inside in ("fifo", "prefix"):
        desk = Desk(small_preset(8, most_waiting=1000, inside=inside, batching={"strategy": "continuous"}))
        shell = Shell(desk, Engine(model), Clients(), Random(0), one_by_one=False)
        result = shell.run(requests, (), None)
        ratios[inside] = result.prefix_hit_tokens / result.prefix_queried_tokens
        assert result.prefix_queried_tokens >= sum(request.prompt_tokens for request in requests) / 4
    assert ratios["prefix"] > 1.5 * ratios["fifo"]
    assert (desk.read(0.0).prefixes is not None, desk._scheduler.prefixes._capacity_tokens) == (True, 8 * 512)
