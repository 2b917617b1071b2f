"""The table of the documentation: each panel with its metrics, bounds and alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway_dashboard.analysis.catalogue.alerts import RULES
from headway_dashboard.analysis.catalogue.alerts.rule import Rule
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.queries.metric import names_of
from headway_dashboard.analysis.units import Unit
from headway_dashboard.export.pages import pages

_UNITS: dict[Unit, str] = {"count": "number", "per_s": "1/s", "seconds": "s", "bytes": "bytes", "ratio": "%"}


def table_text() -> str:
    """The table in Markdown, a line for each panel, then one for each alert without a panel."""
    lines = ["| panel | page | unit | metrics | threshold | alert |", "|---|---|---|---|---|---|"]
    return "\n".join((*lines, *_panel_rows(), *_other_rows())) + "\n"


def _panel_rows() -> Iterator[str]:
    for page in pages():
        for tile in page.tiles:
            yield _row(f"{tile.label} (key figure)", page.title, _UNITS[tile.unit], names_of(tile.expression), ())
    for panel, titles in _panels():
        watching = [(_threshold(rule, panel), rule) for rule in RULES if rule.watches(panel.id)]
        metrics = dict.fromkeys(name for expression in panel.expressions for name in names_of(expression))
        yield _row(panel.title, ", ".join(titles), _UNITS[panel.unit], tuple(metrics), watching)


def _panels() -> Iterator[tuple[Panel, list[str]]]:
    """Every panel once, with the pages that draw it."""
    found: dict[tuple[str, str], tuple[Panel, list[str]]] = {}
    for page in pages():
        for panel in page.panels:
            found.setdefault((panel.id, panel.title), (panel, []))[1].append(page.title)
    yield from found.values()


def _other_rows() -> Iterator[str]:
    for rule in RULES:
        if not rule.panel:
            yield _row("-", "-", "-", (), [(rule.fires, rule)])


def _row(title: str, page: str, unit: str, metrics: Sequence[str], watching: Sequence[tuple[str, Rule]]) -> str:
    named = "<br>".join(f"`{name}`" for name in metrics) or "-"
    bounds = "<br>".join(words for words, _ in watching) or "-"
    names = "<br>".join(f"[{rule.name}](../operate/runbooks.md#{rule.name.lower()})" for _, rule in watching) or "-"
    return f"| {title} | {page} | {unit} | {named} | {bounds} | {names} |"


def _threshold(one: Rule, panel: Panel) -> str:
    return one.fires or ", ".join(bound.words(panel.unit) for bound in one.bounds_of(panel.id))
