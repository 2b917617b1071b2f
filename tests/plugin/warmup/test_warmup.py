"""The warm-up and the keep-warm carried out, on a fake engine at the port; the real one is tested in tests/engine."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from engines import TrippingEngine, assert_no_residue, installed, outcomes
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from small_presets import small_preset
from virtual_time import on_virtual_time

import headway
from headway.background_tasks import BackgroundTasks
from headway.engine.fake import FakeOutput, FakeParams
from headway.engine.port import PlainAdapter
from headway.errors import Rejected
from headway.operator.install import EngineParts, install, prepare
from headway.operator.metrics import Meters, MetricsCollector
from headway.operator.presets import PresetCatalogue
from headway.supervision.engine_activity import EngineActivity
from headway.supervision.warmup_report import WarmupReport
from headway.warmup.keep_warm import TASK, KeepWarm
from headway.warmup.warmer import Warmer
from headway_policies import Ending, Load, Preset, Reason
from headway_policies.engine.warmup import Stage, Warmup

SEATS = 4


class CachingEngine(TrippingEngine):
    """A fake engine with a prefix cache that can be cleared once its ``holds`` have passed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.resets, self.holds = 0, 0

    async def reset_prefix_cache(self) -> bool:
        """Count the call."""
        self.resets += 1
        return self.resets > self.holds


class Requests:
    """Requests for the fake engine; ``refuses`` are the stages it refuses, ``step_s`` the pace of each batch."""

    def __init__(
        self, engine: CachingEngine, *, refuses: tuple[Stage, ...] = (), step_s: tuple[float, ...] = ()
    ) -> None:
        self.engine, self.refuses = engine, refuses
        self.asked: list[Stage] = []
        self.places: list[int] = []
        self.brief = 0
        self.contexts: set[int] = set()
        self._paces = itertools.chain.from_iterable([pace_s] * SEATS for pace_s in step_s)

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[FakeOutput, None]:
        """One request, unless it is refused; one of ``contexts`` goes wrong."""
        self.asked.append(stage)
        self.places.append(index)
        if len(self.asked) in self.contexts:
            self.engine.trips_over.add(request_id)
        if stage in self.refuses:
            raise ValueError(f"no {stage} here")
        if stage is Stage.BATCH:
            self.engine.step_s = next(self._paces, self.engine.step_s)
        return self.engine.generate("made up", FakeParams(config.answer_tokens(stage)), request_id)

    def short_request(self, request_id: str) -> AsyncGenerator[FakeOutput, None]:
        """One of one token; one of ``contexts`` goes wrong."""
        self.brief += 1
        if self.brief in self.contexts:
            self.engine.trips_over.add(request_id)
        return self.engine.generate("made up", FakeParams(1), request_id)

    def refused(self, error: Exception) -> bool:
        """By its type."""
        return isinstance(error, ValueError)


class Harness:
    """A fake engine behind the gate, which is not warm yet."""

    def __init__(self, control: headway.Control, parts: EngineParts) -> None:
        self.control, self.parts = control, parts
        self.gateway, self.tasks, self.activity = parts.gateway, parts.tasks, parts.activity

    @property
    def report(self) -> WarmupReport:
        """How the warm-up stands."""
        return self.parts.warmup.report

    async def warm_up(self, requests: Requests) -> None:
        """As a server does it before it listens."""
        await Warmer(self.parts, requests).warm_up()

    async def rewarm(self, requests: Requests) -> None:
        """As the supervisor does it with another engine."""
        await Warmer(self.parts, requests).rewarm()

    def keep_warm(self, requests: Requests) -> None:
        """From now on."""
        self.tasks.start(TASK, KeepWarm(self.parts, requests).run())


def warming(**keys: Any) -> tuple[CachingEngine, Harness, Requests]:
    """A fake engine behind the gate, under a preset with these keys of ``[warmup]``, and requests for it."""
    preset: Preset = small_preset(SEATS).model_copy(update={"warmup": Warmup(**keys)})
    engine = CachingEngine()
    control, parts = installed(engine, preset, warm_up=True)
    return engine, Harness(control, parts), Requests(engine)


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
    stages = [one.labels["stage"] for one in scrape.samples if one.name == "headway_warmup_duration_seconds"]
    assert stages == ["single", "logprobs", "json_schema", "batch", "alone"]
    harness.activity.step(Load(4, 0, 0.1), 4, ())
    assert Scrape(generate_latest(registry).decode())("headway_batch_size_count") == 1


