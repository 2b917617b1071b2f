"""A dashboard in a process of its own: a fork of one that has imported it, which takes longer than to draw a page."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from running_server import free_port, wait_until

START_S = 60.0
_END_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["headway_dashboard.server", "headway_dashboard.shared", "headway_dashboard.page"])


@dataclass(frozen=True, slots=True)
class DashboardProcess:
    """A running dashboard."""

    url: str
    pid: int


@contextmanager
def dashboard_process(
    server_url: str, log_path: Path, *, refresh_s: float = 1.0, prometheus_url: str = "", **environment: str
) -> Iterator[DashboardProcess]:
    """``python -m headway_dashboard`` for a server, or several with commas between them, until the block ends.

    Of the environment it gets no setting of ours but these.
    """
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    arguments = ["--port", str(port), "--refresh-s", f"{refresh_s:g}"]
    arguments += [part for one in server_url.split(",") for part in ("--url", one)]
    arguments += ["--prometheus-url", prometheus_url] if prometheus_url else []
    process = _FORKS.Process(target=_serve, args=(arguments, inherited | environment, log_path), daemon=True)
    process.start()
    assert process.pid is not None
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: not process.is_alive() or _healthy(url), "the dashboard answers", START_S)
        assert process.is_alive(), f"the dashboard ended:\n{log_path.read_text(errors='replace')}"
        yield DashboardProcess(url, process.pid)
    finally:
        process.terminate()
        process.join(30)
        process.close()


def _serve(arguments: Sequence[str], environment: Mapping[str, str], log_path: Path) -> None:
    """In the new process: ``python -m headway_dashboard``, until the process it was forked from has ended."""
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGTERM)
    with log_path.open("wb") as log:
        for printed in (sys.stdout, sys.stderr):
            os.dup2(log.fileno(), printed.fileno())
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["headway_dashboard", *arguments]
    runpy.run_module("headway_dashboard", run_name="__main__", alter_sys=True)


def _healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/healthz", timeout=1).ok
    except requests.RequestException:
        return False
