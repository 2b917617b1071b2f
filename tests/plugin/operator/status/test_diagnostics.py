"""The server's diagnosis of itself, on virtual time: in each scenario its cause is named, and no other one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from diagnosed_traffic import Request, Scenario, found_in, playing
from engines import ServingEngine, installed
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.audit import Caller
from headway.operator.control import Control
from headway.operator.status.server_facts import WINDOW_S, steps_lately
from headway.supervision.memory.processes import MachineUse
from headway_policies import Block, CapReason, Ending, Load, Preset, bundled_presets
from headway_policies.diagnosis import Bottleneck, Severity
from headway_policies.step import StepFigures


def with_objectives(seats: int = 8, **more: Any) -> Preset:
    """One class with a first token within 2 s and 75 ms a token."""
    classes = {"normal": terms(1, queue_s=30.0, ttft_slo_s=2.0, inter_token_slo_ms=75.0, burst_s=600.0)}
    return small_preset(seats, classes=classes, **more)


def plain(running: int) -> Load:
    """A step that costs mostly its base: twice the seats would be worth it."""
    return Load(running, 0, 0.2, inter_token_s=0.02 + 0.0001 * running)


def by_sequence(running: int) -> Load:
    """A step that costs by the sequence: more seats give no more tokens."""
    return Load(running, 0, 0.2, inter_token_s=0.0001 + 0.005 * running)


def full_cache(running: int) -> Load:
    """The KV cache is full."""
    return Load(running, 0, 0.97, inter_token_s=0.02)


def beside_prompts() -> Callable[[int], Load]:
    """Every fortieth step computes a prompt of half a second."""
    tokens = cycle([500, *[0] * 39])

    def step(running: int) -> Load:
        computed = next(tokens)
        step_s = 0.02 + 0.001 * running + 0.001 * computed
        return Load(running, 0, 0.2, inter_token_s=step_s, prefill_tokens=computed)

    return step


def busy_machine(control: Control) -> None:
    """Other work takes half of the processors."""
    control.activity.machine = MachineUse(1.0, 0.5)


BUSY = Request(tokens=101)  # 2.1 s
LONG = Request(tokens=20_000)
RESERVED = {"urgent": terms(2, reserved_seats=3), "normal": terms(1)}
SCENARIOS: Mapping[str, Scenario] = {
    "light traffic": Scenario(Bottleneck.NONE, Severity.OK, "Far below capacity"),
    "no traffic": Scenario(Bottleneck.NONE, Severity.OK, "Idle: 0 of 4 seats taken", every_s=1e6),
    "too few seats": Scenario(
        Bottleneck.SEATS, Severity.OVERLOADED, "Limited by the seats of this preset: 4 of 4 seats taken",
        BUSY, every_s=0.4, step=plain,
    ),
    "an engine that was started with too few": Scenario(
        Bottleneck.CEILING, Severity.OVERLOADED, "Limited by the seats that this engine was started with",
        BUSY, every_s=0.4, ceiling=4, step=plain,
    ),
    "an engine that is too slow": Scenario(
        Bottleneck.ENGINE_SPEED, Severity.OVERLOADED, "More seats will not help (twice as many would give",
        BUSY, every_s=0.4, step=by_sequence,
    ),
    "a full KV cache": Scenario(
        Bottleneck.MEMORY, Severity.OVERLOADED, "Limited by memory: the KV cache is 97 % full",
        BUSY, every_s=0.4, step=full_cache,
    ),
    "a full KV cache that capped the seats": Scenario(
        Bottleneck.CAPPED_SEATS, Severity.OVERLOADED, "Fewer seats are open than the preset has, for the memory",
        BUSY, every_s=0.8, step=plain,
        begin=lambda control: control.gateway.gate.cap_seats(CapReason.MEMORY, 0.5),
    ),
    "batches that end as a whole": Scenario(
        Bottleneck.BATCH_FORMATION, Severity.WATCH, "Requests wait for a batch (dynamic batching) although seats are",
        Request(tokens=201), every_s=1.5, preset=small_preset(8, batching={"strategy": "dynamic", "window_ms": 50.0}),
    ),
    "batches that gather": Scenario(
        Bottleneck.NONE, Severity.OK, "Far below capacity",
        every_s=1.5, preset=small_preset(8, batching={"strategy": "static", "flush_after_s": 9.0}),
    ),
    "short bursts that all wait for seats": Scenario(
        Bottleneck.BURSTS, Severity.WATCH, "Requests arrive in bursts, while on the mean seats are free",
        Request(tokens=50), every_s=15.0, burst=40,
    ),
    "seats held for urgent requests": Scenario(
        Bottleneck.RESERVED_SEATS, Severity.OVERLOADED, "3 are reserved for urgent classes",
        BUSY, every_s=1.5, preset=small_preset(4, classes=RESERVED),
    ),
    "wide requests": Scenario(
        Bottleneck.REQUEST_SIZE, Severity.WATCH, "Requests wait although seats are free, for more seats",
        Request(tokens=71, seats=3), every_s=1.45, burst=1,
        preset=small_preset(8, classes={"normal": terms(1, total_s=None)}), others=(Request(tokens=20_000, seats=3),),
    ),
    "adapters in turns": Scenario(
        Bottleneck.ADAPTERS, Severity.WATCH, "Requests wait for a LoRA adapter although seats are free",
        Request(tokens=20_000, adapter="one"), every_s=1e6,
        preset=small_preset(8, classes={"normal": terms(1, queue_s=None, total_s=None)}),
        others=(Request(tokens=20_000, adapter="another"),),
    ),
    "bursts": Scenario(
        Bottleneck.BURSTS, Severity.OVERLOADED, "Requests arrive in bursts",
        every_s=10.0, burst=12, preset=small_preset(4, most_waiting=2),
    ),
    "too many at once for the objective": Scenario(
        Bottleneck.LONG_STEPS, Severity.DEGRADED, "Tokens of class normal come too slowly: 100 ms",
        Request(pace_s=0.1), preset=with_objectives(),
    ),
    "long prompts beside streams": Scenario(
        Bottleneck.LONG_STEPS, Severity.DEGRADED, "Decode is slowed by long prompts: they take",
        Request(pace_s=0.1), preset=with_objectives(), step=beside_prompts(),
    ),
    "long prompts": Scenario(
        Bottleneck.FIRST_TOKENS, Severity.DEGRADED, "No request waits for a seat, so their prompts take long",
        Request(first_s=3.0), preset=with_objectives(),
    ),
    "an engine that fails requests": Scenario(
        Bottleneck.ENGINE_ERRORS, Severity.DEGRADED, "100 % of requests fail in the engine",
        Request(ending=Ending.FAILED),
    ),
    "answers that take too long": Scenario(
        Bottleneck.TIME_OUTS, Severity.DEGRADED, "of requests run out of time while they run",
        BUSY, preset=small_preset(64, classes={"normal": terms(1, total_s=1.5)}),
    ),
    "clients that send nonsense": Scenario(
        Bottleneck.INVALID_REQUESTS, Severity.WATCH, "100 % of requests are invalid",
        Request(ending=Ending.INVALID),
    ),
    "a rung by order": Scenario(
        Bottleneck.FALLBACK, Severity.DEGRADED, "The fallback ladder was put on cap by a command",
        preset=small_preset(4, classes={"normal": terms(1, fallback_max_tokens=1000)}),
        begin=lambda control: control.order_fallback("cap", caller=Caller("ann", "operator")),
    ),
    "a pause": Scenario(
        Bottleneck.STOPPED, Severity.DOWN, "No request is dispatched: paused by an operator",
        begin=lambda control: control.gateway.gate.pause(Block.OPERATOR),
    ),
    "a drain by order": Scenario(
        Bottleneck.STOPPED, Severity.DOWN, "No request is dispatched: draining",
        begin=lambda control: control.admission.drain(Caller("ann", "operator")),
    ),
    "a machine that is busy with other work": Scenario(
        Bottleneck.HOST, Severity.OVERLOADED,
        "Other work on the machine takes its processors: 100 % of them are in use, 50 % by this server. 4 of 4 seats",
        BUSY, every_s=0.4, step=by_sequence, begin=busy_machine,
    ),
    "too few seats on a machine that is busy with other work": Scenario(
        Bottleneck.SEATS, Severity.OVERLOADED, "Limited by the seats of this preset: 4 of 4 seats taken",
        BUSY, every_s=0.4, step=plain, begin=busy_machine,
    ),
    "a dead engine": Scenario(
        Bottleneck.ENGINE_DOWN, Severity.DOWN, "The engine is gone",
        begin=lambda control: control.gateway.gate.engine_lost(),
    ),
    "a silent engine": Scenario(
        Bottleneck.ENGINE_SILENT, Severity.DOWN, "The engine does not respond",
        begin=lambda control: control.gateway.gate.engine_silent(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
@on_virtual_time
async def test_in_each_scenario_its_cause_is_named_and_no_other(name: str) -> None:
    """At each of twelve looks."""
    scenario = SCENARIOS[name]
    found = await found_in(scenario)
    assert {one.bottleneck for one in found} == {scenario.bottleneck}, [one.sentence for one in found]
    assert {one.severity for one in found} == {scenario.severity}, [one.sentence for one in found]
    assert all(scenario.words in one.sentence for one in found), [one.sentence for one in found]


@on_virtual_time
async def test_seats_that_an_operator_has_taken_away_are_not_called_the_presets() -> None:
    """The way back is the first remedy. A limit that is no lower than the preset's takes none away."""
    ann = Caller("ann", "operator")
    for seats, whose in ((2, "that an operator has set"), (4, "of this preset")):
        async with playing(SCENARIOS["too few seats"]) as control:
            await control.order_limit(seats, expected_revision=None, caller=ann)
            await asyncio.sleep(60)
            found = control.diagnostics.last
            assert f"Limited by the seats {whose}: {seats} of {seats} seats taken" in found.sentence
            assert ("release the limit" in found.remedies[0].action) == (seats == 2)


