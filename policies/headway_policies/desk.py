"""The desk: (event, now) -> effects.

The law of this file. The desk holds every ticket from its arrival to its one outcome and decides all that happens to
it. It reads no clock, awaits nothing and touches nothing outside itself: each event is a method that takes ``now_s``
and returns the effects its shell must carry out, in order. Times may not run backwards.

    phase        entered by                     left by
    WAITING      arrive, engine_restarting      dispatch, reject, expire, leave, engine_lost, drain
    RUNNING      dispatch                       leave, abort (a time-out), engine_restarting, engine_lost
    SETTLED      abort, engine_lost             leave: the outcome is written, the engine may still hold seats

Invariants, at the end of every event:
  1. arrived == queued + in flight + sum of outcomes, for each class
  2. a ticket is dispatched only while its seats fit under the limit; a lowered limit ends nobody
  3. nothing waits beyond the bounds of its class and of all, except what a smaller preset found waiting
  4. every ticket gets exactly one outcome
  5. nothing waits while the next in line fits and its batch may leave, unless paused, draining or without an engine,
     or while those run alone whom a crash has made suspect
  6. nothing is dispatched at or after its deadline

When very many deadlines come at once, an event settles a slice of them and asks to be woken again at once; invariants
3 and 5 hold after the last slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum

from headway_policies.admission import Admission
from headway_policies.classes import PriorityClass
from headway_policies.deadlines import Deadlines
from headway_policies.degrading import capped_tokens, pauses, sheds
from headway_policies.effects import Abort, Degrade, Dispatch, Effect, Expire, Recall, Reject, WakeAt
from headway_policies.entry import Entry, Phase
from headway_policies.fallback import Rung
from headway_policies.floor import Floor
from headway_policies.forecast import Forecast
from headway_policies.governor import make_limit
from headway_policies.ledger import Ledger
from headway_policies.limits import FixedLimit, Limit, Load, Signals
from headway_policies.opening import Cautious, Opening
from headway_policies.outcome import LEFT, Decision, Ending, Reason
from headway_policies.prediction import Accuracy
from headway_policies.preset import Preset
from headway_policies.quarantine import Quarantine
from headway_policies.standing import Standing
from headway_policies.ticket import Ticket, Timeouts, Usage, shorter
from headway_policies.waiting import Lane
from headway_policies.warmup import Ramp
from headway_policies.window import Gathered

_SLICE = 200  # deadlines settled in one event: about a millisecond


class State(Enum):
    """Whether the desk lets anybody through."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"


