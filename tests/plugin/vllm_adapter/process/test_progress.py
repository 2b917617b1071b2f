"""The progress file: written by EngineCore at its steps, and read by the API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from headway.vllm_adapter.engine_adapter import VllmAdapter
from headway.vllm_adapter.process import progress
from headway.vllm_adapter.process.progress import (
    Compilations,
    ProgressReader,
    Reporter,
    report_compilations,
    report_progress,
    report_steps,
)
from headway.vllm_adapter.process.step_ring import EngineStep, StepRing
from headway_policies import Progress
from headway_policies.step import StepFigures


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file between them, as the server prepares it."""
    monkeypatch.setattr(progress, "_prepared_by", None)
    monkeypatch.setattr(progress, "_files", {})
    monkeypatch.setattr(progress.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    monkeypatch.setattr(progress, "on_a_cpu", lambda: True)
    progress.prepare_progress()
    path = os.environ[progress.VARIABLE]
    monkeypatch.setenv(progress.VARIABLE, path)
    return Path(path)


class Core:
    """EngineCore as far as it is wrapped: a step reads its own report."""

    def __init__(self, reader: ProgressReader, engine_index: int = 0) -> None:
        self.reader = reader
        self.engine_index = engine_index

    def step(self, fails: bool = False) -> Progress:
        """One step."""
        if fails:
            raise RuntimeError("the step failed")
        return self.reader.read()[-1]

    def _handle_client_request(self, request_type: str, request: int) -> tuple[Progress, int]:
        """One call, in which another step runs."""
        self.step()
        return self.reader.read()[-1], request


@pytest.fixture
def core_class() -> Iterator[type[Core]]:
    """A class of its own for each test, which wraps it."""

    class Own(Core):
        step = Core.step
        _handle_client_request = Core._handle_client_request

    return Own  # type: ignore[return-value]  # a fixture that yields nothing afterwards


def test_the_figures_of_the_step_policy_are_read_without_asking(file: Path, core_class: type[Core]) -> None:
    """As they are at each beat, of all engines together; none before the first plan, or without progress reports."""
    reader = ProgressReader(file)
    report_steps(core_class(reader), StepFigures(steps=1))
    assert reader.steps() is None
    report_progress(core_class, core_class)
    figures = [StepFigures(), StepFigures(2, 1, 1, 60, 16, 90, 0.25, 0.125, 0.25, 1.5)]
    for index, own in enumerate(figures):
        core = core_class(reader, index)
        report_steps(core, own)
        core.__dict__["headway_reporter"].beat(cpu_time=False)
    assert reader.steps() == figures[1]


def test_a_step_and_a_call_are_reported_while_they_go_on(file: Path, core_class: type[Core]) -> None:
    """At work within, at rest after it, also after one that failed; each with a number of its own."""
    report_progress(core_class, core_class)
    report_progress(core_class, core_class)
    reader = ProgressReader(file)
    assert reader.read() == ()
    core = core_class(reader)
    first = core.step()
    assert (first.engine, first.at_work) == (os.getpid(), True)
    (after,) = reader.read()
    assert (after.at_work, after.works) == (False, first.works + 1)
    with pytest.raises(RuntimeError):
        core.step(fails=True)
    (failed,) = reader.read()
    assert (failed.at_work, failed.works) == (False, first.works + 3)
    called, request = core._handle_client_request("UTILITY", 7)
    assert (called.works > failed.works, request) == (True, 7)
    assert not reader.read()[0].at_work


def test_each_engine_of_a_server_has_its_own_report(file: Path, core_class: type[Core]) -> None:
    """By its index; another server below this one has another file."""
    report_progress(core_class, None)
    reader = ProgressReader(file)
    core_class(reader, 0).step()
    core_class(reader, 3).step()
    assert len(reader.read()) == 2
    progress._prepared_by = None
    progress.prepare_progress()
    assert os.environ[progress.VARIABLE] != str(file)


def test_a_process_between_the_server_and_its_engine_keeps_the_servers_file(file: Path) -> None:
    """The process is asked to, since the variable alone may be that of a server above; without a file it makes one."""
    progress._prepared_by = None
    progress.keep_progress()
    progress.prepare_progress()
    assert os.environ[progress.VARIABLE] == str(file)
    del os.environ[progress.VARIABLE]
    progress._prepared_by = None
    progress.keep_progress()
    progress.prepare_progress()
    assert os.environ[progress.VARIABLE] != str(file)


def test_two_engines_of_a_program_have_a_file_each(
    file: Path, monkeypatch: pytest.MonkeyPatch, logger_class: Any
) -> None:
    """Reports and steps of an engine are read by its own configuration, whichever was started last, or again."""
    monkeypatch.setattr(progress, "_files", {})
    engines = [SimpleNamespace(vllm_config=SimpleNamespace(instance_id=name)) for name in ("a1b2c", "d3e4f")]
    paths = []
    for number in (0, 1, 0):
        progress.prepare_progress(progress.engine_of(engines[number].vllm_config))
        paths.append(Path(os.environ[progress.VARIABLE]))
    assert paths[0] == paths[2] != paths[1]
    loads = []
    for engine, path, running in zip(engines, paths, (3, 5), strict=False):
        logger, reporter = logger_class(engine.vllm_config), Reporter(path, 0)
        logger.listen(SimpleNamespace(step=lambda load, *_: loads.append(load)))
        with reporter.at_work():
            assert [report.at_work for report in VllmAdapter().progress(engine)] == [True]
        StepRing(path, 0).write(EngineStep(0.02, 0.25, running, 0, 0, 0, 0, 0, running))
        logger.record(SimpleNamespace(num_running_reqs=running), SimpleNamespace())
    assert [load.running for load in loads] == [3, 5]
    assert [report.works for engine in engines for report in VllmAdapter().progress(engine)] == [2, 2]


def test_an_engine_whose_file_is_gone_works_on(
    file: Path, core_class: type[Core], caplog: pytest.LogCaptureFixture
) -> None:
    """The engine says once what that means."""
    report_progress(core_class, None)
    reader = ProgressReader(file)
    core = core_class(reader)
    file.unlink()
    for _ in range(2):
        with pytest.raises(IndexError):  # it ran, and found no report
            core.step()
    (record,) = [one for one in caplog.records if one.name.startswith("headway")]
    assert record.getMessage().startswith("EngineCore cannot report its progress, so a slow step counts as a hang: ")


class Manager:
    """vLLM's StructuredOutputManager as far as it is wrapped: a request's grammar is what its compilation calls."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def grammar_init(self, request: Any) -> None:
        """One request; without a grammar nothing is to be compiled."""
        if request.structured_output_request == "of another backend":
            raise ValueError("Unsupported structured output backend")
        if request.structured_output_request is not None:
            self.pool.submit(self._create_grammar, request)

    def _create_grammar(self, request: Any) -> None:
        request.structured_output_request()


def test_grammars_that_compile_or_wait_are_counted_with_their_age() -> None:
    """One thread: the first compiles, the second waits until it has ended. One that fails has ended as well."""
    now_s = [100.0]
    compilations = Compilations(lambda: now_s[0])

    class Own(Manager):
        grammar_init = Manager.grammar_init
        _create_grammar = Manager._create_grammar

    for _ in range(2):
        report_compilations(Own, compilations)
    begun, ends = [Event(), Event()], [Event(), Event()]

    def compiles(at: int) -> None:
        begun[at].set()
        ends[at].wait(20)
        raise RuntimeError("no grammar")

    def ages() -> tuple[float, float]:
        return compilations.longest_s(), compilations.held_s()

    with ThreadPoolExecutor(1) as pool:
        manager = Own(pool)
        manager.grammar_init(SimpleNamespace(structured_output_request=None))
        assert ages() == (0.0, 0.0)
        manager.grammar_init(SimpleNamespace(structured_output_request=partial(compiles, 0)))
        assert begun[0].wait(20)
        with pytest.raises(ValueError, match="backend"):
            manager.grammar_init(SimpleNamespace(structured_output_request="of another backend"))
        now_s[0] = 130.0
        assert ages() == (30.0, 0.0), "none waits for it, one that was refused least of all"
        manager.grammar_init(SimpleNamespace(structured_output_request=partial(compiles, 1)))
        now_s[0] = 150.0
        assert ages() == (50.0, 20.0)
        ends[0].set()
        assert begun[1].wait(20)
        now_s[0] = 151.0
        assert ages() == (1.0, 0.0)
        ends[1].set()
    assert ages() == (0.0, 0.0)


def test_the_age_of_a_compilation_is_in_the_report(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the last beat; a new engine's report begins without."""
    now_s = [100.0]
    compilations = Compilations(lambda: now_s[0])
    monkeypatch.setattr(progress, "_COMPILATIONS", compilations)
    reporter = Reporter(file, 0)
    compilations.asked()
    with compilations.running():
        now_s[0] = 112.0
        compilations.asked()
        now_s[0] = 114.5
        report = beaten(reporter, file, 1)
        assert (report.compiling_s, report.compilations_held_s) == (14.5, 2.5)
    report = beaten(Reporter(file, 0), file, 0)
    assert (report.compiling_s, report.compilations_held_s) == (0.0, 0.0)


def beaten(reporter: Reporter, file: Path, times: int, **options: Any) -> Progress:
    """The report after so many beats."""
    for _ in range(times):
        reporter.beat(cpu_time=True, **options)
    (report,) = ProgressReader(file).read()
    return report


def test_the_processes_below_are_looked_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much CPU time they use, and how many are stopped, within a step and without.

    Only the test's own process counts: others below this one may be servers of other tests.
    """
    children = psutil.Process.children
    code = "import sys\nsys.stdout.write('.')\nsys.stdout.flush()\nwhile True: pass"
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    monkeypatch.setattr(
        psutil.Process,
        "children",
        lambda process, recursive: [child for child in children(process, recursive) if child.pid == worker.pid],
    )
    try:
        worker.stdout.read(1)
        reporter = Reporter(file, 0)
        with reporter.at_work():
            first = beaten(reporter, file, 3)
            assert first.cpu_s is not None
            _until(lambda: (beaten(reporter, file, 1).cpu_s or 0) > (first.cpu_s or 0))
            worker.send_signal(signal.SIGSTOP)
            _until(lambda: beaten(reporter, file, 1).stopped == 1)
            one, other = beaten(reporter, file, 1), beaten(reporter, file, 3)
            assert (one.cpu_s, other.beats - one.beats) == (other.cpu_s, 3)
        for _ in range(5):  # the queries of the API server, which EngineCore answers without its workers
            with reporter.at_work():
                pass
            assert beaten(reporter, file, 1).stopped == 1
        worker.send_signal(signal.SIGCONT)
        _until(lambda: beaten(reporter, file, 1).stopped == 0)
    finally:
        worker.kill()
        worker.communicate()
    assert psutil.Process().is_running()


def _until(holds: Any) -> None:
    until_s = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def test_a_list_of_processes_that_cannot_be_had_ends_no_report(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user that may not be read, or no file left."""

    def refused(process: psutil.Process, recursive: bool) -> list[psutil.Process]:
        raise errors.pop()

    errors: list[Exception] = [psutil.AccessDenied(1), OSError("too many open files")] * 20
    monkeypatch.setattr(psutil.Process, "children", refused)
    assert beaten(Reporter(file, 0), file, 4).beats == 4
    assert len(errors) < 40
