"""Tests of the default preset's part of ``make bench``: its arms, its goals, and the programs beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from serving import spinning
from serving.arms import all_arms
from serving.arrivals import arrivals
from serving.client import Answer
from serving.constants import objectives
from serving.default_goals import ARM, default_goals
from serving.figures import BlockFigures, judged
from serving.form import SHORT, SPINNING, Span
from serving.results import Key, Results
from serving.spinning import AFTER, BEFORE, DURING, beside, repeated, spells

from headway_policies import bundled_presets
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.workload import WORKLOADS

SLO = Slo(ttft_s=1.0, inter_token_s=0.1)


def block(realtime: tuple[int, int], normal: tuple[int, int]) -> BlockFigures:
    """Of each class so many in time, and so many served at all, of ten."""
    answers = []
    for name, (good, served) in (("realtime", realtime), ("normal", normal)):
        for place in range(10):
            first_s = None if place >= served else 10.5 if place < good else 12.0
            last_s = None if first_s is None else first_s + 0.5
            end = "queue_full" if first_s is None else "completed"
            answers.append(Answer(name, "", 8, 10.0, first_s, last_s, 0 if first_s is None else 11, end))
    return judged(answers, SLO, count_s=(10.0, 14.0), ceiling_per_s=5.0, client_s=0.1, disturbed=0.0)


def verdicts(path: Path, *blocks: tuple[str, float, str, BlockFigures]) -> dict[str, bool]:
    """Whether each figure meets its goal."""
    found = Results(path)
    for workload, load, arm, figures in blocks:
        found.blocks[Key(workload, load, arm, 0)] = figures
        found.arms.setdefault(workload, {})[arm] = arm
    return {goal.figure: goal.met for goal in default_goals(found)}


def test_the_arm_is_the_bundled_preset_as_it_is() -> None:
    """Nothing is set, and the short run plays it at every load beside vLLM as it comes."""
    assert all_arms(WORKLOADS["W1"], EngineModel(), SLO, ())[ARM].preset == bundled_presets()["balanced"]
    played = [part for part in SHORT.parts if part.workload == "W1"]
    assert [load for one in played for load in one.loads] == [0.5, 0.9, 1.5, 2.5]
    assert all({ARM, "plain"} <= set(one.arms) for one in played)


@pytest.mark.parametrize(("alone_s", "expected"), [(0.04, Slo(1.2, 0.1)), (0.002, Slo(0.3, 0.005))])
def test_the_objectives_are_multiples_of_the_pace_alone(alone_s: float, expected: Slo) -> None:
    """On a quick engine a first token has 0.3 s at least."""
    found = objectives(alone_s)
    assert (found.ttft_s, found.inter_token_s) == pytest.approx((expected.ttft_s, expected.inter_token_s))


def test_below_the_capacity_it_must_serve_what_vllm_serves(tmp_path: Path) -> None:
    """In time, and as many tokens."""
    all_good, less = block((10, 10), (10, 10)), block((10, 10), (9, 9))
    same = verdicts(tmp_path, ("W1", 0.5, ARM, all_good), ("W1", 0.5, "plain", all_good))
    assert set(same.values()) == {True}
    assert len(same) == 2
    assert set(verdicts(tmp_path, ("W1", 0.5, ARM, less), ("W1", 0.5, "plain", all_good)).values()) == {False}


def test_beyond_it_is_judged_by_the_best_cap_and_by_its_classes(tmp_path: Path) -> None:
    """Whichever cap of the grid is the best."""
    caps = [("W1", 1.5, "cap", block((5, 5), (5, 5))), ("W1", 1.5, "cap-x0.75", block((7, 7), (7, 7)))]
    good = verdicts(tmp_path, ("W1", 1.5, ARM, block((10, 10), (4, 5))), *caps)
    assert good == dict.fromkeys(good, True)
    assert len(good) == 3
    bad = verdicts(tmp_path, ("W1", 1.5, ARM, block((5, 5), (6, 6))), *caps)
    assert bad == dict.fromkeys(good, False)


def test_after_other_programs_each_class_is_served_as_before(tmp_path: Path) -> None:
    """And beside them the urgent one loses least."""
    calm, busy, lasting = block((10, 10), (10, 10)), block((9, 9), (4, 5)), block((10, 10), (5, 8))
    spelled = [(BEFORE, calm), (DURING, busy)]
    found = [
        verdicts(tmp_path, *((name, 0.9, ARM, one) for name, one in [*spelled, (AFTER, after)]))
        for after in (calm, lasting)
    ]
    assert list(found[0].values()) == [True, True, True]
    assert list(found[1].values()) == [True, True, False]


def test_a_block_beside_other_programs_is_counted_before_during_and_after() -> None:
    """Not while its limit is learnt, nor in the first seconds after; any other block is counted once."""
    span = Span(48.0, 40.0, 60.0)
    assert spells(SPINNING, span) == {BEFORE: (8.0, 48.0), DURING: (48.0, 88.0), AFTER: (98.0, 138.0)}
    assert spells("W1", span) == {"W1": (48.0, 88.0)}


def test_the_same_requests_are_counted_before_the_other_programs_and_after_them() -> None:
    """So that a difference is the programs', and not that of what arrived."""
    span, model = Span(48.0, 40.0, 60.0), EngineModel()
    every = arrivals(WORKLOADS["W1"], 0.9, 3, span.block_s, model=model, slo=Slo(1.0, 0.1)).requests
    played, counted = repeated(every, span), spells(SPINNING, span)

    def of(spell: str) -> list[tuple[object, ...]]:
        from_s, to_s = counted[spell]
        return [(round(one.at_s - from_s, 6), *one[1:]) for one in played if from_s <= one.at_s < to_s]

    assert len(of(BEFORE)) > 10
    assert of(AFTER) == of(BEFORE)
    assert played == sorted(played, key=lambda one: one.at_s)
    assert [one for one in played if one.at_s < counted[DURING][1]] == [one for one in every if one.at_s < 88.0]


async def test_the_other_programs_end_with_their_part_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the block is broken off."""
    started, begun, create = list[asyncio.subprocess.Process](), asyncio.Event(), asyncio.create_subprocess_exec

    async def noted(*command: str) -> asyncio.subprocess.Process:
        started.append(await create(*command))
        if len(started) == spinning.PROCESSES:
            begun.set()
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    async with beside(SPINNING, Span(0.0, 60.0, 0.0)):
        await begun.wait()
        assert [one.returncode for one in started] == [None] * spinning.PROCESSES
    assert all([await one.wait() < 0 for one in started])
