"""What limits the server now, and what would help? One sentence with its evidence.

The rules are tried in order; the first that holds speaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_dashboard.units import compact, duration, written

ERRORS_WORTH_A_WORD = 0.01
KV_FULL = 0.95
AT_LIMIT = 0.9
FAR_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class Facts:
    """The newest points the verdict rests on; None for what was not measured."""

    batch: float | None = None
    seats_taken: float | None = None
    limit: float | None = None
    queued: float | None = None
    oldest_wait_s: float | None = None
    kv_ratio: float | None = None
    error_share: float | None = None
    main_cause: str = ""
    ttft_p95_s: float | None = None


def verdict(facts: Facts) -> str:
    """The sentence for a server that is live."""
    queued = facts.queued or 0
    if facts.error_share is not None and facts.error_share >= ERRORS_WORTH_A_WORD:
        cause = f", most of them: {facts.main_cause}" if facts.main_cause else ""
        return f"{written(facts.error_share, 'ratio')} of requests end without an answer{cause}. {_load(facts)}"
    if facts.kv_ratio is not None and facts.kv_ratio >= KV_FULL:
        return (
            f"Limited by memory: the KV cache is {written(facts.kv_ratio, 'ratio')} full"
            f"{_waiting(facts)}. More seats will not help."
        )
    if facts.limit is None or _used(facts) is None:
        return "Batch size and limit are not measured here."
    if _used_share(facts) >= AT_LIMIT:
        if queued >= 1:
            return f"Limited by seats: {_load(facts)} A preset with more seats, or another server, would help."
        return f"Full but not late: {_load(facts)} The limit fits the traffic."
    if queued >= 1:
        return f"Requests wait although seats are free: {_load(facts)}"
    room = "Plenty of room" if _used_share(facts) < FAR_BELOW else "Room to spare"
    first = f" First tokens within {duration(facts.ttft_p95_s)} (p95)." if facts.ttft_p95_s is not None else ""
    return f"{room}: {_load(facts)}{first}"


def _used(facts: Facts) -> float | None:
    return facts.seats_taken if facts.seats_taken is not None else facts.batch


def _used_share(facts: Facts) -> float:
    used = _used(facts)
    return used / facts.limit if used is not None and facts.limit else 0.0


def _load(facts: Facts) -> str:
    used = _used(facts)
    if used is None or facts.limit is None:
        return f"{compact(facts.queued)} wait." if facts.queued else "Nobody waits."
    return f"{compact(used)} of {compact(facts.limit)} seats taken{_waiting(facts) or ', nobody waits'}."


def _waiting(facts: Facts) -> str:
    if not facts.queued:
        return ""
    oldest = f", the oldest for {duration(facts.oldest_wait_s)}" if facts.oldest_wait_s else ""
    return f", {compact(facts.queued)} waiting{oldest}"
