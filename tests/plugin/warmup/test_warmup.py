"""The warm-up: its stages, what it leaves, and what happens when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from engines import assert_no_residue, installed, outcomes
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from small_presets import small_preset
from virtual_time import on_virtual_time
from warming_engine import SEATS, CachingEngine, Harness, Requests, warming

from headway.engine.port import PlainAdapter
from headway.operator.install import install, prepare
from headway.operator.metrics import Meters, MetricsCollector
from headway.operator.presets import PresetCatalogue
from headway.warmup.warmer import Warmer
from headway_policies import Load
from headway_policies.engine.warmup import Stage


@on_virtual_time
async def test_all_stages_run_and_are_shown() -> None:
    """One alone, logprobs, a schema, then batches of all seats, one alone again: reported, and in the status."""
    engine, harness, requests = warming()
    await harness.warm_up(requests)
    report = harness.report
    assert Counter(requests.asked) == {"single": 1, "logprobs": 1, "json_schema": 1, "batch": 2 * SEATS, "alone": 1}
    assert (report.state, report.reason, report.attempt, report.settled) == ("done", "", 1, True)
    assert {stage: len(rounds) for stage, rounds in report.stages.items()} == {
        "single": 1, "logprobs": 1, "json_schema": 1, "batch": 2, "alone": 1,
    }  # fmt: skip
    assert (report.single_s, report.batch_s) == (pytest.approx(0.08), pytest.approx(0.08))
    shown = harness.control.status().warmup
    assert (shown.state, shown.batch_size, shown.refused) == ("done", SEATS, [])
    assert shown.stages["batch"] == [pytest.approx(0.08)] * 2
    assert requests.places == [0, 0, 0, *range(SEATS), *range(SEATS), 0]
    assert engine.most_running == SEATS
    assert harness.control.not_ready() == []


@on_virtual_time
async def test_a_warm_engine_knows_what_one_request_alone_takes() -> None:
    """The steps of the last stage resolve relative objectives before any request; those of the others are not read."""
    preset = PresetCatalogue().get("balanced")
    engine = CachingEngine(max_num_seqs=SEATS)
    control, parts = installed(engine, preset, warm_up=True)
    harness, requests = Harness(control, parts), Requests(engine)

    async def steps() -> None:
        while harness.report.state != "done":
            await asyncio.sleep(engine.step_s)
            alone = requests.asked[-1:] == [Stage.ALONE]
            harness.activity.step(Load(1, 0, 0.1, inter_token_s=0.02 if alone else 9.0), 1, ())

    desk = control.gateway.gate.desk
    assert desk.objectives("realtime").inter_token_s is None
    await asyncio.gather(steps(), harness.warm_up(requests))
    assert desk.objectives("realtime").inter_token_s == pytest.approx(2.5 * 0.02)
    assert desk.engine_fit.unloaded_from == "steps"


@on_virtual_time
@pytest.mark.parametrize(("tokens", "ratio"), [(8, 5.0), (1, None)], ids=["a stream", "one output"])
async def test_the_gain_for_the_first_token_is_said(
    tokens: int, ratio: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A request alone on the cold engine against one on the warm engine; nothing where the first token is the last."""
    engine, harness, _ = warming(logprobs=False, json_schema=False, output_tokens=tokens)
    engine.step_s = 0.5
    with caplog.at_level(logging.INFO, "headway"):
        await harness.warm_up(Requests(engine, step_s=(0.1, 0.1)))
    assert harness.control.status().warmup.first_token_ratio == (ratio and pytest.approx(ratio))
    said = "the first token of a request alone took 5.0 times as long before it as after"
    assert (said in caplog.text) is (ratio is not None)


@on_virtual_time
async def test_batches_run_until_two_of_them_take_equally_long() -> None:
    """A pace that settles ends it; the report has every round."""
    engine, harness, _ = warming(logprobs=False, json_schema=False, output_tokens=10)
    await harness.warm_up(Requests(engine, step_s=(1.0, 0.3, 0.1, 0.09)))
    assert harness.report.stages["batch"] == pytest.approx([10, 3, 1, 0.9])
    assert harness.report.settled


@on_virtual_time
async def test_batches_that_never_agree_do_not_keep_the_server_from_serving(caplog: pytest.LogCaptureFixture) -> None:
    """After ``max_rounds`` it is done all the same, and the log has a line about it."""
    engine, harness, _ = warming(max_rounds=3)
    with caplog.at_level(logging.WARNING, "headway"):
        await harness.warm_up(Requests(engine, step_s=(1.0, 0.5, 1.0)))
    assert (harness.report.state, harness.report.settled) == ("done", False)
    assert "differ by more than 20 %" in caplog.text


