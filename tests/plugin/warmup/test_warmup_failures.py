"""A warm-up that is refused, fails, gets stuck or is cancelled."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator

import pytest
from engines import assert_no_residue
from virtual_time import on_virtual_time
from warming_engine import SEATS, Requests, warming

from headway.engine.fake import FakeOutput, FakeParams
from headway.errors import Rejected
from headway_policies import Ending, Reason
from headway_policies.engine.warmup import Stage, Warmup


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
    assert harness.report.reason == "single: HeadwayError: the engine did not finish a request"
    harness.tasks.stop_all()


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
