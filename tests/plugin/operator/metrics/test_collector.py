"""The Prometheus metrics equal the ledger, at every scrape."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from time import perf_counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from small_presets import small_preset

import headway
from headway.api.schema import LimitStatus
from headway.engine import EngineLife
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import PlainAdapter
from headway.http.access.route_guard import REASONS
from headway.operator.install import install, prepare
from headway.operator.metrics import METRIC_NAMES, HttpCollector, Meters, MetricsCollector
from headway.operator.presets import PresetCatalogue
from headway.supervision.memory.probe import Gpu, Gpus
from headway.supervision.memory.report import TRIGGERS
from headway_policies import Block, Decision, Ending, Outcome, Reason
from headway_policies.memory.settings import Cache
from headway_policies.step import StepFigures

WITHOUT_GPU = {"headway_gpu_memory_used_bytes", "headway_gpu_memory_total_bytes", "headway_gpu_busy_ratio"}
WITHOUT_WARMUP = {"headway_warmup_duration_seconds"}
WITHOUT_PLANS = {name for name in METRIC_NAMES if name.startswith("headway_planned_step")} | {
    "headway_prompt_held_seconds"
}
WITHOUT_COMPARISON = {"headway_forecast_error_ratio"}
_OTHERS = (
    "headway_instance_",
    "headway_share_",
    "headway_grammar",
    "headway_tenant_",
    "headway_usage_",
    "headway_budget_",
    "headway_open_batches",
    "headway_late_batches",
    "headway_batch_lines_",
)
#: tests/plugin/router/instances/test_metrics.py, tests/tools/sharing/test_metrics.py, tests/plugin/batches and
#: test_usage_families.py look at these.
OF_OTHERS = {name for name in METRIC_NAMES if name.startswith(_OTHERS)}
NOT_AT_ONCE = {"headway_processor_busy_ratio", "headway_engine_memory_bytes"}


def exported() -> tuple[FakeEngine, headway.Control, CollectorRegistry]:
    """A fake engine behind the gate, with its metrics in a registry of their own."""
    registry, catalogue, engine = CollectorRegistry(), PresetCatalogue(), FakeEngine(step_s=0.001)
    meters = Meters.for_presets(catalogue, registry)
    control = install(prepare(engine, PlainAdapter(), catalogue.get("latency"), meters=meters), catalogue)
    registry.register(MetricsCollector(control.snapshot, asyncio.get_running_loop()))
    none = dict.fromkeys(catalogue.class_names(), 0)
    registry.register(HttpCollector(dict.fromkeys(REASONS, 0), none, none))
    return engine, control, registry


async def test_every_metric_and_every_label_value_is_there_from_the_start() -> None:
    """Before the first request all series exist, at zero: rates work, and 0 differs from missing."""
    _, control, registry = exported()
    scrape = Scrape(generate_latest(registry).decode())
    suffixes = ("_bucket", "_sum", "_count", "_created")
    names = {one.name for one in scrape.samples}
    families = names | {name.removesuffix(suffix) for name in names for suffix in suffixes if name.endswith(suffix)}
    missing = set(METRIC_NAMES) - families - WITHOUT_GPU - OF_OTHERS - NOT_AT_ONCE
    assert missing == WITHOUT_WARMUP | WITHOUT_COMPARISON | WITHOUT_PLANS
    for name in control.catalogue.class_names():
        for label, values, metric in (
            ("outcome", Outcome, "headway_outcomes_total"),
            ("reason", Reason, "headway_refusals_total"),
            ("decision", Decision, "headway_admission_decisions_total"),
        ):
            found = {one.labels[label] for one in scrape.samples if one.name == metric and one.labels["class"] == name}
            assert found == {str(value) for value in values}


async def test_planned_steps_are_counted_as_the_engine_reports_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the status and in the metrics, from the first plan on."""
    figures = StepFigures(20, 2, 5, 900, 160, 1100, 2.0, 0.7, 0.8, 3.5)
    monkeypatch.setattr(PlainAdapter, "step_figures", lambda self, engine: figures)
    _, control, registry = exported()
    control.diagnostics.sample()
    steps = control.status().engine.steps
    assert (steps.planned, steps.held, steps.prompt_tokens, steps.budget_tokens) == (20, 5, 900, 1100)
    assert (steps.prefill_share, steps.longest_held_s) == (None, 0.0)
    figures = StepFigures(30, 2, 9, 1900, 240, 2300, 4.0, 1.5, 1.8, 4.5)
    control.diagnostics.sample()
    steps = control.status().engine.steps
    assert (steps.prefill_share, steps.target_share, steps.longest_held_s) == (0.4, 0.5, 4.5)
    scrape = Scrape(generate_latest(registry).decode())
    assert scrape("headway_planned_steps_total", kind="held") == 9
    assert scrape("headway_planned_step_tokens_total", kind="budget") == 2300
    assert scrape("headway_planned_step_seconds_total", kind="prefill") == 1.5
    assert scrape("headway_prompt_held_seconds") == 4.5


