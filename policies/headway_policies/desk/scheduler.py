"""Who may go to the engine now?

The scheduler is where people stand and sit: the waiting room, the seats, and between them the batching strategy. It
knows nothing of time-outs, outcomes or effects; the desk asks it who may go, decides, and tells it what became of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headway_policies.batching import Gathered, LengthBins, Strategy, Window, make_strategy, make_window
from headway_policies.desk.record import Record
from headway_policies.desk.seats import Seats
from headway_policies.fallback import Rung, bypasses
from headway_policies.preset import Preset
from headway_policies.queueing import Lane, SafeOrder, WaitQueue, make_order
from headway_policies.request import Ticket


class Scheduler:
    """The waiting room and the seats under one preset. ``limit`` is set by the desk before it asks anything."""

    strategy: Strategy
    window: Window

    def __init__(self, preset: Preset) -> None:
        self.limit = 1
        self.limited = False
        self.batch = 0
        self.seats = Seats()
        self.beside = 0
        self.overflow = 0
        self._batch_seats = 0
        self._batch_s = 0.0
        self._preset = preset
        self._bins = LengthBins(preset.batching.bins, preset.batching.seats)
        self._install_batching(preset)
        self.room = WaitQueue(preset.classes, preset.queue, _lanes(preset))
        self._rank(preset)

    def lanes_for(self, preset: Preset) -> list[Lane] | None:
        """Empty lanes, where a preset wants another order than the one in force; None where it does not.

        Raises whatever a policy of somebody else's raises while it is made.
        """
        return None if _order_part(self._preset) == _order_part(preset) else _lanes(preset)

    def switch(self, preset: Preset, lanes: list[Lane] | None) -> None:
        """Put another preset in force, with its lanes: where they are new, everybody has to be filed again."""
        before = self._preset
        self._preset = preset
        self._rank(preset)
        if (before.batching.bins, before.batching.seats) != (preset.batching.bins, preset.batching.seats):
            self._bins = LengthBins(preset.batching.bins, preset.batching.seats)
        if before.batching != preset.batching:
            self._install_batching(preset)
        if lanes is not None:
            self.room = WaitQueue(preset.classes, preset.queue, lanes)
        self.room.classes, self.room.queue = preset.classes, preset.queue

    # ------------------------------------------------------------------ who waits

    def lane(self, output_tokens: float, *, learn: bool) -> Lane:
        """Where a ticket of that predicted length belongs; ``learn`` when it is a newcomer."""
        lanes = self.room.lanes
        if len(lanes) == 1:
            return lanes[0]
        if learn:
            self._bins.seen(output_tokens)
        return lanes[self._bins.bin_of(output_tokens)]

    def enter(self, record: Record, now_s: float) -> None:
        """A ticket takes its place in the queue."""
        self.room.push(record.ticket, record.line, record.lane, record.expected_tokens, now_s)

    def withdraw(self, record: Record) -> None:
        """A ticket leaves the queue."""
        self.room.remove(record.ticket, record.line, record.lane)

    def seats_ahead(self, ticket: Ticket) -> int:
        """The seats wanted by those who surely go before a ticket: the classes above it, and of its own the whole line,
        its tenant's part of it, or nobody, as the line is first come, first served, fair, or another.
        """
        line, inside = self.line_of(ticket), self._preset.ordering.inside
        own = {"fifo": self.room.seats_in(line), "fair": self.room.seats_in(line, ticket.tenant)}.get(inside, 0)
        return self.room.seats_above(line) + own

    @property
    def order_failed(self) -> str | None:
        """How an order of somebody else's went wrong and was put aside; None while the preset's own is in force."""
        orders = (lane.order for lane in self.room.lanes)
        return next((one.failed for one in orders if isinstance(one, SafeOrder) and one.failed), None)

    # ------------------------------------------------------------------ who goes

    def goes_at_once(self, ticket: Ticket, now_s: float) -> bool:
        """Whether a newcomer needs no place in the queue: nobody gathers, nobody before it may go, and it fits."""
        if self.strategy.barrier or not self.fits(ticket):
            return False
        return (
            not self.room.total.requests or self.room.lanes[0].order.head(now_s, self.seats.barred(self.limit)) is None
        )

    def leaving(self, now_s: float) -> list[tuple[Lane, int]]:
        """The lanes from which somebody may leave, with how many seats, the longest gathering first.

        Under a strategy with a barrier only one of them may be used at a time.
        """
        if not self.room.total.requests:
            return []
        if not self.strategy.barrier:
            self.limited = self.limited or self.seats.taken >= self.limit
            return [] if self.seats.taken >= self.limit else [(self.room.lanes[0], self.limit)]
        if self.seats.taken:
            return []
        found = []
        for gathered, lane in sorted(self._gathering(), key=lambda one: one[0].opened_s):
            seats = self.strategy.leaving(gathered, now_s)
            if seats:
                found.append((lane, seats))
                self.limited = self.limited or gathered.full
        return found

    def next(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next of a lane, if it fits. Whoever stands at the head and does not fit holds up those behind."""
        if not lane.seats or self.seats.taken >= self.limit:
            self.limited = self.limited or bool(lane.seats)
            return None
        barred = self.seats.barred(self.limit)
        ticket = lane.order.head(now_s, barred)
        if ticket is not None and self.fits(ticket):
            return ticket
        self.limited = self.limited or bool(barred) or (ticket is not None and not self._seats_fit(ticket))
        return None if ticket is None else self._passing_by(lane, ticket, now_s)

    def next_beside(self, in_force: Collection[Rung], ceiling: int | None, now_s: float) -> Ticket | None:
        """The next who may go beside the batch: on a seat that the engine has and no batch can get."""
        if Rung.BYPASS not in in_force or not self.strategy.barrier:
            return None
        lane_seats = self._preset.fallback.bypass_seats
        free = (lane_seats if ceiling is None else min(lane_seats, ceiling - self.limit)) - self.beside
        classes = self._preset.classes
        barred = [name for name, terms in classes.items() if not terms.may_bypass]
        for lane in self.room.lanes:
            ticket = lane.order.head(now_s, barred)
            if ticket is not None and bypasses(ticket, classes[self.line_of(ticket)], in_force, free):
                return ticket
        return None

    def open_batch(self, now_s: float) -> None:
        """Those dispatched from now on leave together."""
        self.batch += 1
        self._batch_seats, self._batch_s = 0, now_s

    @property
    def batch_seats(self) -> int:
        """The seats of the batch that left last."""
        return self._batch_seats

    def dispatch(self, record: Record) -> None:
        """A ticket goes from its place in the queue to its seats."""
        self._seat(record)
        self.withdraw(record)

    def dispatch_newcomer(self, record: Record, now_s: float) -> None:
        """A ticket that goes at once passes an empty queue: only its order has to book it."""
        order = record.lane.order
        order.push(record.ticket, record.line, record.expected_tokens, now_s)
        self._seat(record)
        order.remove(record.ticket.id)

    def _seat(self, record: Record) -> None:
        ticket = record.ticket
        record.lane.order.charge(ticket, record.line, record.expected_tokens)
        record.granted = record.seats = self.seats.needed(record.line, ticket.seats, self.limit)
        record.charged, record.beside = True, False
        record.sequences = ticket.seats
        self.overflow += ticket.seats - record.seats
        self._batch_seats += record.seats
        self.seats.take(record.line, record.seats, ticket.total_tokens)

    def dispatch_beside(self, record: Record) -> None:
        """A ticket goes from its place in the queue to seats of the bypass."""
        record.lane.order.charge(record.ticket, record.line, record.expected_tokens)
        record.granted = record.seats = record.sequences = record.ticket.seats
        record.charged = record.beside = True
        self.beside += record.seats
        self.withdraw(record)

    def occupy(self, record: Record, sequences: int, now_s: float) -> None:
        """The engine has so many sequences of a dispatched ticket from now on; the last seat freed may end the batch.

        A ticket wider than the limit holds no more seats than it was given: the others overflow into the engine's own
        queue.
        """
        seats = min(sequences, record.granted) if record.ticket.seats > record.granted else sequences
        self.overflow += (sequences - seats) - (record.sequences - record.seats)
        record.sequences = sequences
        if seats == record.seats:
            return
        if record.beside:
            self.beside += seats - record.seats
            record.seats = seats
            return
        tokens = record.ticket.total_tokens * (bool(seats) - bool(record.seats))
        self.seats.take(record.line, seats - record.seats, tokens)
        record.seats = seats
        if self.strategy.barrier and not self.seats.taken:
            self.window.batch_done(self._batch_seats, now_s - self._batch_s, now_s)

    def batch_due_s(self, now_s: float) -> float | None:
        """When the next batch leaves if nobody else comes; None when that is not a question of time."""
        if self.seats.taken or not self.strategy.barrier:
            return None
        dues_s = (self.strategy.due_s(gathered, now_s) for gathered, _ in self._gathering())
        return min((due_s for due_s in dues_s if due_s is not None), default=None)

    # ------------------------------------------------------------------ inside

    def _install_batching(self, preset: Preset) -> None:
        self.window = make_window(preset.batching.window, preset.batching.window_ms)
        self.strategy = make_strategy(preset.batching, self.window)

    def _rank(self, preset: Preset) -> None:
        """Put the classes' reserves in force, and know the most urgent one where there are several."""
        self.seats.reserve(preset.classes)
        self._urgent = preset.by_urgency()[0] if len(preset.classes) > 1 else None

    def _passing_by(self, lane: Lane, head: Ticket, now_s: float) -> Ticket | None:
        """Past a head that does not fit may go who fits into its class's reserve: they are no use to the head."""
        reserved = self.seats.reserves_above(self.line_of(head))
        if not reserved or not self._tokens_fit(head):
            return None
        barred = [name for name in self._preset.classes if name not in reserved]
        ticket = lane.order.head(now_s, barred)
        if ticket is None or ticket.seats > reserved[self.line_of(ticket)] or not self.fits(ticket):
            return None
        return ticket

    def line_of(self, ticket: Ticket) -> str:
        """The class in whose line a ticket stands."""
        return ticket.class_name if ticket.class_name in self._preset.classes else self._preset.default_class

    def fits(self, ticket: Ticket) -> bool:
        """Whether its seats and its tokens are free."""
        return self._seats_fit(ticket) and self._tokens_fit(ticket)

    def _seats_fit(self, ticket: Ticket) -> bool:
        return self.seats.fit(self.line_of(ticket), ticket.seats, self.limit)

    def _tokens_fit(self, ticket: Ticket) -> bool:
        """Within the token budget; what is larger than the whole budget runs alone."""
        budget_tokens = self._preset.batching.max_total_tokens
        return budget_tokens is None or not self.seats.taken or self.seats.tokens + ticket.total_tokens <= budget_tokens

    def _gathering(self) -> Iterable[tuple[Gathered, Lane]]:
        budget_tokens, most_seats = self._preset.batching.max_total_tokens, self.limit
        for lane in self.room.lanes:
            opened_s = lane.opened_s()
            if opened_s is not None:
                full = lane.seats >= most_seats or (budget_tokens is not None and lane.tokens >= budget_tokens)
                yield Gathered(lane.seats, most_seats, opened_s, full, self._urgent_s(lane)), lane

    def _urgent_s(self, lane: Lane) -> float | None:
        """When the longest-waiting ticket of the most urgent class arrived, where there are several classes."""
        if self._urgent is None or not lane.order.waiting(self._urgent):
            return None
        return min(one.arrived_s for one in lane.order.oldest() if self.line_of(one) == self._urgent)


def _lanes(preset: Preset) -> list[Lane]:
    """One lane for each bin; one in all where nobody gathers."""
    batching = preset.batching
    bins = 1 if batching.strategy == "continuous" else batching.bins
    return [Lane(make_order(preset.ordering, preset.classes)) for _ in range(bins)]


def _order_part(preset: Preset) -> object:
    """What the order of those who wait, and its books, depend on."""
    batching = preset.batching
    terms = {name: (one.priority, one.share, one.timeouts()) for name, one in preset.classes.items()}
    return preset.ordering, terms, preset.default_class, batching.strategy == "continuous", batching.bins
