"""The end of an engine: what becomes of the tickets that were dispatched to it.

A ticket whose sequences have all ended loses nothing: it leaves as if its engine went on.
"""

from __future__ import annotations

from collections.abc import Collection

from headway_policies.desk.books.transitions import Phase
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode
from headway_policies.request import Reason


def give_up(lifecycle: Lifecycle, reason: Reason, now_s: float) -> None:
    """No engine follows: all that it was running is given up."""
    for record in list(lifecycle.dispatched()):
        if record.phase is Phase.RUNNING and record.sequences:
            lifecycle.abort(record, reason)
        lifecycle.engine_gone(record, now_s)


def start_over(lifecycle: Lifecycle, mode: Mode, retryable: Collection[int], now_s: float) -> None:
    """Another engine follows: what it was running waits again, the most urgent first, or is given up."""
    suspects = lifecycle.crash_suspects
    alone = suspects.crash()
    for record in sorted(lifecycle.dispatched(), key=lambda record: mode.terms(record.ticket).priority, reverse=True):
        lost = record.phase is Phase.RUNNING and record.sequences > 0
        lifecycle.engine_gone(record, now_s)
        if not lost:
            continue
        again = record.ticket.id in retryable
        if again and alone in (None, record.ticket.id) and record.crash == suspects.crashes - 1:
            lifecycle.abort(record, Reason.POISON)
        elif not again:
            lifecycle.abort(record, Reason.ENGINE_LOST)
        else:
            lifecycle.requeue(record, now_s)
