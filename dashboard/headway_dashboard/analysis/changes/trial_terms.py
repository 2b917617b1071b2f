"""The terms of a trial as an operator writes them: a time to go back after, and conditions, one a line.

The conditions are read by the parser of the server and the command line, so that what this accepts, they accept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from headway_policies.trial import Condition, ConditionError, read_condition

LEAST_S = 1.0
MOST_S = 86_400.0
MOST_CONDITIONS = 10
_MORE_REFUSED, _MOST_REFUSED = 0.1, 0.95
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms that end a trial, and a sentence for each unreadable term. Without terms a switch is for good."""

    revert_after_s: float | None = None
    revert_if: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def read_terms(after: str, conditions: str, class_names: Collection[str]) -> Terms:
    """Read both fields of the form; ``class_names`` are those of the preset that is tried, empty: not known."""
    revert_after_s, problems = _time(after)
    good, bad = _conditions(conditions, class_names or None, revert_after_s)
    return Terms(revert_after_s, tuple(good), (*problems, *bad))


def with_refusals(terms: Terms, refused_ratio: float) -> Terms:
    """The terms with a condition on refusals, where a trial has none: where all are refused no first token is late.

    The bound is some more than what is refused now; none where nearly all are refused already.
    """
    on_trial = terms.revert_after_s is not None or terms.revert_if
    if not on_trial or len(terms.revert_if) >= MOST_CONDITIONS or any("refused" in text for text in terms.revert_if):
        return terms
    bound = round(refused_ratio + _MORE_REFUSED, 2)
    if bound > _MOST_REFUSED:
        return terms
    return replace(terms, revert_if=(*terms.revert_if, str(Condition.parse(f"refused_ratio > {bound}"))))


def _time(text: str) -> tuple[float | None, tuple[str, ...]]:
    """A time such as 90, 90s, 10m or 1h in seconds; None where none is given."""
    given = text.strip().lower()
    if not given:
        return None, ()
    unit_s = _UNITS_S.get(given[-1])
    try:
        value_s = float(given if unit_s is None else given[:-1]) * (unit_s or 1.0)
    except ValueError:
        value_s = 0.0
    if not LEAST_S <= value_s <= MOST_S:
        return None, (f'Revert after: "{text.strip()[:40]}" is not a time from 1 s to 24 h, such as 90s, 10m or 1h.',)
    return value_s, ()


def _conditions(
    text: str, class_names: Collection[str] | None, revert_after_s: float | None
) -> tuple[list[str], list[str]]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    good, bad = list[str](), list[str]()
    if len(lines) > MOST_CONDITIONS:
        bad.append(f"Revert if: {len(lines)} conditions; at most {MOST_CONDITIONS} are possible.")
    for place, line in enumerate(lines[:MOST_CONDITIONS], start=1):
        try:
            good.append(str(read_condition(line, class_names, revert_after_s)))
        except ConditionError as error:
            bad.append(f"Revert if, condition {place}: {error}.")
    return good, bad
