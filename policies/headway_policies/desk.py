"""The desk: (event, now) -> effects.

The law of this file. The desk holds every ticket from its arrival to its one outcome and decides all that happens to
it. It reads no clock, awaits nothing and touches nothing outside itself: each event is a method that takes ``now_s``
and returns the effects its shell must carry out, in order. Times may not run backwards.

    phase        entered by                     left by
    WAITING      arrive                         dispatch, reject, expire, leave, engine_lost, drain
    RUNNING      dispatch                       leave, abort (total time-out), engine_lost
    SETTLED      abort, engine_lost             leave: the outcome is written, the engine may still hold seats

Invariants, at the end of every event:
  1. arrived == queued + in flight + sum of outcomes, for each class
  2. a ticket is dispatched only while its seats fit under the limit; a lowered limit ends nobody
  3. nothing waits beyond its class's bound and the total bound, except what a smaller preset found waiting
  4. every ticket gets exactly one outcome
  5. nothing waits while the next in line fits under the limit, unless paused, draining or without an engine
  6. nothing is dispatched at or after its deadline
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headway_policies.deadlines import Deadlines
from headway_policies.effects import Abort, Dispatch, Effect, Expire, Reject, WakeAt
from headway_policies.ledger import ClassLedger, Ledger
from headway_policies.limits import FixedLimit, Limit, Load
from headway_policies.ordering import Order, StrictOrder
from headway_policies.outcome import LEFT, REFUSED, Decision, Ending, Outcome, Reason
from headway_policies.preset import Preset
from headway_policies.shedding import DrainRate
from headway_policies.ticket import Ticket


class Phase(Enum):
    """Where a ticket stands."""

    WAITING = "waiting"
    RUNNING = "running"
    SETTLED = "settled"


class State(Enum):
    """Whether the desk lets anybody through."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"


@dataclass(slots=True)
class _Entry:
    ticket: Ticket
    total_deadline_s: float
    phase: Phase = Phase.WAITING
    seats: int = 0
    dispatched_s: float = 0.0
    first_token_s: float | None = None
    last_token_s: float | None = None
    revision: int = 0


