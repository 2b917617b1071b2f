"""Tests of the parts of ``make bench``: what arrives in each, its arms, and the figures that only some of them have."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from serving.arms import all_arms
from serving.arrivals import arrivals, lengths_of, shortened, workload_of
from serving.client import Answer
from serving.constants import Constants
from serving.figures import judged
from serving.form import LONG, SHORT, STEP, Part
from serving.layer import layer_cost
from serving.report import report
from serving.results import Key, Results
from virtual_time import on_virtual_time

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.trace import Row, Trace
from headway_simulator.traffic.workload import Request

SLO = Slo(ttft_s=1.0, inter_token_s=0.1)
MODEL = EngineModel(max_num_seqs=128)
TRACE = Trace("day.csv", [Row(place / 2, 800, 160) for place in range(2400)])
PARTS = [*SHORT.parts, *LONG.parts, *STEP.parts]


@pytest.mark.parametrize("part", PARTS, ids=[f"{one.workload}-{len(one.arms)}" for one in PARTS])
def test_a_part_names_arms_and_a_workload_that_exist(part: Part) -> None:
    """A long run would find a wrong name after hours only."""
    trace = part.workload == "trace"
    workload = lengths_of(shortened(TRACE)) if trace else workload_of(part.workload, part.loads[0], 60.0)
    assert set(part.arms) <= all_arms(workload, MODEL, SLO, part.grid).keys()


def test_a_slow_engine_has_longer_to_learn_and_to_count() -> None:
    """A limit learns by steps, and a figure needs as many requests as on a quick one."""
    slow, quick = SHORT.on(2 * 0.033, 1.0), SHORT.on(0.01, 10.0)
    assert (slow.span.lead_s, slow.span.count_s) == (2 * SHORT.span.lead_s, 60.0)
    assert (slow.level_s, slow.layer_s) == (2 * SHORT.level_s, 2 * SHORT.layer_s)
    assert quick == SHORT


def test_the_spans_of_parts_grow_with_the_engine() -> None:
    """A lead of half a minute is long enough for an engine that is three times as slow; one without a lead has none."""
    slow, slower = SHORT.on(3 * 0.033, 0.8), LONG.on(6 * 0.033, 0.8)
    spans = [slow.span_of(one) for one in slow.parts]
    assert [(one.lead_s, one.count_s) for one in spans] == [(24.0, 75.0), (32.0, 75.0), (48.0, 40.0)]
    assert {one.lead_s for one in map(slower.span_of, slower.parts)} == {120.0, 48.0, 0.0, 60.0}


@pytest.mark.parametrize("load", [0.5, 1.5, 3.0])
def test_realtime_offers_the_same_share_of_the_ceiling_at_every_load(load: float) -> None:
    """0.6 of it, or all there is."""
    block = arrivals(workload_of("W1-60", load, 60.0), load, 0, 4000.0, model=MODEL, slo=SLO)
    offered_per_s = Counter(one.class_name for one in block.requests)["realtime"] / 4000.0
    assert offered_per_s / block.ceiling_per_s == pytest.approx(min(0.6, load), rel=0.1)


def answers_of(tenant: str, requests: int, tokens: int, ttft_s: float = 0.1) -> list[Answer]:
    """Requests of one tenant, each for 90 tokens after a prompt of 10; ``tokens`` of them came."""
    first_s = 1.0 + ttft_s
    one = Answer("normal", tenant, 10, 1.0, first_s, first_s + 1.0, tokens, "completed" if tokens else "queue_full")
    one.asked_tokens = 90
    return [one] * requests


def test_fairness_is_over_what_each_tenant_could_have_had() -> None:
    """One that asks for little and gets all of it is served fairly; one that crowds the others out is not."""

    def fairness(greedy: int, light: int) -> tuple[float | None, float | None]:
        answers = answers_of("greedy", 9, greedy) + answers_of("light", 1, light, ttft_s=0.7)
        figures = judged(answers, SLO, count_s=(0.0, 2.0), ceiling_per_s=1.0, client_s=0.0, disturbed=0.0)
        return figures.fairness, figures.light_ttft_p99_s

    assert fairness(30, 90) == (pytest.approx(1.0), pytest.approx(0.7))
    unfair, _ = fairness(90, 0)
    assert unfair == pytest.approx(0.5)


def test_one_tenant_has_no_fairness() -> None:
    """And no part of its own."""
    answers = answers_of("", 3, 90)
    figures = judged(answers, SLO, count_s=(0.0, 2.0), ceiling_per_s=1.0, client_s=0.0, disturbed=0.0)
    assert (figures.fairness, figures.light_ttft_p99_s, figures.refused) == (None, None, 0.0)


def test_the_goals_of_the_other_parts_are_judged(tmp_path: Path) -> None:
    """The fitted limit and Algorithm 2 against the best fixed one, by goodput."""
    found = Results(tmp_path / "long.json", {"vllm": "0", "model": "m", "gpu": "g"}, {"rounds": 1})
    found.arms = {"W3": {name: name for name in ("fixed-8", "fixed-64", "sla", "objective")}}
    found.constants = Constants(MODEL, SLO, ())
    for name, good in (("fixed-8", 2), ("fixed-64", 1), ("sla", 3), ("objective", 4)):
        answers = [one for _ in range(good) for one in answers_of("", 1, 20)]
        figures = judged(answers, SLO, count_s=(0.0, 2.0), ceiling_per_s=1.0, client_s=0.1, disturbed=0.0)
        found.blocks[Key("W3", 1.5, name, 0)] = figures
    text = report(found).text
    assert (
        "| G3 | changing mix at load 1.5, fitted limit : best of 8/32/64, real engine (8 seats) | ≥ 1.25 | 2 |" in text
    )
    assert (
        "| N6 | changing mix at load 1.5, Algorithm 2 : best of 8/32/64, real engine (8 seats) | ≥ 1.22 | 1.5 |" in text
    )


class LayeredEngine:
    """Answers after a second on virtual time, through the layer half a second later."""

    async def bare(self, request: Request, answer: Answer) -> None:
        """Tokens at 1.0 and 1.1 s."""
        await self._answer(answer, 1.0)

    async def gated(self, request: Request, answer: Answer) -> None:
        """Tokens at 1.5 and 1.6 s."""
        await self._answer(answer, 1.5)

    async def _answer(self, answer: Answer, after_s: float) -> None:
        now_s = asyncio.get_running_loop().time
        await asyncio.sleep(after_s)
        answer.first_s = now_s()
        await asyncio.sleep(0.1)
        answer.last_s, answer.tokens, answer.end = now_s(), 2, "completed"


@pytest.mark.parametrize("clients", [1, 16])
@on_virtual_time
async def test_the_layer_costs_what_its_requests_take_longer(clients: int) -> None:
    """One at a time by turns of a request, many by turns of a loop."""
    found = await layer_cost(LayeredEngine(), clients, 20.0)  # type: ignore[arg-type]  # what it calls of an engine
    assert found["ttft_more_s"] == pytest.approx(0.5)
    assert found["pace_ratio"] == pytest.approx(1.0)
