"""The balance of the servers now, and the distance of the worst from all together, in sentences."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import fleet_panels, panels
from headway_dashboard.analysis.queries.expressions import Expression, Imbalance
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import compact, written

_FIRST_TOKEN = by_instance(panels.TTFT[0.95])
_SPREAD: tuple[tuple[str, Imbalance], ...] = (
    ("Occupied seats", fleet_panels.SEATS_IMBALANCE),
    ("Waiting requests", fleet_panels.WAITING_IMBALANCE),
)
EXPRESSIONS: tuple[Expression, ...] = (
    *(figure for _, figure in _SPREAD),
    *(by_instance(figure.of) for _, figure in _SPREAD),
    panels.TTFT[0.95],
    _FIRST_TOKEN,
)


def imbalance_words(newest: SourceReading) -> list[str]:
    """The sentences of each quantity: its imbalance now, and the server that has most of it."""
    found = []
    for title, expression in _SPREAD:
        value = newest[expression].latest()
        most = _largest(newest, by_instance(expression.of))
        if value is None or most is None:
            found.append(f"{title}: no server has {expression.least:g} or more, so that no imbalance is computed.")
        else:
            name, number = most
            found.append(f"{title}: imbalance {value:.2f}; most on {name} ({compact(number)}).")
    return found


def worst_words(newest: SourceReading) -> str:
    """The merged p95 of the first token beside that of the worst server; empty where there were no first tokens."""
    merged, worst = newest[panels.TTFT[0.95]].latest(), _largest(newest, _FIRST_TOKEN)
    if merged is None or worst is None:
        return ""
    name, value_s = worst
    return f"First token, p95: {written(merged, 'seconds')} of all, {written(value_s, 'seconds')} on {name}, the worst."


def _largest(newest: SourceReading, each: Expression) -> tuple[str, float] | None:
    """The server with the largest value, and that value."""
    values = {labels[0]: value for labels in newest[each].lines if (value := newest[each].latest(*labels)) is not None}
    return max(values.items(), key=lambda item: item[1], default=None)
