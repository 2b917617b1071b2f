"""The variation of an engine's speed: hand-made sums for each disturbance, and steps at once against one by one."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from played_engine import ends, played

from headway_policies import bundled_presets
from headway_simulator import WORKLOADS, Slo, ceiling, simulate
from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence
from headway_simulator.engine_model.variation import Variation

UNIT = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0)
SLOW = Variation(slow=((6.0, 20.0, 60.0),))
ALL = Variation(
    slow=((6.0, 2.0, 6.0), (1.5, 5.0, 9.0)),
    pauses=((1.0, 3.0), (0.5, 12.0)),
    neighbour=(2.0, 0.5, 2.0),
    drift=(0.5, 20.0),
    jitter_ratio=0.2,
    jitter_hold_s=0.3,
    seed=4,
)
STEPPED = replace(ALL, jitter_hold_s=0.0)
EACH = {
    "slow": Variation(slow=ALL.slow),
    "pause": Variation(pauses=ALL.pauses),
    "neighbour": Variation(neighbour=ALL.neighbour, seed=4),
    "drift": Variation(drift=ALL.drift),
    "held jitter": Variation(jitter_ratio=0.2, jitter_hold_s=0.3, seed=4),
    "jitter": Variation(jitter_ratio=0.2, seed=4),
    "all": ALL,
    "all, jitter of each step": STEPPED,
}
_FOREVER = 10**9


# ---------------------------------------------------------------------- each disturbance


def test_steps_that_begin_in_a_slow_spell_take_a_multiple() -> None:
    """Six times as long from the beginning of the spell on and before its end; spells at once are multiplied."""
    paces = {now_s: SLOW.pace(now_s) for now_s in (0.0, 19.99, 20.0, 59.99, 60.0)}
    assert {now_s: (pace.factor, pace.until_s) for now_s, pace in paces.items()} == {
        0.0: (1.0, 20.0), 19.99: (1.0, 20.0), 20.0: (6.0, 60.0), 59.99: (6.0, 60.0), 60.0: (1.0, math.inf),
    }  # fmt: skip
    assert Variation(slow=((6.0, 20.0, 60.0), (2.0, 40.0, 50.0))).pace(45.0).factor == 12.0


def test_an_engine_in_a_slow_spell_takes_the_sum_of_its_steps() -> None:
    """Ten steps of one second before the spell, two of six within, and one after."""
    model = replace(UNIT, variation=Variation(slow=((6.0, 10.0, 22.0),)))
    reports = played(Engine(model), [(0.0, Sequence(1, 1, 13))])
    assert ends(reports) == {1: 10 + 2 * 6 + 1}
    assert [steps.step_s for _, steps in reports] == [1.0] * 10 + [6.0] * 2 + [1.0]


def test_a_pause_lengthens_one_step() -> None:
    """The first one that begins at its time or later, and no other; also where the engine was idle at that time."""
    model = replace(UNIT, variation=Variation(pauses=((10.0, 2.5),)))
    busy = played(Engine(model), [(0.0, Sequence(1, 1, 5))])
    assert [steps.step_s for _, steps in busy] == [1.0, 1.0, 1.0, 11.0, 1.0]
    idle = played(Engine(model), [(0.0, Sequence(1, 1, 1)), (7.0, Sequence(2, 1, 2))])
    assert [steps.step_s for _, steps in idle] == [1.0, 11.0, 1.0]


def test_a_pause_at_the_very_beginning_and_two_at_once_are_all_taken() -> None:
    """Two pauses between two steps are both in the second."""
    model = replace(UNIT, variation=Variation(pauses=((5.0, 0.0), (2.0, 5.5), (3.0, 5.6))))
    reports = played(Engine(model), [(0.0, Sequence(1, 1, 3))])
    assert [steps.step_s for _, steps in reports] == [6.0, 6.0, 1.0]


def test_a_neighbour_is_there_once_in_each_cycle_for_its_time() -> None:
    """Five seconds of every twenty, all of them within the cycle, at times that are not always the same."""
    variation = Variation(neighbour=(2.0, 5.0, 20.0), seed=3)
    comes_s = []
    for cycle in range(50):
        slow = [now / 100 for now in range(2000) if variation.pace(20.0 * cycle + now / 100).factor == 2.0]
        assert len(slow) == pytest.approx(500, abs=1)
        assert slow[-1] - slow[0] == pytest.approx(5.0, abs=0.02)
        comes_s.append(slow[0])
    assert min(comes_s) < 2
    assert max(comes_s) > 13


def test_a_drift_falls_to_its_part_and_returns_linearly() -> None:
    """Half of the speed after an hour, three quarters half an hour before and after, all of it after two hours."""
    variation = Variation(drift=(0.5, 3600.0))
    speeds = [1 / variation.pace(now_s).factor for now_s in (0.0, 1800.0, 3599.0, 5400.0, 7199.0, 7201.0, 9000.0)]
    assert speeds == pytest.approx([1.0, 0.75, 0.5, 0.75, 1.0, 1.0, 0.75], abs=0.006)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 2.0])
def test_the_jitter_of_steps_has_mean_1_and_the_spread_that_was_asked_for(ratio: float) -> None:
    """A lognormal factor: its mean, and its coefficient of variation."""
    variation = Variation(jitter_ratio=ratio, seed=1)
    factors = [variation.pace(0.0, step).factor for step in range(100_000)]
    assert fmean(factors) == pytest.approx(1.0, rel=0.03)
    assert pstdev(factors) == pytest.approx(ratio, rel=0.1)


def test_a_held_jitter_leaves_the_mean_speed_as_it_is() -> None:
    """The engine computes as much in a long time as an undisturbed one, though not in each second."""
    variation = Variation(jitter_ratio=0.4, jitter_hold_s=2.0, seed=1)
    speeds = [1 / variation.pace(now_s + 0.5).factor for now_s in range(0, 60_000, 2)]
    assert fmean(speeds) == pytest.approx(1.0, rel=0.01)
    assert pstdev(speeds) == pytest.approx(0.4, rel=0.05)
    assert variation.pace(3.9) == variation.pace(2.0) != variation.pace(4.0)


# ---------------------------------------------------------------------- the same run


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("most_steps", [7, _FOREVER])
def test_steps_at_once_are_exactly_the_same_as_one_by_one(name: str, most_steps: int) -> None:
    """Every step begins, ends and lasts by the very same floats, through preemptions, idle times and all changes."""
    arrivals = 60
    single, leaping = _history(EACH[name], 1, arrivals), _history(EACH[name], most_steps, arrivals)
    assert single == leaping
    steady = _history(None, most_steps, arrivals)
    assert steady != leaping


def test_the_histories_compared_do_leap() -> None:
    """Else the comparison above would prove nothing: with every disturbance but a jitter of each step."""
    for name in EACH.keys() - {"jitter", "all, jitter of each step"}:
        engine = Engine(EngineModel(kv_tokens=2000, step_tokens=100, variation=EACH[name]))
        assert max(steps.count for _, steps in played(engine, _arrivals(60), _FOREVER)) > 2


@pytest.mark.parametrize("preset", ["latency", "balanced", "throughput", None])
def test_a_run_with_a_slow_spell_is_the_same_step_by_step(preset: str | None) -> None:
    """All visits, and the time in which the engine was busy, to the last bit."""
    model = EngineModel(variation=Variation(slow=((6.0, 20.0, 40.0),)))
    requests = WORKLOADS["W1"].requests(60.0, 1, model=model, slo=Slo(), load=0.9)
    wanted = None if preset is None else bundled_presets()[preset]
    runs = [simulate(requests, wanted, model, seed=1, one_by_one=single) for single in (True, False)]
    assert [(visit.first_s, visit.ended_s, visit.outcome) for visit in runs[0].visits] == [
        (visit.first_s, visit.ended_s, visit.outcome) for visit in runs[1].visits
    ]
    assert runs[0].steps == runs[1].steps
    assert runs[0].busy_s == pytest.approx(runs[1].busy_s, rel=1e-12)  # many small sums against few large ones


@pytest.mark.parametrize("workload", ["W1", "W4", "W7"])
def test_without_a_disturbance_the_run_is_identical(workload: str) -> None:
    """No variation, one without disturbances, and disturbances that never come give the same run."""
    distant = Variation(slow=((6.0, 1e6, 2e6),), pauses=((10.0, 1e6),), neighbour=(1.0, 1.0, 4.0))
    runs = []
    for variation in (None, Variation(), distant):
        model = EngineModel(kv_tokens=8192, prefix_cache=workload == "W7", variation=variation)
        requests = WORKLOADS[workload].requests(60.0, 1, model=model, slo=Slo(), load=1.3)
        run = simulate(requests, bundled_presets()["balanced"], model, seed=1)
        runs.append([(visit.first_s, visit.ended_s, visit.outcome, visit.made_tokens) for visit in run.visits])
    assert runs[0] == runs[1] == runs[2]


def test_the_seed_alone_decides_what_is_drawn() -> None:
    """The same seed, the same run; another seed, another run."""
    histories = [_history(replace(STEPPED, seed=seed), 1, 20) for seed in (1, 1, 2)]
    assert histories[0] == histories[1] != histories[2]


@st.composite
def variations(draw: st.DrawFn) -> Variation:
    """Any disturbances on a scale of seconds."""
    seconds, factors = st.floats(0.01, 20.0), st.floats(0.2, 8.0)
    begins_s = draw(st.lists(seconds, max_size=3))
    every_s = draw(st.none() | st.floats(0.5, 10.0))
    return Variation(
        slow=tuple((draw(factors), begin_s, begin_s + draw(seconds)) for begin_s in begins_s),
        pauses=tuple(draw(st.lists(st.tuples(st.floats(0.01, 2.0), seconds), max_size=3))),
        neighbour=None if every_s is None else (draw(factors), every_s * draw(st.floats(0.05, 0.95)), every_s),
        drift=draw(st.none() | st.tuples(st.floats(0.05, 0.9), st.floats(1.0, 30.0))),
        jitter_ratio=draw(st.sampled_from([0.0, 0.0, 0.3])),
        jitter_hold_s=draw(st.floats(0.05, 5.0)),
        seed=draw(st.integers(-5, 5)),
    )


@given(variations(), st.floats(0.0, 60.0), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_a_pace_holds_for_every_step_that_begins_before_its_end(
    variation: Variation, now_s: float, parts: list[float]
) -> None:
    """The promise on which an engine takes many steps at once: the same factor, and no pause, until ``until_s``."""
    pace = variation.pace(now_s)
    end_s = min(pace.until_s, now_s + 100.0)
    for later_s in (now_s + part * (end_s - now_s) for part in [*parts, 1 - 1e-9]):
        if now_s <= later_s < pace.until_s:
            later = variation.pace(later_s, step=5, since_s=now_s)
            assert (later.factor, later.extra_s) == (pace.factor, 0.0)


@given(variations(), st.integers(0, 3))
def test_any_variation_gives_the_same_run_in_leaps(variation: Variation, seed: int) -> None:
    """And every sequence ends with all its tokens, each step taking the time of its pace."""
    assert _history(variation, 1, 12, seed) == _history(variation, _FOREVER, 12, seed)


# ---------------------------------------------------------------------- around the engine


def test_the_desk_is_told_the_real_time_of_a_step() -> None:
    """The duration of a report is the time from the report before, pauses and jitter included."""
    model = EngineModel(variation=STEPPED)
    reports = played(Engine(model), [(0.0, Sequence(1, 50, 200))])
    times_s = [0.0, *(now_s for now_s, _ in reports)]
    assert [steps.step_s for _, steps in reports] == pytest.approx(
        [after_s - before_s for before_s, after_s in pairwise(times_s)]
    )


def test_the_ceiling_is_that_of_the_undisturbed_engine() -> None:
    """Loads stay comparable, whatever disturbs the engine."""
    assert ceiling(EngineModel(variation=ALL), 64, 64, Slo()) == ceiling(EngineModel(), 64, 64, Slo())


@pytest.mark.parametrize(
    ("words", "issue"),
    [
        ({"slow": ((0.0, 1.0, 2.0),)}, "a factor is a number"),
        ({"slow": ((math.nan, 1.0, 2.0),)}, "a factor is a number"),
        ({"slow": ((2.0, 2.0, 2.0),)}, "a slow spell ends after it began"),
        ({"slow": ((2.0, -1.0, 2.0),)}, "a slow spell ends after it began"),
        ({"slow": ((2.0, 1.0, math.inf),)}, "a slow spell ends after it began"),
        ({"pauses": ((0.0, 1.0),)}, "a pause is longer than 0 s"),
        ({"pauses": ((1.0, -1.0),)}, "a pause is longer than 0 s"),
        ({"neighbour": (2.0, 5.0, 5.0)}, "a neighbour is there"),
        ({"neighbour": (-2.0, 5.0, 20.0)}, "a factor is a number"),
        ({"drift": (1.0, 60.0)}, "a drift is by a part"),
        ({"drift": (0.5, 0.5)}, "a drift is by a part"),
        ({"jitter_ratio": -0.1}, "a jitter is a number"),
        ({"jitter_ratio": math.nan}, "a jitter is a number"),
        ({"jitter_ratio": 0.1, "jitter_hold_s": -1.0}, "a jitter holds"),
    ],
)
def test_a_variation_that_no_engine_can_have_is_refused_in_one_line(words: dict[str, object], issue: str) -> None:
    """ValueError, before any step is taken."""
    with pytest.raises(ValueError, match=issue) as refused:
        Variation(**words)
    assert "\n" not in str(refused.value)


def _history(
    variation: Variation | None, most_steps: int, arrivals: int, seed: int = 0
) -> list[tuple[float, str, int]]:
    """Each first token and each end, with its time."""
    engine = Engine(EngineModel(kv_tokens=2000, step_tokens=100, variation=variation))
    log = []
    for now_s, steps in played(engine, _arrivals(arrivals, seed), most_steps):
        log += [(now_s, "first", one.id) for one in steps.first] + [(now_s, "end", one.id) for one in steps.ended]
        assert all(one.made_tokens == one.output_tokens for one in steps.ended)
    assert engine.free_blocks == engine.blocks
    assert len(log) == 2 * arrivals
    return log


def _arrivals(number: int, seed: int = 0) -> list[tuple[float, Sequence]]:
    random, at_s, arrivals = Random(seed), 0.0, []
    for place in range(number):
        at_s += random.expovariate(3.0)
        arrivals.append((at_s, Sequence(place, random.randint(1, 150), random.randint(1, 120))))
    return arrivals
