"""The example of scaling in deploy/README.md: a ScaledObject that KEDA would read, on a metric that exists."""

from __future__ import annotations

import re
import textwrap

import yaml
from running_server import ROOT

from headway.operator.metrics import METRIC_NAMES


def test_the_scaled_object_reads_a_metric_that_exists() -> None:
    """One trigger: the sum over all servers of one job, divided by KEDA, kept below what is full."""
    text = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"\n((?:    .*\n)*    kind: ScaledObject\n(?:    .*\n)*)", text)
    scaled = yaml.safe_load(textwrap.dedent(block))
    (trigger,) = scaled["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    assert set(re.findall(r"headway_[a-z_]+", query)) <= set(METRIC_NAMES)
    assert query.startswith("sum(")
    assert trigger["metricType"] == "AverageValue"
    assert 0 < float(trigger["metadata"]["threshold"]) < 1
    job = re.findall(r'job="(\w+)"', query)
    assert f"job_name: {job[0]}" in (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
