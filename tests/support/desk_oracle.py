"""The invariants of the desk, written once, and an oracle that follows it by its effects alone.

The oracle never reads the desk: it gets the events and the effects and keeps its own records. What both must
agree on is checked after every event. The invariants hold under every preset; the order is checked exactly where the
preset fixes it, and as far as its stated rule goes elsewhere (``desk_rules``); so are objectives
(``desk_objectives``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from desk_objectives import ObjectiveRules, Sent
from desk_refusals import EPSILON_S, check_abort, check_refusal
from desk_rules import Rules, Sitting, shortest

from headway_policies import (
    Abort,
    Desk,
    Dispatch,
    Effect,
    Expire,
    Reason,
    Recall,
    Reject,
    Requeue,
    Ticket,
    Timeouts,
    WakeAt,
)


@dataclass
class Oracle:
    """Waiting requests, running requests and all outcomes, from events and effects."""

    desk: Desk
    rules: Rules = field(init=False)
    objectives: ObjectiveRules = field(init=False)
    tickets: dict[int, Ticket] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    ended: dict[int, str] = field(default_factory=dict)
    revisions: dict[int, int] = field(default_factory=dict)
    promised: dict[int, Timeouts] = field(default_factory=dict)
    token_s: dict[int, float] = field(default_factory=dict)
    suspects: dict[int, int] = field(default_factory=dict)
    alone: tuple[int, float] | None = None
    crashes: int = 0
    retryable: set[int] = field(default_factory=set)
    recalled: set[int] = field(default_factory=set)
    made_room: bool = False
    unharmed: set[int] = field(default_factory=set)
    harmed: set[int] = field(default_factory=set)
    to_blame: int | None = None
    was_running_at: dict[int, int] = field(default_factory=dict)
    wake_s: float | None = None
    arrival: Ticket | None = None
    giving: tuple[int, str] | None = None
    _revision: int = 1

    def __post_init__(self) -> None:
        self.rules = Rules(self.desk.preset, held=self.desk.read(0.0).reserved_seats)
        self.objectives = ObjectiveRules(
            self.desk, self.rules, self.tickets, self.suspects, self.was_running_at, self.recalled
        )

    @property
    def waiting(self) -> dict[int, Ticket]:
        """The waiting tickets."""
        return self.rules.waiting

    # ------------------------------------------------------------------ events

    def arrived(self, ticket: Ticket) -> None:
        """Before the event: the deadlines of the ticket, from the preset in force."""
        terms = self.desk.preset.classes[ticket.class_name].timeouts()
        self.promised[ticket.id] = Timeouts(
            *(
                shortest(getattr(terms, stage), getattr(ticket.asked, stage))
                for stage in ("queue_s", "first_token_s", "stall_s", "total_s")
            )
        )
        self.tickets[ticket.id] = self.arrival = ticket

    def left(self, ticket_id: int, how: str, sequences: int = 0) -> None:
        """A ticket was cancelled, as far as it was still here; the engine still has so many sequences of it."""
        if ticket_id in self.waiting or ticket_id in self.running:
            self._end(ticket_id, how)
        one = self.rules.sitting.get(ticket_id)
        if one is not None and not one.left:
            one.has(min(sequences, one.sequences))
            one.left = True
            self._forget_gone()

    def token(self, ticket_id: int, now_s: float) -> None:
        """The engine produced tokens for a ticket."""
        if ticket_id in self.running:
            if ticket_id not in self.token_s:
                self.objectives.first_tokens[self.tickets[ticket_id].class_name] += 1
            self.token_s[ticket_id] = now_s

    def reseated(self, ticket_id: int, seats: int, now_s: float) -> None:
        """The engine reports how many seats a ticket holds; it owes no token without any."""
        one = self.rules.sitting.get(ticket_id)
        if one is not None and ticket_id not in self.running:
            one.has(min(seats, one.sequences))  # it is settled: nothing anew
            self._forget_gone()
        elif one is not None:
            if seats and not one.seats and ticket_id in self.token_s:
                self.token_s[ticket_id] = now_s
            one.has(seats)
        if one is not None and not seats:
            self._innocent(ticket_id)

    def _forget_gone(self) -> None:
        """Nothing is kept of an ended ticket once the engine has no sequence of it."""
        sitting = self.rules.sitting
        for ticket_id in [ticket_id for ticket_id, one in sitting.items() if one.left and not one.sequences]:
            del sitting[ticket_id]

    def follow(self, effects: list[Effect], now_s: float) -> None:
        """After the event: update the records, and check all that can be checked of each effect."""
        rules, before = self.rules, self.rules.sums()
        if rules.order_changes(self.desk.preset):
            rules.relegated.clear()
        rules.preset, rules.limit, rules.held = self.desk.preset, self.desk.limit, self.desk.read(now_s).reserved_seats
        rules.ceiling = self.desk.ceiling
        rules.check_held()
        self.objectives.note_lateness(now_s)
        dispatched_before = len(self.objectives.dispatches)
        arrival = self.arrival
        if arrival is not None:
            self._takes_place(arrival, effects)
        gathered = dict(rules.waiting)
        self._clear(now_s)
        for effect in effects:
            match effect:
                case Dispatch(ticket_id, revision, batch):
                    self._dispatched(ticket_id, revision, batch, now_s, gathered)
                case Reject(ticket_id, reason, retry_after_s):
                    check_refusal(self, ticket_id, reason, now_s)
                    self._refused(ticket_id, reason, retry_after_s)
                case Expire(ticket_id, reason, retry_after_s):
                    assert now_s >= self.queue_due_s(ticket_id) - EPSILON_S, "expired too early"
                    self._refused(ticket_id, reason, retry_after_s)
                    gathered.pop(ticket_id, None)
                case Abort(ticket_id, reason):
                    assert ticket_id not in self.unharmed, "given up for an engine that had nothing of it"
                    check_abort(self, ticket_id, reason, now_s)
                    self._end(ticket_id, reason)
                case Recall(ticket_id):
                    self._made_room(ticket_id)
                    before = {}
                case Requeue(ticket_id):
                    assert ticket_id not in self.unharmed, "queued again for an engine that had nothing of it"
                    self._recalled(ticket_id)
                    before = {}
                case WakeAt(at_s):
                    assert self.wake_s is None or at_s < self.wake_s, "asked to wake later than already promised"
                    self.wake_s = at_s
        self._clear(now_s)
        self.objectives.check_refusals(effects, self.objectives.dispatches[dispatched_before:], now_s)
        self._check_growth(before if self._revision == self.desk.mode.revision else {})
        assert not self.harmed & self.running, "runs on in an engine that is gone"
        self.unharmed, self.harmed = set(), set()
        self.arrival, self._revision = None, self.desk.mode.revision

    # ------------------------------------------------------------------ deadlines

    def queue_due_s(self, ticket_id: int) -> float:
        """When a waiting ticket has waited too long."""
        own = self.promised[ticket_id]
        queue_s = None if ticket_id in self.was_running_at else own.queue_s
        return self.tickets[ticket_id].arrived_s + shortest(queue_s, own.first_token_s, own.total_s)

    def run_due_s(self, ticket_id: int) -> dict[Reason, float]:
        """When a running ticket has run too long, time-out by time-out."""
        own, arrived_s = self.promised[ticket_id], self.tickets[ticket_id].arrived_s
        dues_s = {Reason.TOTAL_TIMEOUT: arrived_s + shortest(own.total_s)}
        if ticket_id not in self.token_s:
            dues_s[Reason.FIRST_TOKEN_TIMEOUT] = arrived_s + shortest(own.first_token_s)
        elif self.rules.sitting[ticket_id].seats:
            dues_s[Reason.STALL_TIMEOUT] = self.token_s[ticket_id] + shortest(own.stall_s)
        return dues_s

    def soonest_s(self) -> float:
        """The next moment at which a deadline expires or a batch has to be dispatched."""
        dues_s = [self.queue_due_s(one) for one in self.waiting]
        dues_s += [due_s for one in self.running for due_s in self.run_due_s(one).values()]
        if self.is_open() and self.rules.gathers and not self.rules.taken():
            dues_s.append(self.rules.batch_due_s())
        if self.alone is not None:
            dues_s.append(self.alone[1])
        if self.desk._capacity.paced and self.waiting and self.is_open() and not self.suspects:
            dues_s.append(self._paced_until_s())
        return min(dues_s, default=inf)

    # ------------------------------------------------------------------ invariants

    def check(self, now_s: float) -> None:
        """The invariants I1 to I7 and I12 of a desk, as formulas over its ledger and these records."""
        desk, reading = self.desk, self.desk.read(now_s)
        for name, counts in desk.ledger.classes.items():  # I1
            assert counts.balanced, f"{name} does not balance: {counts}"
            mine = [one.id for one in self.tickets.values() if one.class_name == name]
            assert counts.arrived == len(mine) == sum(counts.decisions.values())
            assert counts.queued == sum(one in self.waiting for one in mine)
            assert counts.in_flight == sum(one in self.running for one in mine)
        assert len(self.ended) + len(self.waiting) + len(self.running) == len(self.tickets)  # I4
        assert desk.seats_taken == self.rules.taken()
        assert desk.sequences == sum(one.sequences for one in self.rules.sitting.values())
        assert {one.id for one, _ in desk.waiting()} == set(self.waiting), "waits, but not in the order in force"
        sums = self.rules.sums()[""]
        assert (reading.waiting_tokens, reading.waiting_bytes) == sums[1:]
        assert all(now_s < self.queue_due_s(one) for one in self.waiting), "waits beyond its deadline"  # I7
        assert all(now_s < min(self.run_due_s(one).values()) for one in self.running), "runs beyond its deadline"
        assert not self._could_go(now_s), "a ticket waits that could be dispatched"  # I5
        soonest_s = self.soonest_s()
        if soonest_s < inf:
            assert self.wake_s is not None, "no timer is set for the next deadline"
            assert self.wake_s <= soonest_s + EPSILON_S, "the wake-up comes too late"

    def is_open(self) -> bool:
        """Whether the engine is up and dispatch is neither paused nor drained."""
        return self.desk.mode.engine_up and self.desk.mode.state.value == "open"

    def _could_go(self, now_s: float) -> bool:
        """Whether the next ticket would fit, and its batch would have to be dispatched."""
        rules = self.rules
        rules.limit = self.desk.limit
        self.objectives.note_lateness(now_s)
        next_ones = rules.may_be_next()
        if not self.is_open() or not next_ones:
            return False
        if self.suspects:
            first = next(iter(self.suspects))
            return self.alone is None and rules.fits(self.tickets[first])
        if rules.gathers:
            return not rules.taken() and rules.must_leave(now_s)
        if self._paced(now_s):
            return False
        passing = any(rules.may_pass(one, head) for head in next_ones for one in rules.waiting.values())
        return all(rules.fits(one) for one in next_ones) or (passing and len(next_ones) == 1)

    def _paced(self, now_s: float) -> bool:
        """Whether free seats stay empty for the pace: where a preset paces, beside others, while the engine reports."""
        if not self.desk._capacity.paced:
            return False
        assert self.desk.preset.limit.paces, "paced by a preset that paces nothing"
        assert self.rules.taken() >= self.desk.preset.limit.min_seats, "the pace keeps an idle engine empty"
        assert now_s < self._paced_until_s(), "paced by an engine that reports nothing"
        return True

    def _paced_until_s(self) -> float:
        return self.objectives.stepped_s + self.desk.preset.limit.stale_after_s

    def _in_turn(self, ticket: Ticket) -> bool:
        rules, next_ones = self.rules, self.rules.may_be_next()
        if ticket in next_ones or any(rules.may_pass(ticket, head) for head in next_ones):
            return True
        if rules.may_be_beyond(ticket) or rules.may_be_owed(ticket):
            return True
        return self.desk._capacity.paced and rules.may_overdraw(ticket)

    def _check_growth(self, before: dict[str, tuple[int, int, int]]) -> None:
        """I3: no bound is passed, but for what a smaller preset found waiting, and that never grows."""
        for line, now in self.rules.sums().items():
            was = before.get(line, now)
            for have, had, bound in zip(now, was, self.rules.bounds(line), strict=True):
                assert have <= max(had, bound), f"more wait in {line or 'all'} than may"

    # ------------------------------------------------------------------ effects

    def _takes_place(self, arrival: Ticket, effects: list[Effect]) -> None:
        """A new ticket waits from its arrival on, unless it is refused before it could."""
        for_another = (Reason.EVICTED, Reason.QUEUE_FULL, Reason.CLASS_QUEUE_FULL)
        given = [one for one in effects if isinstance(one, Reject) and one.ticket_id != arrival.id]
        evicting = any(one.reason in for_another for one in given)
        refused = [one for one in effects if isinstance(one, Reject) and one.ticket_id == arrival.id]
        assert not (evicting and refused), "a ticket was evicted for an arrival that was refused all the same"
        if not any(self.rules.line(one) == arrival.class_name for one in self.waiting.values()):
            self.objectives.is_short(arrival, arrival.arrived_s)
        self.waiting[arrival.id] = arrival

    def _dispatched(self, ticket_id: int, revision: int, batch: int, now_s: float, gathered: dict[int, Ticket]) -> None:
        rules, ticket = self.rules, self.waiting[ticket_id]
        assert now_s < self.queue_due_s(ticket_id), "dispatched after its deadline"  # I7
        assert self._revision <= revision <= self.desk.mode.revision  # I12
        assert self.is_open(), "dispatched by a desk that is closed"
        if self.suspects:
            assert ticket_id in self.suspects, "a ticket was dispatched before all suspects were cleared"
            assert self.alone is None, "two suspects at a time"
            assert rules.fits(ticket), "a suspect goes beyond the limit"
            self.alone = ticket_id, now_s + self.desk.preset.recovery.probation_s
            self._seat(ticket, revision, batch, now_s)
            return
        takes_room, self.made_room = self.made_room, False  # the seats of another one, which was recalled for it
        assert takes_room or self._in_turn(ticket), "a ticket was dispatched out of turn"  # I6
        in_limit = takes_room or rules.fits(ticket) or rules.may_be_beyond(ticket) or rules.may_be_owed(ticket)
        assert in_limit, "dispatched beyond the limit, a reserve or the token budget"  # I2
        rules.passes_late(ticket)
        line = rules.line(ticket)
        oldest_s = min(one.arrived_s for one in self.waiting.values() if rules.line(one) == line)
        if now_s - oldest_s <= self.objectives.target_s(ticket) / 2:
            self.objectives.is_short(ticket, now_s)
        opens = all(one.batch != batch for one in rules.sitting.values())
        if rules.gathers:
            assert all(one.batch == batch for one in rules.sitting.values() if one.seats), "a batch before the last end"
            waiting, rules.waiting = rules.waiting, gathered
            assert not opens or rules.may_leave(now_s), "a batch was dispatched before its time"
            rules.waiting = waiting
        self._seat(ticket, revision, batch, now_s)

    def _seat(self, ticket: Ticket, revision: int, batch: int, now_s: float) -> None:
        rules, seats = self.rules, self.rules.wanted(ticket)
        if not rules.taken() and self.objectives.stepped_s > -inf:
            self.objectives.stepped_s = now_s  # an idle engine reports nothing; from now on it is expected to
        line = rules.line(ticket)
        self.objectives.dispatches.append(Sent(now_s, line, rules.oldest_s(line)))
        del self.waiting[ticket.id]
        rules.relegated.discard(ticket.id)
        self.running.add(ticket.id)
        self.revisions[ticket.id] = revision
        rules.sitting[ticket.id] = Sitting(ticket, rules.line(ticket), seats, seats, batch, ticket.seats)

    def _recalled(self, ticket_id: int) -> None:
        """It ran when the engine died, had sent no output, and had not been running at the crash before."""
        assert ticket_id in self.running, "recalled what was not running"
        assert ticket_id in self.retryable, "would be sent twice although something was shown"
        if self.to_blame in (None, ticket_id):
            assert self.was_running_at.get(ticket_id) != self.crashes - 1, "sent a third time"
        self.running.discard(ticket_id)
        self.token_s.pop(ticket_id, None)
        self.rules.sitting.pop(ticket_id)
        self.waiting[ticket_id] = self.tickets[ticket_id]
        self.rules.relegated.discard(ticket_id)
        self.was_running_at[ticket_id] = self.suspects[ticket_id] = self.crashes

    def _made_room(self, ticket_id: int) -> None:
        """It ran, has sent no token, has never made room before, and a more urgent ticket takes its seats."""
        ticket = self.tickets[ticket_id]
        assert ticket_id in self.running, "recalled what was not running"
        assert ticket_id not in self.token_s, "recalled what had sent a token"
        assert ticket_id not in self.recalled, "recalled a second time"
        classes = self.desk.preset.classes
        urgency = classes[self.rules.line(ticket)].priority
        above = [one for one in self.waiting.values() if classes[self.rules.line(one)].priority > urgency]
        assert above, "recalled for no more urgent ticket"
        self.recalled.add(ticket_id)
        self.running.discard(ticket_id)
        self.rules.sitting.pop(ticket_id)
        self.waiting[ticket_id] = ticket
        self.made_room = True

    def _clear(self, now_s: float) -> None:
        """A ticket that has run alone for long enough is cleared."""
        if self.alone is not None and now_s >= self.alone[1]:
            self._innocent(self.alone[0])

    def _innocent(self, ticket_id: int) -> None:
        self.suspects.pop(ticket_id, None)
        if self.alone is not None and self.alone[0] == ticket_id:
            self.alone = None

    def _refused(self, ticket_id: int, reason: Reason, retry_after_s: int) -> None:
        assert isinstance(retry_after_s, int)
        assert 1 <= retry_after_s <= 30  # I8
        assert ticket_id in self.waiting, "refused what did not wait"
        self._end(ticket_id, reason)

    def _end(self, ticket_id: int, how: str) -> None:
        assert ticket_id not in self.ended, "ended twice"
        self.ended[ticket_id] = how
        self._innocent(ticket_id)
        self.waiting.pop(ticket_id, None)
        self.running.discard(ticket_id)

    def engine_restarting(self, retryable: set[int]) -> None:
        """Before the event: the engine died, and these tickets had sent no output."""
        self.crashes += 1
        self.to_blame = None if self.alone is None else self.alone[0]
        self.alone = None
        self.retryable = retryable
        self.engine_lost()

    def engine_lost(self) -> None:
        """Before the event: all sequences in the engine are lost with it; a request without any loses nothing."""
        sitting = self.rules.sitting
        self.unharmed = {one for one in self.running if not sitting[one].sequences}
        self.harmed = self.running - self.unharmed
        for one in sitting.values():
            one.has(0)
        self._forget_gone()
