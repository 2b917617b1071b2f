"""The figures of the overload, from the server's metrics and its clients. Pure arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway_tools.demo.overload.shares import ClassShare
from headway_tools.load.scrape import ClassCounts, Counts
from headway_tools.load.served import COMPLETED, REFUSED, Served

_P95 = 0.95
_NORMAL = "normal"  # the rung without any degradation


@dataclass(frozen=True, slots=True)
class ClassInOverload:
    """The figures of a class. ``arrived``, ``outcomes`` and ``refused`` (by reason) are the server's counts."""

    class_name: str
    sent: int
    ended: int
    arrived: int
    outcomes: Mapping[str, int]
    refused: Mapping[str, int]

    @property
    def completed(self) -> int:
        """Requests that the server has completed."""
        return self.outcomes.get(COMPLETED, 0)


@dataclass(frozen=True, slots=True)
class Delays:
    """The 95th percentiles of the most urgent class; None where nothing was observed."""

    wait_p95_s: float | None
    first_token_p95_s: float | None


@dataclass(frozen=True, slots=True)
class OverloadFigures:
    """The figures of an overload: what was offered, and what became of it.

    ``capacity_per_s`` is what the full engine can serve; ``answered`` counts the requests that were completed or
    refused, as their clients saw it; ``retry_after_s`` is the range of the advice in refusals. ``shares`` is what each
    class was served, ``without`` the same in vLLM's own queue: empty where the engine's step time was not known.
    """

    length_s: float
    capacity_per_s: float
    classes: Sequence[ClassInOverload]
    answered: int
    retry_after_s: tuple[int, int] | None
    before: Delays
    during: Delays
    rungs: Sequence[str]
    shares: Sequence[ClassShare]
    without: Sequence[ClassShare]

    @property
    def sent(self) -> int:
        """Requests offered, of all classes."""
        return sum(of_class.sent for of_class in self.classes)

    @property
    def offered_per_s(self) -> float:
        """Requests offered per second."""
        return self.sent / self.length_s

    @property
    def unanswered(self) -> int:
        """Requests that were neither completed nor refused."""
        return self.sent - self.answered


def figures(
    length_s: float,
    capacity: float,
    sent: Mapping[str, int],
    served: Sequence[Served],
    scrapes: tuple[Counts, Counts],
    before: Counts,
    shares: tuple[Sequence[ClassShare], Sequence[ClassShare]],
) -> OverloadFigures:
    """The figures of an overload of ``length_s``. ``scrapes``: (first, last); ``before``: added before it; ``shares``:
    (as served, without Headway).
    """
    added = scrapes[1].since(scrapes[0])
    ended = Counter(request.class_name for request in served)
    advice = [request.retry_after_s for request in served if request.retry_after_s is not None]
    urgent = next(iter(sent))
    return OverloadFigures(
        length_s=length_s,
        capacity_per_s=capacity,
        classes=[_of_class(name, count, ended[name], added) for name, count in sent.items()],
        answered=sum(request.ending in {COMPLETED, REFUSED} for request in served),
        retry_after_s=(min(advice), max(advice)) if advice else None,
        before=_delays(before, urgent),
        during=_delays(added, urgent),
        rungs=[rung for rung, moves in added.rungs.items() if moves > 0 and rung != _NORMAL],
        shares=shares[0],
        without=shares[1],
    )


def _of_class(name: str, sent: int, ended: int, added: Counts) -> ClassInOverload:
    counts = added.classes.get(name, ClassCounts())
    return ClassInOverload(name, sent, ended, counts.arrived, _some(counts.outcomes), _some(counts.refusals))


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _delays(added: Counts, class_name: str) -> Delays:
    counts = added.classes.get(class_name, ClassCounts())
    return Delays(counts.waits.quantile(_P95), counts.first_tokens.quantile(_P95))