def test_every_cause_has_a_scenario() -> None:
    """All but the one that says that too little is known, and the one that a supervisor finds (its tests have it)."""
    elsewhere = {Bottleneck.UNKNOWN, Bottleneck.ENGINE_STUCK}
    assert {one.bottleneck for one in SCENARIOS.values()} == set(Bottleneck) - elsewhere


@on_virtual_time
async def test_it_recovers_within_its_window() -> None:
    """Half a minute after an overload nothing of it is left in the diagnosis."""
    scenario = SCENARIOS["too few seats"]
    async with playing(scenario) as control:
        await asyncio.sleep(60.0)
        assert control.status().diagnosis.severity == "overloaded"
        control.catalogue.include(small_preset(32, name="wide"))
        await control.switch("wide", expected_revision=None, caller=Caller("ann", "operator"))
        await asyncio.sleep(WINDOW_S + 20.0)
        status = control.status().diagnosis
        assert (status.severity, status.bottleneck) == ("ok", "none")


@on_virtual_time
async def test_the_statement_has_whole_numbers_of_now() -> None:
    """While the rules rest on means, the sentence has the seats and the queue of this second, as the tiles do."""
    async with playing(SCENARIOS["too few seats"]) as control:
        gate = control.gateway.gate
        for _ in range(20):
            await asyncio.sleep(5.3)
            control.diagnostics.sample()
            desk = gate.desk
            said = f"{desk.seats_taken} of {desk.limit} seats taken, {desk.ledger.queued} waiting"
            if control.diagnostics.last.bottleneck is Bottleneck.SEATS and desk.ledger.queued:
                assert said in control.diagnostics.last.statement
                break
        else:
            pytest.fail("never pressed")


