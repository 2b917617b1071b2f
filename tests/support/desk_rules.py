"""The rules of a preset as formulas over plain lists: the oracle's own implementation of what is permitted.

A ticket that is late for its objective waits behind all others of its class. When exactly the desk takes it for late
depends on a prediction, which is not repeated here: tickets that may be late may have been passed, and one that was
passed for that goes when no other of its class is left. The order of all others is exact.

Nothing here is shared with the desk but the preset and the tickets. Everything is computed anew from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf, sqrt

from headway_policies import Preset, Ticket
from headway_policies.queueing import shares


@dataclass
class Sitting:
    """A ticket that was dispatched and may hold seats in the engine."""

    ticket: Ticket
    line: str
    seats: int
    granted: int
    batch: int
    sequences: int
    left: bool = False

    def has(self, sequences: int) -> None:
        """The engine has so many sequences of it; a wide one holds no more seats than it was given."""
        self.sequences = sequences
        self.seats = min(sequences, self.granted) if self.ticket.seats > self.granted else sequences


@dataclass
class Rules:
    """Waiting and running tickets, and what the preset says of them. ``preset``, ``limit`` and ``held``, the
    seats kept for each class, are set before any question.
    """

    preset: Preset
    limit: int = 1
    held: Mapping[str, int] = field(default_factory=dict)
    waiting: dict[int, Ticket] = field(default_factory=dict)
    sitting: dict[int, Sitting] = field(default_factory=dict)
    ceiling: int | None = None
    relegated: set[int] = field(default_factory=set)
    may_be_late: set[int] = field(default_factory=set)
    surely_late: set[int] = field(default_factory=set)

    # ------------------------------------------------------------------ seats

    def check_held(self) -> None:
        """Each class is kept what it reserves; what it states nothing of follows from its objective, if it has one."""
        for name, terms in self.preset.classes.items():
            held = self.held[name]
            follows = terms.reserved_seats is None and terms.ttft_slo_s is not None
            assert follows or held == (terms.reserved_seats or 0)

    def line(self, ticket: Ticket) -> str:
        """The class in whose queue it waits."""
        return ticket.class_name if ticket.class_name in self.preset.classes else self.preset.default_class

    def urgency(self, ticket: Ticket) -> int:
        """The priority of its line."""
        return self.preset.classes[self.line(ticket)].priority

    def taken(self) -> int:
        """The seats that are held."""
        return sum(one.seats for one in self.sitting.values())

    def room(self, line: str) -> int:
        """The seats that a class may still take: the limit, less what is held, less what others above it reserve."""
        classes = self.preset.classes
        kept = sum(
            max(0, self.held[name] - sum(held.seats for held in self.sitting.values() if held.line == name))
            for name, one in classes.items()
            if one.priority > classes[line].priority
        )
        return self.limit - min(kept, self.limit - 1) - self.taken()

    def wanted(self, ticket: Ticket) -> int:
        """The seats it will get: all its sequences, or all that its class can ever have."""
        classes, line = self.preset.classes, self.line(ticket)
        kept = sum(self.held[name] for name, one in classes.items() if one.priority > classes[line].priority)
        return min(ticket.seats, max(1, self.limit - kept))

    def is_wide(self, ticket: Ticket) -> bool:
        """Whether it takes more than half of all that its class can ever have: it goes late rather than not at all."""
        most = self.wanted(replace(ticket, seats=self.limit))
        return not self.gathers and ticket.seats > 1 and 2 * ticket.seats > most

    def within_budget(self, ticket: Ticket) -> bool:
        """Whether the token budget admits it beside the running ones; alone it is always admitted."""
        budget_tokens = self.preset.batching.max_total_tokens
        if budget_tokens is None:
            return True
        held = [one.ticket.total_tokens for one in self.sitting.values() if one.seats]
        return not held or sum(held) + ticket.total_tokens <= budget_tokens

    def fits(self, ticket: Ticket) -> bool:
        """Whether it could sit down now."""
        return self.wanted(ticket) <= self.room(self.line(ticket)) and self.within_budget(ticket)

    # ------------------------------------------------------------------ order

    def may_be_next(self, *, full: bool = False) -> list[Ticket]:
        """The tickets of which one is next, as far as the preset's order can be computed without its records; ``full``:
        of all that wait, whether they have room or not.
        """
        able = [one for one in self.waiting.values() if full or self.room(self.line(one)) >= 1]
        if self.preset.ordering.between == "strict" and self._bins == 1:  # each bin has a line of its own
            able = _greatest(able, self.urgency)
        if (self.preset.ordering.between, self.preset.ordering.inside) == ("ageing", "fifo"):
            able = [one for one in able if not any(self._ahead_of(other, one) for other in able)]
        if self._bins > 1 or self.preset.ordering.inside not in ("fifo", "edf"):
            return able
        if ":" in self.preset.ordering.between:  # a custom order may lose a ticket, or be replaced by fair sharing
            return able
        place = self._arrival if self.preset.ordering.inside == "fifo" else self._due_s
        lines = {self.line(one) for one in able}
        return [one for line in lines for one in self._firsts([one for one in able if self.line(one) == line], place)]

    def _firsts(self, waiting: list[Ticket], place: Callable[[Ticket], float]) -> list[Ticket]:
        """The next of a line: the first in place; the one behind it too, where that one may be late; those that were
        passed for that once there are no others: the one that was passed last, which is the newest of a queue that goes
        by arrival.
        """
        found: list[Ticket] = []
        left = [one for one in waiting if one.id not in self.relegated]
        while left:
            firsts = _greatest(left, lambda one: -place(one))
            found += firsts
            left = [one for one in left if one not in firsts]
            if not all(first.id in self.may_be_late for first in firsts):
                return found
        last = [one for one in waiting if one.id in self.relegated]
        return found + (last if place == self._due_s else _greatest(last, self._arrival))

    def passes_late(self, ticket: Ticket) -> None:
        """A ticket is dispatched: those of its class before it have been put behind it, for they are late."""
        inside, between = self.preset.ordering.inside, self.preset.ordering.between
        if inside not in ("fifo", "edf") or ":" in between or self._bins > 1 or ticket.id in self.relegated:
            return
        place = self._arrival if inside == "fifo" else self._due_s
        mine = [one for one in self.waiting.values() if self.line(one) == self.line(ticket)]
        behind = {one.id for one in mine if place(one) < place(ticket)}
        assert behind - self.relegated <= self.may_be_late, "passed by one of its class although it is in time"
        self.relegated |= behind
        others = {one.id for one in mine if place(one) > place(ticket)} - self.relegated
        late = ticket.id in self.surely_late and not self.is_wide(ticket)
        assert not others or not late, "a late ticket goes before one that may be in time"

    def may_be_beyond(self, ticket: Ticket) -> bool:
        """Whether it may have a seat beyond the limit: one of the most urgent class, within the share of that class and
        the square root of it, where the limit is one that moves, and not beyond its highest.
        """
        preset, line = self.preset, self.line(ticket)
        if preset.limit.policy == "fixed" or preset.limit.shadow or self.gathers or len(preset.classes) < 2:
            return False
        share = shares(preset.classes)[line] * self.limit
        held = sum(one.seats for one in self.sitting.values() if one.line == line)
        highest = min((one for one in (preset.limit.max_seats, self.ceiling) if one is not None), default=inf)
        within = held + ticket.seats <= ceil(share + sqrt(share)) and self.taken() + ticket.seats <= highest
        is_next = ticket in self.may_be_next(full=True)
        return line == preset.by_urgency()[0] and within and is_next and self.within_budget(ticket)

    def may_be_owed(self, ticket: Ticket) -> bool:
        """Whether it may have seats that are not free to its class, since its tenant was served little beside another
        one: where the limit moves, up to half of the root of it, and not beyond its highest.
        """
        preset = self.preset
        if preset.ordering.inside not in ("fair", "prefix") or self.gathers:
            return False
        moves = preset.limit.policy != "fixed" and not preset.limit.shadow
        room, lent = self.room(self.line(ticket)), round(sqrt(self.limit) / 2) if moves else 0
        highest = min((one for one in (preset.limit.max_seats, self.ceiling) if one is not None), default=inf)
        if self.limit >= highest:
            lent = min(lent, (self.limit - self.taken() - room) // 2)
        within = ticket.seats <= room + lent and self.taken() + ticket.seats <= max(self.limit, highest)
        return within and ticket in self.may_be_next(full=True) and self.within_budget(ticket)

    def order_changes(self, preset: Preset) -> bool:
        """Whether all that wait take a new place under another preset."""
        return self._order_of(self.preset) != self._order_of(preset)

    def _order_of(self, preset: Preset) -> object:
        classes = {name: (one.priority, one.share, one.timeouts()) for name, one in preset.classes.items()}
        batches = preset.batching.strategy != "continuous"
        return preset.ordering, classes, preset.default_class, batches, preset.batching.bins

    def may_pass(self, ticket: Ticket, head: Ticket) -> bool:
        """Whether it may go before a head that lacks seats: into what its own, more urgent class has reserved."""
        line = self.line(ticket)
        if self.urgency(ticket) <= self.urgency(head):
            return False
        held = sum(one.seats for one in self.sitting.values() if one.line == line)
        in_reserve = ticket.seats <= self.held[line] - held
        return in_reserve and self.within_budget(head) and not self.fits(head) and self.fits(ticket)

    def may_overdraw(self, ticket: Ticket) -> bool:
        """Whether it may go although the pace is to be kept: the most urgent class, within its share of the limit, or
        of what runs where that is more, and the square root of it.

        The shares are those between the classes that run or wait.
        """
        line, share_of = self.line(ticket), shares(self.preset.classes)
        held = sum(one.seats for one in self.sitting.values() if one.line == line)
        present = {one.line for one in self.sitting.values() if one.seats}
        present |= {self.line(one) for one in self.waiting.values()}
        share = share_of[line] / sum(share_of[name] for name in share_of if name in present)
        most = share * max(self.taken() + 1, self.limit)
        return line == self.preset.by_urgency()[0] and held + ticket.seats <= ceil(most + sqrt(most))

    def _ahead_of(self, other: Ticket, one: Ticket) -> bool:
        """Whether the class of the other is more urgent and as old: a class is as old as what waits longest in it."""
        older = other.arrived_s <= self.oldest_s(self.line(one))
        return self.urgency(other) > self.urgency(one) and older and self._bins == 1

    def oldest_s(self, line: str) -> float:
        """When the ticket arrived that waits longest in a line."""
        return min((one.arrived_s for one in self.waiting.values() if self.line(one) == line), default=inf)

    def _arrival(self, ticket: Ticket) -> float:
        return ticket.id

    def _due_s(self, ticket: Ticket) -> float:
        own = self.preset.classes[self.line(ticket)].timeouts().shortened_by(ticket.asked)
        return ticket.arrived_s + shortest(own.queue_s, own.first_token_s, own.total_s)

    # ------------------------------------------------------------------ batches

    @property
    def gathers(self) -> bool:
        """Whether the strategy sends batches that end before the next begins."""
        return self.preset.batching.strategy != "continuous"

    @property
    def _bins(self) -> int:
        return self.preset.batching.bins if self.gathers else 1

    def surely_full(self) -> bool:
        """Whether some bin must hold a full batch: by the pigeon-hole principle where there are several."""
        seats = sum(one.seats for one in self.waiting.values())
        if seats > self._bins * (self.limit - 1):
            return True
        return self._bins == 1 and self._budget_full()

    def _budget_full(self) -> bool:
        budget_tokens = self.preset.batching.max_total_tokens
        return budget_tokens is not None and sum(one.total_tokens for one in self.waiting.values()) >= budget_tokens

    def must_leave(self, now_s: float) -> bool:
        """Whether a batch has to be dispatched, as far as the bins or an adaptive window do not hide that from here."""
        batching = self.preset.batching
        seats = sum(one.seats for one in self.waiting.values())
        preferred = batching.strategy == "dynamic" and any(size <= seats for size in batching.preferred_batch_sizes)
        return self.surely_full() or (preferred and self._bins == 1) or now_s >= self.batch_due_s()

    def may_leave(self, now_s: float) -> bool:
        """Whether a batch may be dispatched; where that is hidden, True."""
        hidden = self._bins > 1 or self.preset.batching.window == "adaptive" or self.preset.limit.moves
        return hidden or self.must_leave(now_s + 1e-9)

    def batch_due_s(self) -> float:
        """When a batch has to be dispatched because of the time; never while an adaptive window hides that from
        here."""
        batching, most_urgent = self.preset.batching, self.preset.by_urgency()[0]
        if batching.strategy == "static":
            flush_s = inf if batching.flush_after_s is None else batching.flush_after_s
            return min((one.arrived_s + flush_s for one in self.waiting.values()), default=inf)
        hidden = batching.window == "adaptive" or not self.gathers
        window_s = inf if hidden else batching.window_ms / 1000
        dues_s = [one.arrived_s + window_s for one in self.waiting.values()]
        if len(self.preset.classes) > 1 and self.gathers:
            urgent_s = batching.urgent_window_ms / 1000
            dues_s += [one.arrived_s + urgent_s for one in self.waiting.values() if self.line(one) == most_urgent]
        return min(dues_s, default=inf)

    # ------------------------------------------------------------------ bounds

    def sums(self) -> dict[str, tuple[int, int, int]]:
        """Requests, prompt tokens and bytes that wait, by line and under ``""`` in all."""
        lines: dict[str, Collection[Ticket]] = {
            name: [one for one in self.waiting.values() if self.line(one) == name] for name in self.preset.classes
        }
        return {name: _sum(tickets) for name, tickets in (lines | {"": self.waiting.values()}).items()}

    def bounds(self, line: str) -> tuple[float, float, float]:
        """The bounds of a line, or of all under ``""``."""
        one = self.preset.classes[line] if line else self.preset.queue
        most_tokens, most_bytes = one.max_waiting_tokens, one.max_waiting_bytes
        return one.max_waiting, inf if most_tokens is None else most_tokens, inf if most_bytes is None else most_bytes

    def over(self, ticket: Ticket, line: str) -> bool:
        """Whether this new ticket would break the bounds of a queue."""
        more = zip(self.sums()[line], _sum([ticket]), self.bounds(line), strict=True)
        return any(have + add > bound for have, add, bound in more)


def shortest(*times_s: float | None) -> float:
    """The shortest of some times of which each may not exist; for ever when none does."""
    return min((time_s for time_s in times_s if time_s is not None), default=inf)


def _sum(tickets: Iterable[Ticket]) -> tuple[int, int, int]:
    listed = list(tickets)
    return len(listed), sum(one.prompt_tokens for one in listed), sum(one.prompt_bytes for one in listed)


def _greatest(tickets: list[Ticket], worth: Callable[[Ticket], float]) -> list[Ticket]:
    best = max(map(worth, tickets), default=None)
    return [ticket for ticket in tickets if worth(ticket) == best]