async def test_first_token_time_outs_are_bounds_of_the_histogram() -> None:
    """Between two bounds a p95 is interpolated, so it might pass a time-out there although no first token was late."""
    _, control, registry = exported()
    scrape = Scrape(generate_latest(registry).decode())
    bounds = {float(one.labels["le"]) for one in scrape.samples if one.name.endswith("first_token_seconds_bucket")}
    largest_s = max(bounds - {float("inf")})
    presets = [listed.preset for listed in control.catalogue]
    timeouts_s = {terms.first_token_timeout_s for preset in presets for terms in preset.classes.values()} - {None}
    assert {15.0, 60.0, 600.0} <= timeouts_s
    assert {one for one in timeouts_s if one <= largest_s} <= bounds


async def test_each_gpu_is_shown_with_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of all, and the utilisation of those that report it: what is unknown is absent, not 0."""
    cards = [Gpu("0", 10, 100, 0.5), Gpu("1", 20, 100)]
    monkeypatch.setattr(Gpus, "read_of", lambda self, pids: cards)
    _, _, registry = exported()
    scrape = Scrape(generate_latest(registry).decode())
    shown = {name: {one.labels["gpu"]: one.value for one in scrape.samples if one.name == name} for name in WITHOUT_GPU}
    assert shown == {
        "headway_gpu_memory_used_bytes": {"0": 10, "1": 20},
        "headway_gpu_memory_total_bytes": {"0": 100, "1": 100},
        "headway_gpu_busy_ratio": {"0": 0.5},
    }


async def test_the_policies_show_what_they_do() -> None:
    """Limits by kind, what waits in tokens and bytes, the window, and each prediction with its error and samples."""
    engine, control, registry = exported()
    gate = control.gateway.gate
    for number in range(10):
        async for _ in engine.generate("p", FakeParams(3), f"r{number}"):
            pass
    held = [gate.enter() for _ in range(control.preset.batching.seats)]
    waiting = [gate.enter("batch", prompt_tokens=30, prompt_bytes=120) for _ in range(2)]
    scrape = Scrape(generate_latest(registry).decode())
    seats = float(control.preset.batching.seats)
    assert [scrape("headway_limit", kind=kind) for kind in ("live", "proposed", "ceiling")] == [seats, seats, 64.0]
    assert (scrape("headway_queue_tokens"), scrape("headway_queue_bytes")) == (60.0, 240.0)
    assert scrape("headway_scale_ratio") == round(gate.desk.read(gate.now_s()).scale_ratio, 4) > 0
    assert scrape("headway_desired_instances") == control.status().desired_instances == 0.0
    control.scale_signal.update()
    scrape, wanted = (
        Scrape(generate_latest(registry).decode()),
        gate.desk.read(gate.now_s()).demand_seats / (0.8 * seats),
    )
    assert scrape("headway_desired_instances") == pytest.approx(wanted, rel=0.05)
    assert control.status().desired_instances > 0.0
    assert scrape("headway_batch_window_seconds") == gate.desk.read(gate.now_s()).window_s
    accuracy = gate.desk.read(gate.now_s()).accuracy
    assert set(accuracy) == {"output_tokens", "queue_wait", "first_token"}
    for of, one in accuracy.items():
        assert scrape("headway_prediction_error_ratio", of=of) == round(one.error_ratio, 4)
        assert scrape("headway_prediction_samples", of=of) == one.samples
    status = control.status()
    assert (status.queued_tokens, status.queued_bytes) == (60, 240)
    limit = {
        "live": seats,
        "proposed": seats,
        "ceiling": 64,
        "reason": gate.desk.read(gate.now_s()).limit_reason,
        "ordered": None,
    }
    limit |= {"kv_seats": None, "kv_seats_tokens": 3.0, "kv_seats_recorded": True, "knee_seats": None}
    assert status.limit == LimitStatus(**limit)
    assert {of: one.samples for of, one in status.prediction.items()} == {
        of: one.samples for of, one in accuracy.items()
    }
    for permit in held + waiting:
        permit.leave(Ending.CANCELLED)
    gate.close()


@pytest.mark.parametrize(
    ("policy", "broken", "error"),
    [
        ("order", {"inside": "faulty_policy:FaultyLine"}, "head raised LookupError"),
        (
            "window",
            {"batching": {"strategy": "dynamic", "window_ms": 1, "window": "faulty_policy:FaultyWindow"}},
            "length_s raised LookupError",
        ),
    ],
)
async def test_a_failed_policy_is_shown_logged_once_and_removed_with_its_preset(
    caplog: pytest.LogCaptureFixture, policy: str, broken: dict[str, Any], error: str
) -> None:
    """In the status, in the metric and in the log; waiting requests are served all the same."""
    _, control, registry = exported()
    gate = control.gateway.gate

    def failure() -> tuple[float, object, int]:
        control.fallback_controller.update()
        scrape = Scrape(generate_latest(registry).decode())
        status = control.status()
        shown = status.ordering.error if policy == "order" else status.window_error
        errors = [one for one in caplog.records if f"custom {policy} was disabled" in one.getMessage()]
        return scrape("headway_policy_failed", policy=policy), shown, len(errors)

    gate.switch(small_preset(seats=1, name="foreign", **broken))
    if policy == "order":
        assert failure() == (0, None, 0)
    permits = [gate.enter("normal") for _ in range(6)]
    for permit in permits:
        await permit.admitted()
        permit.leave(Ending.COMPLETED)
    for _ in range(3):
        gate.desk.read(gate.now_s())
    assert [failure() for _ in range(2)] == [(1, error, 1)] * 2
    gate.switch(small_preset(seats=1))
    assert failure() == (0, None, 1)
    assert gate.desk.ledger.classes["normal"].outcomes == {"completed": 6}
    gate.close()


async def test_every_scrape_balances_while_the_loop_is_busy() -> None:
    """Scrapes from other threads, during traffic with cancels: arrivals equal queued + in flight + ended."""
    engine, control, registry = exported()

    async def client(index: int) -> None:
        stream = engine.generate("p", FakeParams(3), f"r{index}", priority=("realtime", "normal", "batch")[index % 3])
        try:
            async with asyncio.timeout(0.02 if index % 7 == 0 else 30):
                async for _ in stream:
                    pass
        except (TimeoutError, headway.Refused):
            pass

    work = asyncio.gather(*(client(index) for index in range(150)))
    scrapes = []
    while not work.done():
        scrapes.append(Scrape((await asyncio.to_thread(generate_latest, registry)).decode()))
    await work
    await asyncio.sleep(0.05)
    last = Scrape(generate_latest(registry).decode())
    assert len(scrapes) >= 2
    assert [line for scrape in [*scrapes, last] for line in scrape.unbalanced()] == []
    assert last("headway_arrivals_total") == 150 == last("headway_outcomes_total")
    assert last("headway_seats_taken") == last("headway_queue_depth") == last("headway_in_flight") == 0
    dispatched = last("headway_queue_wait_seconds_count")
    assert dispatched >= last("headway_outcomes_total", outcome="completed") > 0
    assert control.status().in_flight == 0


async def test_what_was_done_about_memory_is_shown() -> None:
    """The share of the limit, clears and recycles by label from zero on, and the collector's pauses by generation."""
    _, control, registry = exported()
    report = control.memory
    before = Scrape(generate_latest(registry).decode())
    assert before("headway_memory_cap_ratio") == 1.0
    assert {before("headway_cache_clears_total", cache=cache) for cache in Cache} == {0.0}
    assert {before("headway_recycles_total", trigger=trigger) for trigger in TRIGGERS} == {0.0}
    report.cap_ratio, report.cleared[Cache.WORKER], report.recycled["growth"] = 0.8, 2, 1
    for pause_s in (0.003, 0.2, 9.0):
        report.pauses.generations[2].add(pause_s, perf_counter())
    after = Scrape(generate_latest(registry).decode())
    assert after("headway_memory_cap_ratio") == 0.8
    assert after("headway_cache_clears_total", cache="worker") == 2.0
    assert after("headway_recycles_total", trigger="growth") == 1.0
    assert after("headway_gc_pause_seconds_bucket", generation="2", le="0.25") == 2.0
    assert after("headway_gc_pause_seconds_count", generation="2") == 3.0
    assert after("headway_gc_pause_seconds_sum", generation="2") == pytest.approx(9.203)
    assert after("headway_gc_longest_pause_seconds", generation="2") == 9.0
    assert after("headway_gc_pause_seconds_count", generation="0") == 0.0