@on_virtual_time
async def test_the_reason_of_the_limit_is_that_of_the_time_when_requests_waited() -> None:
    """A pace that held requests up in few of the looks counts more than an idle limit in the others."""
    control, _ = installed(ServingEngine(), small_preset(4))
    reader = control.diagnostics._reader
    idle = replace(reader.sample(), why="idle", queued=0)
    paced = replace(idle, why="pacing", queued=2)
    assert reader.facts([idle, idle, idle]).limit_reason == "idle"
    assert reader.facts([idle, paced, idle]).limit_reason == "pacing"


@on_virtual_time
async def test_the_figures_of_the_step_policy_are_those_of_the_last_half_minute() -> None:
    """Earlier steps are not in them; the longest hold is that of any look."""
    control, _ = installed(ServingEngine(), small_preset(4))
    sample, now_s = control.diagnostics._reader.sample(), control.gateway.gate.now_s()
    assert sample.steps is None
    assert steps_lately([sample], now_s) is None
    told = [
        StepFigures(10, held=3, total_s=9.0, prompt_s=9.0, held_s=50.0),
        StepFigures(12, held=4, total_s=10.0, prompt_s=9.4, held_s=6.0),
        StepFigures(14, held=5, total_s=11.0, prompt_s=9.8, held_s=1.0),
        StepFigures(14, held=5, total_s=11.0, prompt_s=9.8, held_s=1.0),
    ]
    samples = [replace(sample, at_s=now_s - 40.0, steps=StepFigures(1, total_s=1.0))]
    samples += [replace(sample, at_s=now_s - 3.0 + place, steps=one) for place, one in enumerate(told)]
    lately = steps_lately(samples, now_s)
    assert lately is not None
    assert (lately.steps, lately.held, lately.held_s) == (4, 2, 6.0)
    assert lately.prefill_share == pytest.approx(0.4)


@on_virtual_time
async def test_a_switch_begins_the_figures_anew() -> None:
    """Nothing of the preset before is held against the objectives of the one in force."""
    scenario = replace(SCENARIOS["long prompts"], preset=small_preset(64), request=Request(first_s=3.0, tokens=201))
    async with playing(scenario) as control:
        await asyncio.sleep(60.0)
        assert control.diagnostics.last.severity is Severity.OK
        control.catalogue.include(with_objectives(32, name="strict"))
        await control.switch("strict", expected_revision=None, caller=Caller("ann", "operator"))
        await asyncio.sleep(1.5)
        facts = control.diagnostics.facts()
        assert facts.limit == 32
        assert facts.classes[0].ttft_p95_s is None or facts.classes[0].ttft_p95_s < 2.0
        await asyncio.sleep(30.0)
        assert control.diagnostics.last.bottleneck is Bottleneck.FIRST_TOKENS


