from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
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
