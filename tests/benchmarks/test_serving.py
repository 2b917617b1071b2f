"""Tests of ``make bench``: what counts as good, how results are kept, and what the report says of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from xml.etree import ElementTree

import pytest
from serving.arms import all_arms, best_seats, stated
from serving.client import Answer, closed_loop, open_loop
from serving.constants import Constants, Level, objectives
from serving.figures import judged, within
from serving.quiet import Times, others_share
from serving.report import report
from serving.results import Key, Results
from virtual_time import on_virtual_time

from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.workload import WORKLOADS, Request

SLO = Slo(ttft_s=1.0, inter_token_s=0.1)
MODEL = EngineModel(max_num_seqs=128)


def answer(
    class_name: str = "normal",
    ttft_s: float = 0.5,
    gap_s: float = 0.05,
    tokens: int = 11,
    *,
    sent_s: float = 10.0,
    end: str = "completed",
) -> Answer:
    """An answer of a request that was due when it was sent."""
    return Answer(class_name, "", 8, sent_s, sent_s + ttft_s, sent_s + ttft_s + gap_s * (tokens - 1), tokens, end)


@pytest.mark.parametrize(
    ("one", "good"),
    [
        (answer(), True),
        (answer(end="cut"), True),
        (answer(tokens=1), True),
        (answer(ttft_s=1.5), False),
        (answer(gap_s=0.2), False),
        (answer(end="queue_full"), False),
        (Answer("normal", "", 8, 10.0), False),
    ],
    ids=["in time", "in time until the block ended", "one token", "late", "slow", "refused", "nothing came"],
)
def test_good_is_what_kept_both_objectives(one: Answer, good: bool) -> None:
    """To its end, or to the end of the block."""
    assert within(one, SLO) is good


def test_only_the_counted_part_of_a_block_is_judged() -> None:
    """Requests that were due before or after it are left out; rates are over its length."""
    answers = [answer(sent_s=at_s) for at_s in (9.9, 10.0, 12.0, 14.0)] + [answer("realtime", ttft_s=3.0)]
    figures = judged(answers, SLO, count_s=(10.0, 14.0), ceiling_per_s=1.0, client_s=5.0, disturbed=0.0)
    assert figures.of_ceiling == pytest.approx(2 / 4)
    assert (figures.attained("realtime"), figures.attained("normal")) == (0.0, 1.0)
    assert figures.attained("batch") is None
    assert figures.client_s == 1.0


def test_the_cap_of_a_slower_machine_is_smaller() -> None:
    """A number that was tuned on another day is worth little."""
    workload = WORKLOADS["W1"]
    seats = [best_seats(workload, MODEL, SLO, factor) for factor in (2.0, 1.0, 0.5)]
    assert seats == sorted(seats)
    assert seats[0] < seats[1] < seats[2]
    assert seats[1] == ceiling(MODEL, 64, 64, SLO).seats
    arms = all_arms(workload, MODEL, SLO, (0.5,))
    assert [arms[name].cap for name in ("cap-half", "cap", "cap-double")] == seats
    assert arms["cap-x0.5"].cap == round(seats[1] / 2)


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.1])
def test_the_best_cap_is_the_same_on_an_engine_that_is_slower_in_everything(factor: float) -> None:
    """Its objectives are as much longer: before each block the pace is measured anew, and no arm is favoured by it."""
    slo = objectives(0.05)
    at_start = Constants(MODEL, slo, (Level(1, 20.0, 0.05),))
    now, workload = at_start.slower_by(factor), WORKLOADS["W1"]
    assert now.slo.inter_token_s == pytest.approx(factor * slo.inter_token_s)
    assert now.slo.ttft_s == pytest.approx(factor * slo.ttft_s)
    assert best_seats(workload, now.model, now.slo) == best_seats(workload, MODEL, slo)


def test_the_arm_with_stated_objectives_sets_nothing_else() -> None:
    """Every class has them; the rest is the bundled preset."""
    preset = stated(SLO)
    assert {(one.ttft_slo_s, one.inter_token_slo_ms) for one in preset.classes.values()} == {(1.0, 100.0)}
    assert preset.batching.seats == 16
    assert preset.limit.inter_token_slo_ms == 100.0


def test_vllm_alone_has_all_its_seats() -> None:
    """Also after an arm whose preset left it fewer."""
    alone = {name: one for name, one in all_arms(WORKLOADS["W1"], MODEL, SLO, ()).items() if one.preset is None}
    assert {"plain", "priority", "cap"} <= alone.keys()
    for one in alone.values():
        preset = one.preset_on(128)
        assert (preset.batching.seats, preset.limit.policy, preset.batching.strategy) == (128, "fixed", "continuous")


@on_virtual_time
async def test_an_open_loop_sends_on_time_whatever_becomes_of_the_others() -> None:
    """And what still runs at the end is cut there."""

    async def send(request: Request, one: Answer) -> None:
        await asyncio.sleep(request.output_tokens)
        one.end = "completed"

    requests = [Request(at_s, "normal", 8, tokens) for at_s, tokens in ((0.0, 1), (1.0, 50), (2.0, 3))]
    answers = await open_loop(send, requests, 10.0)
    assert [answer.end for answer in answers] == ["completed", "cut", "completed"]
    assert [answer.sent_s - answers[0].sent_s for answer in answers] == pytest.approx([0.0, 1.0, 2.0])


@on_virtual_time
async def test_an_error_of_the_engine_ends_the_run() -> None:
    """A figure from an engine that fails would be wrong in silence."""

    async def send(request: Request, one: Answer) -> None:
        raise RuntimeError("the engine died")

    with pytest.raises(RuntimeError, match="the engine died"):
        await closed_loop(send, lambda _: Request(0.0, "normal", 8, 8), 2, 0.0, 1.0)


def test_processor_time_of_other_programs_is_seen() -> None:
    """As a share of what all processors have."""
    before = Times(at_s=0.0, own_s=1.0, all_s=100.0)
    assert others_share(before, Times(at_s=10.0, own_s=5.0, all_s=104.0)) == 0.0
    assert others_share(before, Times(at_s=10.0, own_s=5.0, all_s=109.0)) > 0.0


def results(path: Path) -> Results:
    """Two rounds of two arms."""
    found = Results(path, {"vllm": "0", "model": "m", "gpu": "", "cores": 2, "processor": "p"}, {"rounds": 2})
    found.constants = Constants(MODEL, SLO, (Level(1, 20.0, 0.05), Level(32, 400.0, 0.08)))
    found.arms = {"W1": {"plain": "vLLM, as it comes", "objective": "Headway <objectives stated>"}}
    for number, late_s in enumerate((0.5, 0.6)):
        for name, ttft_s in (("plain", 9.0), ("objective", late_s)):
            answers = [answer("realtime", ttft_s=late_s), *(answer(ttft_s=ttft_s) for _ in range(3))]
            figures = judged(answers, SLO, count_s=(10.0, 14.0), ceiling_per_s=1.0, client_s=0.1, disturbed=0.0)
            found.blocks[Key("W1", 1.5, name, number)] = figures
    found.layer = [{"clients": 1, "pace_ratio": 0.98, "ttft_more_s": 0.0001}]
    return found


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    """So a long run goes on where it was stopped."""
    found = results(tmp_path / "deep" / "run.json")
    found.write()
    assert Results.read(found.path) == found
    assert Results.read(tmp_path / "none.json") == Results(tmp_path / "none.json")


def test_the_report_states_each_goal_and_fails_on_a_miss(tmp_path: Path) -> None:
    """With the spread over the rounds."""
    found = report(results(tmp_path / "run.json"))
    goal = "| G1 | goodput, objectives stated, at load 1.5 : the fluid ceiling (1 to 1) | ≥ 0.92 | 1 | +9 % |"
    assert goal in found.text
    assert "missed, and not accepted: G7 pace of the tokens through Headway : bare vLLM, 1 at once" in found.text
    assert found.missed
    assert "| 1.5 | vLLM, as it comes | 25% | 11 | 100% | 0% | 100% | 100% | 0.55 s |" in found.table


def test_the_chart_is_a_picture(tmp_path: Path) -> None:
    """Well-formed, with a bar for each arm."""
    chart = ElementTree.fromstring(report(results(tmp_path / "run.json")).chart)
    texts = [one.text for one in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert "Headway <objectives stated>" in texts
    bars = [one.get("fill") for one in chart.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert len(bars) == len(set(bars)) == 2  # Headway's is not in the colour of the others
    assert "100%" in texts
    assert "25%" in texts
