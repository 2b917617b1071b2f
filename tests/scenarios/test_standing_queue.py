"""A lasting overload under ``balanced``, with a fixed limit and absolute objectives: what is served is served in time.

Controlled delay and the seats held for a class, on the model of an engine and on a server of seats, virtual time. The
oracle is the load itself: what is offered, what the seats can serve, and the same preset without its objectives.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import inf
from random import Random

import pytest
from closed_loop import ClosedLoop, percentile
from small_presets import balanced_with_absolute_objectives
from tiers import LONG

from headway_policies import Outcome, Preset, Reason
from headway_policies.batching import Batching
from headway_policies.queueing import QueueSettings
from headway_simulator import WORKLOADS, EngineModel, Slo, simulate
from headway_simulator.run.visit import Visit

MODEL = EngineModel()
#: 32 seats, and objectives of 1, 2 and 60 s.
BALANCED = balanced_with_absolute_objectives()
#: The ceiling is that of an engine that must keep 100 ms between tokens: at 32 seats it takes 63 ms, plus prompts.
SLO = Slo(ttft_s=5.0, inter_token_s=0.1)
LENGTH_S, BEGIN_S = 170.0, 60.0
OBJECTIVE = {Reason.OBJECTIVE_INFEASIBLE, Reason.OBJECTIVE_UNREACHABLE}


def without_objectives(preset: Preset) -> Preset:
    """The same preset as it would be without objectives and reserves."""
    classes = {
        name: one.model_copy(update={"ttft_slo_s": None, "reserved_seats": 0}) for name, one in preset.classes.items()
    }
    return preset.model_copy(update={"classes": classes})


@cache
def visits(load: float, seed: int, *, objectives: bool = True) -> tuple[Visit, ...]:
    """The requests of W1 at a multiple of the ceiling, under ``balanced``: those that ended between 60 and 170 s."""
    preset = BALANCED
    requests = WORKLOADS["W1"].requests(LENGTH_S, seed, model=MODEL, slo=SLO, load=load)
    found = simulate(requests, preset if objectives else without_objectives(preset), MODEL, seed=seed).visits
    return tuple(one for one in found if BEGIN_S <= (one.ended_s or 0.0) < LENGTH_S)


def in_time(found: tuple[Visit, ...], name: str) -> int:
    """How many of a class had their first token within the objective of ``balanced`` and ran to their end."""
    slo_s = BALANCED.classes[name].ttft_slo_s
    assert slo_s is not None
    return sum(one.class_name == name and one.within(slo_s, 1e9) for one in found)


@pytest.mark.parametrize("load", [1.3, 1.5, 2.0])
@pytest.mark.parametrize("seed", [1, 2] if LONG else [1])
def test_in_a_lasting_overload_what_is_served_is_served_in_time(load: float, seed: int) -> None:
    """Without objectives at most a tenth of the normal requests is in time; with them most of what is admitted is, and
    in all at least as many as the seats can serve, less a tenth. Realtime loses nothing by it.
    """
    before, after = visits(load, seed, objectives=False), visits(load, seed)
    served = sum(one.outcome is Outcome.COMPLETED for one in before)
    normal = sum(one.class_name == "normal" for one in before)
    assert in_time(before, "normal") <= 0.1 * normal
    admitted = sum(one.class_name == "normal" and one.dispatched_s is not None for one in after)
    assert in_time(after, "normal") >= 0.85 * admitted
    assert in_time(after, "normal") + in_time(after, "realtime") >= 0.9 * served
    assert in_time(after, "realtime") >= 0.95 * in_time(before, "realtime")


def test_what_cannot_be_served_in_time_is_refused_soon() -> None:
    """Some on arrival, by a prediction; all others by the fact that their objective has passed, and 99 of 100 before
    1.85 times that.
    """
    refused = [one for one in visits(1.5, 1) if one.reason in OBJECTIVE]
    assert len(refused) >= 100
    at_once = sum(one.reason is Reason.OBJECTIVE_INFEASIBLE for one in refused)
    assert at_once > 0
    slo_s = {name: one.ttft_slo_s or 0.0 for name, one in BALANCED.classes.items()}
    waited = [(one, (one.ended_s or 0.0) - one.arrived_s) for one in refused]
    assert all(
        waited_s > slo_s[one.class_name] for one, waited_s in waited if one.reason is Reason.OBJECTIVE_UNREACHABLE
    )
    late = sum((one.ended_s or 0.0) - one.arrived_s > 1.85 * slo_s[one.class_name] for one in refused)
    assert late <= 0.01 * len(refused)


def served_alike(service_s: float, spread: float = 0.5, preset: Preset | None = None) -> ClosedLoop:
    """A server with the seats of ``balanced``, each request holding one for about so long."""
    random = Random(1)
    return ClosedLoop(preset or BALANCED, lambda record: service_s * random.uniform(1 - spread, 1 + spread))


@pytest.mark.parametrize("seed", [1, 2, 3] if LONG else [1])
def test_five_minutes_of_overload_under_the_default_preset(seed: int) -> None:
    """At 1.5 times what 75 ms between tokens allow, from the first request on: nine tenths of that have their first
    token within 2 s.
    """
    slo = Slo(ttft_s=2.0, inter_token_s=0.075)
    requests = WORKLOADS["W1"].requests(300.0, seed, model=MODEL, slo=slo, load=1.5)
    found = simulate(requests, BALANCED, MODEL, seed=seed).visits
    assert sum(one.within(2.0, inf) for one in found) >= 0.9 * len(found) / 1.5


@pytest.mark.parametrize("load", [3.0, 2.0])
def test_ten_seconds_of_a_multiple_of_the_load_lose_no_normal_request(load: float) -> None:
    """30 seats of 1.5 s each, thirty seconds of work in ten: the last ones wait far beyond the objective."""
    loop, every_s = served_alike(1.5), 1.5 / 30 / load

    def burst() -> None:
        loop.ask("normal")
        if loop.now_s < 10.0:
            loop.at(loop.now_s + every_s, burst)

    loop.at(0.0, burst)
    loop.run(90.0)
    assert len(loop.records) >= 9.5 / every_s
    assert Counter(one.how for one in loop.records) == {"completed": len(loop.records)}


@pytest.mark.parametrize("requests", [50, 150, 200])
def test_a_short_burst_loses_nothing(requests: int) -> None:
    """Up to 200 requests at once for 30 seats of 1.5 s: ten seconds of work, the last far beyond the objective."""
    loop = served_alike(1.5)
    for _ in range(requests):
        loop.ask("normal")
    loop.run(60.0)
    assert [one.how for one in loop.records] == ["completed"] * requests


def test_after_a_pause_what_waited_is_served() -> None:
    """Twenty seconds in which nothing was dispatched by order are no overload."""
    loop = served_alike(1.5)
    loop.desk.pause(0.0)
    for second in range(100):
        loop.at(second / 5, lambda: loop.ask("normal"))
    loop.at(20.0, lambda: loop._follow(loop.desk.resume(loop.now_s)))
    loop.run(60.0)
    assert Counter(one.how for one in loop.records) == {"completed": 100}


def test_long_answers_leave_room_for_the_urgent() -> None:
    """All seats that normal requests get are taken for a minute: eleven realtime requests wait for 1 s at most."""
    random = Random(1)
    loop = ClosedLoop(
        BALANCED,
        lambda record: 60.0 if record.ticket.class_name == "normal" else random.uniform(0.5, 1.5),
    )
    for _ in range(32):
        loop.ask("normal")
    for number in range(11):
        loop.at(5.0 + number, lambda: loop.ask("realtime"))
    loop.run(30.0)
    urgent = [one for one in loop.records if one.ticket.class_name == "realtime"]
    assert [one.how for one in urgent] == ["completed"] * 11
    assert max(one.wait_s for one in urgent) <= 1.0


def test_seats_are_held_as_demand_requires_and_given_back() -> None:
    """Realtime fills about eight seats while answers are long: more than eight are held for it, no more than its share;
    two minutes after its last request as many as the preset reserves, and others take them.
    """
    loop = served_alike(20.0, spread=0.2)
    held: dict[int, int] = {}

    def flood() -> None:
        loop.ask("normal")
        loop.at(loop.now_s + 0.5, flood)

    def urgent() -> None:
        loop.ask("realtime")
        if loop.now_s < 200.0:
            loop.at(loop.now_s + 2.5, urgent)

    loop.at(0.0, flood)
    loop.at(0.0, urgent)
    for at_s in (1, 150, 199, 320):
        loop.at(
            float(at_s), lambda: held.update({round(loop.now_s): loop.desk.read(loop.now_s).reserved_seats["realtime"]})
        )
    loop.run(330.0)
    assert held[1] == 2
    assert 8 <= held[150] <= 0.6 * 32
    assert 8 <= held[199] <= 0.6 * 32
    assert held[320] == 2
    late = [one for one in loop.records if one.ticket.class_name == "realtime" and one.ticket.arrived_s >= 100.0]
    assert percentile([one.wait_s for one in late], 0.95) <= 0.5
    assert Counter(one.how for one in late) == {"completed": len(late)}


def test_seats_are_kept_within_seconds_for_a_burst_that_finds_all_taken() -> None:
    """Answers of a minute have the seats when realtime begins to send what fills twelve: two seconds later more than
    twelve are kept for it, and from the first end of such answers on it is served in time.
    """
    random = Random(1)
    loop = ClosedLoop(
        BALANCED,
        lambda record: 1.5 if record.ticket.class_name == "realtime" else random.uniform(50.0, 70.0),
    )
    for _ in range(150):
        loop.ask("batch")
    for number in range(800):
        loop.at(20.0 + number / 8, lambda: loop.ask("realtime"))
    kept: list[int] = []
    loop.at(22.0, lambda: kept.append(loop.desk.read(loop.now_s).reserved_seats["realtime"]))
    loop.run(130.0)
    assert 12 <= kept[0] <= 0.6 * 32
    late = [one for one in loop.records if one.ticket.class_name == "realtime" and 75.0 <= one.ticket.arrived_s < 115.0]
    assert Counter(one.how for one in late) == {"completed": len(late)}
    assert percentile([one.wait_s for one in late], 0.95) <= 0.5


def test_shares_hold_while_waits_are_cut() -> None:
    """Normal and batch work each offer three times what there is: they are served 3 to 1, as without objectives."""
    loop = served_alike(1.0)

    def flood(name: str) -> None:
        loop.ask(name, prompt_tokens=50, max_tokens=100)
        loop.at(loop.now_s + 1 / 90, lambda: flood(name))

    for name in ("normal", "batch"):
        loop.at(0.0, lambda one=name: flood(one))
    loop.run(120.0)
    served = Counter(
        one.ticket.class_name for one in loop.records if one.completed and (one.dispatched_s or 0.0) >= 60.0
    )
    assert served["normal"] / served["batch"] == pytest.approx(3.0, rel=0.1)
    assert any(one.how == Reason.OBJECTIVE_INFEASIBLE for one in loop.records)


def test_a_request_that_would_be_late_takes_no_place_from_others() -> None:
    """The queue of all classes is full while normal requests come at twice the rate that is served: most of them would
    wait beyond their target and are refused, so that fewer batch requests lose their place than normal ones are served.
    """
    balanced = BALANCED
    loop = served_alike(1.0, preset=balanced.model_copy(update={"queue": QueueSettings(max_waiting=200)}))

    def flood(name: str, every_s: float) -> None:
        loop.ask(name)
        loop.at(loop.now_s + every_s, lambda: flood(name, every_s))

    loop.at(0.0, lambda: flood("batch", 1 / 40))
    loop.at(20.0, lambda: flood("normal", 1 / 60))
    loop.run(90.0)
    ended = Counter((one.ticket.class_name, one.how) for one in loop.records if one.ticket.arrived_s > 50.0)
    assert ended["normal", "completed"] >= 700
    assert 0 < ended["batch", "evicted"] <= ended["normal", "completed"]


def test_no_seat_is_held_for_a_demand_of_almost_nothing() -> None:
    """Eight seats and answers of half a minute: seats are held for normal requests while they come, and three minutes
    after the last one none is.
    """
    balanced = BALANCED
    loop = served_alike(30.0, preset=balanced.model_copy(update={"batching": Batching(seats=8, window_ms=0)}))
    for number in range(16):
        loop.at(4.0 * number, lambda: loop.ask("normal"))
    loop.at(250.0, lambda: loop.ask("batch"))
    loop.run(90.0)
    assert loop.desk.read(loop.now_s).reserved_seats["normal"] >= 1
    loop.run(255.0)
    assert loop.desk.read(loop.now_s).reserved_seats["normal"] == 0
