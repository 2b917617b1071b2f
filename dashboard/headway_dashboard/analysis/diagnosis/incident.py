"""What to tell others: the state of the server in plain text, made to be copied into a chat or a ticket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from headway_dashboard.analysis.diagnosis.alerts import Alert
from headway_dashboard.analysis.diagnosis.headline import Headline
from headway_dashboard.analysis.server.class_states import Cell
from headway_dashboard.analysis.units import MISSING

_SPACE = "\u00a0"  # which keeps a number and its unit on one line of a page


def incident_text(
    headline: Headline,
    began: str,
    server: str,
    classes: Sequence[Mapping[str, Cell]],
    alerts: Sequence[Alert],
    changes: Sequence[Mapping[str, str]],
    link: str,
    now_s: float,
) -> str:
    """Times, the diagnosis, each class with its numbers, alerts, and changes; ``began`` is since when it lasts."""
    return "\n".join(_lines(headline, began, server, classes, alerts, changes, link, now_s)).replace(_SPACE, " ")


def _lines(
    headline: Headline,
    began: str,
    server: str,
    classes: Sequence[Mapping[str, Cell]],
    alerts: Sequence[Alert],
    changes: Sequence[Mapping[str, str]],
    link: str,
    now_s: float,
) -> Iterator[str]:
    word = "unknown" if headline.severity is None else headline.severity.word
    yield f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S} UTC, {word}{f', {began}' if began else ''}"
    yield f"What: {' '.join(headline.symptoms) or headline.statement}"
    if headline.why:
        yield f"Why: {headline.why}"
    if headline.remedy is not None:
        yield f"What would help: {headline.remedy.action}. Cost: {headline.remedy.cost}."
    yield f"Server: {server}"
    for row in classes:
        figures = {title: cell.text for title, cell in row.items() if not cell.text.startswith(MISSING)}
        yield f"Class {figures.pop('Class')}: {', '.join(f'{title} {text}' for title, text in figures.items())}"
    for alert in alerts:
        yield f"Alert {alert.name}: {alert.text}"
    for change in changes:
        when, *rest = change.values()
        yield f"Change {when} UTC: {', '.join(text for text in rest if text)}"
    if link:
        yield f"Link: {link}"
