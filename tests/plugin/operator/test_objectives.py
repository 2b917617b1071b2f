"""Objectives that follow the engine: in the status, in the metrics, and in the judgement of each request."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

import headway
from headway.admission import EndedRequest, Gate
from headway.api import schema
from headway.engine.fake import FakeEngine
from headway.operator.metrics.snapshot_families import snapshot_families
from headway.operator.status.server_facts import ClassCounts, Failures, _class_facts
from headway_policies import Ending, Load
from headway_policies.trial import Served

STEPS = [1, 1, 1, 2, 4, 8] * 80


class Ends:
    """A meter that keeps what ended."""

    def __init__(self) -> None:
        self.ended_: list[EndedRequest] = []

    def waited(self, class_name: str, wait_s: float, batches: int) -> None:
        """Nothing."""

    def first_token(self, class_name: str, delay_s: float, prefill_s: float) -> None:
        """Nothing."""

    def ended(self, ended: EndedRequest) -> None:
        """Keep it."""
        self.ended_.append(ended)


def step(gate: Gate, token_s: float, clock: list[float], steps: list[int] = STEPS) -> None:
    """Let an engine run that takes ``token_s`` for a sequence alone, and 2 % of it for each one more."""
    gate.now_s = lambda: clock[0]
    for running in steps:
        step_s = token_s * (1 + 0.02 * (running - 1))
        clock[0] += step_s
        gate.observe(Load(running, 0, 0.1, step_s, steps=1, kv_capacity_tokens=100_000))


def objectives(control: headway.Control, name: str) -> schema.ClassObjectives:
    """Those of a class, by the status."""
    found = {one.name: one.objectives for one in control.status().classes}[name]
    assert found is not None
    return found


def exported(control: headway.Control, name: str, objective: str) -> float:
    """An objective by the metrics."""
    families = list(snapshot_families(control.snapshot()))
    (family,) = [family for family in families if family.name == "headway_objective_seconds"]
    wanted = {"class": name, "objective": objective}
    return next(sample.value for sample in family.samples if sample.labels == wanted)


@on_virtual_time
async def test_the_longest_time_in_the_queue_is_exported() -> None:
    """The shortest time-out before a first token, of the preset in force; a class without one has no line."""
    classes = {"a": terms(2, queue_s=9.0, first_token_timeout_s=4.0), "b": terms(1, queue_s=None, total_s=None)}
    control: headway.Control = headway.wrap(FakeEngine(), preset=small_preset(classes=classes)).headway
    families = list(snapshot_families(control.snapshot()))
    (family,) = [family for family in families if family.name == "headway_queue_timeout_seconds"]
    assert [(sample.labels["class"], sample.value) for sample in family.samples] == [("a", 4.0)]
    assert [one.queue_timeout_s for one in control.status().classes if one.name in classes] == [4.0, None]


@on_virtual_time
async def test_status_and_metrics_follow_the_engine() -> None:
    """Before it is measured a multiple is no number; then it is one, and another one when the engine becomes slower."""
    control: headway.Control = headway.wrap(FakeEngine(), preset="latency").headway
    gate, clock = control.gateway.gate, [0.0]
    before = objectives(control, "realtime")
    assert (before.ttft_s, before.inter_token_s, before.ttft_stated) == (None, None, "5x 0.2..5")
    assert before.words == (
        "first token within 5x of this engine's own time (not measured yet), "
        "2.5x of its own time a token (not measured yet)"
    )
    assert (objectives(control, "batch").ttft_s, objectives(control, "batch").follows_engine) == (60, False)
    step(gate, 0.03, clock)
    found = objectives(control, "realtime")
    assert found.inter_token_s == pytest.approx(0.075, rel=0.02)
    assert (found.follows_engine, found.kept_alone, found.missed_alone) == (True, True, [])
    assert exported(control, "realtime", "inter_token") == pytest.approx(found.inter_token_s, rel=1e-4)
    assert exported(control, "realtime", "first_token") == pytest.approx(found.ttft_s, abs=1e-4)
    unloaded = control.status().engine.unloaded
    assert unloaded is not None
    assert unloaded.token_s == pytest.approx(0.03, rel=0.02)
    assert unloaded.source == "steps"
    step(gate, 0.06, clock)
    assert exported(control, "realtime", "inter_token") == pytest.approx(0.15, rel=0.05)


@on_virtual_time
async def test_an_objective_that_the_engine_misses_alone_is_said() -> None:
    """With what it takes; one that it keeps is not named."""
    control: headway.Control = headway.wrap(FakeEngine(), preset="latency").headway
    step(control.gateway.gate, 0.8, [0.0])
    found = objectives(control, "realtime")
    assert not found.kept_alone
    (sentence,) = found.missed_alone
    assert sentence.startswith("latency asks 500 ms a token of realtime; this engine takes 8")
    assert sentence.endswith("ms for a request alone: it refuses nothing for that")


@on_virtual_time
async def test_a_request_is_judged_by_the_engine_at_its_end() -> None:
    """Its class states a multiple: it carries no number before the engine is known, and that of its prompt after."""
    ends, clock = Ends(), [asyncio.get_running_loop().time()]
    own = {"chat": terms(2, ttft_slo_s="8x", inter_token_slo_ms="2.5x"), "batch": terms(1, ttft_slo_s=9.0)}
    gate = Gate(small_preset(8, classes=own), meter=ends)
    gate.enter("chat").leave(Ending.COMPLETED)
    step(gate, 0.03, clock)
    gate.enter("chat").leave(Ending.COMPLETED)
    gate.enter("batch").leave(Ending.COMPLETED)
    first, second, third = ends.ended_
    assert (first.ttft_slo_s, first.inter_token_slo_s) == (None, None)
    found = gate.desk.objectives("chat", 0)
    assert (second.ttft_slo_s, second.inter_token_slo_s) == (found.ttft_s, found.inter_token_s)
    assert second.inter_token_slo_s == pytest.approx(0.075, rel=0.02)
    assert (third.ttft_slo_s, third.inter_token_slo_s) == (9.0, None)
    gate.close()


@on_virtual_time
async def test_the_diagnosis_has_the_numbers_of_this_engine() -> None:
    """None for a multiple of an engine that is not known: that is no class without an objective."""
    control: headway.Control = headway.wrap(FakeEngine(), preset="latency").headway
    desk, nothing = control.gateway.gate.desk, ClassCounts(0, 0, Failures())
    of_class = partial(_class_facts, refused_share=None, reserved_seats=0.0, overloaded=False, idle=True)
    facts = of_class("realtime", desk, Served(), nothing)
    assert (facts.ttft_slo_s, facts.inter_token_slo_s) == (None, None)
    assert of_class("gone", desk, Served(), nothing).ttft_slo_s == float("inf")
    step(control.gateway.gate, 0.03, [0.0])
    facts = of_class("realtime", desk, Served(), nothing)
    assert facts.ttft_slo_s == desk.objectives("realtime").ttft_s
    assert facts.inter_token_slo_s == pytest.approx(0.075, rel=0.02)
