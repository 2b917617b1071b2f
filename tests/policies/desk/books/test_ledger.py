"""The ledger's counts, and a copy of it."""

from __future__ import annotations

from collections import Counter

from headway_policies import Decision, Outcome, Reason
from headway_policies.desk.books.ledger import ClassLedger


def test_a_copy_has_every_count_and_a_life_of_its_own() -> None:
    """A later event shows in one of the two only."""
    counts = ClassLedger(
        10, 2, 3, Counter({Outcome.COMPLETED: 4}), Counter({Decision.SEATED: 5}), Counter({Reason.SHED: 1}), 7
    )
    copy = counts.copy()
    assert copy == counts
    counts.dispatched()
    counts.ended(Outcome.COMPLETED, waiting=False)
    counts.refused(Reason.SHED, waiting=True)
    counts.decisions[Decision.QUEUED] += 1
    assert (copy.arrived, copy.queued, copy.in_flight, copy.retries) == (10, 2, 3, 7)
    assert (copy.outcomes, copy.decisions) == ({Outcome.COMPLETED: 4}, {Decision.SEATED: 5})
    assert copy.refusals == {Reason.SHED: 1}


def test_refusals_are_counted_by_reason() -> None:
    """Each one, beside its outcome."""
    counts = ClassLedger(arrived=3, queued=3)
    for reason in (Reason.QUEUE_FULL, Reason.QUEUE_FULL, Reason.SHED):
        counts.refused(reason, waiting=True)
    assert counts.refusals == {Reason.QUEUE_FULL: 2, Reason.SHED: 1}
    assert counts.balanced
