"""An alert on its whole way: from a server's metrics through Prometheus to Alertmanager, both real."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

pytestmark = pytest.mark.slow

#: A server whose GPU is nearly full; all else is well.
METRICS = """\
# TYPE headway_build_info gauge
headway_build_info{version="0",backend="cuda"} 1
# TYPE headway_ready gauge
headway_ready 1
# TYPE headway_gpu_memory_used_bytes gauge
headway_gpu_memory_used_bytes{gpu="0"} 97
# TYPE headway_gpu_memory_total_bytes gauge
headway_gpu_memory_total_bytes{gpu="0"} 100
# TYPE headway_process_resident_bytes gauge
headway_process_resident_bytes{process="engine"} 50
# TYPE headway_memory_limit_bytes gauge
headway_memory_limit_bytes 100
"""
TIMEOUT_S = 60.0


class Metrics(BaseHTTPRequestHandler):
    """Answers every scrape with the metrics above."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(METRICS.encode())

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving() -> Iterator[str]:
    """The server's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def running(folder: Path, program: str, *words: str) -> Iterator[str]:
    """A program of Prometheus' family on a free loopback port, once it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [program, *words, f"--web.listen-address={address}", "--log.level=warn"]
    with (folder / f"{Path(program).name}.log").open("w") as log:
        child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        assert asked(f"http://{address}/-/ready", lambda answer: answer.ok) is not None, "it never became ready"
        yield address
    finally:
        child.terminate()
        child.wait(20)


def asked(url: str, enough: Callable[[requests.Response], bool]) -> requests.Response | None:
    """The first answer that is enough; None where there was none in a minute."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        with suppress(requests.RequestException):
            answer = requests.get(url, timeout=2)
            if enough(answer):
                return answer
        threading.Event().wait(0.2)
    return None


def hasten(source: Path, folder: Path, target: str, alertmanager: str) -> None:
    """A copy of the shipped configuration that scrapes each second and fires at once."""
    config: dict[str, Any] = yaml.safe_load((source / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    rules: dict[str, Any] = yaml.safe_load((source / "rules.yml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule):
        rule["for"] = "0s"
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    for name, address in (("targets", target), ("alertmanagers", alertmanager)):
        (folder / f"{name}.yml").write_text(f'- targets: ["{address}"]\n')


@pytest.fixture
def alertmanager(root: Path, tool: Callable[[str], str], tmp_path: Path) -> Iterator[str]:
    """An Alertmanager to which a Prometheus sends the alerts of the server above."""
    programs = tool("prometheus"), tool("prometheus-alertmanager")
    (tmp_path / "alertmanager.yml").write_text("route: {receiver: none, group_wait: 0s}\nreceivers: [{name: none}]\n")
    with ExitStack() as stack:
        target = stack.enter_context(serving())
        storage = ("--config.file=alertmanager.yml", "--storage.path=alerts", "--cluster.listen-address=")
        address = stack.enter_context(running(tmp_path, programs[1], *storage))
        hasten(root / "deploy" / "prometheus", tmp_path, target, address)
        words = ("--config.file=prometheus.yml", "--storage.tsdb.path=data")
        stack.enter_context(running(tmp_path, programs[0], *words))
        yield address


def test_a_threshold_that_is_passed_arrives_in_alertmanager(alertmanager: str) -> None:
    """With severity, words and the way to the runbook; and only that one, since all else of the server is well."""
    answer = asked(f"http://{alertmanager}/api/v2/alerts", lambda answer: answer.ok and answer.json() != [])
    assert answer is not None, "no alert arrived"
    (alert,) = answer.json()
    assert alert["status"]["state"] == "active"
    labels = alert["labels"]
    assert (labels["alertname"], labels["severity"], labels["gpu"]) == ("HeadwayGpuMemoryFull", "warning", "0")
    annotations = alert["annotations"]
    assert annotations["summary"] == f"{labels['instance']}: 97% of the memory of GPU 0 is used"
    assert annotations["runbook_url"] == "deploy/site/docs/operate/runbooks.md#headwaygpumemoryfull"