@on_virtual_time
async def test_it_leaves_nothing_behind() -> None:
    """No ticket, call, request or task; the prefix cache is cleared, if need be in a second try."""
    engine, harness, requests = warming()
    engine.holds = 1
    await harness.warm_up(requests)
    assert engine.resets == 2
    assert sum(outcomes(harness.control).values()) == 0
    assert all(counts.arrived == 0 for counts in harness.gateway.gate.desk.ledger.classes.values())
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_a_cache_that_stays_in_use_is_no_failure() -> None:
    """Three tries, then the made-up prompts stay until they are pushed out."""
    engine, harness, requests = warming()
    engine.holds = 100
    await harness.warm_up(requests)
    assert (engine.resets, harness.report.state) == (3, "done")


@on_virtual_time
async def test_no_metric_counts_the_warm_up() -> None:
    """Steps during it are no batches, its requests no arrivals; each stage's last round is shown."""
    registry, catalogue, engine = CollectorRegistry(), PresetCatalogue(), CachingEngine(max_num_seqs=SEATS)
    meters = Meters.for_presets(catalogue, registry)
    parts = prepare(engine, PlainAdapter(), catalogue.get("latency"), meters=meters, warm_up=True)
    control = install(parts, catalogue)
    harness = Harness(control, parts)
    registry.register(MetricsCollector(control.snapshot, asyncio.get_running_loop()))

    async def steps() -> None:
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if harness.report.state == "done":
                return
            harness.activity.step(Load(4, 0, 0.1, inter_token_s=9.0), 4, ())

    await asyncio.gather(steps(), harness.warm_up(Requests(engine)))
    scrape = Scrape(generate_latest(registry).decode())
    assert scrape("headway_batch_size_count") == scrape("headway_arrivals_total") == 0
    assert scrape("headway_time_to_first_token_seconds_count") == scrape("headway_queue_wait_seconds_count") == 0
    stages = [sample.labels["stage"] for sample in scrape.samples if sample.name == "headway_warmup_duration_seconds"]
    assert stages == ["single", "logprobs", "json_schema", "batch", "alone"]
    harness.activity.step(Load(4, 0, 0.1), 4, ())
    assert Scrape(generate_latest(registry).decode())("headway_batch_size_count") == 1


@on_virtual_time
async def test_a_replaced_engine_is_warmed_up_anew() -> None:
    """At once, in place of an attempt that waits for its turn; by one short request where warm-up was turned off."""
    engine, harness, requests = warming()
    engine.die()
    await harness.warm_up(requests)
    engine.revive()
    await harness.rewarm(requests)
    assert (harness.report.state, harness.report.attempt) == ("done", 1)
    asked = len(requests.asked)
    await asyncio.sleep(100)
    assert len(requests.asked) == asked
    harness.report.state = "skipped"
    await harness.rewarm(requests)
    assert (len(requests.asked), requests.brief) == (asked, 1)


@on_virtual_time
async def test_a_warm_up_beside_traffic_keeps_the_prefix_cache_and_the_seats_as_they_are() -> None:
    """Its batches are as large as it is told; the report has its figures, and the number of the last attempt."""
    engine, harness, requests = warming(ramp_s=100.0)
    await harness.warm_up(requests)
    resets, asked, limit = engine.resets, len(requests.asked), harness.gateway.gate.desk.limit
    warmer = Warmer(harness.parts, requests)
    assert await warmer.warm_beside_traffic(2) == ""
    assert Counter(requests.asked[asked:]) == {"single": 1, "logprobs": 1, "json_schema": 1, "batch": 4, "alone": 1}
    assert (harness.report.state, harness.report.batch_size, harness.report.attempt) == ("done", 2, 1)
    assert (engine.resets, harness.gateway.gate.desk.limit) == (resets, limit)
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_the_report_of_another_engine_is_not_overwritten() -> None:
    """The engine was replaced while a warm-up ran beside its requests."""
    _engine, harness, requests = warming()
    await harness.warm_up(requests)
    beside = asyncio.ensure_future(Warmer(harness.parts, requests).warm_beside_traffic(2))
    await asyncio.sleep(0.01)
    harness.parts.warmup.reset()
    assert await beside == ""
    assert harness.report.state == "pending"


@on_virtual_time
async def test_a_server_without_a_warm_up_stays_one_after_an_ordered_one() -> None:
    """Another engine is probed, not warmed up."""
    engine = CachingEngine()
    control, parts = installed(engine, small_preset(SEATS), warm_up=False)
    harness, requests = Harness(control, parts), Requests(engine)
    assert await Warmer(parts, requests).warm_beside_traffic(1) == ""
    asked = len(requests.asked)
    await harness.rewarm(requests)
    assert (harness.report.state, len(requests.asked), requests.brief) == ("done", asked, 1)
