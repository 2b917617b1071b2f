"""Weighted shares of the tokens between classes: deficit round robin.

Deficit round robin (Shreedhar and Varghese, IEEE/ACM ToN 1996), in the form that dispatches first and charges
afterwards (surplus round robin; Adiseshu et al., SIGCOMM 1996). Each class has a credit in tokens. The most urgent
class that waits with a credit above 0 is next, and is charged what its ticket is expected to use, even below 0. When no
such class is left a new round begins and adds to every class a quantum in proportion to its share; an idle or excluded
class keeps at most one quantum. The lowest quantum is one usual ticket, so every waiting class dispatches a ticket each
round, or pays off a larger one. Rounds without a dispatch are skipped in one step. After an empty queue all classes
start again with one quantum: service while no other class waited is not charged.

Bounds, with Q a class's largest quantum, A its largest ticket and exact estimates. Share: while a class waits and is
not excluded, of T dispatched tokens it gets at least ``share * (T - sum(Q + A)) - Q - A``, the sum over all classes: a
constant short of its share, whatever the load of the others. Latency: a class with credit is served before all less
urgent ones; one with debt D waits for at most ``(2 + D / Q) * sum(Q) + sum(A)`` tokens, the sums over the other
classes. An estimation error shifts both by as many tokens, until the ticket ends and is corrected. Known weak spot: a
class that has used up its credit waits for the end of the round, also the most urgent one: the share guaranteed to one
class bounds the others, as long as all wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import floor

from headway_policies.queueing.class_queues import ClassQueue, ClassQueues, MakeDiscipline, fifo
from headway_policies.request import PriorityClass, Ticket

_LOWEST_SHARE = 0.1
_MEMORY = 1 / 16


def shares(classes: Mapping[str, PriorityClass]) -> dict[str, float]:
    """The share of each class, 1 in all.

    Classes without a share divide the rest: the lowest gets a tenth of the whole, each other one twice as much as the
    one below it (three classes: 0.6, 0.3, 0.1). Shares that do not sum to 1 are scaled.
    """
    ranked = sorted(classes, key=lambda name: classes[name].priority)
    doubling = 2.0 ** len(ranked) - 2.0
    usual = {
        name: (1 - _LOWEST_SHARE) * 2.0**rank / doubling if rank else _LOWEST_SHARE for rank, name in enumerate(ranked)
    }
    named = {name: share for name, terms in classes.items() if (share := terms.share) is not None}
    left = 1.0 - sum(named.values())
    unnamed = sum(share for name, share in usual.items() if name not in named)
    scale = left / unnamed if left > 0 and unnamed else 1.0
    weights = {name: named.get(name, usual[name] * scale) for name in classes}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


class WeightedOrder(ClassQueues):
    """A share of the tokens for each class that waits, the most urgent first within a round."""

    def __init__(self, classes: Mapping[str, PriorityClass], make_discipline: MakeDiscipline = fifo) -> None:
        super().__init__(classes, make_discipline)
        share_of = shares(classes)
        least = min(share_of.values())
        self._weights = {name: share / least for name, share in share_of.items()}
        self._credits = dict.fromkeys(share_of, 0.0)
        self._usual_tokens = 1.0
        self._fresh = True  # the queue was empty: earlier charges are dropped
        self._booked = set[int]()  # the tickets with a charge in these credits

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Add a ticket to the queue of its class. After an empty queue all classes start again."""
        if not self._by_ticket:
            self._fresh = True
        super().push(ticket, class_name, tokens, now_s)

    def restore(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Add a ticket that went and came back. After an empty queue all classes start again."""
        if not self._by_ticket:
            self._fresh = True
        super().restore(ticket, class_name, tokens, now_s)

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        """The head of the most urgent class with credit; a new round when none has any."""
        self._begin()
        while self._by_ticket:
            for queue in self._queues:
                if queue.waiting and self._credits[queue.name] > 0 and queue.name not in excluded:
                    return queue.head(now_s)
            in_turn = [queue for queue in self._queues if queue.waiting and queue.name not in excluded]
            if not in_turn:
                break
            self._next_round(in_turn)
        return None

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Charge the class, unless no other ticket waits."""
        if len(self._by_ticket) > 1:
            self._begin()
        self._usual_tokens += (max(tokens, 1.0) - self._usual_tokens) * _MEMORY
        if not self._fresh:
            self._credits[class_name] -= tokens
            self._booked.add(ticket.id)
        super().charge(ticket, class_name, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Charge the class the difference, or return it; no effect for a ticket whose charge was dropped."""
        if self._by_ticket:
            self._begin()
        if ticket.id in self._booked:
            self._booked.remove(ticket.id)
            self._credits[class_name] -= tokens
        super().correct(ticket, class_name, tokens)

    def _begin(self) -> None:
        """Give each class one quantum, once after the queue was empty."""
        if self._fresh:
            self._credits = {name: self._quantum(name) for name in self._weights}
            self._booked.clear()
            self._fresh = False

    def _next_round(self, in_turn: list[ClassQueue]) -> None:
        """Skip to the first round in which one of ``in_turn`` has credit."""
        quanta = {name: self._quantum(name) for name in self._weights}
        rounds = 1 + min(floor(-self._credits[queue.name] / quanta[queue.name]) for queue in in_turn)
        for queue in self._queues:
            credit, quantum = self._credits[queue.name], quanta[queue.name]
            topped_up = min(credit + rounds * quantum, quantum)
            self._credits[queue.name] = max(credit, topped_up) if queue.waiting else topped_up

    def _quantum(self, class_name: str) -> float:
        return self._weights[class_name] * self._usual_tokens
