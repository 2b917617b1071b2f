"""Tests of ``make gpu-check``: its stages, its report, and what never gets into it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpu_check
import psutil
import pytest
from gpu.hardware import GpuLoad, _over_time, watched
from gpu.life import Life
from gpu.parts import in_process, keep
from gpu.report import held, text, written
from gpu.stages import Outcome, Show, Stage, StageError, State, play_all
from running_server import wait_until
from until import until
from virtual_time import on_virtual_time

from headway_tools.console.exits import INTERRUPTED

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "results"
MACHINE = {"model": "my-model", "headway": "0.1.0", "gpus": [{"name": "NVIDIA H100", "memory": "81559 MiB"}]}
CANARIES = ("hf_CanaryToken", "/home/canary/models", "canary-host.example", "a prompt of canaries")


def read(report: str) -> dict[str, Any]:
    """The figures at the end of a report."""
    found: dict[str, Any] = json.loads(report.partition("```json\n")[2].partition("\n```")[0])
    return found


async def play(stages: Sequence[Stage], report: Path) -> list[Outcome]:
    """Run these stages, with the report after each."""
    outcomes = list[Outcome]()
    await play_all(stages, outcomes, lambda words, done: None, lambda: written(report, MACHINE, outcomes, short=False))
    return outcomes


def stage(name: str, error: BaseException | None = None, *, for_s: float = 0.0, needs: str = "") -> Stage:
    """A stage of at most ten seconds that has a figure, and then takes so long or fails."""

    async def run(outcome: Outcome, show: Show) -> None:
        outcome.figures["requests_per_s"] = 12.5
        await asyncio.sleep(for_s)
        if error is not None:
            raise error

    return Stage(name, f"the {name}", 10.0, run, needs)


@on_virtual_time
async def test_a_stage_that_fails_leaves_a_report_with_its_reason_and_figures(tmp_path: Path) -> None:
    """Stages that need the failed one are not run, and all else is."""
    report = tmp_path / "report.md"
    stages = [stage("load"), stage("start", StageError("no capacity")), stage("kill", needs="start"), stage("step")]
    outcomes = await play(stages, report)
    assert [one.state for one in outcomes] == [State.DONE, State.FAILED, State.NOT_RUN, State.DONE]
    found = read(report.read_text())["stages"]
    assert found["start"]["figures"] == {"requests_per_s": 12.5}
    assert "| the start | failed: no capacity |" in report.read_text()
    assert "| the kill | not run: needs the stage start | - |" in report.read_text()
    assert not held(outcomes)


@on_virtual_time
async def test_a_stage_that_does_not_end_is_cut(tmp_path: Path) -> None:
    """The stage fails when its time is up, and the next one is run."""
    outcomes = await play([stage("load", for_s=1e6), stage("step")], tmp_path / "report.md")
    assert [(one.state, one.reason) for one in outcomes] == [(State.FAILED, "took longer than 10 s"), (State.DONE, "")]


@on_virtual_time
async def test_an_interrupted_check_leaves_a_report_of_what_was_measured(tmp_path: Path) -> None:
    """The stage that was cut has its figures, and the rest is not run."""
    report = tmp_path / "report.md"
    task = asyncio.create_task(play([stage("load"), stage("step", for_s=5.0), stage("start")], report))
    await asyncio.sleep(1.0)
    task.cancel()
    outcomes = await task
    assert [(one.state, one.reason) for one in outcomes] == [
        (State.DONE, ""),
        (State.FAILED, "interrupted"),
        (State.NOT_RUN, "interrupted"),
    ]
    assert read(report.read_text())["stages"]["step"]["figures"] == {"requests_per_s": 12.5}


async def test_a_stage_that_fails_under_traffic_has_what_became_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The requests that were refused are in the report, and a check that did not hold, whatever ended the stage."""
    found = SimpleNamespace(
        offered=3, completed=2, refused=Counter(full=1), endings=Counter(), ttft=SimpleNamespace(quantile=lambda _: 0.5)
    )

    async def offered(*arguments: object) -> SimpleNamespace:
        return SimpleNamespace(all=found, unanswered=0)

    monkeypatch.setattr("gpu.life.offer", offered)
    async with AsyncExitStack() as stack:
        life = Life(tmp_path, tmp_path / "serve.log", stack, 1.0, short=True)
        monkeypatch.setattr(life, "_source", SimpleNamespace(requests=lambda *_: [1, 2, 3]), raising=False)
        monkeypatch.setattr(life, "_client", None, raising=False)
        outcome = Outcome("kill", "the kill")
        traffic = life._traffic(outcome)
        await (await traffic.__aenter__())
        error = StageError("the server ended")
        assert not await traffic.__aexit__(StageError, error, None)
    assert (outcome.figures["completed"], outcome.figures["refused"]) == (2, {"full": 1})
    assert outcome.missed == ["1 requests were refused"]


async def test_nothing_that_an_error_says_is_in_the_report(tmp_path: Path) -> None:
    """Neither an exception of a stage nor the output of its process: the names of the errors are all."""
    said = " ".join(CANARIES)
    lines = f"import sys; print({said!r}); sys.exit('(EngineCore) ERROR torch.OutOfMemoryError: {said}')"

    async def run(outcome: Outcome, show: Show) -> None:
        await in_process([sys.executable, "-c", lines], os.environ, tmp_path / "load.log", show)

    stages = [Stage("load", "the load", 60.0, run), stage("step", ValueError(said))]
    outcomes = await play(stages, tmp_path / "report.md")
    assert [one.reason for one in outcomes] == ["its process ended with OutOfMemoryError", "ended with ValueError"]
    report = (tmp_path / "report.md").read_text()
    assert not [one for one in CANARIES if one in report]
    assert all(one in (tmp_path / "load.log").read_text() for one in CANARIES)


