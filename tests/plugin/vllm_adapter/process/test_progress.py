"""The progress file: written by EngineCore at its steps, and read by the API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headway.vllm_adapter.process import progress
from headway.vllm_adapter.process.progress import ProgressReader, Reporter, report_progress
from headway_policies import Progress


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file between them, as the server prepares it."""
    monkeypatch.setattr(progress, "_prepared_by", None)
    monkeypatch.setattr(progress.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    monkeypatch.setattr(progress, "_on_a_cpu", lambda: True)
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
    """It is asked to, since the variable alone may be that of a server above; without a file it makes one."""
    progress._prepared_by = None
    progress.keep_progress()
    progress.prepare_progress()
    assert os.environ[progress.VARIABLE] == str(file)
    del os.environ[progress.VARIABLE]
    progress._prepared_by = None
    progress.keep_progress()
    progress.prepare_progress()
    assert os.environ[progress.VARIABLE] != str(file)


def test_an_engine_whose_file_is_gone_works_on(
    file: Path, core_class: type[Core], caplog: pytest.LogCaptureFixture
) -> None:
    """It says once what that means."""
    report_progress(core_class, None)
    reader = ProgressReader(file)
    core = core_class(reader)
    file.unlink()
    for _ in range(2):
        with pytest.raises(IndexError):  # it ran, and found no report
            core.step()
    (record,) = caplog.records
    assert record.message.startswith("EngineCore cannot report its progress, so a slow step counts as a hang: ")


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
        lambda process, recursive: [one for one in children(process, recursive) if one.pid == worker.pid],
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
