"""Exactness of the limit: a hundred clients try many times each for ten seats."""

from __future__ import annotations

from random import Random

from small_presets import small_preset, terms
from tiers import LONG

from headway_policies import Desk, Dispatch, Ending, Ticket

CLIENTS, TRIES, SEATS = 100, 1_000 if LONG else 100, 10


def test_many_tries_never_pass_the_limit_and_all_are_counted() -> None:
    """Never more than ten at once, and seated plus refused are exactly as many as tried."""
    desk = Desk(small_preset(SEATS, classes={"normal": terms(1, queue_s=None, total_s=None)}))
    random, running = Random(7), list[int]()
    seated = refused = 0
    for number in range(CLIENTS * TRIES):
        while running and random.random() < 0.3:
            desk.leave(running.pop(random.randrange(len(running))), Ending.COMPLETED, float(number))
        effects = desk.arrive(Ticket(number, "normal", float(number), may_wait=False), float(number))
        if any(isinstance(one, Dispatch) for one in effects):
            running.append(number)
            seated += 1
        else:
            refused += 1
        assert len(running) == desk.seats_taken <= SEATS
    counts = desk.ledger.classes["normal"]
    assert seated + refused == counts.arrived == CLIENTS * TRIES
    assert (counts.in_flight, counts.queued, counts.balanced) == (len(running), 0, True)
    assert sum(counts.outcomes.values()) == CLIENTS * TRIES - len(running)
    assert refused > 0
