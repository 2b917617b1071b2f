"""The part of a processor that a forecast may use.

A process of the lowest priority still slows the others down where they share a core, its caches and its memory: on two
processors a forecast at full speed cost a busy engine a fifth of its tokens. So it rests as often as its share demands.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Of one processor, while the engine is busy and there are few processors.
BUSY_SHARE = 0.1
#: With so many processors a forecast finds one that nothing else uses.
MANY_PROCESSORS = 8
_LONGEST_REST_S = 0.5


def share_of(processors: int, *, busy: bool) -> float:
    """The part of one processor that a forecast may use on a machine with this many."""
    return BUSY_SHARE if busy and processors < MANY_PROCESSORS else 1.0


class Pace:
    """The pace of this process at its share since it was made; ``used_s`` is its processor time."""

    def __init__(
        self,
        share: float,
        used_s: Callable[[], float] = time.process_time,
        now_s: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._share = share
        self._used_s, self._now_s, self._rest = used_s, now_s, rest
        self._began_s, self._used_before_s = now_s(), used_s()

    def keep(self) -> None:
        """Rest until the share is kept again, for half a second at most."""
        due_s = (self._used_s() - self._used_before_s) / self._share - (self._now_s() - self._began_s)
        if due_s > 0 and self._share < 1:
            self._rest(min(due_s, _LONGEST_REST_S))
