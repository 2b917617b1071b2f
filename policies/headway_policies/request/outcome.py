"""Closed lists: the outcomes of a request, the reasons of a refusal, and the decisions on an arrival.

Every ticket ends in exactly one ``Outcome``; every refusal carries one ``Reason``.
Outcomes are the labels of ``headway_outcomes_total``, reasons those of ``headway_refusals_total``.
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The end of a ticket."""

    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED_FULL = "rejected_full"
    REJECTED_LIMIT = "rejected_limit"
    REJECTED_INVALID = "rejected_invalid"
    SHED = "shed"
    EXPIRED_QUEUED = "expired_queued"
    EXPIRED_RUNNING = "expired_running"
    CANCELLED_QUEUED = "cancelled_queued"
    CANCELLED_RUNNING = "cancelled_running"
    ENGINE_LOST = "engine_lost"
    DRAINED = "drained"

    @property
    def ran(self) -> bool:
        """Whether the request was dispatched, so that its tenant has had something of the engine."""
        return self in _RAN


_RAN = frozenset(
    {Outcome.COMPLETED, Outcome.FAILED, Outcome.EXPIRED_RUNNING, Outcome.CANCELLED_RUNNING, Outcome.ENGINE_LOST}
)


class Ending(StrEnum):
    """The end of a request that leaves by itself; the outcome follows from this and its phase."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INVALID = "invalid"


class Reason(StrEnum):
    """The reason of a refusal. Clients read it in ``x-headway-reason``."""

    QUEUE_FULL = "queue_full"
    CLASS_QUEUE_FULL = "class_queue_full"
    NO_FREE_SEAT = "no_free_seat"
    DEADLINE_INFEASIBLE = "deadline_infeasible"
    DEADLINE_UNREACHABLE = "deadline_unreachable"
    OBJECTIVE_INFEASIBLE = "objective_infeasible"
    OBJECTIVE_UNREACHABLE = "objective_unreachable"
    EVICTED = "evicted"
    QUEUE_TIMEOUT = "queue_timeout"
    FIRST_TOKEN_TIMEOUT = "first_token_timeout"  # noqa: S105 - a token of text
    STALL_TIMEOUT = "stall_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    DRAINING = "draining"
    NOT_READY = "not_ready"
    ENGINE_LOST = "engine_lost"
    OUT_OF_MEMORY = "out_of_memory"
    POISON = "poison"
    SHED = "shed"


class Decision(StrEnum):
    """The desk's decision on an arrival, one for each."""

    SEATED = "seated"
    QUEUED = "queued"
    REJECTED = "rejected"


#: The outcome that follows from a refusal.
REFUSED: dict[Reason, Outcome] = {
    Reason.QUEUE_FULL: Outcome.REJECTED_FULL,
    Reason.CLASS_QUEUE_FULL: Outcome.REJECTED_FULL,
    Reason.NO_FREE_SEAT: Outcome.REJECTED_LIMIT,
    Reason.DEADLINE_INFEASIBLE: Outcome.REJECTED_LIMIT,
    Reason.DEADLINE_UNREACHABLE: Outcome.SHED,
    Reason.OBJECTIVE_INFEASIBLE: Outcome.REJECTED_LIMIT,
    Reason.OBJECTIVE_UNREACHABLE: Outcome.SHED,
    Reason.EVICTED: Outcome.SHED,
    Reason.QUEUE_TIMEOUT: Outcome.EXPIRED_QUEUED,
    Reason.FIRST_TOKEN_TIMEOUT: Outcome.EXPIRED_RUNNING,
    Reason.STALL_TIMEOUT: Outcome.EXPIRED_RUNNING,
    Reason.TOTAL_TIMEOUT: Outcome.EXPIRED_RUNNING,
    Reason.DRAINING: Outcome.DRAINED,
    Reason.NOT_READY: Outcome.REJECTED_LIMIT,
    Reason.ENGINE_LOST: Outcome.ENGINE_LOST,
    Reason.OUT_OF_MEMORY: Outcome.ENGINE_LOST,
    Reason.POISON: Outcome.ENGINE_LOST,
    Reason.SHED: Outcome.SHED,
}

#: The outcome of a request that left by itself: (while waiting, once dispatched).
LEFT: dict[Ending, tuple[Outcome, Outcome]] = {
    Ending.COMPLETED: (Outcome.FAILED, Outcome.COMPLETED),
    Ending.FAILED: (Outcome.FAILED, Outcome.FAILED),
    Ending.CANCELLED: (Outcome.CANCELLED_QUEUED, Outcome.CANCELLED_RUNNING),
    Ending.INVALID: (Outcome.REJECTED_INVALID, Outcome.REJECTED_INVALID),
}
