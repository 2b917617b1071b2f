"""The rules file: the committed one is what the command writes, and a YAML reader finds in it what was meant."""

from __future__ import annotations

import re
from typing import Any

import yaml
from running_server import ROOT

from headway_dashboard.analysis.catalogue.alerts import GROUPS, RULES
from headway_dashboard.analysis.catalogue.alerts.rule import Record, Rule
from headway_dashboard.export.rules_file import RUNBOOKS, expression_of, rules_text

FILE = ROOT / "deploy" / "prometheus" / "rules.yml"
TESTS = ROOT / "deploy" / "prometheus" / "rules_test.yml"


def written() -> list[dict[str, Any]]:
    """The rules as Prometheus reads them."""
    groups: list[dict[str, Any]] = yaml.safe_load(rules_text())["groups"]
    assert [group["name"] for group in groups] == [group.name for group in GROUPS]
    return [rule for group in groups for rule in group["rules"]]


def test_the_committed_file_is_what_the_command_writes() -> None:
    """An alert that changes and is not exported again fails here."""
    assert FILE.read_text(encoding="utf-8") == rules_text(), "run: headway export rules --output " + str(FILE)


def test_yaml_gives_back_every_rule_as_it_was_meant() -> None:
    """The file is written by hand: no character of a rule is lost or means something else."""
    meant = [rule for group in GROUPS for rule in group.rules]
    for rule, found in zip(meant, written(), strict=True):
        assert found["expr"] == (rule.expr if isinstance(rule, Record) else expression_of(rule))
        match rule:
            case Record(name):
                assert set(found) == {"record", "expr"}
                assert found["record"] == name
            case Rule(name):
                assert (found["alert"], found["for"]) == (name, rule.lasting)
                assert found["labels"] == {"severity": rule.severity}
                assert found["annotations"] == {
                    "summary": rule.summary,
                    "action": rule.action,
                    "runbook_url": f"{RUNBOOKS}#{rule.name.lower()}",
                }


def test_names_are_used_once() -> None:
    """Two alerts of one name would be one to whoever silences it."""
    names = [rule.name for group in GROUPS for rule in group.rules]
    assert len(names) == len(set(names))


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    """The link of an alert leads to its own section."""
    headings = re.findall(r"^## (\w+)$", (ROOT / RUNBOOKS).read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(alert.name for alert in RULES)


def test_every_alert_is_tried_both_ways() -> None:
    """promtool shows of each that it fires, and that it does not."""
    tried: dict[str, set[bool]] = {}
    for scenario in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]:
        for one in scenario["alert_rule_test"]:
            tried.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert {name for name, ways in tried.items() if ways == {True, False}} == {alert.name for alert in RULES}


def test_links_can_lead_to_a_page_of_the_users() -> None:
    """Only the address before the section changes."""
    assert rules_text("https://wiki/x").replace("https://wiki/x#", f"{RUNBOOKS}#") == rules_text()
