"""The live state of a desk for operators: ids, classes and times, never content."""

from __future__ import annotations

from typing import Any

from headway_policies.desk.books.ledger import ClassLedger
from headway_policies.desk.books.record import Record
from headway_policies.desk.desk import Desk
from headway_policies.request import Ticket


def dump(desk: Desk, now_s: float, most: int = 100) -> dict[str, Any]:
    """The live state: at most so many of the waiting tickets, and of those that run."""
    waiting = [_waiting(ticket, due_s, now_s) for (ticket, due_s), _ in zip(desk.waiting(), range(most), strict=False)]
    running = [_running(record, now_s) for record, _ in zip(desk.dispatched(), range(most), strict=False)]
    return {
        "now_s": round(now_s, 3),
        "waiting": waiting,
        "running": running,
        "ledger": {name: _counts(counts) for name, counts in desk.ledger.classes.items()},
    }


def _waiting(ticket: Ticket, due_s: float | None, now_s: float) -> dict[str, Any]:
    return {
        "id": ticket.id,
        "class": ticket.class_name,
        "tenant": ticket.tenant,
        "adapter": ticket.adapter,
        "seats": ticket.seats,
        "waited_s": round(now_s - ticket.arrived_s, 3),
        "expires_in_s": None if due_s is None else round(due_s - now_s, 3),
    }


def _running(record: Record, now_s: float) -> dict[str, Any]:
    return {
        "id": record.ticket.id,
        "class": record.ticket.class_name,
        "tenant": record.ticket.tenant,
        "adapter": record.ticket.adapter,
        "phase": record.phase.value,
        "seats": record.seats,
        "revision": record.revision,
        "running_s": round(now_s - record.dispatched_s, 3),
    }


def _counts(counts: ClassLedger) -> dict[str, Any]:
    return {
        "arrived": counts.arrived,
        "queued": counts.queued,
        "in_flight": counts.in_flight,
        "outcomes": {str(outcome): number for outcome, number in counts.outcomes.items()},
    }
