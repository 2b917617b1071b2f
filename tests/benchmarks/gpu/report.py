"""The report: one Markdown file for people, with all figures as JSON at its end, so that one file is to be attached.

It is made of names, numbers and words of this program alone: no prompt, key, host, user or path is ever read into it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from report import table

from gpu.stages import Outcome, State

_LONG = 200  # characters of a figure that is left to the JSON
_SHORT = "This is the short form: it tries that all works, and the goals in its tables do not count."


def held(outcomes: Sequence[Outcome]) -> bool:
    """Whether every stage was run to its end, and every check held."""
    return all(outcome.held for outcome in outcomes)


def written(path: Path, machine: Mapping[str, Any], outcomes: Sequence[Outcome], *, short: bool) -> None:
    """Write the report of what is known by now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(machine, outcomes, short=short), encoding="utf-8")


def text(machine: Mapping[str, Any], outcomes: Sequence[Outcome], *, short: bool) -> str:
    """The whole report."""
    verdict = "Every check held." if held(outcomes) else "Not every check held."
    rows = [[one.title, *_ending(one)] for one in outcomes]
    parts = [
        "# Headway: a check of one machine",
        f"{verdict} {_SHORT if short else ''}".strip(),
        table(["", ""], [[name, _words(value)] for name, value in machine.items()]),
        table(["stage", "ended", "seconds", "what did not hold"], rows),
        *(part for one in outcomes if (part := _section(one))),
        _figures(machine, outcomes, short=short),
    ]
    return "\n\n".join(parts) + "\n"


def _ending(one: Outcome) -> list[str]:
    reason = f": {one.reason}" if one.reason else ""
    return [f"{one.state}{reason}", "-" if one.state is State.NOT_RUN else f"{one.took_s:g}", "; ".join(one.missed)]


def _section(one: Outcome) -> str:
    """What a stage measured: its own text, and a row for each figure that is short."""
    rows = [[name, words] for name, value in one.figures.items() if len(words := _words(value)) <= _LONG]
    found = [one.text.strip(), table(["figure", ""], rows) if rows else ""]
    body = "\n\n".join(part for part in found if part)
    return f"## {one.title}\n\n{body}" if body else ""


def _words(value: object) -> str:
    """A figure in a cell."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(_words(one) for one in value) or "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value).replace("|", "/")


def _figures(machine: Mapping[str, Any], outcomes: Sequence[Outcome], *, short: bool) -> str:
    stages = {
        one.name: {
            "state": one.state,
            "reason": one.reason,
            "took_s": one.took_s,
            "missed": one.missed,
            "figures": one.figures,
        }
        for one in outcomes
    }
    plain = json.dumps({"machine": machine, "short": short, "held": held(outcomes), "stages": stages})
    return f"<details><summary>All figures as JSON</summary>\n\n```json\n{plain}\n```\n\n</details>"
