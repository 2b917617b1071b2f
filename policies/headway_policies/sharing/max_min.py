"""Weighted max-min fairness in whole seats.

Seats go one at a time to the model with the fewest seats for its weight that is still below its cap: progressive
filling (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2), in whole units. No model can then have one more
seat without taking it from a model that has no more for its weight. Each seat costs O(log models).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping


def fill(seats: Mapping[str, int], caps: Mapping[str, int], weights: Mapping[str, float], free: int) -> dict[str, int]:
    """Add up to ``free`` seats to ``seats``, which no model gets beyond its cap; ties go by name.

    A model that has its cap already, or more, keeps what it has.
    """
    given = dict(seats)
    below = [((given[name] + 1) / weights[name], name) for name in given if given[name] < caps[name]]
    heapq.heapify(below)
    while free > 0 and below:
        name = below[0][1]
        given[name] += 1
        free -= 1
        if given[name] < caps[name]:
            heapq.heapreplace(below, ((given[name] + 1) / weights[name], name))
        else:
            heapq.heappop(below)
    return given
