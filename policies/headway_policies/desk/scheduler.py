"""The scheduler: which waiting ticket may be dispatched now, and how long a new ticket would wait.

The scheduler reads the queue, the seats, the limit and the batching strategy between them. A question changes nothing:
what a ticket lacked is part of the answer, and ``lifecycle`` puts tickets into the queue and on the seats. The
scheduler knows nothing of outcomes or effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import ceil, inf, sqrt

from headway_policies.batching import Gathered, LengthBins, ReportingWindow, Strategy, make_strategy, make_window
from headway_policies.desk.books.record import Record
from headway_policies.desk.books.seats import Seats
from headway_policies.desk.capacity import Capacity
from headway_policies.desk.forecast import Forecast
from headway_policies.fallback import Rung, bypasses
from headway_policies.limits import Load
from headway_policies.prediction import PrefixCache
from headway_policies.preset import Preset
from headway_policies.queueing import Adapters, ClassQueues, Lane, WaitQueue, make_order, shares
from headway_policies.request import Ticket


class Scheduler:
    """The queue and the seats under one preset; ``capacity`` is how many seats there are.

    ``batch`` is the number of the batch that was opened last, ``batch_seats`` are the seats it was given. ``prefixes``
    is what the engine's prefix cache probably holds; only an order ``inside = "prefix"`` feeds and reads it.
    """

    strategy: Strategy
    window: ReportingWindow

    def __init__(
        self, preset: Preset, capacity: Capacity, forecast: Forecast, most_adapters: int | None = None
    ) -> None:
        self.batch = 0
        self.batch_seats = 0
        self.seats = Seats()
        self.prefixes = PrefixCache()
        self.capacity = capacity
        self._forecast = forecast
        self._batch_s = 0.0
        self._preset = preset
        self._bins = LengthBins(preset.batching.bins, preset.batching.seats)
        self._install_batching(preset, _window(preset))
        self.queue = WaitQueue(preset.classes, preset.queue, self._lanes(preset), Adapters(most_adapters))
        self._rank(preset)

    def lanes_for(self, preset: Preset) -> list[Lane] | None:
        """Empty lanes, where a preset wants another order than the one in force; None where it does not.

        Raises whatever a custom policy raises while it is made.
        """
        return None if _order_part(self._preset) == _order_part(preset) else self._lanes(preset)

    def window_for(self, preset: Preset) -> ReportingWindow:
        """The window a preset wants; the one in force, with all it has learnt, where that part does not change.

        Raises whatever a custom policy raises while it is made.
        """
        return self.window if self._preset.batching == preset.batching else _window(preset)

    def switch(self, preset: Preset, lanes: list[Lane] | None, window: ReportingWindow, now_s: float) -> None:
        """Put another preset in force, with its window. Where it has new lanes, all that wait are enqueued again."""
        before, self._preset = self._preset, preset
        if (before.batching.bins, before.batching.seats) != (preset.batching.bins, preset.batching.seats):
            self._bins = LengthBins(preset.batching.bins, preset.batching.seats)
        if before.batching != preset.batching:
            self._install_batching(preset, window)
        if not preset.ordering.by_prefix:
            self.prefixes.clear()  # nothing keeps it up to date
        if lanes is None:
            self.queue.bound(preset.classes, preset.queue)
        else:
            self.queue.adapters.scatter(now_s)
            self.queue = WaitQueue(preset.classes, preset.queue, lanes, self.queue.adapters)
        self._rank(preset)

    def observe(self, load: Load) -> None:
        """The engine made a step: correct the model of its prefix cache, where the order uses it."""
        prefixes = self.prefixes
        if not self._preset.ordering.by_prefix:
            return
        if load.kv_capacity_tokens is not None:
            prefixes.resize(load.kv_capacity_tokens)
        if load.prefix_cleared:
            prefixes.clear()
        if load.prefix_queried_tokens:
            prefixes.found(load.prefix_queried_tokens, load.prefix_hit_tokens)

    # ------------------------------------------------------------------ the queue

    def lane(self, output_tokens: float, *, learn: bool) -> Lane:
        """The lane of a ticket of that predicted length; ``learn`` when it is a new ticket."""
        lanes = self.queue.lanes
        if len(lanes) == 1:
            return lanes[0]
        if learn:
            self._bins.seen(output_tokens)
        return lanes[self._bins.bin_of(output_tokens)]

    def seats_ahead(self, ticket: Ticket) -> int:
        """The seats wanted by the tickets that surely go before this one: those of the classes above it, under shares
        no more than theirs, and of its own class all, those of its tenant, or none, as its order is first come, first
        served, fair, or another; without those that have been relegated.
        """
        queue_class, ordering, own = self.class_of(ticket), self._preset.ordering, 0
        if ordering.inside in ("fifo", "fair"):
            tenant = ticket.tenant if ordering.inside == "fair" else None
            own = self.queue.seats_in(queue_class, tenant) - self.queue.late_seats(queue_class, tenant)
        ahead = self.queue.seats_above(queue_class) + own
        return ahead if ordering.by_urgency else min(ahead, self._by_shares(queue_class, own))

    def predicted_wait_s(self, ticket: Ticket, more_seats: int = 0) -> float | None:
        """The wait of a ticket behind all that surely go before it, and ``more_seats``; None where unknown."""
        if self.strategy.barrier:
            return None
        return self._forecast.wait_s(self.seats_ahead(ticket) + more_seats, self.seats.taken, self.capacity.limit)

    def needed(self, ticket: Ticket) -> int:
        """The seats that have to be free for a ticket."""
        return self.seats.needed(self.class_of(ticket), ticket.seats, self.capacity.limit)

    def is_wide(self, ticket: Ticket) -> bool:
        """Whether a ticket waits until more than half of what its class could ever have is free at once; none does
        where all seats come free together.
        """
        if ticket.seats == 1 or self.strategy.barrier:
            return False
        return 2 * ticket.seats > self.seats.most(self.class_of(ticket), self.capacity.limit)

    def expected_wait_s(self, ticket: Ticket) -> float | None:
        """The probable wait of a new ticket behind those of its class that its order puts before it, and what the other
        classes take meanwhile: their shares under ``weighted``, else all above it go first. None where unknown.
        """
        if self.strategy.barrier:
            return None
        queue_class, by_shares = self.class_of(ticket), self._preset.ordering.by_shares
        own = self._seats_before(ticket, queue_class)
        ahead = self._by_shares(queue_class, own) if by_shares else own + self.queue.seats_above(queue_class)
        return self._forecast.wait_s(ahead + self.needed(ticket), self.seats.taken, self.capacity.limit)

    def oldest_s(self, queue_class: str) -> float | None:
        """The arrival of the longest-waiting ticket of a class; None when none waits."""
        if not self.queue.by_class[queue_class].requests:
            return None
        return self._oldest_s(self.queue.lanes, queue_class)

    # ------------------------------------------------------------------ what goes next

    def goes_at_once(self, ticket: Ticket, now_s: float) -> bool:
        """Whether a new ticket needs no place in the queue: no batch gathers, nothing before it may go, and it fits."""
        seats, limit = self.seats, self.capacity.limit
        if self.strategy.barrier or seats.taken >= limit or not self.fits(ticket):
            return False
        if self.capacity.paces(seats.taken, now_s) and not self.capacity.passes(ticket):
            return False
        queue = self.queue
        if not queue.adapters.may_go(ticket) or queue.adapters.has_turn():
            return False
        return not queue.total.requests or queue.lanes[0].order.head(now_s, seats.barred(limit)) is None

    def leaving(self, now_s: float) -> list[tuple[Lane, Gathered, int]]:
        """The batches of which one may leave, with how many seats, the longest gathering first."""
        if self.seats.taken or not self.queue.total.requests:
            return []
        gathering = sorted(self._gathering(now_s), key=lambda batch: batch[0].opened_s)
        found = ((lane, gathered, self.strategy.leaving(gathered, now_s)) for gathered, lane in gathering)
        return [batch for batch in found if batch[2]]

    def next(self, lane: Lane, now_s: float) -> tuple[Ticket | None, int]:
        """The next of a lane, if it may go; and the seats that a ticket lacks together, by the limit or the pace, 0
        where none lacks any. A head that does not fit holds up those behind it. A ticket that was set aside goes first.
        """
        seats, capacity, adapters = self.seats, self.capacity, self.queue.adapters
        if not lane.seats and not adapters.lines:
            return None, 0
        if seats.taken >= capacity.limit:
            return self.next_beyond(lane, now_s), 1
        if capacity.paces(seats.taken, now_s):
            return self._overdrawing(lane, now_s) or self._short(lane, now_s) or self.next_beyond(lane, now_s), 1
        barred = seats.barred(capacity.limit)
        ticket = self._claim(barred, now_s) if adapters.lines else None
        if ticket is None:
            ticket = lane.order.head(now_s, barred)
        if ticket is None:
            return (self.next_beyond(lane, now_s) if barred else None), int(bool(barred))
        if self.fits(ticket) or not adapters.may_go(ticket):
            return ticket, 0
        lacks = int(bool(barred)) if self._seats_fit(ticket) else ticket.seats
        return self._passing_by(lane, ticket, now_s) or self.next_beyond(lane, now_s), lacks

    def next_beside(self, in_force: Collection[Rung], now_s: float) -> Ticket | None:
        """The next that may go beside the batch: on a seat that the engine has and no batch can get."""
        if Rung.BYPASS not in in_force or not self.strategy.barrier:
            return None
        lane_seats, ceiling = self._preset.fallback.bypass_seats, self.capacity.ceiling
        free = (lane_seats if ceiling is None else min(lane_seats, ceiling - self.capacity.limit)) - self.seats.beside
        classes = self._preset.classes
        barred = [name for name, terms in classes.items() if not terms.may_bypass]
        for lane in self.queue.lanes:
            ticket = lane.order.head(now_s, barred)
            if ticket is None or not self.queue.adapters.may_go(ticket):
                continue
            if bypasses(ticket, classes[self.class_of(ticket)], in_force, free):
                return ticket
        return None

    def seats_of_share(self, class_name: str) -> int:
        """The seats that a class may still take as its own: its share of the limit and the square root of that, by
        which its demand varies; negative where it has more.
        """
        return _with_root(self._shares[class_name] * self.capacity.limit) - self.seats.taken_by(class_name)

    def held_back(self, now_s: float, class_name: str) -> bool:
        """Whether no prompt of a class may be computed now beside those that run."""
        pacer = self.capacity.pacer
        return pacer is not None and not pacer.open(self.seats.taken, now_s, urgent=class_name == self._urgent)

    def closed_to(self, class_name: str) -> bool:
        """Whether no ticket of a class, nor a less urgent one, finds a seat now, whatever the pace."""
        return self.seats.free(class_name, self.capacity.limit) < 1

    def head(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next of a lane, whether it fits or not."""
        return lane.order.head(now_s, self.seats.barred(self.capacity.limit))

    def open_batch(self, now_s: float) -> None:
        """Begin a batch: the tickets dispatched from now on leave together."""
        self.batch += 1
        self.batch_seats, self._batch_s = 0, now_s

    def seats_freed(self, now_s: float) -> None:
        """Seats of the limit came free: the last of them ends the batch."""
        if self.seats.taken:
            return
        if self.strategy.barrier:
            self.window.batch_done(self.batch_seats, now_s - self._batch_s, now_s)
        if self.capacity.pacer is not None:
            self.capacity.pacer.idle()

    def first_token(self, delay_s: float, slo_s: float | None) -> None:
        """A first token came so long after the arrival of its request: where its class has an objective, it matters."""
        if self.strategy.barrier and slo_s is not None:
            self.window.first_token(delay_s / slo_s)

    def window_share(self, now_s: float) -> float:
        """The part of the window that a batch may gather for: that of the preset's seats which the limit allows."""
        seats, ceiling = self._preset.batching.seats, self.capacity.ceiling
        return min(1.0, self.capacity.whole(now_s) / (seats if ceiling is None else min(seats, ceiling)))

    def batch_due_s(self, now_s: float) -> float | None:
        """The time when the next batch leaves without a further arrival; None when time does not decide it."""
        if self.seats.taken or not self.strategy.barrier:
            return None
        dues_s = (self.strategy.due_s(gathered, now_s) for gathered, _ in self._gathering(now_s))
        return min((due_s for due_s in dues_s if due_s is not None), default=None)

    # ------------------------------------------------------------------ inside

    def _lanes(self, preset: Preset) -> list[Lane]:
        """A lane for each bin; a single lane where no batch gathers."""
        batching = preset.batching
        bins = 1 if batching.strategy == "continuous" else batching.bins
        return [Lane(make_order(preset.ordering, preset.classes, self.prefixes)) for _ in range(bins)]

    def _install_batching(self, preset: Preset, window: ReportingWindow) -> None:
        self.window = window
        self.strategy = make_strategy(preset.batching, self.window)

    def _rank(self, preset: Preset) -> None:
        """Put the classes' reserves in force, and know the most urgent one where there are several."""
        self.seats.reserve(preset.classes)
        self._shares = shares(preset.classes)
        self._urgent = preset.by_urgency()[0] if len(preset.classes) > 1 else None

    def next_beyond(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next, where it may have more seats than are free to it, and the pace has a margin for what is urgent.

        The most urgent class may go beyond a limit that moves, up to its share of it and the root of that; a tenant
        that is owed more, by what is lent to such tenants. In their turn only: the shares of the tokens stand.
        """
        seats, capacity, more, owed = self.seats, self.capacity, 0, False
        ticket = None if self.strategy.barrier or seats.taken >= capacity.most_seats else lane.order.head(now_s)
        if ticket is None:
            return None
        name, limit = self.class_of(ticket), capacity.limit
        if name == self._urgent and seats.taken >= limit:
            more = self.seats_of_share(name)
        if ticket.seats > more and self.queue.owed(ticket, lane, alone=True):
            room, owed = seats.free(name, limit), True
            more = room + capacity.lent(limit - seats.taken - room)
        if ticket.seats > min(more, capacity.most_seats - seats.taken) or not self.tokens_fit(ticket):
            return None
        pacer = capacity.pacer
        return ticket if pacer is None or pacer.open(seats.taken, now_s, urgent=True, owed=owed) else None

    def _passing_by(self, lane: Lane, head: Ticket, now_s: float) -> Ticket | None:
        """A ticket that fits into its class's reserve may pass a head that does not fit: the head cannot use it."""
        reserved = self.seats.reserves_above(self.class_of(head))
        return self._within(reserved, lane, now_s) if reserved and self.tokens_fit(head) else None

    def _claim(self, barred: Collection[str], now_s: float) -> Ticket | None:
        """The next of those that are set aside, where the engine could begin with it."""
        ended_per_s = self._forecast.freed_per_s(1)
        return self.queue.adapters.claim(barred, 1 / ended_per_s if ended_per_s else inf, now_s)

    def _overdrawing(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next of the most urgent class, for which the pace has a margin while it holds less than its share of what
        runs, of those classes that run or wait, and the square root of that; None where it may not, or none of it fits.
        """
        urgent, taken, pacer = self._urgent, self.seats.taken, self.capacity.pacer
        if urgent is None or pacer is None or not pacer.open(taken, now_s, urgent=True):
            return None
        by_class, seats_of, shares_of = self.queue.by_class, self.seats.taken_by, self._shares
        present = sum(shares_of[name] for name in shares_of if seats_of(name) or by_class[name].requests)
        seats = _with_root(shares_of[urgent] / present * max(taken + 1, self.capacity.limit)) - seats_of(urgent)
        ticket = self.queue.first_of(urgent, lane, now_s)
        return ticket if ticket is not None and ticket.seats <= seats and self.fits(ticket) else None

    def _short(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next, where its prompt is short and the pace holds others back for long ones; None else."""
        ticket = lane.order.head(now_s, self.seats.barred(self.capacity.limit))
        return ticket if ticket is not None and self.capacity.passes(ticket) and self.fits(ticket) else None

    def _within(self, seats: Mapping[str, int], lane: Lane, now_s: float) -> Ticket | None:
        """The next ticket of these classes, if it fits into so many seats of its own."""
        ticket = lane.order.head(now_s, [name for name in self._preset.classes if name not in seats])
        if ticket is None or ticket.seats > seats[self.class_of(ticket)] or not self.fits(ticket):
            return None
        return ticket

    def _seats_before(self, ticket: Ticket, queue_class: str) -> int:
        """About the seats of those of its class that go before a new ticket; of all, if a custom order decides."""
        order, waiting = self.queue.lanes[0].order, self.queue.by_class[queue_class]
        if not waiting.requests or not isinstance(order, ClassQueues):
            return waiting.seats
        return ceil(order.ahead(queue_class, ticket.tenant) * waiting.seats / waiting.requests)

    def _by_shares(self, queue_class: str, seats: int) -> int:
        """The waiting seats that go while a class is given so many, each class that waits by its share."""
        queue, share_of = self.queue, self._shares
        waiting = sum(share for name, share in share_of.items() if queue.seats_in(name) or name == queue_class)
        return min(queue.total.seats, int(seats * waiting / share_of[queue_class]))

    def class_of(self, ticket: Ticket) -> str:
        """The class in whose queue a ticket waits."""
        return ticket.class_name if ticket.class_name in self._preset.classes else self._preset.default_class

    def fits(self, ticket: Ticket) -> bool:
        """Whether its seats and its tokens are free."""
        return self._seats_fit(ticket) and self.tokens_fit(ticket)

    def _seats_fit(self, ticket: Ticket) -> bool:
        return self.seats.fit(self.class_of(ticket), ticket.seats, self.capacity.limit)

    def tokens_fit(self, ticket: Ticket, without: Record | None = None) -> bool:
        """Within the token budget, or alone; where a running ticket is given, once that is gone."""
        budget_tokens = self._preset.batching.max_total_tokens
        seats, tokens = (0, 0) if without is None else (without.seats, without.ticket.total_tokens)
        left_tokens = inf if budget_tokens is None else budget_tokens - self.seats.tokens + tokens
        return self.seats.taken <= seats or ticket.total_tokens <= left_tokens

    def _gathering(self, now_s: float) -> Iterable[tuple[Gathered, Lane]]:
        budget_tokens, most_seats = self._preset.batching.max_total_tokens, self.capacity.limit
        share, busy = self.window_share(now_s), self.capacity.gpu_busy_ratio
        for lane in self.queue.lanes:
            opened_s = lane.opened_s()
            if opened_s is not None:
                full = lane.seats >= most_seats or (budget_tokens is not None and lane.tokens >= budget_tokens)
                yield Gathered(lane.seats, most_seats, opened_s, full, self._urgent_s(lane), share, busy), lane

    def _urgent_s(self, lane: Lane) -> float | None:
        """The arrival of the longest-waiting ticket of the most urgent class, where there are several classes."""
        return None if self._urgent is None else self._oldest_s((lane,), self._urgent)

    def _oldest_s(self, lanes: Iterable[Lane], queue_class: str) -> float | None:
        tickets = (ticket for lane in lanes if lane.order.waiting(queue_class) for ticket in lane.order.oldest())
        return min((ticket.arrived_s for ticket in tickets if self.class_of(ticket) == queue_class), default=None)


def _with_root(seats: float) -> int:
    """The seats and their square root, by which the demand of a class varies."""
    return ceil(seats + sqrt(seats))


def _window(preset: Preset) -> ReportingWindow:
    return make_window(preset.batching.window, preset.batching.window_ms)


def _order_part(preset: Preset) -> object:
    """The parts of a preset on which the order of the waiting tickets, and its books, depend."""
    batching = preset.batching
    terms = {name: (stated.priority, stated.share, stated.timeouts()) for name, stated in preset.classes.items()}
    return preset.ordering, terms, preset.default_class, batching.strategy == "continuous", batching.bins
