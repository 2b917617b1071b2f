"""A panel's series through a real Prometheus that scrapes the stub."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from stub_server import StubServer

from headway_dashboard import panels
from headway_dashboard.model import newest
from headway_dashboard.sources import PrometheusSource

CONFIG = Path(__file__).parents[2] / "deploy" / "prometheus"


@pytest.fixture
def prometheus(stub: StubServer, tmp_path: Path, until: Callable[..., None]) -> Iterator[str]:
    """A Prometheus on a free loopback port, with the configuration of deploy/, scraping the moving stub."""
    binary = shutil.which("prometheus")
    if binary is None and os.environ.get("CI"):
        pytest.fail("prometheus is not installed")
    if binary is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    stub.moving = True
    stub.world.load = 3.0
    for name in ("prometheus.yml", "rules.yml"):
        shutil.copy(CONFIG / name, tmp_path)
    (tmp_path / "targets.yml").write_text(f'- targets: ["{stub.url.removeprefix("http://")}"]\n')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [
        binary,
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _ready(address))
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def _ready(address: str) -> bool:
    try:
        return requests.get(f"http://{address}/-/ready", timeout=1).ok
    except requests.RequestException:
        return False


def test_panels_read_their_series_from_prometheus(
    prometheus: str, stub: StubServer, until: Callable[..., None]
) -> None:
    """Gauges, rates, quantiles and the engine's own metric agree with the world; a preset change is seen."""
    source = PrometheusSource(prometheus, interval_s=1.0)
    wanted = (panels.LIMIT, panels.PRESET, panels.KV_USE, panels.TOKENS, panels.BATCH, *panels.TTFT_PANEL.expressions)
    asked = (*wanted, panels.QUEUED_BY_CLASS, panels.GPU_TOTAL)
    until(lambda: newest(source.read(asked, 300.0)[panels.TTFT[0.95]].line()) is not None)
    until(lambda: newest(source.read(asked, 300.0)[panels.BATCH].line()) is not None)
    reading = source.read(asked, 300.0)
    assert reading.source == "Prometheus"
    assert newest(reading[panels.LIMIT].line()) == 32
    assert newest(reading[panels.TOKENS].line()) is not None
    assert 0 < (newest(reading[panels.BATCH].line()) or 0) <= 32
    assert set(reading[panels.QUEUED_BY_CLASS].lines) == {("realtime",), ("normal",), ("batch",)}
    assert reading[panels.GPU_TOTAL].empty
    assert reading.health.trouble is None
    assert reading[panels.LIMIT].line()[0] is None

    stub.world.switch("latency", {}, "")
    until(lambda: newest(source.read(asked, 300.0)[panels.LIMIT].line()) == 8)
    until(lambda: newest(source.read(asked, 300.0)[panels.PRESET].line("latency", "2")) == 1)

    stub.stop()
    until(lambda: source.read(asked, 300.0).health.trouble == "refused")
    assert "does not reach" in source.read(asked, 300.0).health.detail
    source.close()