@on_virtual_time
async def test_answers_that_are_not_streamed_do_not_look_like_late_first_tokens() -> None:
    """Their first token shows with the last one; the engine has begun with them long before."""
    control, _ = installed(ServingEngine(), with_objectives(32))
    task = asyncio.create_task(control.diagnostics.run())

    async def ask() -> None:
        permit = control.gateway.gate.enter("normal", prompt_tokens=16, max_tokens=500)
        await permit.admitted()
        await asyncio.sleep(0.1)
        permit.progress()  # the engine's step, as the gateway reports it
        await asyncio.sleep(9.9)
        permit.first_token(0.1)
        permit.use(16, 500)
        permit.leave(Ending.COMPLETED)

    calls = []
    for _ in range(60):
        calls.append(asyncio.create_task(ask()))
        await asyncio.sleep(1.0)
    assert (control.diagnostics.last.severity, control.diagnostics.last.bottleneck) == (Severity.OK, Bottleneck.NONE)
    task.cancel()
    await asyncio.gather(*calls)


@on_virtual_time
async def test_a_severity_falls_only_when_it_was_lower_three_times() -> None:
    """The severity rises at once: trouble that comes and goes does not flap."""
    control, _ = installed(ServingEngine(), small_preset(4))
    diagnostics, gate = control.diagnostics, control.gateway.gate
    diagnostics.sample()
    diagnostics.judge()
    assert diagnostics.last.severity is Severity.OK
    gate.pause(Block.OPERATOR)
    assert diagnostics.judge().severity is Severity.DOWN
    gate.resume(Block.OPERATOR)
    assert [diagnostics.judge().severity for _ in range(3)] == [Severity.DOWN, Severity.DOWN, Severity.OK]


@on_virtual_time
async def test_an_error_does_not_leave_an_old_diagnosis_standing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is known then, and it goes on when the error is over."""
    async with playing(SCENARIOS["light traffic"]) as control:
        await asyncio.sleep(30.0)
        with monkeypatch.context() as broken:
            broken.setattr(control.diagnostics, "facts", lambda: 1 / 0)
            await asyncio.sleep(10.0)
            assert control.diagnostics.last.bottleneck is Bottleneck.UNKNOWN
        await asyncio.sleep(20.0)
        assert control.diagnostics.last.bottleneck is Bottleneck.NONE
    assert "diagnostics: iteration failed" in caplog.text


@on_virtual_time
async def test_a_diagnosis_never_names_the_seats_of_the_preset_before() -> None:
    """From the first look after a switch on, however bad the diagnosis before it was."""
    async with playing(SCENARIOS["too few seats"]) as control:
        await asyncio.sleep(60.0)
        assert control.diagnostics.last.severity is Severity.OVERLOADED
        control.catalogue.include(small_preset(32, name="wide"))
        await control.switch("wide", expected_revision=None, caller=Caller("ann", "operator"))
        for _ in range(20):
            await asyncio.sleep(1.1)
            assert " of 32 seats taken" in control.diagnostics.last.sentence


@pytest.mark.parametrize("name", sorted(bundled_presets()))
@on_virtual_time
async def test_every_bundled_preset_is_well_under_light_traffic(name: str) -> None:
    """The scenarios above use small presets; these are the real ones."""
    found = await found_in(Scenario(Bottleneck.NONE, Severity.OK, "", preset=bundled_presets()[name]))
    assert {one.severity for one in found} == {Severity.OK}, [one.sentence for one in found]


@on_virtual_time
async def test_trouble_is_logged_when_it_begins_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """A line each, and none for a server that does well."""
    caplog.set_level(logging.INFO, logger="headway.operator.status.diagnostics")
    async with playing(SCENARIOS["light traffic"]) as control:
        await asyncio.sleep(30.0)
        assert caplog.records == []
        control.gateway.gate.pause(Block.OPERATOR)
        await asyncio.sleep(20.0)
        control.gateway.gate.resume(Block.OPERATOR)
        await asyncio.sleep(60.0)
    assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0].startswith("diagnosis: down (stopped): No request is dispatched: paused by an operator")


@on_virtual_time
async def test_before_the_first_look_nothing_is_known() -> None:
    """The status says so."""
    control, _ = installed(ServingEngine(), small_preset(4))
    assert control.status().diagnosis.bottleneck == "unknown"
