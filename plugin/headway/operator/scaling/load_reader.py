"""The load of a gate as the scaling policies see it. All rates are seats: what requests fill by Little's law.

Seats follow the lengths of requests, which differ by the time of day, and say the same of every engine speed: an
overloaded one holds its seats longer. A request that was refused counts as what it would have filled.

While a batch of the Batch API runs in time, the least urgent class counts as one seat at most: its lines fill the seats
that others leave, however many there are, and are no reason for another instance. A late batch runs in another class.

Known weak spots: other requests of that class do not count meanwhile either; a client that retries a refusal counts
each time; before some requests of each class have ended, only the seats that are taken are known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from headway.admission import Gate
from headway_policies.limits import Resolved
from headway_policies.request import PriorityClass
from headway_policies.scaling import ClassQueue, ScalingSignals

_JUDGED_OVER_S = 60.0
_MIN_JUDGED = 20
#: Below this share of the seats, an objective is not missed for want of instances.
_CROWDED_RATIO = 0.5
#: The time in which a first token is due, as a share of the queue time-out of a class whose objective is not known.
_DUE_RATIO = 0.5


class LoadReader:
    """Reads one gate. ``instances`` says how many serve; ``judged`` how many requests were, and met their objective;
    ``fills`` whether a batch fills the seats that are left.
    """

    def __init__(
        self,
        gate: Gate,
        instances: Callable[[], int],
        judged: Callable[[], tuple[int, int]] = lambda: (0, 0),
        fills: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gate = gate
        self._instances = instances
        self._judged = judged
        self._fills = fills
        self._counts: deque[tuple[float, int, int]] = deque()
        self._seats_of_one = 0.0

    def read(self) -> ScalingSignals | None:
        """The load now; None while it is not known how much one instance serves."""
        desk, now_s, ready = self._gate.desk, self._gate.now_s(), self._instances()
        if ready > 0:
            self._seats_of_one = desk.limit / ready
        attained = self._attained(now_s)
        if self._seats_of_one <= 0:
            return None
        reading, terms = desk.read(now_s), desk.preset.classes
        due_s = {name: _due_s(term, desk.objectives(name)) for name, term in terms.items()}
        queues = {
            name: ClassQueue(reading.waiting_seat_s.get(name, 0.0), reading.oldest_wait_s.get(name, 0.0), due)
            for name, due in due_s.items()
            if due is not None
        }
        offered = reading.demand_seats or float(desk.seats_taken)
        if self._fills():
            least = desk.preset.by_urgency()[-1]
            queues.pop(least, None)
            offered -= max(0.0, reading.class_demand_seats[least] - 1)
        crowded = reading.scale_ratio >= _CROWDED_RATIO
        return ScalingSignals(
            ready=ready,
            offered=offered,
            capacity=self._seats_of_one,
            queues=queues,
            attained_ratio=attained if crowded else None,
        )

    def _attained(self, now_s: float) -> float | None:
        """The share of the last minute's requests that met their objective; None where few were judged."""
        counts = self._counts
        counts.append((now_s, *self._judged()))
        while len(counts) > 2 and counts[1][0] <= now_s - _JUDGED_OVER_S:
            counts.popleft()
        judged, met = counts[-1][1] - counts[0][1], counts[-1][2] - counts[0][2]
        return met / judged if judged >= _MIN_JUDGED else None


def _due_s(terms: PriorityClass, found: Resolved) -> float | None:
    """The time until a first token of this class is due; None where the class waits as long as it takes."""
    if found.ttft_s is not None:
        return found.ttft_s
    return None if terms.queue_timeout_s is None else _DUE_RATIO * terms.queue_timeout_s
