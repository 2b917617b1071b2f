"""The rules as the YAML file that Prometheus reads.

Written by hand: the dashboard does not depend on a YAML library, and the file shall be easy to read and compare.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from headway_dashboard.analysis.catalogue.alerts import GROUPS
from headway_dashboard.analysis.catalogue.alerts.recorded import RECORDED
from headway_dashboard.analysis.catalogue.alerts.rule import Group, Record, Rule

#: Where each alert has its section, unless told otherwise.
RUNBOOKS = "deploy/site/docs/operate/runbooks.md"

_HEAD = """\
# Written by `headway export rules`; change headway_dashboard/analysis/catalogue/alerts or thresholds.py.
# Alerts and recorded series over Headway's own metrics (and one of vLLM's). Time limits follow the bundled presets:
# realtime may wait 5 s in the queue, normal 30 s, batch 300 s.
groups:
"""


def rules_text(runbooks: str = RUNBOOKS) -> str:
    """The text of the rules file; ``runbooks`` is the address of the page that has a section for each alert."""
    return _HEAD + "\n".join("".join(f"{line}\n" for line in _group(group, runbooks)) for group in GROUPS)


def _group(group: Group, runbooks: str) -> Iterator[str]:
    yield f"  - name: {group.name}"
    yield "    rules:"
    for rule in group.rules:
        yield from _record(rule) if isinstance(rule, Record) else _alert(rule, runbooks)


def _record(rule: Record) -> Iterator[str]:
    yield f"      - record: {rule.name}"
    yield from _expression(rule.expr)


def _alert(rule: Rule, runbooks: str) -> Iterator[str]:
    yield f"      - alert: {rule.name}"
    yield from _expression(expression_of(rule))
    yield f"        for: {rule.lasting}"
    yield f"        labels: {{severity: {rule.severity}}}"
    yield "        annotations:"
    yield f"          summary: {_quoted(rule.summary)}"
    yield f"          action: {_quoted(rule.action)}"
    yield f"          runbook_url: {_quoted(f'{runbooks}#{rule.name.lower()}')}"


def expression_of(rule: Rule) -> str:
    """The condition of an alert, with the names of the series that are recorded in place of their expressions."""
    text = rule.expr
    for recorded in RECORDED.rules:
        text = text.replace(recorded.expr, recorded.name)
    return text


def _expression(text: str) -> Iterator[str]:
    """A literal block: no character of an expression means anything in it."""
    yield "        expr: |-"
    yield from (f"          {line}" for line in text.splitlines())


def _quoted(text: str) -> str:
    """A text of JSON is one of YAML as well."""
    return json.dumps(text, ensure_ascii=False)
