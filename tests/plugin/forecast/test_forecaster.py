"""The forecaster with its real process: what it answers, how it ends, and what it never passes on."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from recorded_traffic import MODEL, recording

from headway.forecast import BusyError, Forecaster, ForecastError, Job
from headway.forecast import __main__ as process
from headway.forecast import forecaster as module
from headway.recorder import Recorder
from headway_policies import bundled_presets, parse_preset
from headway_simulator import Variation

pytestmark = pytest.mark.slow

PRESETS = [bundled_presets()[name] for name in ("latency", "balanced")]


def job(load: float = 0.6, seeds: int = 2) -> Job:
    """A forecast of two presets."""
    return Job(recording(load), MODEL, PRESETS, seeds)


def test_a_job_is_unpacked_as_it_was_packed() -> None:
    """Presets with all their settings, the model and every column."""
    before = job()
    after = Job.unpack(b"".join(before.pieces()))
    assert (list(after.presets), after.model, after.seeds) == (PRESETS, MODEL, 2)
    for name in ("at_s", "class_index", "tenant", "sequences", "prompt_tokens", "max_tokens", "output_tokens"):
        assert list(getattr(after.recording, name)) == list(getattr(before.recording, name))
    assert (after.recording.span_s, after.recording.class_names) == (before.recording.span_s, ("normal", "realtime"))


def test_a_model_that_varies_is_unpacked_as_it_was_packed() -> None:
    """Every disturbance of it."""
    variation = Variation(
        slow=((6.0, 20.0, 60.0),), pauses=((10.0, 30.0), (1.0, 2.0)), neighbour=(2.0, 5.0, 20.0), drift=(0.5, 60.0),
        jitter_ratio=0.2, jitter_hold_s=2.0, seed=3,
    )  # fmt: skip
    model = replace(MODEL, variation=variation)
    before = replace(job(), model=model)
    assert Job.unpack(b"".join(before.pieces())).model == model


async def test_a_forecast_has_each_preset_and_says_how_far_it_is() -> None:
    """In the order that was asked for; meanwhile a second one is refused, and afterwards nothing of it is left."""
    forecaster, seen = Forecaster(), list[float]()
    task = asyncio.create_task(forecaster.compute(job()))
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await forecaster.compute(job())
    while not task.done():
        await asyncio.sleep(0.01)
        if forecaster.done is not None:
            seen.append(forecaster.done)
    found = await task
    assert [preset.name for preset in found.presets] == ["latency", "balanced"]
    assert (found.seeds, forecaster.done) == (2, None)
    assert seen == sorted(seen)
    assert found.span_s == pytest.approx(120.0, rel=0.1)
    assert not _children()


async def test_a_policy_that_prints_spoils_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of the process is for answers alone."""
    (tmp_path / "talkative.py").write_text(
        "from headway_policies.conformance import Fifo\n"
        "class Talkative(Fifo):\n"
        "    def __init__(self, *given, **more):\n"
        "        super().__init__(*given, **more)\n"
        "        print('made')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    own = parse_preset('name = "own"\nextends = "balanced"\n[ordering]\ninside = "talkative:Talkative"\n', "own")
    found = await Forecaster().compute(replace(job(seeds=1), presets=[own]))
    assert [preset.name for preset in found.presets] == ["own"]


async def test_without_traffic_the_reason_is_passed_on() -> None:
    """As one line."""
    with pytest.raises(ForecastError, match="no request has arrived in the last half hour"):
        await Forecaster().compute(Job(Recorder().recording(5.0), MODEL, PRESETS, 1))


async def test_a_forecast_that_is_cancelled_leaves_no_process() -> None:
    """And another one can follow."""
    forecaster = Forecaster()
    task = asyncio.create_task(forecaster.compute(job(seeds=50)))
    await asyncio.sleep(0.5)
    assert _children()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _children()
    assert forecaster.done is None


def test_what_is_ready_when_its_time_is_over_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of thousands of replays each preset has as many as were ready; here in this process, on a clock of replays."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(process, "_give_way", lambda: None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"".join(job(seeds=9000).pieces()))))
    monkeypatch.setattr(process, "_say", said.append)
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: float(len(said))))
    process.main(3.0)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    answer = said[-1]
    assert 2 <= answer["seeds"] < 9000
    assert [one["name"] for one in answer["forecasts"]] == ["latency", "balanced"]


async def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; nothing waits for it."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ForecastError):
        await Forecaster().compute(job())


def test_the_process_gets_no_secrets() -> None:
    """The server's settings, and its tokens, are no matter of a forecast."""
    environment = {"PATH": "/bin", "HEADWAY_ADMIN_TOKEN": "t", "VLLM_API_KEY": "k", "PYTHONPATH": "p"}
    assert module._for_child(environment) == {"PATH": "/bin", "PYTHONPATH": "p"}


def _children() -> list[psutil.Process]:
    """Those of the forecaster; one that has ended has no command line, and may be another test's."""
    living = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    return [one for one in living if "headway.forecast" in " ".join(one.cmdline())]
