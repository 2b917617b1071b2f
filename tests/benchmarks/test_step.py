"""Tests of ``make bench --only step``: what is counted of streams beside long prompts, and what its report judges."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from serving.arms import all_arms
from serving.arrivals import CHAT, LONG, arrivals, by_length, workload_of
from serving.client import Answer
from serving.constants import Constants, Level
from serving.figures import judged
from serving.fixed_steps import fix_steps
from serving.form import LONG_PROMPTS, STEP
from serving.results import BESIDE, Key, Results
from serving.step_report import step_report
from serving.streams import STREAMS, beside_prompts, chat_tokens_per_s
from virtual_time import on_virtual_time

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.workload import Request

SLO = Slo(ttft_s=1.0, inter_token_s=0.1)
MODEL = EngineModel(max_num_seqs=128)


class Engine:
    """Tokens each tenth of a second on virtual time; while a prompt of a thousand tokens or more is computed, which
    takes two seconds, none."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()

    async def send(self, request: Request, answer: Answer) -> None:
        """One request."""
        now_s = asyncio.get_running_loop().time
        if request.prompt_tokens >= 1000:
            self.free.clear()
            await asyncio.sleep(2.0)
            self.free.set()
        for _ in range(request.output_tokens):
            await asyncio.sleep(0.1)
            await self.free.wait()
            answer.last_s = now_s()
            answer.first_s = answer.first_s or answer.last_s
            answer.marks_s.append(answer.last_s)
            answer.tokens += 1
        answer.end = "completed"


@on_virtual_time
async def test_the_times_between_tokens_are_told_apart_by_the_prompts_beside_them() -> None:
    """Alone, and beside each counted prompt; the first prompt is in neither."""
    found = await beside_prompts("plain", Engine().send, 3, 3.0)
    assert found.alone_s == pytest.approx((0.1, 0.1, 0.1))
    assert found.beside_s[2] == pytest.approx(2.1)
    assert found.first_s == pytest.approx([2.1, 2.1])
    assert (found.lost, found.unanswered) == (0, 0)
    assert max(gap_s for at_s, gap_s in found.course if at_s < 0) == pytest.approx(2.1, abs=0.11)
    assert [gap_s for at_s, gap_s in found.course if 0 < at_s < 1.8] == []


@on_virtual_time
async def test_plain_chat_counts_what_came_after_the_lead() -> None:
    """Eight clients with ten tokens a second each."""
    assert await chat_tokens_per_s(Engine().send, 10.0) == pytest.approx(80.0, rel=0.02)


def test_fixed_steps_are_set_and_taken_back() -> None:
    """Never above what the engine was started with."""
    config = SimpleNamespace(long_prefill_token_threshold=0)
    scheduler = SimpleNamespace(max_num_scheduled_tokens=2048, scheduler_config=config)
    core = SimpleNamespace(scheduler=scheduler)
    found = []
    for asked in ((128, None), (None, 64), (9999, None), (None, None)):
        fix_steps(core, *asked)
        found.append((scheduler.max_num_scheduled_tokens, config.long_prefill_token_threshold))
    assert found == [(128, 0), (2048, 64), (2048, 0), (2048, 0)]


def test_the_arms_beside_streams_exist() -> None:
    """A run would find a wrong name after a minute only."""
    assert set(STEP.beside) <= all_arms(workload_of(LONG_PROMPTS, 1.0, 1.0), MODEL, SLO, ()).keys()


def test_one_request_in_twenty_has_a_long_prompt_and_is_counted_apart() -> None:
    """Whatever its class is."""
    block = arrivals(workload_of(LONG_PROMPTS, 0.7, 60.0), 0.7, 0, 4000.0, model=MODEL, slo=SLO)
    answers = [Answer(one.class_name, "", one.prompt_tokens, one.at_s) for one in block.requests]
    by_length(answers)
    share = sum(one.class_name == LONG for one in answers) / len(answers)
    assert share == pytest.approx(0.05, abs=0.01)
    assert {one.class_name for one in answers} == {CHAT, LONG}


async def results(path: Path) -> Results:
    """Every arm of the run; beside the policy first tokens come in a tenth of the time, and more of them in time."""
    found = Results(path, {"vllm": "0", "model": "m", "gpu": "g"}, {"rounds": 1})
    found.constants = Constants(MODEL, SLO, (Level(1, 20.0, 0.05),))
    found.arms = {BESIDE: {name: f"the arm {name}" for name in STEP.beside}, LONG_PROMPTS: {}}
    found.beside = [await beside_prompts(name, Engine().send, 3, 3.0) for name in STEP.beside]
    found.chat = [("plain", 200.0), ("steps", 199.0), ("steps", 201.0), ("plain", 200.0)]
    found.beside = [replace(one, planned=90, pressed=3, share=0.43) for one in found.beside]
    for part in STEP.parts:
        for name in part.arms:
            found.arms[LONG_PROMPTS][name] = f"the arm {name}"
            ttft_s = 0.5 if name == "steps" else 5.0
            answers = [Answer(CHAT, "", 8, 1.0, 1.0 + ttft_s, 2.0 + ttft_s, 20, "completed") for _ in range(9)]
            answers += [Answer(CHAT, "", 8, 1.0, 1.2, 2.2, 20, "completed")]
            answers += [Answer(LONG, "", 1536, 1.0, 9.0, 10.0, 20, "completed")]
            figures = judged(answers, SLO, count_s=(0.0, 2.0), ceiling_per_s=1.0, client_s=0.0, disturbed=0.0)
            found.blocks[Key(LONG_PROMPTS, part.loads[0], name, 0)] = figures
    return found


@on_virtual_time
async def test_the_report_judges_the_streams_the_mix_and_plain_chat(tmp_path: Path) -> None:
    """Against vLLM as it comes and its best fixed steps; a miss fails."""
    kept = await results(tmp_path / "step.json")
    kept.write()
    assert Results.read(kept.path) == kept
    found = step_report(kept)
    for line in (
        f"| G21 | time between tokens p99 of {STREAMS} streams beside a prompt of 2048 tokens : alone (2100 : 100 ms) "
        "| ≤ 2 | 21 | **missed** (-950 %) |",
        "| G21 | streams and prompts that were lost | ≤ 0 | 0 |",
        "| G21 | share of the steps' time that prompts had, off a set share of 0.4 (0.430) | ≤ 3 points |",
        "first token p99 of chat at load 1.2, vLLM as it comes : with the step policy (5.00 : 0.50 s) | ≥ 2 | 10 |",
        "chat within both objectives at load 1.2 : vLLM as it comes (5.00 : 0.50 a second) | ≥ 1.15 | 10 |",
        "the same : vLLM's best fixed steps, at load 1.2 (5.00 : 0.50, budget-128) | ≥ 1 | 10 |",
        "| G22 | tokens/s of plain chat : vLLM as it comes (200 : 200) | ≥ 0.99 | 1 |",
    ):
        assert line in found.text
    assert found.missed
    chart = ElementTree.fromstring(found.chart)
    texts = [one.text for one in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert {"the arm plain", "the arm steps", "100 ms"} <= set(texts)
    assert len(list(chart.iter("{http://www.w3.org/2000/svg}polyline"))) == 2
