"""The invariants of the desk, written once, and an oracle that follows it by its effects alone.

The oracle never looks inside the desk: it hears the events and the effects and keeps its own books. What both must
agree on is checked after every event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headway_policies import Abort, Desk, Dispatch, Effect, Expire, Outcome, Reason, Reject, Ticket, WakeAt

EPSILON_S = 1e-9


@dataclass
class Oracle:
    """Who waits, who runs and how everybody ended, from events and effects."""

    desk: Desk
    tickets: dict[int, Ticket] = field(default_factory=dict)
    waiting: dict[int, Ticket] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    seats: Counter[int] = field(default_factory=Counter)
    ended: dict[int, str] = field(default_factory=dict)
    revisions: dict[int, int] = field(default_factory=dict)
    queue_deadline_s: dict[int, float] = field(default_factory=dict)
    total_deadline_s: dict[int, float] = field(default_factory=dict)
    wake_s: float | None = None

    def arrived(self, ticket: Ticket) -> None:
        """Before the event: promise the ticket its deadlines, from the preset in force."""
        terms = self.desk.preset.classes[ticket.class_name]
        asked_s = float("inf") if ticket.deadline_s is None else ticket.deadline_s
        total_s = ticket.arrived_s + terms.total_timeout_s
        self.total_deadline_s[ticket.id] = min(total_s, asked_s)
        self.queue_deadline_s[ticket.id] = min(ticket.arrived_s + terms.queue_timeout_s, total_s, asked_s)
        self.tickets[ticket.id] = ticket
        self.waiting[ticket.id] = ticket

    def left(self, ticket_id: int, how: str) -> None:
        """A ticket left by itself, as far as it was still here."""
        if ticket_id in self.waiting or ticket_id in self.running:
            self._end(ticket_id, how)
        self.seats.pop(ticket_id, None)

    def follow(self, effects: list[Effect], now_s: float) -> None:
        """After the event: keep the books, and check all that can be checked of each effect."""
        for effect in effects:
            match effect:
                case Dispatch(ticket_id, revision):
                    self._dispatched(ticket_id, revision, now_s)
                case Reject(ticket_id, reason, retry_after_s):
                    self._refused(ticket_id, reason, retry_after_s)
                case Expire(ticket_id, reason, retry_after_s):
                    assert now_s >= self.queue_deadline_s[ticket_id] - EPSILON_S, "expired too early"
                    self._refused(ticket_id, reason, retry_after_s)
                case Abort(ticket_id, reason):
                    if reason is Reason.TOTAL_TIMEOUT:
                        assert now_s >= self.total_deadline_s[ticket_id] - EPSILON_S, "aborted too early"
                    assert ticket_id in self.running, "aborted what was not running"
                    self._end(ticket_id, reason)
                case WakeAt(at_s):
                    assert self.wake_s is None or at_s < self.wake_s, "asked to wake later than already promised"
                    self.wake_s = at_s

    def check(self, now_s: float) -> None:
        """The invariants I1 to I7 and I12 of a desk, as formulas over its ledger and these books."""
        desk, classes = self.desk, self.desk.ledger.classes
        for name, counts in classes.items():  # I1
            assert counts.balanced, f"{name} does not balance: {counts}"
            mine = [one for one in self.tickets.values() if one.class_name == name]
            assert counts.arrived == len(mine)
            assert counts.queued == sum(one.id in self.waiting for one in mine)
            assert counts.in_flight == sum(one.id in self.running for one in mine)
            assert sum(counts.decisions.values()) == counts.arrived
        assert len(self.ended) + len(self.waiting) + len(self.running) == len(self.tickets)  # I4
        assert desk.seats_taken == sum(self.seats.values())
        for ticket_id in self.waiting:  # I7
            assert now_s < self.queue_deadline_s[ticket_id], "waits beyond its deadline"
        for ticket_id in self.running:
            assert now_s < self.total_deadline_s[ticket_id], "runs beyond its deadline"
        if self.waiting and desk.engine_up and desk.state.value == "open":  # I5
            head = self._head()
            assert desk.seats_taken + min(head.seats, desk.limit) > desk.limit, "a seat is free and somebody waits"
        if self.waiting or self.running:
            soonest_s = min(
                [self.queue_deadline_s[one] for one in self.waiting]
                + [self.total_deadline_s[one] for one in self.running]
            )
            assert self.wake_s is not None, "nobody will wake the desk for the next deadline"
            assert self.wake_s <= soonest_s + EPSILON_S, "the wake-up comes too late"

    def _head(self) -> Ticket:
        """The next in line by an ordering of its own: urgency now, then arrival."""
        preset = self.desk.preset

        def place(ticket: Ticket) -> tuple[int, float, int]:
            name = ticket.class_name if ticket.class_name in preset.classes else preset.default_class
            return (-preset.classes[name].priority, ticket.arrived_s, ticket.id)

        return min(self.waiting.values(), key=place)

    def _dispatched(self, ticket_id: int, revision: int, now_s: float) -> None:
        desk, ticket = self.desk, self.waiting[ticket_id]
        assert ticket is self._head(), "somebody jumped the queue"  # I6
        assert now_s < self.queue_deadline_s[ticket_id], "dispatched after its deadline"  # I7
        assert revision == desk.revision  # I12
        del self.waiting[ticket_id]
        self.running.add(ticket_id)
        self.revisions[ticket_id] = revision
        self.seats[ticket_id] = min(ticket.seats, desk.limit)
        assert sum(self.seats.values()) <= desk.limit, "more seats dispatched than the limit"  # I2

    def _refused(self, ticket_id: int, reason: Reason, retry_after_s: int) -> None:
        assert isinstance(retry_after_s, int)
        assert 1 <= retry_after_s <= 30
        assert ticket_id in self.waiting, "refused what did not wait"
        self._end(ticket_id, reason)

    def _end(self, ticket_id: int, how: str) -> None:
        assert ticket_id not in self.ended, "ended twice"
        self.ended[ticket_id] = how
        self.waiting.pop(ticket_id, None)
        self.running.discard(ticket_id)

    def outcomes(self) -> Counter[Outcome]:
        """The desk's outcomes over all classes."""
        total: Counter[Outcome] = Counter()
        for counts in self.desk.ledger.classes.values():
            total += counts.outcomes
        return total
