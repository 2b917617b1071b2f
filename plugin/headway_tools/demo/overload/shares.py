"""The part of each class that was completed in the overload, and in time; whether the order is that of the classes.

A patient class may lose its turn in the overload and be served after it: the order shows in what was served while it
lasted. For the same reason an objective that is longer than the overload says nothing of the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headway_policies import Outcome
from headway_simulator import Visit
from headway_tools.load.served import COMPLETED, Served

#: A less urgent class may be ahead by so much: chance in the arrivals.
MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class ClassShare:
    """The requests of a class: of ``sent`` ones ``served`` were completed, ``meanwhile`` of them during the overload.

    ``in_time`` of them had a first token within the objective of the class. Where that is None, the class states none
    or the engine is not measured yet: then all are in time.
    """

    class_name: str
    sent: int
    served: int
    meanwhile: int
    in_time: int
    objective_s: float | None

    def ratio(self, count: int) -> float:
        """A count as a part of the sent requests; 1 if none was sent."""
        return count / self.sent if self.sent else 1.0


def by_clients(
    sent: Mapping[str, int],
    served: Iterable[Served],
    meanwhile: Mapping[str, int],
    objectives_s: Mapping[str, float | None],
) -> list[ClassShare]:
    """The shares as the clients saw them, in the order of ``sent``. ``meanwhile``: completed in the overload."""
    done = [(request.class_name, request.ttft_s) for request in served if request.ending == COMPLETED]
    return _shares(sent, done, meanwhile, objectives_s)


def by_simulation(
    visits: Sequence[Visit], names: Iterable[str], length_s: float, objectives_s: Mapping[str, float | None]
) -> list[ClassShare]:
    """The shares of a simulated overload of ``length_s``, in the order of ``names``."""
    completed = [visit for visit in visits if visit.outcome is Outcome.COMPLETED]
    meanwhile = Counter(
        visit.class_name for visit in completed if visit.ended_s is not None and visit.ended_s <= length_s
    )
    sent = {name: sum(visit.class_name == name for visit in visits) for name in names}
    return _shares(sent, [(visit.class_name, visit.ttft_s) for visit in completed], meanwhile, objectives_s)


def out_of_order(shares: Sequence[ClassShare], length_s: float) -> list[str]:
    """The classes that got less, or less in time, than the next less urgent one, in words. Most urgent first."""
    found = []
    for urgent, other in pairwise(shares):
        found += _behind("served meanwhile", urgent, urgent.meanwhile, other, other.meanwhile)
        if all(share.objective_s is not None and share.objective_s < length_s for share in (urgent, other)):
            found += _behind("in time", urgent, urgent.in_time, other, other.in_time)
    return found


def _behind(what: str, urgent: ClassShare, count: int, other: ClassShare, others: int) -> list[str]:
    more, less = urgent.ratio(count), other.ratio(others)
    return [f"{what}: {urgent.class_name} {more:.0%}, {other.class_name} {less:.0%}"] if more < less - MARGIN else []


def _shares(
    sent: Mapping[str, int],
    done: Sequence[tuple[str, float | None]],
    meanwhile: Mapping[str, int],
    objectives_s: Mapping[str, float | None],
) -> list[ClassShare]:
    """``done`` has the class of each that was served, and the time to its first token."""
    return [
        _share(
            name, count, [ttft_s for of, ttft_s in done if of == name], meanwhile.get(name, 0), objectives_s.get(name)
        )
        for name, count in sent.items()
    ]


def _share(
    name: str, sent: int, delays_s: Sequence[float | None], meanwhile: int, objective_s: float | None
) -> ClassShare:
    in_time = len(delays_s)
    if objective_s is not None:
        in_time = sum(delay_s is not None and delay_s <= objective_s for delay_s in delays_s)
    return ClassShare(name, sent, len(delays_s), meanwhile, in_time, objective_s)
