"""The text of an incident: the state of the server, to be copied into a chat or a ticket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    word = "unknown" if headline.severity is None else headline.severity.word
    lines = [
        f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S} UTC, {word}{f', {began}' if began else ''}",
        f"State: {' '.join(headline.symptoms) or headline.statement}",
    ]
    if headline.why:
        lines.append(f"Why: {headline.why}")
    if headline.remedy is not None:
        lines.append(f"Remedy: {headline.remedy.action}. Cost: {headline.remedy.cost}.")
    lines.append(f"Server: {server}")
    for row in classes:
        figures = {title: cell.text for title, cell in row.items() if not cell.text.startswith(MISSING)}
        lines.append(f"Class {figures.pop('Class')}: {', '.join(f'{title} {text}' for title, text in figures.items())}")
    lines += [f"Alert {alert.name}: {alert.text}" for alert in alerts]
    for change in changes:
        when, *rest = change.values()
        lines.append(f"Change {when} UTC: {', '.join(text for text in rest if text)}")
    if link:
        lines.append(f"Link: {link}")
    return "\n".join(lines).replace(_SPACE, " ")
