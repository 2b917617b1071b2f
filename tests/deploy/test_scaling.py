"""The description of scaling in how-to/scale-out.md: the manifest that it names, and a signal that exists."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from headway.operator.metrics import METRIC_NAMES


def test_what_the_description_says_is_in_the_manifest(root: Path) -> None:
    """The named file keeps the sum of the named metric at the target, and has the thresholds of the waits."""
    section = (root / "deploy/site/docs/how-to/scale-out.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"`deploy/(kubernetes/\S+\.yaml)`", section)
    triggers = yaml.safe_load((root / "deploy" / named).read_text(encoding="utf-8"))["spec"]["triggers"]
    need, peak, *waits = (float(trigger["metadata"]["threshold"]) for trigger in triggers)
    assert need == peak
    assert f"at {need:g} for each server" in " ".join(section.split())
    assert f"averageValue: {need * 1000:.0f}m" in section
    assert [wait for wait in waits if f"{wait:.0%}".replace("%", " %") not in section] == []
    assert set(re.findall(r"headway_[a-z_]+", section)) <= set(METRIC_NAMES)