@pytest.mark.parametrize("short", [False, True])
def test_the_report_of_recorded_figures(short: bool) -> None:
    """Tables for people and the same figures as JSON; the goals of the short form do not count."""
    outcome = Outcome("load", "the load", State.DONE)
    keep("load", RECORDED / "short.json", outcome, short=short)
    assert len(outcome.figures["bench"]["blocks"]) == 17
    report = text(MACHINE, [outcome], short=short)
    assert "| 1.5 | Headway, balanced, as it comes | " in report
    assert "| gpus | name NVIDIA H100, memory 81559 MiB |" in report
    assert read(report)["stages"]["load"]["figures"] == outcome.figures
    assert outcome.missed == ([] if short else ["a goal of this stage was missed: see its table"])


def test_what_a_part_has_not_measured_is_no_error(tmp_path: Path) -> None:
    """A part that ended before its first figure leaves none."""
    outcome = Outcome("load", "the load", State.FAILED)
    keep("load", tmp_path / "none.json", outcome, short=False)
    keep("step", RECORDED / "short.json", outcome, short=False)
    assert (outcome.figures, outcome.text, outcome.missed) == ({}, "", [])


async def test_what_the_gpus_did_is_among_the_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Their memory, use and power as far as the driver tells; without a GPU nothing is there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("gpu.hardware._LOOK_EVERY_S", 0.0)
    figures, asked = dict[str, Any](), tmp_path / "asked"
    async with watched(figures):
        await asyncio.sleep(0)
    assert figures == {}
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho . >> {asked}\necho '40000, 87, 350.5'\necho '3, [N/A], [N/A]'\n")
    program.chmod(0o755)
    async with watched(figures):
        await until(lambda: asked.exists() and len(asked.read_text().split()) > 2)  # one may be of the block above
    assert figures["gpus"] == [
        {"most_memory_mib": 40000.0, "busy_percent": 87.0, "busy_cv": 0.0, "power_w": 350.5},
        {"most_memory_mib": 3.0, "busy_percent": None, "busy_cv": None, "power_w": None},
    ]


@pytest.mark.parametrize(
    ("busy", "expected"), [([90.0] * 3, 0.0), ([80.0, 100.0], 0.111), ([0.0, 100.0], 1.0), ([0.0, 0.0], None)]
)
def test_how_steadily_a_gpu_computed_is_told(busy: list[float], expected: float | None) -> None:
    """Two with the same mean differ where one computes in gusts; one that never computed has no such figure."""
    assert _over_time([GpuLoad(1.0, percent, None) for percent in busy])["busy_cv"] == expected


def test_the_model_is_named_as_its_folder_is(tmp_path: Path) -> None:
    """The link has the model's own name, and leads to its folder."""
    own = tmp_path / "canary" / "my-model"
    own.mkdir(parents=True)
    (own / "config.json").write_text("{}")
    link = gpu_check._named(f"{own}/", tmp_path)
    assert (link.name, link.resolve()) == ("my-model", own)


def test_the_folder_that_one_is_in_is_named_as_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--model .`` means the folder, and has its name."""
    own, links = tmp_path / "my-model", tmp_path / "links"
    own.mkdir()
    links.mkdir()
    (own / "config.json").write_text("{}")
    monkeypatch.chdir(own)
    link = gpu_check._named(".", links)
    assert (link.name, link.resolve()) == ("my-model", own)


def test_a_folder_without_a_model_is_not_looked_for_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, so its name is none of the hub; the error says what it lacks."""
    (tmp_path / "org" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"no config.json in org/model"):
        gpu_check._named("org/model", tmp_path)


SCRIPT = """
import asyncio, os, sys
from pathlib import Path
import gpu_check
from gpu.parts import in_process
from gpu.stages import Stage

folder = Path(sys.argv[1])
stubborn = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
stubborn += f"open({str(folder / 'pid')!r}, 'w').write(f'{os.getpid()} '); time.sleep(600)"

async def run(outcome, show):
    await in_process([sys.executable, "-c", stubborn], os.environ, folder / "load.log", show)

gpu_check.versions = dict
gpu_check.stages_of = lambda *arguments, **more: [Stage("load", "the load", 600.0, run)]
sys.exit(asyncio.run(gpu_check.check("m", folder, folder / "report.md", lambda words, done: None, short=True)))
"""


def test_a_second_interrupt_leaves_no_process_and_a_report(tmp_path: Path) -> None:
    """Also where what was started does not end when it is asked to."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    check = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        pid_file = tmp_path / "pid"
        wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith(" "), "the part runs")
        check.send_signal(signal.SIGINT)
        check.send_signal(signal.SIGTERM)
        assert check.wait(60) == INTERRUPTED
    finally:
        check.kill()
    assert not psutil.pid_exists(int(pid_file.read_text()))
    assert "failed: interrupted" in (tmp_path / "report.md").read_text()


def test_an_environment_that_lacks_headway_is_named(tmp_path: Path) -> None:
    """``GPU_BIN`` of one's own: nothing is installed, there or elsewhere."""
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), "gpu-check", f"GPU_BIN={tmp_path}"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"no headway in {tmp_path}" in done.stderr
    assert not list(tmp_path.iterdir())
