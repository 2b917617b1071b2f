"""The desk: the admission state machine of one engine, (event, now) -> effects.

The law of this file. The desk holds every ticket from its arrival to its one outcome and decides all that happens to
it. The desk reads no clock, awaits nothing and touches nothing outside itself: each event is a method that takes
``now_s`` and returns the effects its shell must carry out, in order. Times may not run backwards.

Invariants, at the end of every event:
  1. arrived == queued + in flight + sum of outcomes, for each class
  2. a ticket is dispatched only while its seats fit under the limit, or, in the most urgent class, within the share of
     that class and the square root of it beyond a limit that moves, up to its highest; a lowered limit ends no ticket
  3. nothing waits beyond the bounds of its class and of all, except what a smaller preset found waiting
  4. every ticket gets exactly one outcome
  5. nothing waits while the next in line fits and its batch may leave, unless paused, draining or without an engine,
     while its prompt would make those that run miss their pace, those run alone that a crash has made suspect, or the
     engine has no place for its adapter; and no ticket is refused for an objective while a less urgent one is
     dispatched in the same event, or has been since it arrived, but by what the order between the classes grants it
  6. nothing is dispatched at or after its deadline

A ticket that is late for its objective waits behind all others of its class. A refusal for an objective at dispatch is
in favour of another of its class that goes in the same event, or of one that is late even in an idle engine.

An arrival goes forward: ``admit`` (the answer to it), ``lifecycle`` (the one writer of a ticket's record and of the
effects), ``dispatch`` (which tickets go now, where it was queued). The transitions are a table, ``transitions``. The
number of seats is decided in ``capacity``. This file has the events of the desk, and what is asked for each request;
all other questions are answered at once by a ``reading``. ``mode``, ``ledger`` and ``engine_fit`` may be read as well.

When very many deadlines come at once, an event settles a slice of them and asks to be woken again at once; invariants
3 and 5 hold after the last slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headway_policies.desk.admit import Admission, Refuse, Seat
from headway_policies.desk.books.ledger import Ledger
from headway_policies.desk.books.record import Record
from headway_policies.desk.books.transitions import Phase
from headway_policies.desk.capacity import Capacity, CapReason
from headway_policies.desk.crash import give_up, start_over
from headway_policies.desk.dispatch import SLICE, Dispatcher
from headway_policies.desk.effects import Effect, WakeAt
from headway_policies.desk.engine_steps import EngineSteps
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Block, Mode, Stages
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.reading import DeskReading, read
from headway_policies.desk.scheduler import Scheduler
from headway_policies.engine import EngineState
from headway_policies.fallback import Rung
from headway_policies.limits import Learnt, Load, Resolved
from headway_policies.preset import Preset
from headway_policies.request import NO_TIMEOUTS, Ending, Reason, Ticket, Usage, shorter


class Desk:
    """The admission of one engine, of at most ``ceiling`` seats and ``most_adapters`` different adapters at once."""

    def __init__(self, preset: Preset, ceiling: int | None = None, most_adapters: int | None = None) -> None:
        self.mode = mode = Mode(preset)
        self.ledger = Ledger(preset.classes)
        self.ceiling = ceiling
        self._capacity = capacity = Capacity(preset, ceiling)
        self.engine_fit = capacity.engine
        self._forecast = forecast = Forecast()
        self._scheduler = scheduler = Scheduler(preset, capacity, forecast, most_adapters)
        self._objectives = objectives = Objectives(preset, scheduler, forecast)
        self._lifecycle = lifecycle = Lifecycle(mode, scheduler, forecast, objectives, self.ledger)
        self._dispatcher = Dispatcher(mode, scheduler, lifecycle, forecast, objectives)
        self._admission = Admission(mode, scheduler, objectives, lifecycle.crash_suspects)
        self._steps = EngineSteps(capacity, scheduler, forecast, objectives)
        self._armed_s: float | None = None

    # ------------------------------------------------------------------ events of a ticket

    def arrive(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A request arrived. Raises ValueError for a class the preset does not have, or an id that is here already."""
        if ticket.class_name not in self.mode.preset.classes or ticket.id in self._lifecycle.records:
            raise ValueError(f"ticket {ticket.id}: class {ticket.class_name!r} unknown, or id already here")
        self._begin(now_s)
        lifecycle, stages = self._lifecycle, self.mode.stages[ticket.class_name]
        if ticket.asked is not NO_TIMEOUTS:
            stages = Stages.of(stages.timeouts.shortened_by(ticket.asked))
        due_s = None if stages.patience_s is None else ticket.arrived_s + stages.patience_s
        self._scheduler.window.arrived(ticket.seats, now_s)
        self._objectives.arrived(ticket, now_s)
        answer = self._admission.admit(ticket, due_s, now_s)
        if isinstance(answer, Seat):
            lifecycle.seat_arrival(ticket, stages, due_s, now_s)
        elif isinstance(answer, Refuse):
            if answer.reason is Reason.OBJECTIVE_INFEASIBLE:
                self._objectives.cut(ticket.class_name, now_s)
            lifecycle.refuse_arrival(ticket, answer.reason, now_s)
        else:
            for evicted in answer.evicted:
                lifecycle.refuse_all((evicted,), answer.reason, now_s)
            record = lifecycle.enqueue(ticket, stages, due_s, now_s)
            self._dispatcher.fill(now_s)
            lifecycle.answered(record, now_s)
        return self._end(now_s)

    def reseat(self, ticket_id: int, sequences: int, now_s: float) -> list[Effect]:
        """The engine now has this many sequences of a dispatched ticket; 0 once it is done with it.

        A follow-up call of the same request (beam search, a tool turn) may take seats again: it was admitted already,
        so it does not queue a second time and may pass the limit for a moment.
        """
        self._begin(now_s)
        record = self._lifecycle.records.get(ticket_id)
        if record is not None and record.phase is not Phase.WAITING:
            self._lifecycle.reseat(record, sequences, now_s)
            self._dispatcher.fill(now_s)
        return self._end(now_s)

    def first_token(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine produced the ticket's first token."""
        self._begin(now_s)
        record = self._lifecycle.records.get(ticket_id)
        if record is not None and record.phase is Phase.RUNNING and record.token_s is None:
            self._lifecycle.first_token(record, now_s)
        return self._end(now_s)

    def token_batch(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine produced more tokens for the ticket. Only noted: the stall time-out is checked when it is due."""
        record = self._lifecycle.records.get(ticket_id)
        if record is not None and record.token_s is not None:
            self._lifecycle.token(record, now_s)
        return []

    def stood_still(self, for_s: float, now_s: float) -> None:
        """The shell stood still for so long, until now: what the engine sent meanwhile is still to be read.

        Only noted. Time-outs of running tickets that have come since, or come within as long again, half a minute at
        the most, are checked then.
        """
        self._dispatcher.stood_still(for_s, now_s)

    def leave(
        self, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None, *, sequences: int = 0
    ) -> list[Effect]:
        """The request is over, however it ended; ``usage`` is what it used, where known. Later calls do nothing.

        While the engine still has ``sequences`` of it, they keep their seats: ``reseat`` frees them.
        """
        self._begin(now_s)
        record = self._lifecycle.records.get(ticket_id)
        if record is not None and not record.left:
            self._lifecycle.leave(record, ending, usage, sequences, now_s)
            self._dispatcher.fill(now_s)
        return self._end(now_s)

    # ------------------------------------------------------------------ events of the whole

    def tick(self, now_s: float) -> list[Effect]:
        """Time has passed."""
        self._armed_s = None
        return self._filled(now_s)

    def observe(self, load: Load, now_s: float) -> list[Effect]:
        """The engine made a step."""
        return self._filled(now_s) if self._steps.made(load, now_s) else []

    def switch(self, preset: Preset, now_s: float, rungs: frozenset[Rung] | None = None) -> list[Effect]:
        """Put another preset in force. No waiting ticket is dropped, no running one is ended.

        A waiting ticket keeps the deadline given on arrival, and a place by arrival; one whose class the new preset
        does not have waits in its default class. Bounds apply to new tickets only. The memory of a policy is kept where
        its part of the preset does not change. ``rungs`` are those of the fallback ladder that are in force from now
        on; None leaves them as they are. Where they change, they act as by ``fall_back``.
        """
        limit = self._capacity.limit_for(preset)
        window = self._scheduler.window_for(preset)
        lanes = self._scheduler.lanes_for(preset)  # a custom policy may raise until here: nothing has changed
        self._begin(now_s)
        waiting = sorted(self._scheduler.queue, key=lambda ticket: (ticket.arrived_s, ticket.id))
        self._scheduler.switch(preset, lanes, window, now_s)
        closed = not self.mode.open
        self.mode.adopt(preset)
        falls_back = rungs is not None and rungs != self.mode.in_force
        if rungs is not None:
            self.mode.fall_back(rungs)
        if self._capacity.adopt(preset, limit, now_s):
            self._forecast.other_limit()
        self.ledger.admit_classes(preset.classes)
        self._objectives.adopt(preset, now_s)
        self._objectives.reserve(now_s)
        if lanes is not None:
            self._lifecycle.enqueue_again(waiting)
        if falls_back:
            self._refuse_shed(now_s)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def pause(self, now_s: float, block: Block = Block.OPERATOR) -> list[Effect]:
        """Dispatch nothing for this cause; arrivals still wait, bounded and timed. A drain stays a drain."""
        self.mode.block(block)
        self._begin(now_s)
        return self._end(now_s)

    def resume(self, now_s: float, block: Block = Block.OPERATOR) -> list[Effect]:
        """End the pause for this cause, the operator's with the drain; other causes go on."""
        self._begin(now_s)
        closed = not self.mode.open
        self.mode.unblock(block)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def drain(self, now_s: float) -> list[Effect]:
        """Refuse arriving and waiting requests; the running ones finish."""
        self.mode.drain()
        self._begin(now_s)
        self._lifecycle.refuse_all(list(self._scheduler.queue), Reason.DRAINING, now_s)
        return self._end(now_s)

    def fall_back(self, in_force: frozenset[Rung], now_s: float) -> list[Effect]:
        """Put these rungs of the fallback ladder in force; waiting tickets of a shed class are refused."""
        self._begin(now_s)
        closed = not self.mode.open
        self.mode.fall_back(in_force)
        self._refuse_shed(now_s)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def engine_silent(self, now_s: float) -> list[Effect]:
        """The engine is unresponsive: dispatch is suspended, time-outs run on."""
        if self.mode.engine is EngineState.UP:
            self.mode.engine_is(EngineState.SILENT)
        self._begin(now_s)
        return self._end(now_s)

    def engine_restarting(self, retryable: Collection[int], now_s: float) -> list[Effect]:
        """The engine is gone with all it was running, and another one is being started.

        Tickets among ``retryable``, which have sent no output yet, wait again, each to run alone at first. Tickets that
        were running at the crash before as well are given up, and so are all that have sent output. In a drain nothing
        waits again.
        """
        self.mode.engine_is(EngineState.RESTARTING)
        self._begin(now_s)
        start_over(self._lifecycle, self.mode, retryable, now_s)
        if self.mode.draining:
            self._lifecycle.refuse_all(list(self._scheduler.queue), Reason.DRAINING, now_s)
        self._scheduler.prefixes.clear()
        return self._end(now_s)

    def engine_lost(self, now_s: float, reason: Reason = Reason.ENGINE_LOST) -> list[Effect]:
        """The engine is gone, with all it was running; ``reason`` is DRAINING when it was stopped on purpose."""
        self.mode.engine_is(EngineState.LOST, reason)
        self._begin(now_s)
        self._lifecycle.refuse_all(list(self._scheduler.queue), reason, now_s)
        give_up(self._lifecycle, reason, now_s)
        self._scheduler.prefixes.clear()
        return self._end(now_s)

    def engine_back(self, now_s: float) -> list[Effect]:
        """There is an engine again, or it responds again."""
        self._begin(now_s)
        if self.mode.engine in (EngineState.RESTARTING, EngineState.LOST):
            self._capacity.opening.begin(now_s)
            self._capacity.weigh(now_s)
        closed = not self.mode.open
        self.mode.engine_is(EngineState.UP)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def warmed_up(self, now_s: float) -> list[Effect]:
        """The engine is warm: from now on its seats open one after another, if the preset says so."""
        self._capacity.opening.begin(now_s)
        self._capacity.weigh(now_s)
        self._begin(now_s)
        return self._end(now_s)

    def recall_limit(self, learnt: Learnt, now_s: float) -> list[Effect]:
        """Start the limit from another process's learnt figures, unless this process has learnt by itself."""
        self._capacity.recall(learnt)
        self._capacity.weigh(now_s)
        return self._filled(now_s)

    def cap_seats(self, reason: CapReason, ratio: float, now_s: float) -> list[Effect]:
        """Use only this share of the limit, for this reason; the least of all shares counts, and one seat is open."""
        self._capacity.opening.cap(reason, ratio)
        self._capacity.weigh(now_s)
        return self._filled(now_s)

    def bound_seats(
        self, most: int | None, now_s: float, *, present: float = 1.0, elsewhere: int = 0, front: float = 1.0
    ) -> list[Effect]:
        """Use no more seats than that, under this preset and every later one; None: no bound. A seat stays open.

        ``present`` is the share of the instances that are there: theirs is so much of the limit. ``elsewhere`` seats
        are taken at those that are not. ``front`` is this front's share, of several before the same instances.
        """
        self._capacity.opening.bound(most, present, elsewhere, front)
        self._capacity.weigh(now_s)
        return self._filled(now_s)

    # ------------------------------------------------------------------ questions

    @property
    def preset(self) -> Preset:
        """The preset in force."""
        return self.mode.preset

    @property
    def limit(self) -> int:
        """Seats allowed now: what the policy says, never above what the engine can give."""
        return self._capacity.limit

    @property
    def seats_taken(self) -> int:
        """Seats of the limit that are taken, and those beside a batch."""
        return self._scheduler.seats.taken + self._scheduler.seats.beside

    @property
    def sequences(self) -> int:
        """Sequences in the engine: more than the seats taken where a request is wider than the limit."""
        return self.seats_taken + self._scheduler.seats.overflow

    def retry_after_s(self, now_s: float) -> int:
        """Whole seconds after which a refused client may be served."""
        return self._lifecycle.retry_after_s(now_s)

    def objectives(self, class_name: str, prompt_tokens: float | None = None) -> Resolved:
        """The objectives of a class of the preset on this engine as it is now, for a prompt of this length; None: of
        the recent mean length.
        """
        return self._objectives.resolved(class_name, prompt_tokens)

    def waiting(self) -> Iterator[tuple[Ticket, float | None]]:
        """The waiting tickets, and until when each waits at the most."""
        return ((ticket, self._lifecycle.deadlines.of(ticket.id)) for ticket in self._scheduler.queue)

    def dispatched(self) -> Iterator[Record]:
        """The records of tickets that were dispatched and are still here."""
        return self._lifecycle.dispatched()

    def read(self, now_s: float) -> DeskReading:
        """The answers to all other questions, made anew for each call: it costs about as much as an arrival."""
        self._steps.catch_up(now_s)
        parts = self._capacity, self._forecast, self._scheduler, self._objectives, self._lifecycle
        return read(self.mode, self.ledger, *parts, now_s)

    # ------------------------------------------------------------------ around every event

    def _begin(self, now_s: float) -> None:
        """Before any event: open a list of effects, settle the tickets whose time has run out, and fill their seats."""
        lifecycle = self._lifecycle
        self._steps.catch_up(now_s)
        lifecycle.effects = []
        self._dispatcher.patience = SLICE
        if lifecycle.deadlines.earliest_s <= now_s or lifecycle.crash_suspects.cleared_s is not None:
            self._dispatcher.settle_due(now_s)
        if now_s >= self._objectives.reserve_again_s and self._objectives.reserve(now_s):
            self._dispatcher.fill(now_s)

    def _end(self, now_s: float) -> list[Effect]:
        """After any event: ask for a tick in time for the next deadline and batch, and hand the effects over."""
        capacity, lifecycle = self._capacity, self._lifecycle
        armed_s, deadlines, due_s = self._armed_s, lifecycle.deadlines, None
        if armed_s is None or deadlines.earliest_s < armed_s:
            due_s = deadlines.next_s(armed_s)
        if not self._dispatcher.patience:  # there may be more to settle, and more to send
            due_s = now_s
        if self._scheduler.strategy.barrier and self.mode.open:
            due_s = shorter(due_s, self._scheduler.batch_due_s(now_s))
        if lifecycle.crash_suspects.cleared_s is not None:
            due_s = shorter(due_s, lifecycle.crash_suspects.cleared_s)
        if capacity.opening.moving:
            due_s = shorter(due_s, capacity.due_s(now_s))
        if self._scheduler.queue.total.requests:
            if self._objectives.moving:
                due_s = shorter(due_s, self._objectives.reserve_again_s)
            due_s = shorter(due_s, capacity.stale_s(now_s))
        effects, lifecycle.effects = lifecycle.effects, []
        if due_s is not None and (armed_s is None or due_s < armed_s):
            self._armed_s = due_s
            effects.append(WakeAt(due_s))
        return effects

    def _filled(self, now_s: float) -> list[Effect]:
        """The whole of an event after which tickets may be dispatched, and nothing else changes."""
        self._begin(now_s)
        self._dispatcher.fill(now_s)
        return self._end(now_s)

    def _fill_again(self, now_s: float, *, closed: bool) -> None:
        """Dispatch what may go; ``closed``: nothing could go until now, and the queues have grown for that."""
        if closed and self.mode.open:
            self._objectives.reopened(now_s)
        self._dispatcher.fill(now_s)

    def _refuse_shed(self, now_s: float) -> None:
        """Refuse the waiting tickets of classes that are shed now."""
        if Rung.SHED in self.mode.in_force:
            shed = [ticket for ticket in self._scheduler.queue if self.mode.sheds(ticket)]
            self._lifecycle.refuse_all(shed, Reason.SHED, now_s)
