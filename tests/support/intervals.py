"""Steps and intervals as inputs of a limit."""

from __future__ import annotations

from dataclasses import replace

from headway_policies import Load, Signals
from headway_policies.limits.limit import Interval, Limit

FAIR = Interval(running=16, seats_taken=16, prefill_tokens=16, kv_usage_ratio=0.3, inter_token_s=0.04, limited=True)


def interval(seats: float = 16, inter_token_s: float | None = 0.04, **changes: object) -> Interval:
    """A fair interval of so many seats, all running, but for what is named."""
    return replace(FAIR, running=seats, seats_taken=seats, inter_token_s=inter_token_s, **changes)  # type: ignore[arg-type]  # as named


def signals(
    seats: int, inter_token_s: float | None = 0.04, *, limited: bool = True, next_seats: int = 1, **load: float
) -> Signals:
    """A fair step of so many seats, all running, but for what is named."""
    usual: dict[str, float] = {"waiting": 0, "kv_usage_ratio": 0.3, "prefill_tokens": 16}
    engine = Load(seats, inter_token_s=inter_token_s, **(usual | load))  # type: ignore[arg-type]  # as named
    return Signals(engine, seats, 1000, limited, next_seats=next_seats)


def show(limit: Limit, step: Signals, from_s: float, for_s: float) -> None:
    """The same step ten times a second."""
    for number in range(round(10 * for_s)):
        limit.observe(step, from_s + number / 10)
