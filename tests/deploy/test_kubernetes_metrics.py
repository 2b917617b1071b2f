"""Monitoring and scaling in Kubernetes: the same job, interval, rules and metrics as everywhere else."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from headway.operator.metrics import METRIC_NAMES
from headway_dashboard.analysis.catalogue.thresholds import QUEUE_AGE_RATIO

if TYPE_CHECKING:
    from conftest import Manifests

DESIRED = 'headway_desired_instances{job="headway",namespace="default"'
FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
RULES = FOLDER / "components" / "monitoring" / "rules.yaml"


def test_the_rules_are_those_of_the_one_catalogue(root: Path) -> None:
    """The PrometheusRule has the groups of deploy/prometheus/rules.yml, word for word."""
    written = yaml.safe_load(RULES.read_text())
    assert written["spec"]["groups"] == yaml.safe_load((root / "deploy/prometheus/rules.yml").read_text())["groups"]


def test_the_file_is_what_the_script_writes() -> None:
    """Nobody changed it by hand, and a change of the rules was passed on."""
    code = "import prometheus_rule as p; print(p.wrapped(p.RULES.read_text(encoding='utf-8')), end='')"
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=True)
    assert done.stdout == RULES.read_text(encoding="utf-8")


def test_the_job_is_the_one_that_the_rules_ask_for(manifests: Manifests, root: Path) -> None:
    """The monitor selects the server's Service and nothing else, and takes the job's name from its label."""
    monitor = manifests.resource("ServiceMonitor", "headway-server")["spec"]
    wanted = monitor["selector"]["matchLabels"]
    services = [one for one in manifests.resources("Service") if wanted.items() <= one["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in services] == ["headway-server"]
    config = yaml.safe_load((root / "deploy/prometheus/prometheus.yml").read_text())
    assert services[0]["metadata"]["labels"][monitor["jobLabel"]] == config["scrape_configs"][0]["job_name"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in services[0]["spec"]["ports"]}
    assert endpoint["path"] == config["scrape_configs"][0]["metrics_path"]
    assert endpoint["interval"] == config["global"]["scrape_interval"]
    assert endpoint["scrapeTimeout"] == config["global"]["scrape_timeout"]


def test_every_trigger_asks_for_metrics_that_exist(manifests: Manifests) -> None:
    """Each query names exported metrics of that job; a sum is divided by the servers, a maximum is not."""
    triggers = manifests.resource("ScaledObject", "headway-server")["spec"]["triggers"]
    for trigger in triggers:
        query = trigger["metadata"]["query"]
        used = set(re.findall(r"headway_\w+", query))
        assert used
        assert used <= set(METRIC_NAMES)
        assert query.count("headway_") == query.count('{job="headway",namespace="default"')
        assert trigger["metricType"] == ("AverageValue" if "sum(" in query else "Value")
        assert trigger["metadata"]["ignoreNullValues"] == ("false" if trigger["name"] == "need" else "true")
    assert len({trigger["name"] for trigger in triggers}) == len(triggers) == 3


def test_a_wait_asks_for_servers_before_the_alert(manifests: Manifests) -> None:
    """The threshold is half of the bound of HeadwayQueueOld."""
    triggers = manifests.resource("ScaledObject", "headway-server")["spec"]["triggers"]
    (threshold,) = (float(one["metadata"]["threshold"]) for one in triggers if one["name"] == "wait")
    assert threshold == QUEUE_AGE_RATIO / 2


def test_promtool_reads_the_queries(manifests: Manifests, tool: Callable[[str], str], tmp_path: Path) -> None:
    """Every query is PromQL."""
    triggers = manifests.resource("ScaledObject", "headway-server")["spec"]["triggers"]
    rules = [{"record": f"a:b{n}", "expr": trigger["metadata"]["query"]} for n, trigger in enumerate(triggers)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run([tool("promtool"), "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _peaks(*heights: int) -> str:
    """A series with one sample a minute: 0.5 all day, and one of these from 10:00 to 11:00 of each day."""
    return " ".join(f"0.5x600 {height}x60 0.5x777" for height in heights)


@pytest.mark.parametrize(
    ("series", "minute", "needs"),
    [
        (_peaks(3, 3, 0), 585, None),
        (_peaks(3, 3, 0), 595, 3.0),
        (_peaks(3, 3, 0), 650, 3.0),
        (_peaks(3, 3, 0), 665, None),
        (_peaks(3, 2, 0), 620, 2.0),
        (_peaks(2, 3, 0), 620, 2.0),
    ],
    ids=["before", "eight minutes ahead", "in it", "after", "yesterday less", "the day before less"],
)
def test_the_daily_peak_is_that_of_both_days(
    manifests: Manifests, tool: Callable[[str], str], tmp_path: Path, series: str, minute: int, needs: float | None
) -> None:
    """On the third day its servers are asked for before it; of two days the one that needed less counts."""
    triggers = manifests.resource("ScaledObject", "headway-server")["spec"]["triggers"]
    (query,) = [trigger["metadata"]["query"] for trigger in triggers if trigger["name"] == "daily-peak"]
    found = 0.5 if needs is None else needs
    halves = [{"series": f'{DESIRED},instance="{name}"}}'} for name in "ab"]
    for half, values in zip(halves, (series, "0x4400"), strict=True):
        half["values"] = values
    at = {"expr": query, "eval_time": f"{2 * 1440 + minute}m", "exp_samples": [{"labels": "{}", "value": found}]}
    others = {"series": f"{DESIRED.replace('default', 'other')}}}", "values": "9x4400"}
    test = {"interval": "1m", "input_series": [*halves, others], "promql_expr_test": [at]}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([tool("promtool"), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scaled_deployment_exists(manifests: Manifests) -> None:
    """The deployment scales in one by one, and out slower than a server loads."""
    spec = manifests.resource("ScaledObject", "headway-server")["spec"]
    assert manifests.resource("Deployment", spec["scaleTargetRef"]["name"])
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert [policy["value"] for policy in behavior["scaleDown"]["policies"]] == [1]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 300
    assert spec["minReplicaCount"] >= 1
