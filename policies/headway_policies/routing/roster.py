"""The roster: many instances in the order of their free seats, so that a router need not compare them all.

A heap with an entry for each state that an instance has had since the last rebuild. An entry whose state is not the
present one is dropped when it comes to the top, and all of those when they are more than the instances, so that a
change costs O(log instances) on average, and so does each instance that is asked for.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from headway_policies.routing.instance import Instance

_SPARE = 64

#: Minus the free share, the place in the order of arrival, the number of the change, the state.
_Entry = tuple[float, int, int, Instance]


class Roster:
    """The instances by name. Ties go to the one that came first."""

    def __init__(self) -> None:
        self._present: dict[str, _Entry] = {}
        self._entries: list[_Entry] = []
        self._came = 0
        self._changes = 0

    def __len__(self) -> int:
        return len(self._present)

    def put(self, instance: Instance) -> None:
        """An instance came, or its state has changed."""
        before = self._present.get(instance.name)
        if before is None:
            self._came += 1
        self._changes += 1
        place = self._came if before is None else before[1]
        entry = self._present[instance.name] = (-instance.free_share, place, self._changes, instance)
        if not instance.free:
            return
        heappush(self._entries, entry)
        if len(self._entries) > 2 * len(self._present) + _SPARE:
            self._entries = [one for one in self._entries if self._holds(one)]
            heapify(self._entries)

    def remove(self, name: str) -> None:
        """An instance is gone, or unhealthy. Does nothing for one that is not here."""
        self._present.pop(name, None)

    def freest(self, count: int) -> list[Instance]:
        """At most so many instances that have a free seat, the largest share of free seats first."""
        found: list[_Entry] = []
        entries = self._entries
        while entries and len(found) < count:
            entry = heappop(entries)
            if self._holds(entry):
                found.append(entry)
        for entry in found:
            heappush(entries, entry)
        return [entry[3] for entry in found]

    def _holds(self, entry: _Entry) -> bool:
        """Whether this is the present state of its instance."""
        return self._present.get(entry[3].name) is entry
