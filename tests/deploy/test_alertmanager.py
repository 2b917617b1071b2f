"""An alert on its whole way: from a server's metrics through Prometheus to Alertmanager, both real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from handler_server import Answer, answering
from prometheus_process import program, running, running_prometheus
from running_server import wait_until

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
def alertmanager(root: Path, tmp_path: Path) -> Iterator[str]:
    """An Alertmanager to which a Prometheus sends the alerts of the server above."""
    (tmp_path / "alertmanager.yml").write_text("route: {receiver: none, group_wait: 0s}\nreceivers: [{name: none}]\n")
    with ExitStack() as stack:
        scraped = Answer(body=METRICS.encode(), headers={"Content-Type": "text/plain; version=0.0.4"})
        target = stack.enter_context(answering(lambda _: scraped)).removeprefix("http://")
        storage = ("--config.file=alertmanager.yml", "--storage.path=alerts", "--cluster.listen-address=")
        url = stack.enter_context(running(program("prometheus-alertmanager"), tmp_path, *storage))
        hasten(root / "deploy" / "prometheus", tmp_path, target, url.removeprefix("http://"))
        stack.enter_context(running_prometheus(tmp_path, tmp_path / "prometheus.yml"))
        yield url


def test_a_threshold_that_is_passed_arrives_in_alertmanager(alertmanager: str) -> None:
    """With severity, words and the way to the runbook; and only that one, since all else of the server is well."""
    (alert,) = wait_until(lambda: requests.get(f"{alertmanager}/api/v2/alerts", timeout=10).json(), "an alert arrives")
    assert alert["status"]["state"] == "active"
    labels = alert["labels"]
    assert (labels["alertname"], labels["severity"], labels["gpu"]) == ("HeadwayGpuMemoryFull", "warning", "0")
    assert labels["job"] == "headway"
    annotations = alert["annotations"]
    assert annotations["summary"] == f"{labels['instance']}: 97% of the memory of GPU 0 is used"
    assert annotations["runbook_url"] == "deploy/site/docs/operate/runbooks.md#headwaygpumemoryfull"
