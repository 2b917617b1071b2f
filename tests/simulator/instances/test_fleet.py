"""Several engines on one clock: one of them is the engine itself, and every request has one end under any router."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from small_presets import balanced_with_absolute_objectives, small_preset

from headway_policies import Outcome, Preset
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.instances.one_desk import fixed
from headway_simulator.instances.run import ROUTERS, RouterName, instances, simulate_instances
from headway_simulator.run.result import Result
from headway_simulator.run.shell import simulate
from headway_simulator.studies.strategies import plain
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.workload import WORKLOADS, Request

MODEL, SLO = EngineModel(), Slo()
ROUGH = Clients(patience_s=8.0, cancel_ratio=0.2, retries=2, obedient_ratio=0.5)


def without_room(preset: Preset) -> Preset:
    """The preset without ``make_room``: bound late, a sequence starts a step after the one that made room for it."""
    return preset.model_copy(update={"queue": preset.queue.model_copy(update={"make_room": False})})


PRESETS = {
    "balanced": without_room(balanced_with_absolute_objectives()),
    "small": small_preset(4, most_waiting=20),
    "dynamic": plain("dynamic", 8),
}


def chat(load: float, duration_s: float = 60.0) -> list[Request]:
    """The usual chat, at a multiple of what one engine serves."""
    return WORKLOADS["W1"].requests(duration_s, 1, model=MODEL, slo=SLO, load=load)


def log(result: Result) -> list[tuple[object, ...]]:
    """All that the clients of a run observed."""
    return [(one.id, one.attempt, one.dispatched_s, one.first_s, one.ended_s, one.outcome) for one in result.visits]


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("name", PRESETS)
def test_a_fleet_of_one_is_the_engine(name: str, router: RouterName) -> None:
    """To the last digit, in steps and batches too, in little KV space, and with clients that leave."""
    requests, tight, preset = chat(2.0), replace(MODEL, kv_tokens=4096), fixed(PRESETS[name], 8)
    alone = simulate(requests, preset, tight, clients=ROUGH, seed=3)
    fleet = simulate_instances(requests, preset, [tight], 8, router=router, clients=ROUGH, seed=3)
    assert log(fleet) == log(alone)
    assert fleet.batches == alone.batches
    assert (fleet.preemptions, fleet.steps) == (alone.preemptions, alone.steps)


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kills", [[], [(20.0, 1), (40.0, 0)]], ids=["all live", "two die"])
def test_every_request_has_one_end_and_the_books_agree(
    name: str, router: RouterName, kills: list[tuple[float, int]]
) -> None:
    """What the clients saw is what the ledgers of all desks say together; no request is open, and none is doubled."""
    requests, models = chat(6.0), instances(replace(MODEL, kv_tokens=8192), 3, 2.0)
    result = simulate_instances(requests, PRESETS[name], models, 8, router=router, clients=ROUGH, seed=7, kills=kills)
    assert sum(not visit.attempt for visit in result.visits) == len(requests)
    assert all(visit.outcome is not None and visit.ended_s is not None for visit in result.visits)
    for class_name, counts in result.ledger.classes.items():
        seen = [visit for visit in result.visits if visit.class_name == class_name]
        assert counts.arrived == len(seen)
        assert (counts.queued, counts.in_flight) == (0, 0)
        assert +counts.outcomes == Counter(visit.outcome for visit in seen)
    for visit in result.visits:
        if visit.outcome is Outcome.COMPLETED:
            assert visit.made_tokens == min(visit.request.output_tokens, visit.most_tokens or 512)


@pytest.mark.parametrize("router", ROUTERS)
def test_the_same_seed_gives_the_same_run(router: RouterName) -> None:
    """To the last digit."""
    first, second = (
        simulate_instances(chat(3.0, 20.0), PRESETS["small"], instances(MODEL, 3), 4, router=router, seed=5)
        for _ in range(2)
    )
    assert log(first) == log(second)


@pytest.mark.parametrize(
    "kills", [[(1.0, 2)], [(1.0, 0), (2.0, 0)], [(1.0, 0), (2.0, 1)]], ids=["no such", "twice", "all"]
)
def test_kills_that_make_no_sense_are_refused(kills: list[tuple[float, int]]) -> None:
    """One engine has to be left."""
    with pytest.raises(ValueError, match="not all of them"):
        simulate_instances([], PRESETS["small"], instances(MODEL, 2), 4, kills=kills)


def killed(router: RouterName) -> tuple[Result, list[int]]:
    """Four engines at 1.2 times their capacity; one dies at 30 s. With the requests that waited then."""
    preset = plain("continuous", 24)
    result = simulate_instances(chat(4.8), preset, instances(MODEL, 4), 24, router=router, kills=[(30.0, 1)])
    waited = [
        one.id
        for one in result.visits
        if one.arrived_s < 30.0 and (one.dispatched_s is None or one.dispatched_s > 30.0)
    ]
    return result, waited


def test_no_waiting_request_is_lost_with_an_engine_under_one_desk() -> None:
    """All that waited are served, once each; of those that ran only those are lost that had sent output."""
    result, waited = killed("late")
    assert len(waited) > 10
    assert {result.visits[place].outcome for place in waited} == {Outcome.COMPLETED}
    lost = [one for one in result.visits if one.outcome is not Outcome.COMPLETED]
    assert 0 < len(lost) <= 24
    for one in lost:
        assert one.first_s is not None
        assert one.first_s <= 30.0 == one.ended_s
    assert sum(counts.arrived for counts in result.ledger.classes.values()) == len(result.visits)


def test_what_waits_at_a_desk_of_its_own_is_lost_with_its_engine() -> None:
    """Which is why there is one queue before all."""
    result, waited = killed("round-robin")
    assert Outcome.ENGINE_LOST in {result.visits[place].outcome for place in waited}


def test_requests_without_output_run_again_on_another_engine() -> None:
    """A prompt that takes a second is under way when its engine dies: it is served by the other one."""
    slow = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0)
    requests = [Request(0.0, "normal", 10, 3), Request(0.0, "normal", 10, 3), Request(0.0, "normal", 10, 3)]
    result = simulate_instances(requests, plain("continuous", 2), [slow, slow], 2, kills=[(0.5, 0)])
    assert [one.outcome for one in result.visits] == [Outcome.COMPLETED] * 3
    assert sorted(one.first_s or 0.0 for one in result.visits) == [1.0, 2.0, 4.0]