@dataclass(slots=True)
class Desk:
    """The admission state machine of one engine. ``ceiling`` is the most seats that engine can give."""

    preset: Preset
    ceiling: int | None = None
    revision: int = 1
    state: State = State.OPEN
    engine: Standing = Standing.UP
    lost_why: Reason = Reason.ENGINE_LOST
    in_force: frozenset[Rung] = frozenset()
    ledger: Ledger = field(init=False)
    _floor: Floor = field(init=False)
    _limit: Limit = field(init=False)
    _timeouts: dict[str, Timeouts] = field(init=False)
    _ramp: Ramp = field(init=False)
    _entries: dict[int, Entry] = field(default_factory=dict)
    _deadlines: Deadlines = field(default_factory=Deadlines)
    _forecast: Forecast = field(default_factory=Forecast)
    _admission: Admission = field(init=False)
    _quarantine: Quarantine = field(default_factory=Quarantine)
    _opening: Opening = field(default_factory=Opening)
    _armed_s: float | None = None
    _patience: int = _SLICE

    def __post_init__(self) -> None:
        preset = self.preset
        self.ledger = Ledger(preset.classes)
        self._floor = Floor(preset)
        self._admission = Admission(self._floor, self._forecast)
        self._limit = make_limit(preset.limit, preset.batching.seats, self.ceiling)
        self._timeouts = {name: one.timeouts() for name, one in preset.classes.items()}
        self._ramp = Ramp(preset.warmup.ramp_s)
        self._weigh(0.0)

    # ------------------------------------------------------------------ events of a ticket

    def arrive(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A request came. Raises ValueError for a class the preset does not have, or an id that is here already."""
        if ticket.class_name not in self._timeouts or ticket.id in self._entries:
            raise ValueError(f"ticket {ticket.id}: class {ticket.class_name!r} unknown, or id already here")
        effects = self._begin(now_s)
        counts = self.ledger.classes[ticket.class_name]
        counts.arrived += 1
        counts.queued += 1
        self._floor.window.arrived(ticket.seats, now_s)
        timeouts = self._timeouts[ticket.class_name].shortened_by(ticket.asked)
        patience_s = timeouts.before_first_token_s()
        due_s = None if patience_s is None else ticket.arrived_s + patience_s
        refusal = self._refusal(ticket, due_s, now_s)
        if refusal is Reason.QUEUE_FULL and self._evict_for(ticket, due_s, now_s, effects):
            refusal = None
        if refusal is None:
            refusal = self._let_in(self._expect(ticket, timeouts, due_s), now_s, effects)
        if refusal is not None:
            self._floor.limited = self._floor.limited or self._floor.seats.taken >= self._floor.limit
            counts.refused(refusal, waiting=True)
            effects.append(Reject(ticket.id, refusal, self.retry_after_s(now_s)))
        counts.decisions[self._decision(ticket.id)] += 1
        return self._end(effects, now_s)

    def reseat(self, ticket_id: int, seats: int, now_s: float) -> list[Effect]:
        """A dispatched ticket now occupies this many seats in the engine; 0 once the engine is done with it.

        A follow-up call of the same request (beam search, a tool turn) may take seats again: it was admitted already,
        so it does not queue a second time and may pass the limit for a moment.
        """
        effects = self._begin(now_s)
        entry = self._entries.get(ticket_id)
        if entry is not None and entry.phase is not Phase.WAITING:
            if not entry.seats and entry.token_s is not None:
                entry.token_s = now_s  # a follow-up call begins: the engine owes its first token from now on
            self._occupy(entry, self._grantable(entry, seats), now_s)
            if entry.phase is Phase.RUNNING and entry.timeouts.stall_s is not None:
                self._watch(entry)
            self._fill(now_s, effects)
        return self._end(effects, now_s)

    def first_token(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine produced the ticket's first token."""
        effects = self._begin(now_s)
        entry = self._entries.get(ticket_id)
        if entry is not None and entry.phase is Phase.RUNNING and entry.token_s is None:
            entry.token_s = now_s
            self._forecast.first_token(entry, now_s)
            if entry.timeouts.stall_s is not None:
                self._deadlines.hasten(ticket_id, now_s + entry.timeouts.stall_s)
        return self._end(effects, now_s)

    def token_batch(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine produced more tokens for the ticket. Only noted: the stall time-out looks when it is due."""
        entry = self._entries.get(ticket_id)
        if entry is not None and entry.token_s is not None:
            entry.token_s = now_s
        return []

    def start_failed(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine did not take a dispatched ticket."""
        return self.leave(ticket_id, Ending.FAILED, now_s)

    def leave(self, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None) -> list[Effect]:
        """The request is over, however it ended; ``usage`` is what it used, where known. Later calls do nothing."""
        effects = self._begin(now_s)
        entry = self._entries.get(ticket_id)
        if entry is not None:
            waiting = entry.phase is Phase.WAITING
            self._forget(entry)
            if entry.phase is not Phase.SETTLED:
                outcome = LEFT[ending][0 if waiting else 1]
                self.ledger.classes[entry.ticket.class_name].ended(outcome, waiting=waiting)
            if not waiting:
                self._learn(entry, ending, usage)
            self._occupy(entry, 0, now_s)
            self._fill(now_s, effects)
        return self._end(effects, now_s)

    # ------------------------------------------------------------------ events of the whole

    def tick(self, now_s: float) -> list[Effect]:
        """Time has passed."""
        self._armed_s = None
        effects = self._begin(now_s)
        self._fill(now_s, effects)
        return self._end(effects, now_s)

    def observe(self, load: Load, now_s: float) -> list[Effect]:
        """The engine made a step."""
        floor, sizes = self._floor, self._forecast.sizes
        signals = Signals(
            load,
            seats_taken=floor.seats.taken,
            queued=len(floor.room),
            limited=floor.limited,
            prompt_tokens_mean=sizes.prompt_tokens,
            output_tokens_mean=sizes.output_tokens,
            sequence_tokens_std=sizes.deviation_tokens,
        )
        floor.limited = False
        self._limit.observe(signals, now_s)
        effects = self._begin(now_s)
        self._fill(now_s, effects)
        return self._end(effects, now_s)

    def switch(self, preset: Preset, now_s: float) -> list[Effect]:
        """Put another preset in force. Nobody waiting is dropped, nobody running is ended.

        Who waits keeps the deadlines given on arrival, and a place by arrival; a ticket whose class the new preset
        does not know waits in its default class. Bounds apply to newcomers only. What a policy has learnt is kept
        where its part of the preset does not change.
        """
        effects = self._begin(now_s)
        before = self.preset
        same_limit = (before.limit, before.batching.seats) == (preset.limit, preset.batching.seats)
        limit = self._limit if same_limit else make_limit(preset.limit, preset.batching.seats, self.ceiling)
        waiting = sorted(self._floor.room, key=lambda ticket: (ticket.arrived_s, ticket.id))
        anew = self._floor.switch(preset)  # a policy of somebody else's may raise until here: then nothing has changed
        self.preset, self._limit = preset, limit
        self.revision += 1
        self.ledger.admit_classes(preset.classes)
        self._timeouts = {name: one.timeouts() for name, one in preset.classes.items()}
        self._ramp = Ramp(preset.warmup.ramp_s)
        self._weigh(now_s)
        if anew:
            self._file_again(waiting)
        self._fill(now_s, effects)
        return self._end(effects, now_s)

    def pause(self, now_s: float) -> list[Effect]:
        """Let nobody through; arrivals still wait, bounded and timed. A drain stays a drain."""
        if self.state is State.OPEN:
            self.state = State.PAUSED
        return self._end(self._begin(now_s), now_s)

    def resume(self, now_s: float) -> list[Effect]:
        """Undo pause or drain."""
        effects = self._begin(now_s)
        self.state = State.OPEN
        self._fill(now_s, effects)
        return self._end(effects, now_s)

    def drain(self, now_s: float) -> list[Effect]:
        """Refuse who comes and who waits; let the running finish."""
        self.state = State.DRAINING
        effects = self._begin(now_s)
        self._turn_all_away(Reason.DRAINING, now_s, effects)
        return self._end(effects, now_s)

    def fall_back(self, in_force: frozenset[Rung], now_s: float) -> list[Effect]:
        """From now on these rungs of the fallback ladder are in force; who waits in a class that is shed is refused."""
        effects = self._begin(now_s)
        self.in_force = in_force
        if Rung.SHED in in_force:
            retry_after_s = self.retry_after_s(now_s)
            for ticket in [one for one in self._floor.room if sheds(self._terms(one), in_force)]:
                self._turn_away(self._entries[ticket.id], Reason.SHED, retry_after_s, effects)
        self._fill(now_s, effects)
        return self._end(effects, now_s)

    def engine_silent(self, now_s: float) -> list[Effect]:
        """The engine gives no sign of life: nobody goes to it, everybody's time goes on."""
        if self.engine is Standing.UP:
            self.engine = Standing.SILENT
        return self._end(self._begin(now_s), now_s)

    def engine_restarting(self, replayable: Collection[int], now_s: float) -> list[Effect]:
        """The engine is gone with all it was running, and another one is being started.

        Those among ``replayable``, which have shown nothing to anybody yet, wait again, each for its turn alone; those
        who were running at the crash before as well are given up, and so are all that have shown something.
        """
        self.engine = Standing.RESTARTING
        effects = self._begin(now_s)
        alone = self._quarantine.crash()
        for entry in sorted(self.dispatched(), key=self._urgency, reverse=True):
            self._floor.occupy(entry, 0, now_s)
            if entry.phase is Phase.RUNNING:
                again = entry.ticket.id in replayable
                suspected = alone in (None, entry.ticket.id)
                self._recall_or_abort(entry, now_s, effects, replayable=again, suspected=suspected)
        return self._end(effects, now_s)

    def engine_lost(self, now_s: float, reason: Reason = Reason.ENGINE_LOST) -> list[Effect]:
        """The engine is gone, with all it was running; ``reason`` is DRAINING when it was stopped on purpose."""
        self.engine, self.lost_why = Standing.LOST, reason
        effects = self._begin(now_s)
        self._turn_all_away(reason, now_s, effects)
        for entry in self._entries.values():
            if entry.phase is Phase.RUNNING:
                self._abort(entry, reason, effects)
            self._floor.occupy(entry, 0, now_s)
        return self._end(effects, now_s)

    def engine_back(self, now_s: float) -> list[Effect]:
        """There is an engine again, or it gives signs of life again."""
        effects = self._begin(now_s)
        if self.engine in (Standing.RESTARTING, Standing.LOST):
            self._opening.begin(now_s)
            self._weigh(now_s)
        self.engine = Standing.UP
        self._fill(now_s, effects)
        return self._end(effects, now_s)

    def warmed_up(self, now_s: float) -> list[Effect]:
        """The engine is warm: from now on its seats open one after another, if the preset says so."""
        self._opening.begin(now_s)
        self._weigh(now_s)
        return self._end(self._begin(now_s), now_s)

    def open_seats(self, who: Cautious, ratio: float, now_s: float) -> list[Effect]:
        """Use only this share of the limit from now on; the least that anybody asks for counts, and one seat."""
        self._opening.hold(who, ratio)
        self._weigh(now_s)
        effects = self._begin(now_s)
        self._fill(now_s, effects)
        return self._end(effects, now_s)

    # ------------------------------------------------------------------ questions

    @property
    def engine_up(self) -> bool:
        """Whether tickets go to the engine."""
        return self.engine is Standing.UP

    @property
    def suspects(self) -> int:
        """How many still have to run alone after a crash."""
        return len(self._quarantine)

    @property
    def limit(self) -> int:
        """Seats allowed now: what the policy says, never above what the engine can give."""
        return self._floor.limit

    @property
    def limit_reason(self) -> str:
        """Why the limit is what it is, in one word."""
        return self._limit.why

    def proposed_limit(self, now_s: float) -> int:
        """What the limit policy would set if it were let: in shadow mode another number than ``limit``."""
        return self._capped(self._limit.proposed(now_s))

    @property
    def seats_taken(self) -> int:
        """Sequences that hold a seat in the engine."""
        return self._floor.seats.taken + self._floor.beside

    def window_s(self, now_s: float) -> float:
        """How long a batch may gather now; 0 under a strategy that gathers none."""
        if not self._floor.strategy.barrier:
            return 0.0
        return self._floor.window.length_s(Gathered(0, self._floor.limit, now_s), now_s)

    def waiting_tokens(self) -> int:
        """Prompt tokens waiting."""
        return self._floor.room.total.tokens

    def waiting_bytes(self) -> int:
        """Bytes of prompts waiting."""
        return self._floor.room.total.bytes

    def accuracy(self) -> dict[str, Accuracy]:
        """How good the predictions have been: of output lengths, and of waits in the queue."""
        return self._forecast.accuracy()

    def retry_after_s(self, now_s: float) -> int:
        """Whole seconds until a refused client may hope."""
        return self._admission.retry_after_s(now_s)

    def oldest_wait_s(self, now_s: float) -> dict[str, float]:
        """For each class, how long its longest-waiting ticket has waited; 0 where nobody waits."""
        oldest = dict.fromkeys(self.ledger.classes, 0.0)
        strangers = any(one.queued for name, one in self.ledger.classes.items() if name not in self.preset.classes)
        for ticket in self._floor.room if strangers else self._floor.room.oldest():
            oldest[ticket.class_name] = max(oldest[ticket.class_name], now_s - ticket.arrived_s)
        return oldest

    def waiting(self) -> Iterator[tuple[Ticket, float | None]]:
        """Who waits, and until when at the most."""
        return ((ticket, self._deadlines.of(ticket.id)) for ticket in self._floor.room)

    def dispatched(self) -> Iterator[Entry]:
        """Who was let through and has not left yet."""
        return (entry for entry in self._entries.values() if entry.phase is not Phase.WAITING)

    # ------------------------------------------------------------------ around every event

    def _begin(self, now_s: float) -> list[Effect]:
        """Before any event: let time take those it has run out for, and whoever stood behind them go."""
        if self._opening.moving or not isinstance(self._limit, FixedLimit):
            self._weigh(now_s)
        self._patience = _SLICE
        effects: list[Effect] = []
        while self._patience and (ticket_id := self._deadlines.pop_due(now_s)) is not None:
            self._patience -= 1
            self._time_is_up(self._entries[ticket_id], now_s, effects)
        if self._quarantine.look(now_s) or effects:
            self._fill(now_s, effects)
        return effects

    def _end(self, effects: list[Effect], now_s: float) -> list[Effect]:
        """After any event: ask for a tick in time for the next deadline and the next batch."""
        due_s = self._deadlines.next_s(unless_after_s=self._armed_s)
        if not self._patience:  # there may be more to settle, and more to send
            due_s = now_s
        if self._floor.strategy.barrier and self._open():
            due_s = shorter(due_s, self._floor.batch_due_s(now_s))
        due_s = shorter(due_s, self._quarantine.cleared_s)
        if self._opening.moving:
            due_s = shorter(due_s, self._opening.due_s(self._whole(now_s), self._ramp, now_s))
        if due_s is not None and (self._armed_s is None or due_s < self._armed_s):
            self._armed_s = due_s
            effects.append(WakeAt(due_s))
        return effects

    def _weigh(self, now_s: float) -> None:
        self._floor.limit = self._opening.seats(self._whole(now_s), self._ramp, now_s)

    def _whole(self, now_s: float) -> int:
        return self._capped(self._limit.seats(now_s))

    def _capped(self, seats: int) -> int:
        return seats if self.ceiling is None else max(1, min(seats, self.ceiling))

    def _open(self) -> bool:
        return self.state is State.OPEN and self.engine_up and not pauses(self.in_force)

    def _terms(self, ticket: Ticket) -> PriorityClass:
        return self.preset.classes[self._floor.line_of(ticket)]

    # ------------------------------------------------------------------ a ticket comes in

    def _refusal(self, ticket: Ticket, due_s: float | None, now_s: float) -> Reason | None:
        """Why a newcomer may not even wait."""
        if self.engine is Standing.LOST:
            return self.lost_why
        if self.state is State.DRAINING:
            return Reason.DRAINING
        if self.in_force and sheds(self._terms(ticket), self.in_force):
            return Reason.SHED
        return self._admission.refusal(ticket, due_s, now_s, opened=self._open() and not self._quarantine)

    def _evict_for(self, ticket: Ticket, due_s: float | None, now_s: float, effects: list[Effect]) -> bool:
        """Push out who is less urgent until the newcomer has room; nobody, when that would not help it."""
        if not self._admission.may_evict(ticket, due_s, now_s):
            return False
        room = self._floor.room
        while room.refusal(ticket) is not None and (worst := room.worst_below(ticket.class_name)) is not None:
            self._turn_away(self._entries[worst.id], Reason.EVICTED, self.retry_after_s(now_s), effects)
        return True

    def _expect(self, ticket: Ticket, timeouts: Timeouts, due_s: float | None) -> Entry:
        """A newcomer, with what is expected of it."""
        output_tokens = self._forecast.output_tokens(ticket)
        return Entry(
            ticket,
            timeouts,
            self._floor.lane(output_tokens, learn=True),
            ticket.class_name,
            expected_tokens=ticket.seats * (ticket.prompt_tokens + output_tokens),
            queue_due_s=due_s,
        )

    def _let_in(self, entry: Entry, now_s: float, effects: list[Effect]) -> Reason | None:
        """Give a newcomer its place, and a seat if one is free; a refusal for one that will not wait."""
        ticket_id = entry.ticket.id
        self._entries[ticket_id] = entry
        nobody_first = not len(self._floor.room) and not self._quarantine
        if nobody_first and self._open() and self._floor.goes_at_once(entry.ticket, now_s):
            self._floor.open_batch(now_s)
            self._floor.dispatch_newcomer(entry, now_s)
            self._gone(entry, now_s, effects)
        else:
            self._floor.enter(entry, now_s)
            self._fill(now_s, effects)
        if entry.phase is not Phase.WAITING:
            self._watch(entry)
        elif ticket_id in self._entries:
            if not entry.ticket.may_wait:
                self._forget(entry)
                return Reason.NO_FREE_SEAT
            if self._open():
                entry.predicted_wait_s = self._admission.predicted_wait_s(entry.ticket)
            if entry.queue_due_s is not None:
                self._deadlines.set(ticket_id, entry.queue_due_s)
        return None

    def _decision(self, ticket_id: int) -> Decision:
        """What a newcomer was answered."""
        entry = self._entries.get(ticket_id)
        if entry is None:
            return Decision.REJECTED
        return Decision.QUEUED if entry.phase is Phase.WAITING else Decision.SEATED

    def _file_again(self, waiting: list[Ticket]) -> None:
        """Everybody takes a place in a new order; the books of the old one are closed."""
        for entry in self._entries.values():
            entry.charged = False
        for ticket in waiting:
            entry = self._entries[ticket.id]
            self._file(entry)
            self._floor.enter(entry, ticket.arrived_s)

    def _file(self, entry: Entry) -> None:
        """Find the line and the lane in which a ticket waits under the preset in force."""
        entry.line = self._floor.line_of(entry.ticket)
        entry.lane = self._floor.lane(self._forecast.output_tokens(entry.ticket), learn=False)

    # ------------------------------------------------------------------ tickets go to the engine

    def _fill(self, now_s: float, effects: list[Effect]) -> None:
        """Send whoever may go: from one lane only where a batch has to end before the next one begins."""
        if not self._open():
            return
        if self._quarantine:
            self._send_alone(now_s, effects)
            return
        if Rung.BYPASS in self.in_force:
            self._send_beside(now_s, effects)
        for lane, most_seats in self._floor.leaving(now_s):
            if self._send(lane, most_seats, now_s, effects) and self._floor.strategy.barrier:
                return

    def _send(self, lane: Lane, most_seats: int, now_s: float, effects: list[Effect]) -> bool:
        """Dispatch from the head of a lane as far as the seats go. Whether anybody went."""
        floor = self._floor
        floor.open_batch(now_s)
        sheds = True
        while floor.batch_seats < most_seats and self._patience:
            ticket = floor.next(lane, now_s)
            if ticket is None:
                break
            entry = self._entries[ticket.id]
            if entry.queue_due_s is not None and entry.queue_due_s <= now_s:
                self._time_is_up(entry, now_s, effects)
                self._patience -= 1
            elif sheds and self._admission.hopeless(entry, now_s):
                self._turn_away(entry, Reason.DEADLINE_UNREACHABLE, self.retry_after_s(now_s), effects)
                sheds = False  # one for each that goes: a wrong prediction must not empty the queue before a free seat
            else:
                self._dispatch(entry, now_s, effects)
                sheds = True
        return floor.batch_seats > 0

    def _send_beside(self, now_s: float, effects: list[Effect]) -> None:
        """Dispatch who may go beside the batch, as far as the seats of the bypass go."""
        while self._patience and (ticket := self._floor.next_beside(self.in_force, self.ceiling, now_s)) is not None:
            self._patience -= 1
            entry = self._entries[ticket.id]
            if entry.queue_due_s is not None and entry.queue_due_s <= now_s:
                self._time_is_up(entry, now_s, effects)
                continue
            self._floor.dispatch_beside(entry)
            self._gone(entry, now_s, effects)

    def _send_alone(self, now_s: float, effects: list[Effect]) -> None:
        """Dispatch the next suspect, when nobody else runs alone; everybody else once there is none left."""
        while (ticket_id := self._quarantine.next()) is not None:
            entry = self._entries[ticket_id]
            if entry.queue_due_s is not None and entry.queue_due_s <= now_s:
                self._time_is_up(entry, now_s, effects)
                continue
            if not self._floor.fits(entry.ticket):  # one that was cleared runs on
                return
            self._floor.open_batch(now_s)
            self._dispatch(entry, now_s, effects)
            self._quarantine.sent(ticket_id, now_s + self.preset.recovery.alone_s)
            return
        if not self._quarantine:
            self._fill(now_s, effects)

    def _dispatch(self, entry: Entry, now_s: float, effects: list[Effect]) -> None:
        self._floor.dispatch(entry)
        self._gone(entry, now_s, effects)

    def _gone(self, entry: Entry, now_s: float, effects: list[Effect]) -> None:
        """A ticket has its seats: the engine may have it."""
        self._forecast.dispatched(entry, now_s)
        self._admission.departed(now_s)
        self.ledger.classes[entry.ticket.class_name].dispatched()
        entry.phase, entry.dispatched_s, entry.revision = Phase.RUNNING, now_s, self.revision
        ticket = entry.ticket
        if self.in_force:
            most_tokens = capped_tokens(ticket, self._terms(ticket), self.in_force)
            if most_tokens is not None:
                effects.append(Degrade(ticket.id, most_tokens))
        effects.append(Dispatch(ticket.id, self.revision, 0 if entry.beside else self._floor.batch, entry.beside))

    # ------------------------------------------------------------------ tickets run and go

    def _watch(self, entry: Entry) -> None:
        """Set the deadline of a running ticket.

        A deadline that moves to a later time is left where it stands, and moved when it comes: dispatch and tokens
        cost nothing then.
        """
        due = entry.run_due()
        if due is None:
            self._deadlines.drop(entry.ticket.id)
        else:
            self._deadlines.set(entry.ticket.id, due[0])

    def _grantable(self, entry: Entry, seats: int) -> int:
        """What a ticket may be said to hold: none anew once it is settled, and never more than a wide one was given."""
        if entry.phase is Phase.SETTLED:
            return min(seats, entry.seats)
        return min(seats, entry.granted) if entry.ticket.seats > entry.granted else seats

    def _occupy(self, entry: Entry, seats: int, now_s: float) -> None:
        if entry.seats and not seats:
            self._forecast.seats_free(entry, now_s)
        self._floor.occupy(entry, seats, now_s)

    def _learn(self, entry: Entry, ending: Ending, usage: Usage | None) -> None:
        """Book what was really used; learn lengths from what ran to its end."""
        ticket = entry.ticket
        if usage is None and entry.token_s is not None:
            return  # it ran, and nobody knows how far: the guess stands
        used = usage or Usage(ticket.seats * ticket.prompt_tokens, 0)
        if entry.charged:
            more_tokens = used.prompt_tokens + used.output_tokens - entry.expected_tokens
            entry.lane.order.correct(ticket, entry.line, more_tokens)
        if usage is not None and ending is Ending.COMPLETED:
            self._forecast.completed(entry.ticket, usage)

    def _forget(self, entry: Entry) -> None:
        """Take a ticket out of everything but the seats it may still hold."""
        del self._entries[entry.ticket.id]
        self._quarantine.drop(entry.ticket.id)
        self._deadlines.drop(entry.ticket.id)
        if entry.phase is Phase.WAITING:
            self._floor.withdraw(entry)

    def _recall_or_abort(
        self, entry: Entry, now_s: float, effects: list[Effect], *, replayable: bool, suspected: bool
    ) -> None:
        """The engine died under a running ticket: it waits again, or is given up."""
        ticket, crashes = entry.ticket, self._quarantine.crashes
        if replayable and suspected and entry.crash == crashes - 1:
            self._abort(entry, Reason.POISON, effects)
        elif not replayable:
            self._abort(entry, Reason.ENGINE_LOST, effects)
        else:
            self.ledger.classes[ticket.class_name].recalled()
            if entry.charged:
                entry.lane.order.correct(ticket, entry.line, -entry.expected_tokens)
            entry.wait_again(crashes)
            self._file(entry)
            self._floor.enter(entry, now_s)
            self._quarantine.suspect(ticket.id)
            self._deadlines.drop(ticket.id)
            if entry.queue_due_s is not None:
                self._deadlines.set(ticket.id, entry.queue_due_s)
            effects.append(Recall(ticket.id))

    def _urgency(self, entry: Entry) -> int:
        return self.preset.classes[self._floor.line_of(entry.ticket)].priority

    # ------------------------------------------------------------------ tickets are refused

    def _time_is_up(self, entry: Entry, now_s: float, effects: list[Effect]) -> None:
        """A deadline has come: a waiting ticket expires, a running one is given up unless tokens came meanwhile."""
        if entry.phase is Phase.WAITING:
            self._forget(entry)
            self.ledger.classes[entry.ticket.class_name].refused(Reason.QUEUE_TIMEOUT, waiting=True)
            effects.append(Expire(entry.ticket.id, Reason.QUEUE_TIMEOUT, self.retry_after_s(now_s)))
        elif (due := entry.run_due()) is not None and due[0] <= now_s:
            self._abort(entry, due[1], effects)
        else:
            self._watch(entry)

    def _turn_all_away(self, reason: Reason, now_s: float, effects: list[Effect]) -> None:
        retry_after_s = self.retry_after_s(now_s)
        for ticket in list(self._floor.room):
            self._turn_away(self._entries[ticket.id], reason, retry_after_s, effects)

    def _turn_away(self, entry: Entry, reason: Reason, retry_after_s: int, effects: list[Effect]) -> None:
        self._forget(entry)
        self.ledger.classes[entry.ticket.class_name].refused(reason, waiting=True)
        effects.append(Reject(entry.ticket.id, reason, retry_after_s))

    def _abort(self, entry: Entry, reason: Reason, effects: list[Effect]) -> None:
        self.ledger.classes[entry.ticket.class_name].refused(reason, waiting=False)
        self._quarantine.drop(entry.ticket.id)
        self._deadlines.drop(entry.ticket.id)
        entry.phase = Phase.SETTLED
        effects.append(Abort(entry.ticket.id, reason))
