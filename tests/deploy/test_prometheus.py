from __future__ import annotations

import importlib.util
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
import yaml

from headway.operator.metrics import METRIC_NAMES

PART_OF_HISTOGRAM = re.compile(r"_(bucket|count|sum)$")


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    return root / "deploy" / "prometheus"


def expressions(folder: Path) -> str:
    groups = yaml.safe_load((folder / "rules.yml").read_text())["groups"]
    return "\n".join(rule["expr"] for group in groups for rule in group["rules"])


def test_promtool_accepts_the_configuration(folder: Path, tool: Callable[[str], str]) -> None:
    """Configuration and rules are valid, and the alerts fire on the made-up series of rules_test.yml."""
    promtool = tool("promtool")
    for command in (["check", "config", "prometheus.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run([promtool, *command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_of_a_rule_exists(folder: Path) -> None:
    """A renamed metric must not leave a dead alert behind."""
    used = set(re.findall(r"(?<![:\w])headway_\w+", expressions(folder)))
    unknown = {
        name for name in used if PART_OF_HISTOGRAM.sub("", name) not in METRIC_NAMES and name not in METRIC_NAMES
    }
    assert used
    assert unknown == set()


def test_every_recorded_series_of_a_rule_is_recorded(folder: Path) -> None:
    """The alerts use only names that the first group makes."""
    rules = yaml.safe_load((folder / "rules.yml").read_text())["groups"][0]["rules"]
    used = set(re.findall(r"(?:class|instance):headway_\w+:\w+", expressions(folder)))
    assert used
    assert used <= {rule["record"] for rule in rules}


def test_every_metric_of_vllm_exists_in_vllm(folder: Path) -> None:
    """vLLM names its counters without `_total`, which the exposition adds; look them up in its source."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("vLLM is not installed")
    source = (Path(spec.origin).parent / "v1" / "metrics" / "loggers.py").read_text()
    used = set(re.findall(r"vllm\[:_\]\w+", expressions(folder)))
    assert used
    names = {name.replace("[:_]", ":").removesuffix("_total") for name in used}
    assert {name for name in names if f'"{name}"' not in source} == set()


def test_every_alert_says_how_bad_and_what_to_do(folder: Path) -> None:
    """Severity, summary, action and runbook, the summary naming where; how long it lasts is stated."""
    groups = yaml.safe_load((folder / "rules.yml").read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert len(alerts) >= 10
    for alert in alerts:
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert {"summary", "action", "runbook_url"} == set(alert["annotations"])
        assert "for" in alert
        assert "{{ $labels." in alert["annotations"]["summary"]


class OneMetric(BaseHTTPRequestHandler):
    """Answers every scrape as a server that is not ready."""

    def do_GET(self) -> None:
        body = b"# TYPE headway_ready gauge\nheadway_ready 0\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def target() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), OneMetric)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def prometheus(folder: Path, tool: Callable[[str], str], target: str, tmp_path: Path) -> Iterator[str]:
    """The shipped configuration in a real Prometheus; only the targets file is another."""
    program = tool("prometheus")
    for name in ("prometheus.yml", "rules.yml"):
        shutil.copy(folder / name, tmp_path)
    (tmp_path / "targets.yml").write_text(f'- targets: ["{target}"]\n')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [program, "--config.file=prometheus.yml", f"--storage.tsdb.path={tmp_path / 'data'}"]
    with (tmp_path / "log").open("w") as log:
        child = subprocess.Popen(
            [*command, f"--web.listen-address={address}", "--log.level=warn"], cwd=tmp_path, stdout=log, stderr=log
        )
    yield f"http://{address}"
    child.terminate()
    child.wait(20)


@pytest.mark.slow
def test_a_real_prometheus_scrapes_with_the_shipped_configuration(prometheus: str) -> None:
    """Job and metric arrive, and the rules are loaded."""
    deadline_s = time.monotonic() + 30
    result: list[dict[str, object]] = []
    while not result and time.monotonic() < deadline_s:
        with suppress(requests.RequestException):  # not there yet, or not ready: then its answer is no JSON
            answer = requests.get(f"{prometheus}/api/v1/query", params={"query": "headway_ready"}, timeout=2)
            result = answer.json().get("data", {}).get("result", [])
        threading.Event().wait(0.2)
    assert [series["metric"]["job"] for series in result] == ["headway"]  # type: ignore[index]  # JSON
    rules = requests.get(f"{prometheus}/api/v1/rules", timeout=2).json()["data"]["groups"]
    assert next(group["name"] for group in rules) == "headway-availability"
