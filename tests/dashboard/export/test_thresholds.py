"""Panel, alert and documentation have the same numbers: read back from the three outputs, not from the code."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
import yaml
from running_server import ROOT

from headway_dashboard.analysis.catalogue import ALL_PANELS, thresholds
from headway_dashboard.export import pages
from headway_dashboard.export.docs_table import table_text

DEPLOY = ROOT / "deploy"
#: A bound in a cell: the side, the number, its unit.
BOUND = re.compile(r"(?P<side>[<>]) (?P<value>[\d.]+)(?: (?P<unit>%|s))?")


def documented() -> dict[str, dict[str, list[tuple[str, float]]]]:
    """By panel and alert: each side and number in base units, from the table of reference/panels.md."""
    found: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for row in re.findall(r"^\| (?!panel|---)(.*) \|$", table_text(), re.MULTILINE):
        title, _, _, _, bounds, names = row.split(" | ")
        for words, name in zip(bounds.split("<br>"), names.split("<br>"), strict=True):
            numbers = [
                (one["side"], float(one["value"]) / (100 if one["unit"] == "%" else 1)) for one in BOUND.finditer(words)
            ]
            if numbers:
                found.setdefault(title, {})[re.sub(r"\[(\w+)\].*", r"\1", name)] = numbers
    return found


def drawn() -> dict[str, list[float]]:
    """The lines of each panel of the board in deploy/grafana."""
    board: dict[str, Any] = json.loads((DEPLOY / "grafana" / "headway.json").read_text(encoding="utf-8"))
    panels = (panel for panel in board["panels"] if panel["type"] == "timeseries")
    return {
        panel["title"]: [one["value"] for one in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]]
        for panel in panels
        if panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] != "off"
    }


def compared() -> dict[str, list[tuple[str, float]]]:
    """Every comparison with a number in the expression of each alert in deploy/prometheus/rules.yml."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    return {
        rule["alert"]: [(side, float(value)) for side, value in re.findall(r"([<>])=? ([\d.]+)", rule["expr"])]
        for rule in rules
    }


def test_every_documented_bound_is_drawn_and_alerted() -> None:
    """The very number stands in the panel of that title and in the expression of that alert, on the same side."""
    lines, alerts = drawn(), compared()
    table = documented()
    assert len(table) >= 8
    for title, of_alert in table.items():
        for name, numbers in of_alert.items():
            for side, value in numbers:
                assert (side, pytest.approx(value)) in alerts[name], (title, name)
                assert pytest.approx(value) in lines[title], (title, name)


def test_every_bound_of_an_alert_is_drawn_and_documented() -> None:
    """The other way: what thresholds.py says of a panel has reached all three."""
    titles = {panel.id: panel.title for page in pages.pages() for panel in page.panels}
    lines, alerts, table = drawn(), compared(), documented()
    for panel, bounds in thresholds.PANEL_BOUNDS.items():
        title = titles[panel]
        for bound in bounds:
            side = ">" if bound.above else "<"
            assert pytest.approx(bound.value) in lines[title]
            assert (side, pytest.approx(bound.value)) in alerts[bound.alert]
            assert (side, pytest.approx(bound.value)) in table[title][bound.alert]


def test_every_alert_is_in_the_table() -> None:
    """Alerts without a panel have a row as well; an alert that watches two panels stands beside each."""
    named = Counter(re.findall(r"\[(Headway\w+)\]\(", table_text()))
    watched = Counter(one.alert for bounds in thresholds.PANEL_BOUNDS.values() for one in dict.fromkeys(bounds))
    assert set(named) == set(compared())
    assert all(number == 1 or number <= watched[name] for name, number in named.items())


def test_the_pages_have_the_same_numbers() -> None:
    """The bound of an alert that a page draws is the number of that alert; one target for all."""
    drawn_by_pages = {(panel.id, bound.name): bound.value for shown in ALL_PANELS.values() for panel in shown
                      for bound in panel.bounds}  # fmt: skip
    assert drawn_by_pages["error-share", "alert"] == thresholds.ERROR_RATIO
    assert drawn_by_pages["gpu-busy", "idle below"] == thresholds.GPU_IDLE_RATIO
    targets = {value for (_, name), value in drawn_by_pages.items() if name == "target"}
    assert targets == {thresholds.TARGET_RATIO}
    for (panel, name), value in drawn_by_pages.items():
        assert name != "alert" or value in {one.value for one in thresholds.PANEL_BOUNDS[panel]}
