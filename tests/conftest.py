"""Shared by all tests: the profile of hypothesis, the order on several workers, second tries, and one real server."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import inspect
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adaptive_presets
import pytest
import worker_shares
from client_accounting import TOTALS
from client_connections import drop_connections
from hypothesis import settings
from running_server import ONE_PROCESS, ONE_THREAD, PRESETS, TINY_MODEL, RunningServer
from tiers import LONG

# Else the first async test makes asyncio create a loop for this thread that is never closed: a warning, so an error.
asyncio.set_event_loop(None)

# What is imported and collected stays: looking for garbage in it took two fifths of the time before the first test.
gc.disable()

# Else a limit starts where an earlier test left it.
os.environ["HEADWAY_CACHE_DIR"] = ""

# No test asserts an absolute time: on a busy machine an example may take as long as it takes.
settings.register_profile("headway", settings(), deadline=None, max_examples=200 if LONG else 20)
settings.load_profile("headway")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """On several workers: files stay together, and so do the engine tests that share a server."""
    return worker_shares.make_scheduler(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """As many as ``-n auto`` means here."""
    return worker_shares.workers()


def pytest_configure(config: pytest.Config) -> None:
    """In a worker's process: the last one gives way to the others."""
    if (own := getattr(config, "workerinput", None)) is not None:
        worker_shares.give_way(own["workerid"], own["workercount"])


@pytest.hookimpl(trylast=True)  # after the folders have marked their tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On several workers the longest parts come first. What needs a real engine, a browser, a page that reads a server
    in the background, or an event loop, has a second try: its times are those of a busy machine.

    Tests that need a server as it has started come first, those that end it last.
    """
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if any(map(item.get_closest_marker, ("engine", "browser"))) or _keeps_time(item):
                item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=_moment)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: worker_shares.rank(item.nodeid))


def _keeps_time(item: pytest.Item) -> bool:
    """Whether a test waits for a page or on an event loop."""
    return "visit" in getattr(item, "fixturenames", ()) or inspect.iscoroutinefunction(getattr(item, "obj", None))


def pytest_collection_finish() -> None:
    """From now on there is garbage, and what is there is none."""
    gc.freeze()
    gc.enable()


def _moment(item: pytest.Item) -> int:
    """Where a test stands among those of its server: first, anywhere, or last."""
    return bool(item.get_closest_marker("ends_server")) - bool(item.get_closest_marker("starts_server"))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """The chaos tests' counts come from the worker that ran them."""
    TOTALS.update(getattr(node, "workeroutput", {}).get("totals", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The worker's side of the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["totals"] = dict(TOTALS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the totals of the chaos tests, and why each test that had a second try failed at its first."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("-", f"failed at its first try: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
    if TOTALS:
        totals = ", ".join(f"{number} {what}" for what, number in TOTALS.items())
        terminalreporter.write_line(f"chaos, as the clients saw it: {totals}; lost {TOTALS['nothing']}")


class _Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line with its traceback."""
        self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def failed_effects() -> Iterator[list[str]]:
    """What the gates of this test logged of effects that failed: nothing, or the test takes the lines itself."""
    kept, logger = _Kept(), logging.getLogger("headway.admission.gate")
    logger.addHandler(kept)
    yield kept.lines
    logger.removeHandler(kept)
    assert kept.lines == []


@pytest.fixture(scope="session")
def real_engine() -> None:
    """Skip where there is no vLLM or no model; in CI fail instead."""
    missing = None
    if importlib.util.find_spec("vllm") is None:
        missing = "vLLM is not installed"
    elif not TINY_MODEL.is_dir():
        missing = f"{TINY_MODEL} is missing: make test prepares it"
    if missing and os.environ.get("CI"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def shared_server(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """`headway serve` on the tiny model, started once."""
    folder: Path = tmp_path_factory.mktemp("server")
    presets = shutil.copytree(PRESETS, folder / "presets", ignore=shutil.ignore_patterns("chaos*"))
    if LONG:
        adaptive_presets.write_into(presets)
    log_path = folder / "server.log"
    roles = {"HEADWAY_PRESET_DIR": str(presets), "HEADWAY_VIEWER_TOKEN": secrets.token_hex(32)}
    flags = ("--preset", "balanced", "--shutdown-timeout", "300")  # at its end two requests may run, however slowly
    with RunningServer.headway(log_path, *flags, *ONE_PROCESS, **roles, **ONE_THREAD) as server:
        yield server


@pytest.fixture
def server(shared_server: RunningServer) -> Iterator[RunningServer]:
    """The shared server, under the balanced preset and at rest before and after the test."""
    shared_server.use("balanced")
    shared_server.settle()
    yield shared_server
    drop_connections()
    shared_server.settle()
    assert shared_server.scrape().unbalanced() == []


@pytest.fixture
def server_url(server: RunningServer) -> str:
    """Where the shared server listens."""
    return server.url
