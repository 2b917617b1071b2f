"""Queries of the Grafana board: an expression of the catalogue, limited by the variables of the board."""

from __future__ import annotations

from functools import partial
from typing import Any

from headway_dashboard.analysis.catalogue.panels import BY_CLASS
from headway_dashboard.analysis.queries.expressions import Expression, limited
from headway_dashboard.analysis.queries.metric import Metric, with_metrics

#: Grafana's own rate window: at least four scrapes.
WINDOW = "$__rate_interval"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: The dollar of a variable would be escaped for PromQL, so that a word stands for it first.
_WORDS = {"job": "HEADWAYJOB", "instance": "HEADWAYINSTANCE", "class": "HEADWAYCLASS"}


def query(expression: Expression, legend: str, number: int) -> dict[str, Any]:
    """The target of one expression; ``number`` counts the targets of a panel from 0."""
    return {
        "refId": chr(ord("A") + number),
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": board_promql(expression),
        "legendFormat": legend,
        "range": True,
    }


def board_promql(expression: Expression) -> str:
    """PromQL for the chosen jobs and instances, and for the chosen classes where the metric knows them."""
    for label in ("job", "instance"):
        expression = with_metrics(expression, partial(Metric.only, label=label, values=(_WORDS[label],)))
    if expression.metric.name in BY_CLASS:
        expression = limited(expression, "class", (_WORDS["class"],))
    text = expression.promql(WINDOW)
    for label, word in _WORDS.items():
        text = text.replace(word, f"${label}")
    return text
