"""The scheduler: which waiting ticket may be dispatched now, and how long a new ticket would wait.

It reads the queue, the seats and the batching strategy between them, and changes no record: ``lifecycle`` puts tickets
into the queue and on the seats. It knows nothing of outcomes or effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import ceil, inf, sqrt

from headway_policies.batching import (
    Gathered,
    LengthBins,
    ReportingWindow,
    SafeWindow,
    Strategy,
    WindowReason,
    make_strategy,
    make_window,
)
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.seats import Seats
from headway_policies.fallback import Rung, bypasses
from headway_policies.limits import Load, PrefillPacer
from headway_policies.prediction import DecayingRate, PrefixCache
from headway_policies.preset import Preset
from headway_policies.queueing import ClassQueues, Lane, SafeOrder, WaitQueue, make_order, shares
from headway_policies.request import Ticket

#: What classes were given counts for about so long, and as the guaranteed share from this part of it on.
_SHARES_MEMORY_S = 20.0
_GIVEN_RATIO = 0.95
_NEGLIGIBLE_TOKENS_PER_S = 1e-3


class Scheduler:
    """The queue and the seats under one preset. ``limit`` is set by the desk before it asks anything, and
    ``most_seats``, which the most urgent class may reach beyond it.

    ``limited`` says whether a ticket has lacked a seat, or the pace for one, since the engine's last step,
    ``next_seats`` how many one lacked together. ``pacer`` is that of the limit in force, ``paced`` whether it held the
    next ticket back when one was to go. ``batch`` is the number of the batch that was opened last, ``batch_seats`` are
    the seats it was given. ``prefixes`` is what the engine's prefix cache probably holds; only an order ``inside =
    "prefix"`` feeds and reads it.
    """

    strategy: Strategy
    window: ReportingWindow

    def __init__(self, preset: Preset, forecast: Forecast) -> None:
        self.limit = 1
        self.most_seats: float = 1
        self.limited = False
        self.next_seats = 1
        self.pacer: PrefillPacer | None = None
        self.paced = False
        self.batch = 0
        self.batch_seats = 0
        self.seats = Seats()
        self.prefixes = PrefixCache()
        self._forecast = forecast
        self._batch_s = 0.0
        self._sent_s: dict[str, float] = {}
        self._sent_tokens: dict[str, DecayingRate] = {}
        self._passed_s: dict[str, float] = {}
        self._preset = preset
        self._bins = LengthBins(preset.batching.bins, preset.batching.seats)
        self._install_batching(preset, _window(preset))
        self.queue = WaitQueue(preset.classes, preset.queue, self._lanes(preset))
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

    def switch(self, preset: Preset, lanes: list[Lane] | None, window: ReportingWindow) -> None:
        """Put another preset in force, with its window and its lanes.

        Where the lanes are new, all that wait have to be enqueued again.
        """
        before = self._preset
        self._preset, self.paced = preset, False
        self._rank(preset)
        if (before.batching.bins, before.batching.seats) != (preset.batching.bins, preset.batching.seats):
            self._bins = LengthBins(preset.batching.bins, preset.batching.seats)
        if before.batching != preset.batching:
            self._install_batching(preset, window)
        if not preset.ordering.by_prefix:
            self.prefixes.clear()  # nothing keeps it up to date
        if lanes is not None:
            self.queue = WaitQueue(preset.classes, preset.queue, lanes)
        self.queue.classes, self.queue.queue = preset.classes, preset.queue

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
        """Where a ticket of that predicted length belongs; ``learn`` when it is a new ticket."""
        lanes = self.queue.lanes
        if len(lanes) == 1:
            return lanes[0]
        if learn:
            self._bins.seen(output_tokens)
        return lanes[self._bins.bin_of(output_tokens)]

    def seats_ahead(self, ticket: Ticket) -> int:
        """The seats wanted by the tickets that surely go before this one: those of the classes above it, and of its own
        class all, those of its tenant, or none, as its order is first come, first served, fair, or another; without
        those that have been relegated.
        """
        queue_class, inside, own = self.class_of(ticket), self._preset.ordering.inside, 0
        if inside in ("fifo", "fair"):
            tenant = ticket.tenant if inside == "fair" else None
            own = self.queue.seats_in(queue_class, tenant) - self.queue.late_seats(queue_class, tenant)
        return self.queue.seats_above(queue_class) + own

    def predicted_wait_s(self, ticket: Ticket, more_seats: int = 0) -> float | None:
        """How long a ticket waits behind all that surely go before it, and ``more_seats``; None where unknown."""
        if self.strategy.barrier:
            return None
        return self._forecast.wait_s(self.seats_ahead(ticket) + more_seats, self.seats.taken, self.limit)

    def needed(self, ticket: Ticket) -> int:
        """The seats that have to be free for a ticket."""
        return self.seats.needed(self.class_of(ticket), ticket.seats, self.limit)

    def is_wide(self, ticket: Ticket) -> bool:
        """Whether a ticket waits until more than half of what its class could ever have is free at once; none does
        where all seats come free together.
        """
        if ticket.seats == 1 or self.strategy.barrier:
            return False
        return 2 * ticket.seats > self.seats.most(self.class_of(ticket), self.limit)

    def expected_wait_s(self, ticket: Ticket) -> float | None:
        """How long a new ticket will probably wait, all in turn by their shares; None where unknown.

        Of its own class it waits for those that its order puts before it; under ``weighted`` the other classes that
        wait take their shares meanwhile, else those above it go first.
        """
        if self.strategy.barrier:
            return None
        queue, queue_class = self.queue, self.class_of(ticket)
        ahead = self._seats_before(ticket, queue_class)
        if self._preset.ordering.between == "weighted":
            waiting = sum(share for name, share in self._shares.items() if queue.seats_in(name) or name == queue_class)
            ahead = min(queue.total.seats, int(ahead * waiting / self._shares[queue_class]))
        else:
            ahead += queue.seats_above(queue_class)
        return self._forecast.wait_s(ahead + self.needed(ticket), self.seats.taken, self.limit)

    def oldest_s(self, queue_class: str) -> float | None:
        """When the longest-waiting ticket of a class arrived; None when none waits."""
        if not self.queue.by_class[queue_class].requests:
            return None
        return self._oldest_s(self.queue.lanes, queue_class)

    @property
    def order_failed(self) -> str | None:
        """How a custom order failed and was disabled; None while the preset's own is in force."""
        orders = (lane.order for lane in self.queue.lanes)
        return next((one.failed for one in orders if isinstance(one, SafeOrder) and one.failed), None)

    @property
    def window_failed(self) -> str | None:
        """How a custom window failed and was disabled; None while the preset's own is in force."""
        return self.window.failed if isinstance(self.window, SafeWindow) else None

    # ------------------------------------------------------------------ what goes next

    def goes_at_once(self, ticket: Ticket, now_s: float) -> bool:
        """Whether a new ticket needs no place in the queue: no batch gathers, nothing before it may go, and it fits."""
        if self.strategy.barrier or self.seats.taken >= self.limit or not self.fits(ticket) or self._holds_back(now_s):
            return False
        queue = self.queue
        return not queue.total.requests or queue.lanes[0].order.head(now_s, self.seats.barred(self.limit)) is None

    def leaving(self, now_s: float) -> list[tuple[Lane, int]]:
        """The lanes from which tickets may leave, with how many seats, the longest gathering first.

        Under a strategy with a barrier only one of them may be used at a time.
        """
        if not self.queue.total.requests:
            return []
        if not self.strategy.barrier:
            full = self.seats.taken >= self.limit
            self.limited, self.paced = self.limited or full, self.paced and not full
            return [] if full and not self._beyond_limit() else [(self.queue.lanes[0], self.limit)]
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
        """The next of a lane, if it fits. A head that does not fit holds up those behind it."""
        if not lane.seats:
            return None
        if self.seats.taken >= self.limit:
            self.limited = True
            return self._next_beyond(lane, now_s)
        if self._holds_back(now_s):
            self.limited = True
            return self._overdrawing(lane, now_s)
        barred = self.seats.barred(self.limit)
        ticket = lane.order.head(now_s, barred)
        if ticket is not None and self.fits(ticket):
            return ticket
        if ticket is not None and not self._seats_fit(ticket):
            self.limited, self.next_seats = True, max(self.next_seats, ticket.seats)
        self.limited = self.limited or bool(barred)
        return None if ticket is None else self._passing_by(lane, ticket, now_s)

    def next_beside(self, in_force: Collection[Rung], ceiling: int | None, now_s: float) -> Ticket | None:
        """The next that may go beside the batch: on a seat that the engine has and no batch can get."""
        if Rung.BYPASS not in in_force or not self.strategy.barrier:
            return None
        lane_seats = self._preset.fallback.bypass_seats
        free = (lane_seats if ceiling is None else min(lane_seats, ceiling - self.limit)) - self.seats.beside
        classes = self._preset.classes
        barred = [name for name, terms in classes.items() if not terms.may_bypass]
        for lane in self.queue.lanes:
            ticket = lane.order.head(now_s, barred)
            if ticket is not None and bypasses(ticket, classes[self.class_of(ticket)], in_force, free):
                return ticket
        return None

    def seats_of_share(self, class_name: str) -> int:
        """The seats that a class may still take as its own: its share of the limit and the square root of that, by
        which its demand varies; negative where it has more.
        """
        return _with_root(self._shares[class_name] * self.limit) - self.seats.taken_by(class_name)

    def held_back(self, now_s: float, class_name: str) -> bool:
        """Whether no prompt of a class may be computed now beside those that run."""
        pacer = self.pacer
        return pacer is not None and not pacer.open(self.seats.taken, now_s, urgent=class_name == self._urgent)

    def below_served(self, class_name: str, since_s: float) -> bool:
        """Whether a less urgent ticket than those of a class waits, or has been dispatched since then."""
        return self.below_waits(class_name) or self.below_sent(class_name, since_s)

    def below_waits(self, class_name: str) -> bool:
        """Whether a less urgent ticket than those of a class waits."""
        return any(self.queue.by_class[name].requests for name in self._below[class_name])

    def below_sent(self, class_name: str, since_s: float) -> bool:
        """Whether a less urgent ticket than those of a class has been dispatched since then."""
        return any(self._sent_s.get(name, -inf) >= since_s for name in self._below[class_name])

    def closed_to(self, class_name: str) -> bool:
        """Whether no ticket of a class, nor a less urgent one, may take a seat now, however few it needs."""
        return self.paced or self.seats.free(class_name, self.limit) < 1

    def passed_over(self, class_name: str, since_s: float) -> bool:
        """Whether one has been dispatched since then beside the order between the classes."""
        return any(self._passed_s.get(name, -inf) >= since_s for name in self._below[class_name])

    def used_up(self, class_name: str, now_s: float) -> bool:
        """Whether a class has been given what its share guarantees it, beside those less urgent, as far as these wait
        or were served shortly before.
        """
        sent, below = self._sent_tokens, self._below[class_name]
        theirs = {name: sent[name].per_s(now_s) for name in below if name in sent}
        total = sum(theirs.values())
        if total <= _NEGLIGIBLE_TOKENS_PER_S:
            return True
        present = sum(self._shares[name] for name in below if theirs.get(name) or self.queue.by_class[name].requests)
        own = sent[class_name].per_s(now_s) if class_name in sent else 0.0
        guaranteed = self._shares[class_name] / (self._shares[class_name] + present)
        return own >= _GIVEN_RATIO * guaranteed * (own + total)

    def sent(self, class_name: str, now_s: float, tokens: float, *, in_order: bool) -> None:
        """A ticket of a class was dispatched, expected to use so many tokens; ``in_order``: when its order said so,
        among all that wait.
        """
        self._sent_s[class_name] = now_s
        rate = self._sent_tokens.get(class_name)
        if rate is None:
            rate = self._sent_tokens[class_name] = DecayingRate(_SHARES_MEMORY_S, now_s)
        rate.add(tokens, now_s)
        if not in_order or len(self.queue.lanes) > 1:
            self._passed_s[class_name] = now_s

    def head(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next of a lane, whether it fits or not."""
        return lane.order.head(now_s, self.seats.barred(self.limit))

    def open_batch(self, now_s: float) -> None:
        """Those dispatched from now on leave together."""
        self.batch += 1
        self.batch_seats, self._batch_s = 0, now_s

    def seats_freed(self, now_s: float) -> None:
        """Seats of the limit came free: the last of them ends the batch."""
        if self.seats.taken:
            return
        if self.strategy.barrier:
            self.window.batch_done(self.batch_seats, now_s - self._batch_s, now_s)
        if self.pacer is not None:
            self.pacer.idle()

    def window_s(self, now_s: float) -> float:
        """How long a batch may gather now; 0 under a strategy that gathers none."""
        if not self.strategy.barrier:
            return 0.0
        return self.window.length_s(Gathered(0, self.limit, now_s), now_s)

    def window_reason(self, now_s: float) -> WindowReason | None:
        """What decides how long a batch may gather now; None under a strategy that uses no window."""
        if self._preset.batching.strategy != "dynamic":
            return None
        return self.window.reason(Gathered(0, self.limit, now_s), now_s)

    def first_token(self, delay_s: float, slo_s: float | None) -> None:
        """A first token came so long after the arrival of its request: where its class has an objective, it matters."""
        if self.strategy.barrier and slo_s is not None:
            self.window.first_token(delay_s / slo_s)

    def batch_due_s(self, now_s: float) -> float | None:
        """When the next batch leaves if no ticket arrives until then; None when that is not a matter of time."""
        if self.seats.taken or not self.strategy.barrier:
            return None
        dues_s = (self.strategy.due_s(gathered, now_s) for gathered, _ in self._gathering())
        return min((due_s for due_s in dues_s if due_s is not None), default=None)

    # ------------------------------------------------------------------ inside

    def _lanes(self, preset: Preset) -> list[Lane]:
        """One lane for each bin; one in all where no batch gathers."""
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
        ranked = preset.by_urgency()
        self._below = {name: ranked[place + 1 :] for place, name in enumerate(ranked)}
        self._urgent = ranked[0] if len(ranked) > 1 else None

    def _beyond_limit(self) -> int:
        """The seats that the most urgent class may take beyond a limit that moves: less urgent tickets that took more
        than what is left to them now do not hold it up.
        """
        urgent, seats = self._urgent, self.seats
        if urgent is None or self.strategy.barrier or not self.queue.by_class[urgent].requests:
            return 0
        return int(max(0, min(self.seats_of_share(urgent), self.most_seats - seats.taken)))

    def _next_beyond(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next, where it is of the most urgent class, which may take seats beyond the limit, and the pace has a
        margin. It has to be its turn: over time its share of the tokens is that of the order.
        """
        most = self._beyond_limit()
        if not most or (self.pacer is not None and not self.pacer.open(self.seats.taken, now_s, urgent=True)):
            return None
        ticket = lane.order.head(now_s)
        if ticket is None or self.class_of(ticket) != self._urgent:
            return None
        return ticket if ticket.seats <= most and self._tokens_fit(ticket) else None

    def _passing_by(self, lane: Lane, head: Ticket, now_s: float) -> Ticket | None:
        """A ticket that fits into its class's reserve may pass a head that does not fit: the head cannot use it."""
        reserved = self.seats.reserves_above(self.class_of(head))
        return self._within(reserved, lane, now_s) if reserved and self._tokens_fit(head) else None

    def _overdrawing(self, lane: Lane, now_s: float) -> Ticket | None:
        """The next of the most urgent class, for which the pace has a margin while it holds less than its share of what
        runs, of those classes that run or wait, and the square root of that; None where it may not, or none of it fits.
        """
        urgent, taken, pacer = self._urgent, self.seats.taken, self.pacer
        if urgent is None or pacer is None or not pacer.open(taken, now_s, urgent=True):
            return None
        by_class, seats_of, shares_of = self.queue.by_class, self.seats.taken_by, self._shares
        present = sum(shares_of[name] for name in shares_of if seats_of(name) or by_class[name].requests)
        seats = _with_root(shares_of[urgent] / present * max(taken + 1, self.limit)) - seats_of(urgent)
        ticket = self.queue.first_of(urgent, lane, now_s)
        return ticket if ticket is not None and ticket.seats <= seats and self.fits(ticket) else None

    def _within(self, seats: Mapping[str, int], lane: Lane, now_s: float) -> Ticket | None:
        """The next ticket of these classes, if it fits into so many seats of its own."""
        ticket = lane.order.head(now_s, [name for name in self._preset.classes if name not in seats])
        if ticket is None or ticket.seats > seats[self.class_of(ticket)] or not self.fits(ticket):
            return None
        return ticket

    def _holds_back(self, now_s: float) -> bool:
        """Whether no prompt may be computed now beside those that run. A batch is computed whole."""
        pacer = None if self.strategy.barrier else self.pacer
        self.paced = pacer is not None and not pacer.open(self.seats.taken, now_s)
        return self.paced

    def _seats_before(self, ticket: Ticket, queue_class: str) -> int:
        """About the seats of those of its class that go before a new ticket; of all, if a custom order decides."""
        order, waiting = self.queue.lanes[0].order, self.queue.by_class[queue_class]
        if not waiting.requests or not isinstance(order, ClassQueues):
            return waiting.seats
        return ceil(order.ahead(queue_class, ticket.tenant) * waiting.seats / waiting.requests)

    def class_of(self, ticket: Ticket) -> str:
        """The class in whose queue a ticket waits."""
        return ticket.class_name if ticket.class_name in self._preset.classes else self._preset.default_class

    def fits(self, ticket: Ticket) -> bool:
        """Whether its seats and its tokens are free."""
        return self._seats_fit(ticket) and self._tokens_fit(ticket)

    def _seats_fit(self, ticket: Ticket) -> bool:
        return self.seats.fit(self.class_of(ticket), ticket.seats, self.limit)

    def _tokens_fit(self, ticket: Ticket) -> bool:
        """Within the token budget; a ticket larger than the whole budget runs alone."""
        budget_tokens = self._preset.batching.max_total_tokens
        return budget_tokens is None or not self.seats.taken or self.seats.tokens + ticket.total_tokens <= budget_tokens

    def _gathering(self) -> Iterable[tuple[Gathered, Lane]]:
        budget_tokens, most_seats = self._preset.batching.max_total_tokens, self.limit
        for lane in self.queue.lanes:
            opened_s = lane.opened_s()
            if opened_s is not None:
                full = lane.seats >= most_seats or (budget_tokens is not None and lane.tokens >= budget_tokens)
                yield Gathered(lane.seats, most_seats, opened_s, full, self._urgent_s(lane)), lane

    def _urgent_s(self, lane: Lane) -> float | None:
        """When the longest-waiting ticket of the most urgent class arrived, where there are several classes."""
        return None if self._urgent is None else self._oldest_s((lane,), self._urgent)

    def _oldest_s(self, lanes: Iterable[Lane], queue_class: str) -> float | None:
        tickets = (one for lane in lanes if lane.order.waiting(queue_class) for one in lane.order.oldest())
        return min((one.arrived_s for one in tickets if self.class_of(one) == queue_class), default=None)


def _with_root(seats: float) -> int:
    """So many seats and the square root of that, by which the demand of a class varies."""
    return ceil(seats + sqrt(seats))


def _window(preset: Preset) -> ReportingWindow:
    return make_window(preset.batching.window, preset.batching.window_ms)


def _order_part(preset: Preset) -> object:
    """What the order of the waiting tickets, and its books, depend on."""
    batching = preset.batching
    terms = {name: (one.priority, one.share, one.timeouts()) for name, one in preset.classes.items()}
    return preset.ordering, terms, preset.default_class, batching.strategy == "continuous", batching.bins
