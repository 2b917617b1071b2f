"""How are the tokens shared out between the classes?

Deficit round robin (Shreedhar and Varghese, IEEE/ACM ToN 1996), in the form that sends first and pays afterwards
(surplus round robin; Adiseshu et al., SIGCOMM 1996). Each class has a credit in tokens. The most urgent class that
waits with a credit above 0 goes next and pays what its ticket is expected to use, even into debt. When no such class is
left a new round begins and gives every class a quantum in proportion to its share; an idle or excluded class keeps at
most one quantum. The lowest quantum is one usual ticket, so whoever waits sends something each round, or pays off a
larger ticket. Rounds in which nobody could go are skipped in one step. When the queue has been empty all begin anew
with one quantum: what a class had while nobody waited is not held against it.

Bounds, with Q a class's largest quantum, A its largest ticket and exact guesses. Share: while a class waits and is not
excluded, of T tokens sent it gets at least ``share * (T - sum(Q + A)) - Q - A``, the sum over all classes: a constant
short of its share, however long and hard the others push. Latency: a class with credit goes before all less urgent
ones; one with debt D lets pass at most ``(2 + D / Q) * sum(Q) + sum(A)`` tokens, the sums over the other classes. A
wrong guess shifts both by the tokens it was wrong, until the ticket ends and is corrected. Known weak spot: a class
that has used up its credit waits for the end of the round, the most urgent one too: a share is a floor for one because
it is a ceiling for the others, as long as they all wait.
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

    The classes that name none share what the others leave: the lowest a tenth of the whole, each other one twice as
    much as the one below it (three classes: 0.6, 0.3, 0.1). Shares that come to something else than 1 are scaled.
    """
    ranked = sorted(classes, key=lambda name: classes[name].priority)
    doubling = 2.0 ** len(ranked) - 2.0
    usual = {
        name: (1 - _LOWEST_SHARE) * 2.0**rank / doubling if rank else _LOWEST_SHARE for rank, name in enumerate(ranked)
    }
    named = {name: share for name, one in classes.items() if (share := one.share) is not None}
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
        self._anew = True  # whoever comes finds nobody waiting: what was paid before is forgotten

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Put a ticket into the line of its class. Where nobody waited, nobody was kept waiting: all begin anew."""
        if not self._by_ticket:
            self._anew = True
        super().push(ticket, class_name, tokens, now_s)

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        """The head of the most urgent class with credit; a new round when none has any."""
        self._begin()
        while self._by_ticket:
            for one in self._queues:
                if one.waiting and self._credits[one.name] > 0 and one.name not in excluded:
                    return one.discipline.head(now_s)
            in_turn = [one for one in self._queues if one.waiting and one.name not in excluded]
            if not in_turn:
                break
            self._next_round(in_turn)
        return None

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The class pays, unless it goes alone past an empty queue."""
        if len(self._by_ticket) > 1:
            self._begin()
        self._usual_tokens += (max(tokens, 1.0) - self._usual_tokens) * _MEMORY
        if not self._anew:
            self._credits[class_name] -= tokens
        super().charge(ticket, class_name, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """The class pays the difference, or gets it back; with nobody waiting there is nothing to be had for it."""
        if self._by_ticket:
            self._begin()
            self._credits[class_name] -= tokens
        super().correct(ticket, class_name, tokens)

    def _begin(self) -> None:
        """Give everybody a quantum, once after the queue was empty; nobody pays for passing an empty one."""
        if self._anew:
            self._credits = {name: self._quantum(name) for name in self._weights}
            self._anew = False

    def _next_round(self, in_turn: list[ClassQueue]) -> None:
        """As many rounds as it takes until one of those in turn has credit."""
        quanta = {name: self._quantum(name) for name in self._weights}
        rounds = 1 + min(floor(-self._credits[one.name] / quanta[one.name]) for one in in_turn)
        for one in self._queues:
            credit, quantum = self._credits[one.name], quanta[one.name]
            topped_up = min(credit + rounds * quantum, quantum)
            self._credits[one.name] = max(credit, topped_up) if one.waiting else topped_up

    def _quantum(self, class_name: str) -> float:
        return self._weights[class_name] * self._usual_tokens