@dataclass(slots=True)
class Desk:
    """The admission state machine of one engine. ``ceiling`` is the most seats that engine can give."""

    preset: Preset
    ceiling: int | None = None
    revision: int = 1
    state: State = State.OPEN
    engine_up: bool = True
    seats_taken: int = 0
    ledger: Ledger = field(init=False)
    _limit: Limit = field(init=False)
    _order: Order = field(init=False)
    _deadlines: Deadlines = field(default_factory=Deadlines)
    _entries: dict[int, _Entry] = field(default_factory=dict)
    _drain_rate: DrainRate = field(default_factory=DrainRate)
    _armed_s: float | None = None

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.preset.classes)
        self._install(self.preset)

    # ------------------------------------------------------------------ events of a ticket

    def arrive(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A request came. Raises ValueError for a class the preset does not have, or an id that is here already."""
        terms = self.preset.classes.get(ticket.class_name)
        if terms is None or ticket.id in self._entries:
            raise ValueError(f"ticket {ticket.id}: class {ticket.class_name!r} unknown, or id already here")
        effects = self._begin(now_s)
        entry = _Entry(ticket, terms.total_deadline_s(ticket.arrived_s, ticket.deadline_s))
        counts = self.ledger.classes[ticket.class_name]
        counts.arrived += 1
        due_s = terms.queue_deadline_s(ticket.arrived_s, ticket.deadline_s)
        refusal = self._refusal(ticket, due_s, now_s)
        if refusal is not None:
            counts.decisions[Decision.REJECTED] += 1
            self._count_refusal(counts, refusal)
            effects.append(Reject(ticket.id, refusal, self.retry_after_s(now_s)))
            return self._end(effects)
        counts.queued += 1
        self._entries[ticket.id] = entry
        self._order.push(ticket, ticket.class_name)
        self._deadlines.set(ticket.id, due_s)
        self._fill(now_s, effects)
        seated = entry.phase is not Phase.WAITING
        counts.decisions[Decision.SEATED if seated else Decision.QUEUED] += 1
        return self._end(effects)

    def reseat(self, ticket_id: int, seats: int, now_s: float) -> list[Effect]:
        """A dispatched ticket now occupies this many seats in the engine; 0 once the engine is done with it.

        A follow-up call of the same request (beam search, a tool turn) may take seats again: it was admitted already,
        so it does not queue a second time and may pass the limit for a moment.
        """
        effects = self._begin(now_s)
        entry = self._entries.get(ticket_id)
        if entry is not None and entry.phase is not Phase.WAITING:
            self._occupy(entry, seats)
            self._fill(now_s, effects)
        return self._end(effects)

    def first_token(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine produced the ticket's first token."""
        return self._progress(ticket_id, now_s, first=True)

    def token_batch(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine produced more tokens for the ticket."""
        return self._progress(ticket_id, now_s, first=False)

    def start_failed(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine did not take a dispatched ticket."""
        return self.leave(ticket_id, Ending.FAILED, now_s)

    def leave(self, ticket_id: int, ending: Ending, now_s: float) -> list[Effect]:
        """The request is over, however it ended. Every call after the first does nothing."""
        effects = self._begin(now_s)
        entry = self._entries.pop(ticket_id, None)
        if entry is not None:
            self._take_out(entry)
            if entry.phase is not Phase.SETTLED:
                waiting, dispatched = LEFT[ending]
                self._settle(entry, waiting if entry.phase is Phase.WAITING else dispatched)
            self._occupy(entry, 0)
            self._fill(now_s, effects)
        return self._end(effects)

    # ------------------------------------------------------------------ events of the whole

    def tick(self, now_s: float) -> list[Effect]:
        """Time has passed."""
        self._armed_s = None
        effects = self._begin(now_s)
        self._fill(now_s, effects)
        return self._end(effects)

    def observe(self, load: Load, now_s: float) -> list[Effect]:
        """The engine made a step."""
        effects = self._begin(now_s)
        self._limit.observe(load, now_s)
        self._fill(now_s, effects)
        return self._end(effects)

    def switch(self, preset: Preset, now_s: float) -> list[Effect]:
        """Put another preset in force. Nobody waiting is dropped, nobody running is ended.

        Who waits keeps the deadlines given on arrival, and a place by arrival; a ticket whose class the new preset
        does not know waits in its default class. Bounds apply to newcomers only.
        """
        effects = self._begin(now_s)
        waiting = sorted(self._order, key=lambda ticket: (ticket.arrived_s, ticket.id))
        self.ledger.admit_classes(preset.classes)
        self._install(preset)
        self.revision += 1
        for ticket in waiting:
            known = ticket.class_name in preset.classes
            self._order.push(ticket, ticket.class_name if known else preset.default_class)
        self._fill(now_s, effects)
        return self._end(effects)

    def pause(self, now_s: float) -> list[Effect]:
        """Let nobody through; arrivals still wait, bounded and timed."""
        self.state = State.PAUSED
        effects = self._begin(now_s)
        return self._end(effects)

    def resume(self, now_s: float) -> list[Effect]:
        """Undo pause or drain."""
        effects = self._begin(now_s)
        self.state = State.OPEN
        self._fill(now_s, effects)
        return self._end(effects)

    def drain(self, now_s: float) -> list[Effect]:
        """Refuse who comes and who waits; let the running finish."""
        self.state = State.DRAINING
        effects = self._begin(now_s)
        self._turn_away_waiting(Reason.DRAINING, now_s, effects)
        return self._end(effects)

    def engine_lost(self, now_s: float, reason: Reason = Reason.ENGINE_LOST) -> list[Effect]:
        """The engine is gone, with all it was running; ``reason`` is DRAINING when it was stopped on purpose."""
        self.engine_up = False
        effects = self._begin(now_s)
        self._turn_away_waiting(reason, now_s, effects)
        for entry in self._entries.values():
            if entry.phase is Phase.RUNNING:
                self._abort(entry, reason, effects)
            self._occupy(entry, 0)
        return self._end(effects)

    def engine_back(self, now_s: float) -> list[Effect]:
        """There is an engine again."""
        effects = self._begin(now_s)
        self.engine_up = True
        self._fill(now_s, effects)
        return self._end(effects)

    # ------------------------------------------------------------------ questions

    @property
    def limit(self) -> int:
        """Seats allowed now: what the policy says, never above what the engine can give."""
        allowed = self._limit.seats()
        return allowed if self.ceiling is None else max(1, min(allowed, self.ceiling))

    def retry_after_s(self, now_s: float) -> int:
        """Whole seconds until a refused client may hope."""
        return self._drain_rate.retry_after_s(len(self._order), now_s)

    def oldest_wait_s(self, now_s: float) -> dict[str, float]:
        """For each class, how long its longest-waiting ticket has waited; 0 where nobody waits."""
        oldest = dict.fromkeys(self.ledger.classes, 0.0)
        strangers = any(one.queued for name, one in self.ledger.classes.items() if name not in self.preset.classes)
        for ticket in self._order if strangers else self._order.oldest():
            oldest[ticket.class_name] = max(oldest[ticket.class_name], now_s - ticket.arrived_s)
        return oldest

    def dump(self, now_s: float, most: int = 100) -> dict[str, Any]:
        """The live state for an operator: ids, classes and times, never content."""
        waiting = [ticket for _, ticket in zip(range(most), self._order, strict=False)]
        running = [entry for entry in self._entries.values() if entry.phase is not Phase.WAITING][:most]
        return {
            "now_s": round(now_s, 3),
            "waiting": [self._describe_waiting(ticket, now_s) for ticket in waiting],
            "running": [_describe_running(entry, now_s) for entry in running],
            "ledger": {name: _describe_counts(one) for name, one in self.ledger.classes.items()},
        }

    # ------------------------------------------------------------------ inside

    def _install(self, preset: Preset) -> None:
        self.preset = preset
        self._limit = FixedLimit(preset.batching.seats)
        self._order = StrictOrder({name: one.priority for name, one in preset.classes.items()})

    def _begin(self, now_s: float) -> list[Effect]:
        """Before any event: let time take those it has run out for, and whoever stood behind them go."""
        effects: list[Effect] = []
        while (ticket_id := self._deadlines.pop_due(now_s)) is not None:
            entry = self._entries[ticket_id]
            if entry.phase is Phase.WAITING:
                del self._entries[ticket_id]
                self._order.remove(ticket_id)
                self._refuse(entry, Reason.QUEUE_TIMEOUT)
                effects.append(Expire(ticket_id, Reason.QUEUE_TIMEOUT, self.retry_after_s(now_s)))
            else:
                self._abort(entry, Reason.TOTAL_TIMEOUT, effects)
        if effects:
            self._fill(now_s, effects)
        return effects

    def _end(self, effects: list[Effect]) -> list[Effect]:
        """After any event: ask for a tick in time for the next deadline."""
        due_s = self._deadlines.next_s()
        if due_s is not None and (self._armed_s is None or due_s < self._armed_s):
            self._armed_s = due_s
            effects.append(WakeAt(due_s))
        return effects

    def _refusal(self, ticket: Ticket, due_s: float, now_s: float) -> Reason | None:
        if not self.engine_up:
            return Reason.ENGINE_LOST
        if self.state is State.DRAINING:
            return Reason.DRAINING
        if due_s <= now_s:
            return Reason.QUEUE_TIMEOUT
        if self._open() and not len(self._order) and self._fits(ticket):
            return None
        if len(self._order) >= self.preset.queue.max_waiting:
            return Reason.QUEUE_FULL
        if self._order.waiting(ticket.class_name) >= self.preset.classes[ticket.class_name].max_waiting:
            return Reason.CLASS_QUEUE_FULL
        return None

    def _open(self) -> bool:
        return self.state is State.OPEN and self.engine_up

    def _fits(self, ticket: Ticket) -> bool:
        return self.seats_taken + min(ticket.seats, self.limit) <= self.limit

    def _fill(self, now_s: float, effects: list[Effect]) -> None:
        while self._open() and (ticket := self._order.head()) is not None and self._fits(ticket):
            self._order.remove(ticket.id)
            entry = self._entries[ticket.id]
            counts = self.ledger.classes[ticket.class_name]
            counts.queued -= 1
            counts.in_flight += 1
            entry.phase, entry.dispatched_s, entry.revision = Phase.RUNNING, now_s, self.revision
            self._occupy(entry, min(ticket.seats, self.limit))
            self._deadlines.set(ticket.id, entry.total_deadline_s)
            self._drain_rate.departed(now_s)
            effects.append(Dispatch(ticket.id, self.revision))

    def _progress(self, ticket_id: int, now_s: float, *, first: bool) -> list[Effect]:
        effects = self._begin(now_s)
        entry = self._entries.get(ticket_id)
        if entry is not None and entry.phase is Phase.RUNNING:
            entry.last_token_s = now_s
            if first:
                entry.first_token_s = now_s
        return self._end(effects)

    def _occupy(self, entry: _Entry, seats: int) -> None:
        self.seats_taken += seats - entry.seats
        entry.seats = seats

    def _take_out(self, entry: _Entry) -> None:
        self._deadlines.drop(entry.ticket.id)
        self._order.remove(entry.ticket.id)

    def _turn_away_waiting(self, reason: Reason, now_s: float, effects: list[Effect]) -> None:
        retry_after_s = self.retry_after_s(now_s)
        for ticket in list(self._order):
            entry = self._entries.pop(ticket.id)
            self._take_out(entry)
            self._refuse(entry, reason)
            effects.append(Reject(ticket.id, reason, retry_after_s))

    def _abort(self, entry: _Entry, reason: Reason, effects: list[Effect]) -> None:
        self._refuse(entry, reason)
        self._deadlines.drop(entry.ticket.id)
        entry.phase = Phase.SETTLED
        effects.append(Abort(entry.ticket.id, reason))

    def _refuse(self, entry: _Entry, reason: Reason) -> None:
        self._settle(entry, REFUSED[reason])
        self.ledger.classes[entry.ticket.class_name].refusals[reason] += 1

    def _count_refusal(self, counts: ClassLedger, reason: Reason) -> None:
        counts.outcomes[REFUSED[reason]] += 1
        counts.refusals[reason] += 1

    def _settle(self, entry: _Entry, outcome: Outcome) -> None:
        """Write the one outcome of a ticket that was let in."""
        counts = self.ledger.classes[entry.ticket.class_name]
        if entry.phase is Phase.WAITING:
            counts.queued -= 1
        else:
            counts.in_flight -= 1
        counts.outcomes[outcome] += 1

    def _describe_waiting(self, ticket: Ticket, now_s: float) -> dict[str, Any]:
        due_s = self._deadlines.of(ticket.id)
        return {
            "id": ticket.id,
            "class": ticket.class_name,
            "tenant": ticket.tenant,
            "seats": ticket.seats,
            "waited_s": round(now_s - ticket.arrived_s, 3),
            "expires_in_s": None if due_s is None else round(due_s - now_s, 3),
        }


def _describe_running(entry: _Entry, now_s: float) -> dict[str, Any]:
    return {
        "id": entry.ticket.id,
        "class": entry.ticket.class_name,
        "tenant": entry.ticket.tenant,
        "phase": entry.phase.value,
        "seats": entry.seats,
        "revision": entry.revision,
        "running_s": round(now_s - entry.dispatched_s, 3),
    }


def _describe_counts(counts: ClassLedger) -> dict[str, Any]:
    return {
        "arrived": counts.arrived,
        "queued": counts.queued,
        "in_flight": counts.in_flight,
        "outcomes": {str(outcome): number for outcome, number in counts.outcomes.items()},
    }
