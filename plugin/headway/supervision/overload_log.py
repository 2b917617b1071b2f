"""The log of an overload: a line every ten seconds in which requests were refused for want of capacity.

A server that refuses hundreds of requests a second has nothing else to say of it: vLLM never sees them, and a line for
each would hide all others. Each line has the refusals by reason, what waits, and the classes whose waits are cut to
their objective; one more line says that the overload is over.
"""

from __future__ import annotations

import logging
from collections import Counter

from headway.admission import Gate
from headway_policies import Reason
from headway_policies.diagnosis import FOR_LOAD

log = logging.getLogger(__name__)

LOG_EVERY_S = 10.0


class OverloadLog:
    """The log of one gate's refusals: what they have grown by."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._refused = self._count()
        self._arrived = self._arrivals()
        self._overload = 0  # refused since the overload began

    def report(self) -> None:
        """Log the refusals since the last report."""
        refused, arrived = self._count(), self._arrivals()
        grown, came = refused - self._refused, arrived - self._arrived
        self._refused, self._arrived = refused, arrived
        number = grown.total()
        if not number and self._overload:
            log.info(
                "overload over: none refused within %.0f s; refused since it began: %d", LOG_EVERY_S, self._overload
            )
            self._overload = 0
        elif number:
            self._overload += number
            self._log(grown, came)

    def _log(self, refused: Counter[Reason], arrived: int) -> None:
        desk = self._gate.desk
        reading = desk.read(self._gate.now_s())
        log.warning(
            "overload: %d %s refused and %d arrived within %.0f s (%s); waiting: %d, the oldest for %.1f s%s",
            refused.total(),
            "request" if refused.total() == 1 else "requests",
            arrived,
            LOG_EVERY_S,
            ", ".join(f"{reason}: {number}" for reason, number in refused.most_common()),
            desk.ledger.queued,
            max(reading.oldest_wait_s.values(), default=0.0),
            f"; waits are cut to the objective of: {', '.join(reading.standing_queues)}"
            if reading.standing_queues
            else "",
        )

    def _count(self) -> Counter[Reason]:
        counted = Counter[Reason]()
        for counts in self._gate.desk.ledger.classes.values():
            counted.update({reason: counts.refusals[reason] for reason in FOR_LOAD if counts.refusals[reason]})
        return counted

    def _arrivals(self) -> int:
        return sum(counts.arrived for counts in self._gate.desk.ledger.classes.values())
