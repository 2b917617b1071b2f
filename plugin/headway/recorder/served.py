"""The service of the last minutes' requests: first tokens and ends, as numbers without text or ids.

Two bounded rings, of 14 and 27 bytes a row, and the figures of a stretch of them by class. A first token or an end
costs about a microsecond; the figures are of the newest thousand of the stretch, so that a look takes about a
millisecond however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from headway.recorder.ring import Ring
from headway_policies import Outcome, Ticket
from headway_policies.trial import ALL, Served

MAX_ROWS = 20_000
#: The most rows of one look.
_MOST_LOOKED_AT = 1000
_QUANTILES = (0.5, 0.95, 0.99)
_MAX_TOKENS = 2**32 - 1

_COMPLETED, _REFUSED, _TIMED_OUT, _ERROR, _CANCELLED = range(5)  # all but the last count as ended
_KINDS: Mapping[Outcome, int] = {
    Outcome.COMPLETED: _COMPLETED,
    Outcome.FAILED: _ERROR,
    Outcome.REJECTED_FULL: _REFUSED,
    Outcome.REJECTED_LIMIT: _REFUSED,
    Outcome.REJECTED_INVALID: _CANCELLED,  # of the client's making, as a cancelled one
    Outcome.SHED: _REFUSED,
    Outcome.EXPIRED_QUEUED: _TIMED_OUT,
    Outcome.EXPIRED_RUNNING: _TIMED_OUT,
    Outcome.CANCELLED_QUEUED: _CANCELLED,
    Outcome.CANCELLED_RUNNING: _CANCELLED,
    Outcome.ENGINE_LOST: _ERROR,
    Outcome.DRAINED: _REFUSED,
}


def ended_by_kind(outcomes: Mapping[Outcome, int]) -> tuple[int, int, int, int]:
    """The requests that completed, were refused, ran out of time, and failed."""
    counts = Counter[int]()
    for outcome, number in outcomes.items():
        counts[_KINDS[outcome]] += number
    return counts[_COMPLETED], counts[_REFUSED], counts[_TIMED_OUT], counts[_ERROR]


class ServedLog:
    """The rings of one gate; times are those of its clock."""

    def __init__(self, rows: int = MAX_ROWS) -> None:
        self._firsts = Ring("dHf", rows)  # class, delay
        self._ends = Ring("ddHBIf", rows)  # arrival, class, kind, tokens, time between tokens (0: not known)
        self._classes: dict[str, int] = {}

    def first_token(self, class_name: str, delay_s: float, now_s: float) -> None:
        """Record the delay of a first token after the arrival."""
        self._firsts.add(now_s, self._index(class_name), delay_s)

    def ended(self, ticket: Ticket, outcome: Outcome, now_s: float, tokens: int = 0, pace_s: float = 0.0) -> None:
        """Record the end of a request, its tokens and the time between two of them; 0: not known."""
        index = self._index(ticket.class_name)
        self._ends.add(now_s, ticket.arrived_s, index, _KINDS[outcome], min(tokens, _MAX_TOKENS), pace_s)

    def between(
        self,
        since_s: float,
        until_s: float,
        waiting: Iterable[tuple[str, float]] = (),
        arrived_s: float = -inf,
    ) -> dict[str, Served]:
        """The figures of a stretch of time, by class, and of all under ``ALL``.

        ``waiting``: class and arrival of the requests that have no first token at ``until_s``. A request that arrived
        before ``arrived_s`` does not count, but for its tokens.
        """
        firsts, ends = self._rows(self._firsts, since_s, until_s), self._rows(self._ends, since_s, until_s)
        delays: dict[int, list[float]] = {}
        for at_s, index, delay_s in zip(*firsts, strict=True):
            if at_s - delay_s >= arrived_s:
                delays.setdefault(int(index), []).append(delay_s)
        for class_name, came_s in waiting:
            if came_s >= arrived_s:
                delays.setdefault(self._index(class_name), []).append(until_s - came_s)
        stretch_s = until_s - since_s if len(ends[0]) < _MOST_LOOKED_AT else until_s - ends[0][0]
        names = {index: name for name, index in self._classes.items()}
        seen = {*delays, *(int(index) for index in ends[2])}
        rows = _Rows(delays, ends, max(stretch_s, 1e-3), arrived_s)
        return {names[index]: rows.served([index]) for index in seen} | {ALL: rows.served(seen)}

    def ended_by_class(self, since_s: float, until_s: float) -> Counter[str]:
        """The requests of each class that ended in a stretch of time, of those that ``between`` looks at; without those
        that their clients cancelled.
        """
        _, _, classes, kinds, _, _ = self._rows(self._ends, since_s, until_s)
        names = list(self._classes)
        return Counter(names[int(index)] for index, kind in zip(classes, kinds, strict=True) if kind != _CANCELLED)

    def first_tokens(self, since_s: float) -> int:
        """The number of kept first tokens since then."""
        return self._firsts.count - self._firsts.before(since_s)

    # ------------------------------------------------------------------ inside

    def _index(self, class_name: str) -> int:
        return self._classes.setdefault(class_name, len(self._classes))

    @staticmethod
    def _rows(ring: Ring, since_s: float, until_s: float) -> Sequence[Sequence[float]]:
        """The newest rows of a stretch."""
        end = ring.before(until_s)
        skip = max(ring.before(since_s), end - _MOST_LOOKED_AT)
        return [column[: end - skip] for column in ring.copy(skip)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a stretch of time: the delays by class, and the columns of the ends."""

    delays: Mapping[int, list[float]]
    ends: Sequence[Sequence[float]]
    stretch_s: float
    arrived_s: float

    def served(self, indices: Collection[int]) -> Served:
        """The figures of some classes together."""
        _, arrived, classes, kinds, tokens, paces = self.ends
        own = [place for place, index in enumerate(classes) if index in indices]
        places = [place for place in own if arrived[place] >= self.arrived_s]
        counts = Counter(kinds[place] for place in places)
        ended = counts.total() - counts[_CANCELLED]
        pace_p50, pace_p95, pace_p99 = _quantiles([paces[place] for place in places if paces[place] > 0])
        delays_s = [delay_s for index in indices for delay_s in self.delays.get(index, ())]
        ttft_p50, ttft_p95, ttft_p99 = _quantiles(delays_s)

        def ratio(kind: int) -> float | None:
            return counts[kind] / ended if ended else None

        return Served(
            completed_ratio=ratio(_COMPLETED),
            refused_ratio=ratio(_REFUSED),
            timed_out_ratio=ratio(_TIMED_OUT),
            error_ratio=ratio(_ERROR),
            ttft_p50_s=ttft_p50,
            ttft_p95_s=ttft_p95,
            ttft_p99_s=ttft_p99,
            inter_token_p50_s=pace_p50,
            inter_token_p95_s=pace_p95,
            inter_token_p99_s=pace_p99,
            tokens_per_s=sum(tokens[place] for place in own) / self.stretch_s,
        )


def _quantiles(values: list[float]) -> tuple[float | None, ...]:
    """The quantiles by the nearest rank."""
    values.sort()
    return tuple(values[ceil(ratio * len(values)) - 1] if values else None for ratio in _QUANTILES)
