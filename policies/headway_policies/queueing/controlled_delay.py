"""Controlled delay: whether the queue of a class is a standing one, and how long a ticket may wait while it is.

Controlled delay (CoDel; Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 2012; RFC 8289) tells a burst, which
a queue is there to absorb, from a standing queue, which only adds delay: a queue stands when for a whole interval it
has never been short, that is without a ticket that has waited beyond the target. CoDel then drops more and more
packets, because senders answer to a drop by sending less. Clients of a server do not, so the answer here is that of
Maurer ("Fail at Scale", ACM Queue 2015): as long as the queue stands, a ticket is refused as soon as it is clear that
it will wait too long.

An objective is all that must be set. A first token that is due within ``slo_s`` leaves half of that for the wait (the
target); the interval is ``burst_s``, twice ``slo_s`` where nothing is stated: how long a burst may last and how soon an
overload is cut are the same number, so a class with short waits and long bursts states both. A burst that is over
within target + interval loses nothing. A queue stops standing when nothing in it has waited for longer than half of the
target, or when it is empty. For 16 ``slo_s`` after that, and after the last ticket that was refused because of it, it
stands again after one target (CoDel as well remembers how hard it last had to drop).

Every call is O(1). Known weak spot: a load that alternates between overload and idle, with a period of about the
interval, is taken for a series of bursts.
"""

from __future__ import annotations

from math import inf

_TARGET_RATIO = 0.5
_INTERVAL_RATIO = 2.0
#: For so many objectives after a queue has stopped standing, or cost a ticket, it stands again after one target.
_REMEMBERED_RATIO = 16.0


class ControlledDelay:
    """The queue of one class whose first tokens are due ``slo_s`` seconds after the arrival, watched from ``now_s``.

    ``burst_s``: for how long it may be long before it stands; None: twice ``slo_s``.
    """

    def __init__(self, slo_s: float, now_s: float, *, burst_s: float | None = None) -> None:
        self._burst_s = burst_s
        self.aim(slo_s)
        self._short_s = now_s  # the last time at which the queue was known to be short
        self._left_s = now_s  # the last time at which a ticket left it
        self._stood_s = -inf  # the last time at which it stopped standing, or cost a ticket
        self._cost_s = -inf  # the last time at which it cost a ticket

    def aim(self, slo_s: float) -> None:
        """First tokens are due after so long from now on; infinite: there is no objective, and no queue stands."""
        self.slo_s = slo_s
        self.target_s = _TARGET_RATIO * slo_s
        self.interval_s = _INTERVAL_RATIO * slo_s if self._burst_s is None else self._burst_s

    def stands(self, now_s: float) -> bool:
        """Whether the queue, in which something waits, has stood up to now."""
        patience_s = 0.0 if self._stood_lately(now_s) else self.interval_s
        return now_s - self._short_s > patience_s + self.target_s

    def overloaded(self, now_s: float) -> bool:
        """Whether the queue stands, or stood shortly before."""
        return self._stood_lately(now_s) or self.stands(now_s)

    def empty(self, now_s: float) -> None:
        """Note that no ticket of the class waits, or has waited since its last one left."""
        if self.stands(self._left_s):
            self._stood_s = self._left_s
        self._short_s = now_s

    def reopened(self, now_s: float) -> None:
        """Tickets leave again, after a time in which none could: what it cost before says nothing of now."""
        self.empty(now_s)
        self._cost_s = -inf

    def dispatched(self, longest_s: float, now_s: float) -> None:
        """A ticket left the queue for the engine; ``longest_s``: the longest wait so far, its own or of those left."""
        self._left_s = now_s
        if longest_s <= self.target_s and (longest_s <= self.target_s / 2 or not self.stands(now_s)):
            self.empty(now_s)

    def contested(self, now_s: float) -> bool:
        """Whether the queue has cost a ticket shortly before: more tickets come than can be served in time."""
        return self._lately(self._cost_s, now_s)

    def cut(self, now_s: float) -> None:
        """A ticket that would have been late was refused, and others wait: an overload goes on."""
        if self.overloaded(now_s):
            self._stood_s = self._cost_s = now_s

    def _stood_lately(self, now_s: float) -> bool:
        return self._lately(self._stood_s, now_s)

    def _lately(self, at_s: float, now_s: float) -> bool:
        return self.slo_s < inf and now_s - at_s <= _REMEMBERED_RATIO * self.slo_s
