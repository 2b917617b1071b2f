"""The rows of an answer: the sums of a query, with their costs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headway_policies.usage.prices import Prices
from headway_policies.usage.record import Figures


class Row(NamedTuple):
    """The figures of one group. ``start_s`` None: of the whole range. ``cost`` None: some costs are unknown."""

    start_s: int | None
    group: tuple[str, ...]
    figures: Figures
    cost: float | None = None


class Priced(NamedTuple):
    """The figures of a part of a row, all of one class, model and adapter."""

    start_s: int | None
    group: tuple[str, ...]
    class_name: str
    model: str
    adapter: str
    figures: Figures


def costed(parts: Iterable[Priced], prices: Prices | None) -> list[Row]:
    """The rows of sums that are told apart by class, model and adapter as well, which prices depend on.

    By time, and those with the most tokens first.
    """
    rows: dict[tuple[int | None, tuple[str, ...]], Row] = {}
    for start_s, group, class_name, model, adapter, figures in parts:
        cost = None if prices is None else prices.cost(
            class_name, model, adapter, prompt_tokens=figures.prompt_tokens, cached_tokens=figures.cached_tokens,
            output_tokens=figures.output_tokens,
        )  # fmt: skip
        free = not class_name or not figures.prompt_tokens + figures.output_tokens  # the server's own requests
        if prices is not None and free:
            cost = 0.0
        before = rows.get((start_s, group))
        if before is not None:
            cost = None if cost is None or before.cost is None else before.cost + cost
            figures = before.figures.plus(figures)
        rows[start_s, group] = Row(start_s, group, figures, cost)
    return sorted(rows.values(), key=_order)


def _order(row: Row) -> tuple[int, int, tuple[str, ...]]:
    return row.start_s or 0, -row.figures.prompt_tokens - row.figures.output_tokens, row.group
