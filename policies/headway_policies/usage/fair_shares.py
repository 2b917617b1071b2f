"""Max-min fair shares of tenants, and how equal the parts are that tenants got of these shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def max_min(wanted: Mapping[str, float], whole: float, weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """The whole, given out in proportion to the weights, or in equal parts, to no tenant more than it wanted
    (Bertsekas and Gallager, Data Networks, 6.5.2).
    """
    of = dict.fromkeys(wanted, 1.0) if weights is None else weights
    given, left, weight = dict.fromkeys(wanted, 0.0), whole, sum(of[name] for name in wanted)
    for name in sorted(wanted, key=lambda name: wanted[name] / of[name]):
        given[name] = min(wanted[name], left * of[name] / weight)
        left, weight = left - given[name], weight - of[name]
    return given


def jain(parts: Sequence[float]) -> float:
    """Jain's index, (sum x)^2 / (n * sum x^2): 1 where all are equal or none has anything, 1/n where one has all
    (Jain, Chiu and Hawe, 1984).
    """
    squares = sum(part * part for part in parts)
    return sum(parts) ** 2 / (len(parts) * squares) if squares else 1.0