@pytest.mark.parametrize("stage", Stage)
@on_virtual_time
async def test_a_refused_stage_is_omitted_and_reported(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The engine is well and cannot do it: the rest runs, the report and the log name it."""
    engine, harness, _ = warming()
    requests = Requests(engine, refuses=(stage,))
    with caplog.at_level(logging.WARNING, "headway"):
        await harness.warm_up(requests)
    assert (harness.report.state, harness.report.refused) == ("done", [stage])
    assert set(harness.report.stages) == set(Stage) - {stage}
    assert f"skipped {stage}, which the engine refuses: ValueError: no {stage} here" in caplog.text
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_an_engine_that_refuses_everything_needs_no_warm_up() -> None:
    """A pooling model: nothing can be warmed so, nothing is wrong; it is not asked again after a restart either."""
    engine, harness, _ = warming()
    requests = Requests(engine, refuses=tuple(Stage))
    await harness.warm_up(requests)
    assert (harness.report.state, harness.report.reason) == ("skipped", "the engine refuses every stage")
    assert harness.control.not_ready() == []
    await harness.rewarm(requests)
    assert len(requests.asked) == 4 + SEATS


@on_virtual_time
async def test_a_failure_is_written_down_and_tried_again_until_it_succeeds() -> None:
    """A dead engine: not ready with the reason, tried after 5, 10 and 20 s; once it is well the server is ready."""
    engine, harness, requests = warming()
    engine.die()
    await harness.warm_up(requests)
    loop, failed_s = asyncio.get_running_loop(), []
    assert (harness.report.state, harness.report.reason) == ("failed", "single: EngineDied: the engine died")
    assert "warm-up failed: single: EngineDied: the engine died" in harness.control.not_ready()
    while harness.report.attempt < 4:
        attempt = harness.report.attempt
        while harness.report.attempt == attempt:  # noqa: ASYNC110 - on virtual time
            await asyncio.sleep(0.005)
        failed_s.append(round(loop.time(), 1))
        assert harness.report.reason == "again, after single: EngineDied: the engine died"
    assert [round(later - sooner) for sooner, later in itertools.pairwise([0.0, *failed_s])] == [5, 10, 20]
    engine.revive()
    await asyncio.sleep(30)
    harness.gateway.gate.enter().leave(Ending.COMPLETED)
    assert (harness.report.state, harness.report.reason, harness.control.not_ready()) == ("done", "", [])
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_a_stuck_engine_ends_it_at_the_cap() -> None:
    """The stage and the cap are named, what was running is stopped, and a later attempt succeeds."""
    engine, harness, requests = warming(timeout_s=20.0)
    engine.stalled = True
    await harness.warm_up(requests)
    assert asyncio.get_running_loop().time() == pytest.approx(20.0)
    await asyncio.sleep(0)
    assert engine.aborted == engine.started
    assert harness.control.not_ready() == ["warm-up failed: single: no end within 20 s"]
    with pytest.raises(Rejected) as refused:
        harness.gateway.gate.enter()
    assert refused.value.reason is Reason.NOT_READY
    assert engine.running == {}
    engine.stalled = False
    await asyncio.sleep(10)
    assert (harness.report.state, harness.report.attempt) == ("done", 2)
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_one_failure_in_a_batch_stops_the_others() -> None:
    """No request of the batch remains in the engine while the next attempt is awaited."""
    engine, harness, requests = warming()
    requests.contexts = {5}
    await harness.warm_up(requests)
    assert harness.report.reason.startswith("batch: RuntimeError: tripped over headway-warm-up-batch-")
    assert harness.report.stages.keys() == {"single", "logprobs", "json_schema"}
    await asyncio.sleep(0)
    assert engine.running == {}
    harness.tasks.stop_all()


@on_virtual_time
async def test_a_request_that_is_given_up_warms_nothing() -> None:
    """No output at all is a failure, not a success."""
    engine, harness, _ = warming(output_tokens=1)

    class Empty(Requests):
        def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[FakeOutput, None]:
            return self.engine.generate("made up", FakeParams(0), request_id)

    await harness.warm_up(Empty(engine))
    assert harness.report.reason == "single: HeadwayError: the engine gave a request up"
    harness.tasks.stop_all()


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
    """It was replaced while a warm-up ran beside its requests."""
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


@on_virtual_time
async def test_a_cancellation_reaches_its_caller_and_the_server_is_not_ready() -> None:
    """The cancellation is passed on; no stage is reported as running that is not."""
    engine, harness, requests = warming()
    engine.stalled = True
    task = asyncio.ensure_future(harness.warm_up(requests))
    await asyncio.sleep(1)
    assert harness.control.not_ready() == ["warm-up running"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert harness.control.not_ready() == ["warm-up failed: interrupted"]
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_retries_end_when_the_server_closes() -> None:
    """A server that is shutting down does not go on warming up."""
    engine, harness, requests = warming()
    engine.die()
    await harness.warm_up(requests)
    harness.gateway.link.closing = True
    asked = len(requests.asked)
    await asyncio.sleep(1000)
    assert len(requests.asked) <= asked + 1
    await assert_no_residue(harness.control)


# ---------------------------------------------------------------------- keep-warm


@on_virtual_time
async def test_an_idle_engine_is_kept_warm() -> None:
    """One short request whenever nothing has run for so long; none of them is a ticket or a lesson for the limit."""
    _engine, harness, requests = warming(keep_warm_after_s=60.0)
    await harness.warm_up(requests)
    harness.keep_warm(requests)
    await asyncio.sleep(10 * 62)
    assert requests.brief == 10
    assert sum(outcomes(harness.control).values()) == 0
    harness.tasks.stop_all()
    await assert_no_residue(harness.control)


@on_virtual_time
async def test_a_busy_engine_is_not_warmed() -> None:
    """An engine step, or a call under way, counts as use."""
    engine, harness, requests = warming(keep_warm_after_s=60.0)
    await harness.warm_up(requests)
    harness.keep_warm(requests)
    for _ in range(10):
        await asyncio.sleep(50)
        harness.activity.step(Load(1, 0, 0.1), 1, ())
    assert requests.brief == 0
    engine.stalled = True
    call = asyncio.ensure_future(anext(engine.generate("p", FakeParams(1), "slow", timeout_s=1e6)))
    await asyncio.sleep(50)
    assert requests.brief == 0
    call.cancel()
    harness.tasks.stop_all()


@pytest.mark.parametrize("state", ["off", "draining", "paused", "not warm", "closing"])
@on_virtual_time
async def test_keep_warm_asks_nothing_of_a_server_that_does_not_serve(state: str) -> None:
    """Off by default; and never while draining, pausing, not ready or closing."""
    _engine, harness, requests = warming(keep_warm_after_s=None if state == "off" else 10.0)
    harness.report.state = "failed" if state == "not warm" else "done"
    harness.keep_warm(requests)
    harness.gateway.link.closing = state == "closing"
    {"draining": harness.gateway.gate.drain, "paused": harness.gateway.gate.pause}.get(state, lambda: None)()
    await asyncio.sleep(1000)
    assert requests.brief == 0
    harness.tasks.stop_all()


@on_virtual_time
async def test_keep_warm_follows_the_preset_in_force() -> None:
    """A switch turns it on within seconds, and off again."""
    _engine, harness, requests = warming()
    harness.report.state = "done"
    harness.keep_warm(requests)
    off = harness.control.preset
    on = off.model_copy(update={"warmup": Warmup(keep_warm_after_s=10.0)})
    harness.gateway.gate.switch(on)
    await asyncio.sleep(16)
    assert requests.brief == 1
    harness.gateway.gate.switch(off)
    await asyncio.sleep(100)
    assert requests.brief == 1
    harness.tasks.stop_all()


@on_virtual_time
async def test_keep_warm_outlives_its_own_failures() -> None:
    """A stuck request ends at the cap, one that fails is no news, and the next one is sent in its turn."""
    engine, harness, requests = warming(keep_warm_after_s=10.0, timeout_s=5.0)
    harness.report.state = "done"
    harness.keep_warm(requests)
    engine.stalled, requests.contexts = True, {2}
    await asyncio.sleep(16)
    assert (requests.brief, engine.running, harness.activity.internal) == (1, {}, False)
    engine.stalled = False
    await asyncio.sleep(25)
    assert requests.brief == 3
    harness.tasks.stop_all()


@on_virtual_time
async def test_the_steps_of_keep_warm_teach_nothing() -> None:
    """While its request runs no step is a batch or a signal."""
    engine, harness, requests = warming(keep_warm_after_s=10.0)
    harness.report.state, seen = "done", []
    harness.activity = EngineActivity(harness.gateway, seen.append)
    harness.parts = replace(harness.parts, activity=harness.activity)
    harness.keep_warm(requests)
    engine.stalled = True
    await asyncio.sleep(11)
    harness.activity.step(Load(1, 0, 0.1), 1, ())
    engine.stalled = False
    await asyncio.sleep(1)
    harness.activity.step(Load(2, 0, 0.1), 2, ())
    assert seen == [2]
    harness.tasks.stop_all()


# ---------------------------------------------------------------------- parts


@on_virtual_time
async def test_a_chore_takes_the_place_of_its_namesake(caplog: pytest.LogCaptureFixture) -> None:
    """One of a name at a time; a task that ends is dropped, and an error is logged and not lost."""
    tasks, ended = BackgroundTasks(), []

    async def work(name: str, *, fails: bool = False) -> None:
        await asyncio.sleep(10)
        ended.append(name)
        if fails:
            raise RuntimeError("no good")

    tasks.start("a", work("first"))
    tasks.start("a", work("second"))
    tasks.start("b", work("other", fails=True))
    await asyncio.sleep(5)
    assert "a" in tasks
    await asyncio.sleep(6)
    assert (ended, "a" in tasks, "b" in tasks) == (["second", "other"], False, False)
    assert "background task b ended with RuntimeError" in caplog.text
