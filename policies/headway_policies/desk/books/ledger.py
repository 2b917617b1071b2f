"""The counts of all requests so far, by class.

At the end of every event, for each class and in total:
``arrived == queued + in_flight + sum(outcomes)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from headway_policies.request import REFUSED, Decision, Outcome, Reason


@dataclass(slots=True)
class ClassLedger:
    """The counts of one class."""

    arrived: int = 0
    queued: int = 0
    in_flight: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    decisions: Counter[Decision] = field(default_factory=Counter)
    refusals: Counter[Reason] = field(default_factory=Counter)
    retries: int = 0
    recalls: int = 0

    @property
    def balanced(self) -> bool:
        """Whether the identity in the file header holds."""
        return self.arrived == self.queued + self.in_flight + sum(self.outcomes.values())

    def seated(self) -> None:
        """A ticket arrived and went to the engine at once."""
        self.arrived += 1
        self.in_flight += 1
        self.decisions[Decision.SEATED] += 1

    def dispatched(self) -> None:
        """A ticket that waited went to the engine."""
        self.queued -= 1
        self.in_flight += 1

    def requeued(self) -> None:
        """A ticket that ran waits again."""
        self.queued += 1
        self.in_flight -= 1
        self.retries += 1

    def recalled(self) -> None:
        """A ticket that ran waits again, to make room for a more urgent one."""
        self.queued += 1
        self.in_flight -= 1
        self.recalls += 1

    def ended(self, outcome: Outcome, *, waiting: bool) -> None:
        """A ticket that waited, or ran, has its outcome."""
        if waiting:
            self.queued -= 1
        else:
            self.in_flight -= 1
        self.outcomes[outcome] += 1

    def refused(self, reason: Reason, *, waiting: bool) -> None:
        """A ticket that waited, or ran, was refused."""
        self.ended(REFUSED[reason], waiting=waiting)
        self.refusals[reason] += 1

    def refused_on_arrival(self, reason: Reason) -> None:
        """A ticket arrived and was refused at once."""
        self.arrived += 1
        self.outcomes[REFUSED[reason]] += 1
        self.refusals[reason] += 1
        self.decisions[Decision.REJECTED] += 1

    def copy(self) -> ClassLedger:
        """An independent copy."""
        return ClassLedger(
            self.arrived,
            self.queued,
            self.in_flight,
            self.outcomes.copy(),
            self.decisions.copy(),
            self.refusals.copy(),
            self.retries,
            self.recalls,
        )


class Ledger:
    """The counts of all classes. A class seen once is never forgotten, whatever preset follows."""

    def __init__(self, class_names: Iterable[str]) -> None:
        self.classes: dict[str, ClassLedger] = {name: ClassLedger() for name in class_names}

    def admit_classes(self, class_names: Iterable[str]) -> None:
        """Add the classes of a new preset."""
        for name in class_names:
            self.classes.setdefault(name, ClassLedger())

    @property
    def queued(self) -> int:
        """Tickets waiting, over all classes."""
        return sum(counts.queued for counts in self.classes.values())

    @property
    def in_flight(self) -> int:
        """Tickets dispatched and not yet ended, over all classes."""
        return sum(counts.in_flight for counts in self.classes.values())
