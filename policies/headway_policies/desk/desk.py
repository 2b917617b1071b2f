"""The desk: the admission state machine of one engine, (event, now) -> effects.

The law of this file. The desk holds every ticket from its arrival to its one outcome and decides all that happens to
it. It reads no clock, awaits nothing and touches nothing outside itself: each event is a method that takes ``now_s``
and returns the effects its shell must carry out, in order. Times may not run backwards.

    phase      entered by                     left by
    WAITING    arrive, recall,
               engine_restarting              dispatch, reject, expire, leave, engine_lost, drain
    RUNNING    dispatch                       leave, abort (a time-out), engine_restarting, engine_lost
    SETTLED    abort, engine_lost, leave      leave, reseat to 0: the outcome is written, the engine may hold seats
    ENDED      reject, expire, leave, reseat  never: the desk has forgotten the ticket

Invariants, at the end of every event:
  1. arrived == queued + in flight + sum of outcomes, for each class
  2. a ticket is dispatched only while its seats fit under the limit, or, in the most urgent class, within the share of
     that class and the square root of it beyond a limit that moves, up to its highest; a lowered limit ends no ticket
  3. nothing waits beyond the bounds of its class and of all, except what a smaller preset found waiting
  4. every ticket gets exactly one outcome
  5. nothing waits while the next in line fits and its batch may leave, unless paused, draining or without an engine,
     while its prompt would make those that run miss their pace, or while those run alone that a crash has made suspect;
     and no ticket is refused for an objective while a less urgent one is dispatched in the same event, or has been
     since it arrived, but by what the order between the classes grants that one
  6. nothing is dispatched at or after its deadline

A ticket that is late for its objective waits behind all others of its class. A refusal for an objective at dispatch is
in favour of another of its class that goes in the same event, or of one that is late even in an idle engine.

An arrival goes forward: ``admit`` (checks, bounds, the predicted wait), ``dispatch`` (which tickets go now),
``lifecycle`` (the one writer of a ticket's record and of the effects). The transitions are a table, ``transitions``.
The number of seats is decided in ``capacity``. This file has all events and questions of the desk; ``mode`` may be read
as well.

When very many deadlines come at once, an event settles a slice of them and asks to be woken again at once; invariants
3 and 5 hold after the last slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from headway_policies.batching import WindowReason
from headway_policies.desk.admit import Admission
from headway_policies.desk.capacity import Capacity, CapReason
from headway_policies.desk.dispatch import SLICE, Dispatcher
from headway_policies.desk.effects import Effect, WakeAt
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.ledger import Ledger
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import AdmissionState, Hold, Mode
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.record import Record
from headway_policies.desk.room import Room
from headway_policies.desk.scheduler import Scheduler
from headway_policies.desk.transitions import Phase
from headway_policies.engine import EngineState
from headway_policies.fallback import Rung
from headway_policies.limits import EngineFit, Learnt, LimitFailure, Load, Resolved, Signals
from headway_policies.prediction import Accuracy, PrefixCache, scale_ratio
from headway_policies.preset import Preset
from headway_policies.request import Ending, Reason, Ticket, Usage, shorter


class Desk:
    """The admission state machine of one engine. ``ceiling`` is the most seats that engine can give."""

    def __init__(self, preset: Preset, ceiling: int | None = None) -> None:
        self.mode = Mode(preset)
        self.ledger = Ledger(preset.classes)
        self._capacity = Capacity(preset, ceiling)
        self._forecast = Forecast()
        self._scheduler = Scheduler(preset, self._forecast)
        self._objectives = Objectives(preset, self._scheduler, self._forecast, self._capacity.engine)
        self._lifecycle = Lifecycle(self.mode, self._scheduler, self._forecast, self._objectives, self.ledger)
        self._dispatcher = Dispatcher(
            self.mode,
            self._scheduler,
            self._lifecycle,
            self._forecast,
            self._objectives,
            ceiling,
            Room(self.mode, self._scheduler, self._lifecycle, self._forecast),
        )
        self._admission = Admission(self.mode, self._scheduler, self._lifecycle, self._dispatcher, self._objectives)
        self._armed_s: float | None = None
        self._scheduler.pacer = self._capacity.pacer
        self._weigh(0.0)

    # ------------------------------------------------------------------ events of a ticket

    def arrive(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A request arrived. Raises ValueError for a class the preset does not have, or an id that is here already."""
        if ticket.class_name not in self.mode.preset.classes or ticket.id in self._lifecycle.records:
            raise ValueError(f"ticket {ticket.id}: class {ticket.class_name!r} unknown, or id already here")
        self._begin(now_s)
        self._admission.arrive(ticket, now_s)
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

        Only noted. Time-outs of running tickets that have come since, or come within as long again, are checked then.
        """
        self._dispatcher.unread_until_s = max(self._dispatcher.unread_until_s, now_s + for_s)

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
        self._begin(now_s)
        self._dispatcher.fill(now_s)
        return self._end(now_s)

    def observe(self, load: Load, now_s: float) -> list[Effect]:
        """The engine made a step."""
        scheduler, sizes, unloaded = self._scheduler, self._forecast.sizes, self._capacity.engine.unloaded
        signals = Signals(
            load,
            seats_taken=scheduler.seats.taken,
            queued=len(scheduler.queue),
            limited=scheduler.limited,
            next_seats=scheduler.next_seats,
            prompt_tokens_mean=sizes.prompt_tokens,
            output_tokens_mean=sizes.output_tokens,
            sequence_tokens_std=sizes.deviation_tokens,
            pace_spread_ratio=self._forecast.pace.ratio,
            unloaded_token_s=None if unloaded is None else unloaded.token_s,
        )
        scheduler.limited = False
        scheduler.next_seats = 1
        self._capacity.observe(signals, now_s)
        scheduler.observe(load)
        self._objectives.observed()
        self._begin(now_s)
        self._dispatcher.fill(now_s)
        return self._end(now_s)

    def switch(self, preset: Preset, now_s: float, rungs: frozenset[Rung] | None = None) -> list[Effect]:
        """Put another preset in force. No waiting ticket is dropped, no running one is ended.

        A waiting ticket keeps the deadline given on arrival, and a place by arrival; one whose class the new preset
        does not have waits in its default class. Bounds apply to new tickets only. What a policy has learnt is kept
        where its part of the preset does not change. ``rungs`` are those of the fallback ladder that are in force from
        now on; None leaves them as they are. Where they change, they act as by ``fall_back``.
        """
        limit = self._capacity.limit_for(preset)
        window = self._scheduler.window_for(preset)
        lanes = self._scheduler.lanes_for(preset)  # a custom policy may raise until here: nothing has changed
        self._begin(now_s)
        waiting = sorted(self._scheduler.queue, key=lambda ticket: (ticket.arrived_s, ticket.id))
        self._scheduler.switch(preset, lanes, window)
        closed = not self.mode.open
        self.mode.adopt(preset)
        falls_back = rungs is not None and rungs != self.mode.in_force
        if rungs is not None:
            self.mode.fall_back(rungs)
        if not self._capacity.in_force(limit):
            self._forecast.other_limit()
        self._capacity.adopt(preset, limit)
        self._scheduler.pacer = self._capacity.pacer
        self.ledger.admit_classes(preset.classes)
        self._weigh(now_s)
        self._objectives.adopt(preset, now_s)
        self._objectives.hold(now_s)
        if lanes is not None:
            self._lifecycle.enqueue_again(waiting)
        if falls_back:
            self._refuse_shed(now_s)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def pause(self, now_s: float, hold: Hold = Hold.OPERATOR) -> list[Effect]:
        """Dispatch nothing for this cause; arrivals still wait, bounded and timed. A drain stays a drain."""
        self.mode.hold(hold)
        self._begin(now_s)
        return self._end(now_s)

    def resume(self, now_s: float, hold: Hold = Hold.OPERATOR) -> list[Effect]:
        """End the pause for this cause, the operator's with the drain; other causes go on."""
        self._begin(now_s)
        closed = not self.mode.open
        self.mode.release(hold)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def drain(self, now_s: float) -> list[Effect]:
        """Refuse arriving and waiting requests; the running ones finish."""
        self.mode.drain()
        self._begin(now_s)
        self._lifecycle.refuse_all(list(self._scheduler.queue), Reason.DRAINING, now_s)
        return self._end(now_s)

    def fall_back(self, in_force: frozenset[Rung], now_s: float) -> list[Effect]:
        """From now on these rungs of the fallback ladder are in force; waiting tickets of a shed class are refused."""
        self._begin(now_s)
        closed = not self.mode.open
        self.mode.fall_back(in_force)
        self._refuse_shed(now_s)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def engine_silent(self, now_s: float) -> list[Effect]:
        """The engine is unresponsive: dispatch is suspended, time-outs run on."""
        if self.engine is EngineState.UP:
            self.mode.engine_is(EngineState.SILENT)
        self._begin(now_s)
        return self._end(now_s)

    def engine_restarting(self, retryable: Collection[int], now_s: float) -> list[Effect]:
        """The engine is gone with all it was running, and another one is being started.

        Tickets among ``retryable``, which have sent no output yet, wait again, each to run alone at first. Those that
        were running at the crash before as well are given up, and so are all that have sent output. One whose
        sequences have all ended loses nothing: it leaves as if its engine went on. In a drain nothing waits again.
        """
        self.mode.engine_is(EngineState.RESTARTING)
        self._begin(now_s)
        alone = self._lifecycle.crash_suspects.crash()
        for record in sorted(self.dispatched(), key=self._urgency, reverse=True):
            lost = record.phase is Phase.RUNNING and record.sequences > 0
            self._lifecycle.engine_gone(record, now_s)
            if lost:
                again = record.ticket.id in retryable
                suspected = alone in (None, record.ticket.id)
                self._requeue_or_give_up(record, now_s, retryable=again, suspected=suspected)
        if self.mode.draining:
            self._lifecycle.refuse_all(list(self._scheduler.queue), Reason.DRAINING, now_s)
        self._scheduler.prefixes.clear()
        return self._end(now_s)

    def engine_lost(self, now_s: float, reason: Reason = Reason.ENGINE_LOST) -> list[Effect]:
        """The engine is gone, with all it was running; ``reason`` is DRAINING when it was stopped on purpose.

        A ticket whose sequences have all ended loses nothing: it leaves as if its engine went on.
        """
        self.mode.engine_is(EngineState.LOST, reason)
        self._begin(now_s)
        self._lifecycle.refuse_all(list(self._scheduler.queue), reason, now_s)
        for record in list(self.dispatched()):
            if record.phase is Phase.RUNNING and record.sequences:
                self._lifecycle.abort(record, reason)
            self._lifecycle.engine_gone(record, now_s)
        self._scheduler.prefixes.clear()
        return self._end(now_s)

    def engine_back(self, now_s: float) -> list[Effect]:
        """There is an engine again, or it responds again."""
        self._begin(now_s)
        if self.engine in (EngineState.RESTARTING, EngineState.LOST):
            self._capacity.begin(now_s)
            self._weigh(now_s)
        closed = not self.mode.open
        self.mode.engine_is(EngineState.UP)
        self._fill_again(now_s, closed=closed)
        return self._end(now_s)

    def warmed_up(self, now_s: float) -> list[Effect]:
        """The engine is warm: from now on its seats open one after another, if the preset says so."""
        self._capacity.begin(now_s)
        self._weigh(now_s)
        self._begin(now_s)
        return self._end(now_s)

    def recall_engine(self, learnt: Mapping[str, float]) -> None:
        """The fit of the step time goes on from what another process had learnt of this engine."""
        self._capacity.engine.recall(learnt)

    def recall_limit(self, learnt: Learnt, now_s: float) -> list[Effect]:
        """Start the limit from what another process had learnt. Without effect once this one has learnt by itself."""
        self._capacity.recall(learnt)
        self._weigh(now_s)
        self._begin(now_s)
        self._dispatcher.fill(now_s)
        return self._end(now_s)

    def cap_seats(self, reason: CapReason, ratio: float, now_s: float) -> list[Effect]:
        """Use only this share of the limit, for this reason; the least of all shares counts, and one seat is open."""
        self._capacity.cap(reason, ratio)
        self._weigh(now_s)
        self._begin(now_s)
        self._dispatcher.fill(now_s)
        return self._end(now_s)

    def bound_seats(
        self, most: int | None, now_s: float, *, present: float = 1.0, elsewhere: int = 0, front: float = 1.0
    ) -> list[Effect]:
        """Use no more seats than that, under this preset and every later one; None: no bound. One seat is open.

        ``present`` is the share of the instances that are there: theirs is so much of the limit. ``elsewhere`` seats
        are taken at those that are not. ``front`` is this front's share, of several before the same instances.
        """
        self._capacity.bound(most, present, elsewhere, front)
        self._weigh(now_s)
        self._begin(now_s)
        self._dispatcher.fill(now_s)
        return self._end(now_s)

    # ------------------------------------------------------------------ questions

    @property
    def preset(self) -> Preset:
        """The preset in force."""
        return self.mode.preset

    @property
    def revision(self) -> int:
        """The number of the preset in force: the first has 1."""
        return self.mode.revision

    @property
    def state(self) -> AdmissionState:
        """Whether tickets are dispatched; the state of the engine is another question."""
        return self.mode.state

    @property
    def holds(self) -> frozenset[Hold]:
        """The causes for which nothing is dispatched now, but for a drain."""
        return self.mode.holds

    @property
    def engine(self) -> EngineState:
        """The state of the engine."""
        return self.mode.engine

    @property
    def ceiling(self) -> int | None:
        """The most seats the engine can give."""
        return self._capacity.ceiling

    @property
    def engine_up(self) -> bool:
        """Whether tickets go to the engine."""
        return self.engine is EngineState.UP

    @property
    def suspects(self) -> int:
        """How many tickets still have to run alone after a crash."""
        return len(self._lifecycle.crash_suspects)

    @property
    def limit(self) -> int:
        """Seats allowed now: what the policy says, never above what the engine can give."""
        return self._scheduler.limit

    @property
    def limit_reason(self) -> str:
        """Why the limit is what it is, in one word; ``pacing`` while requests wait for the pace and not for a seat."""
        return "pacing" if self.paced and self._scheduler.queue.total.requests else self._capacity.why

    @property
    def paced(self) -> bool:
        """Whether the next prompt has to wait, seats or not: it would make those that run miss their pace."""
        return self._scheduler.paced

    @property
    def limit_failure(self) -> LimitFailure | None:
        """How the limit policy has failed since it was put in force, though it may have recovered; None if never."""
        return self._capacity.failure

    @property
    def order_failed(self) -> str | None:
        """How a custom order failed and was disabled; None while the preset's order is in force."""
        return self._scheduler.order_failed

    @property
    def window_failed(self) -> str | None:
        """How a custom window failed and was disabled; None while the preset's window is in force."""
        return self._scheduler.window_failed

    @property
    def prefixes(self) -> PrefixCache | None:
        """What the engine's prefix cache probably holds; None under an order that does not use it."""
        return self._scheduler.prefixes if self.preset.ordering.by_prefix else None

    @property
    def learnt_limit(self) -> Learnt | None:
        """What the limit has learnt of this engine, for another process; None where there is nothing yet."""
        return self._capacity.learnt()

    @property
    def engine_fit(self) -> EngineFit:
        """The step time of the engine as it is fitted; not to be changed."""
        return self._capacity.engine

    @property
    def sequence_tokens(self) -> float:
        """The mean length of the recent sequences, prompt and answer; 0 before one has completed."""
        return self._forecast.sizes.prompt_tokens + self._forecast.sizes.output_tokens

    @property
    def most_seats(self) -> float:
        """The most seats that the limit may come to now; infinite where nothing known bounds it."""
        return self._scheduler.most_seats

    def proposed_limit(self, now_s: float) -> int:
        """What the limit policy would set without the shadow mode, where it is another number than ``limit``."""
        return self._capacity.proposed(now_s)

    @property
    def seats_taken(self) -> int:
        """Seats of the limit that are taken, and those beside a batch."""
        return self._scheduler.seats.taken + self._scheduler.seats.beside

    @property
    def sequences(self) -> int:
        """Sequences in the engine: more than the seats taken where a request is wider than the limit."""
        return self.seats_taken + self._scheduler.seats.overflow

    def window_s(self, now_s: float) -> float:
        """How long a batch may gather now; 0 under a strategy that gathers none."""
        return self._scheduler.window_s(now_s)

    def window_reason(self, now_s: float) -> WindowReason | None:
        """What decides how long a batch may gather now; None under a strategy that uses no window."""
        return self._scheduler.window_reason(now_s)

    @property
    def wanted_seats(self) -> int:
        """The seats that are taken, and those that what waits would take if they were free."""
        return self.seats_taken + (0 if self.holds else self._scheduler.queue.total.seats)

    def whole_limit(self, now_s: float) -> int:
        """The limit in front of all instances and of all fronts together, whichever share of it is open."""
        return self._capacity.whole(now_s)

    def scale_ratio(self, now_s: float) -> float:
        """How many times the limit the demand would fill: the signal for a number of replicas."""
        taken, waiting = self._scheduler.seats.taken, self._scheduler.queue.total.seats
        return scale_ratio(self.demand_seats(now_s), taken, waiting, self._scheduler.limit)

    def demand_seats(self, now_s: float) -> float:
        """The seats that arrivals fill on average, refused ones included; 0 while too few requests have ended."""
        return self._forecast.demand.total_seats(now_s)

    def waiting_seat_s(self) -> dict[str, float]:
        """For how long what waits of each class will hold seats, in seat seconds; 0 while too few have ended."""
        demand, waiting = self._forecast.demand, self._scheduler.queue.by_class
        return {name: one.seats * demand.residence_s(name) for name, one in waiting.items()}

    def waiting_tokens(self) -> int:
        """Prompt tokens waiting."""
        return self._scheduler.queue.total.tokens

    def waiting_bytes(self) -> int:
        """Bytes of prompts waiting."""
        return self._scheduler.queue.total.bytes

    def accuracy(self) -> dict[str, Accuracy]:
        """How good the predictions have been: of output lengths, and of waits in the queue."""
        return self._forecast.accuracy()

    def retry_after_s(self, now_s: float) -> int:
        """Whole seconds after which a refused client may be served."""
        return self._lifecycle.retry_after_s(now_s)

    def objectives(self, class_name: str, prompt_tokens: float | None = None) -> Resolved:
        """The objectives of a class of the preset on this engine as it is now, for a prompt of this length; None: of
        the recent mean length, ``usual_prompt_tokens``.
        """
        return self._objectives.resolved(class_name, prompt_tokens)

    @property
    def usual_prompt_tokens(self) -> float:
        """The mean length of the recent prompts; 0 before a request has completed."""
        return self._forecast.sizes.prompt_tokens

    def standing_queues(self, now_s: float) -> list[str]:
        """The classes that have waited beyond the target of their objective for so long that waits are cut."""
        return list(self._objectives.standing(now_s))

    def held_seats(self) -> dict[str, int]:
        """The seats that are kept for each class from less urgent ones: what it reserves, or what its demand needs."""
        held = self._scheduler.seats.held()
        return {name: held.get(name, 0) for name in self.preset.classes}

    def oldest_wait_s(self, now_s: float) -> dict[str, float]:
        """For each class, how long its longest-waiting ticket has waited; 0 where none waits."""
        oldest = dict.fromkeys(self.ledger.classes, 0.0)
        strangers = any(one.queued for name, one in self.ledger.classes.items() if name not in self.preset.classes)
        for ticket in self._scheduler.queue if strangers else self._scheduler.queue.oldest():
            oldest[ticket.class_name] = max(oldest[ticket.class_name], now_s - ticket.arrived_s)
        return oldest

    def waiting(self) -> Iterator[tuple[Ticket, float | None]]:
        """The waiting tickets, and until when each waits at the most."""
        return ((ticket, self._lifecycle.deadlines.of(ticket.id)) for ticket in self._scheduler.queue)

    def dispatched(self) -> Iterator[Record]:
        """The records of tickets that were dispatched and are still here."""
        return self._lifecycle.dispatched()

    # ------------------------------------------------------------------ around every event

    def _begin(self, now_s: float) -> None:
        """Before any event: open a list of effects, settle the tickets whose time has run out, and fill their seats."""
        capacity, lifecycle = self._capacity, self._lifecycle
        if capacity.adapts or capacity.opening.moving:
            self._weigh(now_s)
        lifecycle.effects = []
        self._dispatcher.patience = SLICE
        if lifecycle.deadlines.earliest_s <= now_s or lifecycle.crash_suspects.cleared_s is not None:
            self._dispatcher.settle_due(now_s)
        if now_s >= self._objectives.hold_again_s and self._objectives.hold(now_s):
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
                due_s = shorter(due_s, self._objectives.hold_again_s)
            if self._scheduler.paced and capacity.pacer is not None and now_s < capacity.pacer.stale_s:
                due_s = shorter(due_s, capacity.pacer.stale_s)
        effects, lifecycle.effects = lifecycle.effects, []
        if due_s is not None and (armed_s is None or due_s < armed_s):
            self._armed_s = due_s
            effects.append(WakeAt(due_s))
        return effects

    def _weigh(self, now_s: float) -> None:
        self._scheduler.limit = self._capacity.seats(now_s)
        self._scheduler.most_seats = self._capacity.most_seats(self._scheduler.limit)

    def _fill_again(self, now_s: float, *, closed: bool) -> None:
        """Dispatch what may go; ``closed``: nothing could go until now, and the queues have grown for that."""
        if closed and self.mode.open:
            self._objectives.reopened(now_s)
        self._dispatcher.fill(now_s)

    def _refuse_shed(self, now_s: float) -> None:
        """Refuse the waiting tickets of classes that are shed now."""
        if Rung.SHED in self.mode.in_force:
            shed = [one for one in self._scheduler.queue if self.mode.sheds(one)]
            self._lifecycle.refuse_all(shed, Reason.SHED, now_s)

    def _urgency(self, record: Record) -> int:
        return self.mode.terms(record.ticket).priority

    def _requeue_or_give_up(self, record: Record, now_s: float, *, retryable: bool, suspected: bool) -> None:
        """The engine died under a running ticket: it waits again, or is given up."""
        if retryable and suspected and record.crash == self._lifecycle.crash_suspects.crashes - 1:
            self._lifecycle.abort(record, Reason.POISON)
        elif not retryable:
            self._lifecycle.abort(record, Reason.ENGINE_LOST)
        else:
            self._lifecycle.requeue(record, now_s)