async def test_promtool_finds_nothing_to_say() -> None:
    """Names, units and help texts follow Prometheus's conventions."""
    promtool = shutil.which("promtool")
    if promtool is None and os.environ.get("CI"):
        pytest.fail("promtool is not installed")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    _, _, registry = exported()
    command = [promtool, "check", "metrics"]
    text = generate_latest(registry)
    done = await asyncio.to_thread(subprocess.run, command, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_each_cause_that_holds_dispatch_is_shown() -> None:
    """An operator's pause beside a warm-up: each by itself, and each ends by itself."""
    _, control, registry = exported()
    gate = control.gateway.gate

    def held() -> set[str]:
        scrape = Scrape(generate_latest(registry).decode())
        return {one.labels["hold"] for one in scrape.samples if one.name == "headway_dispatch_held" and one.value}

    assert held() == set()
    gate.pause()
    gate.pause(Block.WARMUP)
    assert held() == {"operator", "warmup"}
    gate.resume()
    assert held() == {"warmup"}
    gate.resume(Block.WARMUP)
    assert held() == set()


async def test_the_memory_of_the_engine_is_shown_while_there_is_one() -> None:
    """By component, as the engine said; nothing while it is gone."""
    _, control, registry = exported()
    control.memory.engine_bytes = {"weights": 700, "kv_cache": 300}

    def shown() -> dict[str, float]:
        scrape = Scrape(generate_latest(registry).decode())
        found = [one for one in scrape.samples if one.name == "headway_engine_memory_bytes"]
        return {one.labels["component"]: one.value for one in found}

    assert shown() == {"weights": 700, "kv_cache": 300}
    control.gateway.link.life = EngineLife.LOST
    assert shown() == {}
