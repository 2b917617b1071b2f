"""A dashboard in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from running_server import ending_with_us, free_port, wait_until

START_S = 60.0


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
    command = [sys.executable, "-m", "headway_dashboard", "--port", str(port)]
    command += [part for one in server_url.split(",") for part in ("--url", one)]
    command += ["--refresh-s", f"{refresh_s:g}", *(["--prometheus-url", prometheus_url] if prometheus_url else [])]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            ending_with_us(command), env=inherited | environment, stdout=log, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or _healthy(url), "the dashboard answers", START_S)
        assert process.poll() is None, f"the dashboard ended:\n{log_path.read_text(errors='replace')}"
        yield DashboardProcess(url, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/healthz", timeout=1).ok
    except requests.RequestException:
        return False
