"""The load of an engine with several ranks: that of all of them, by the last step of each."""

from __future__ import annotations

from typing import NamedTuple


class RankLoad(NamedTuple):
    """The load of one rank after its last step, or of all. Of those that are ``waiting``, ``deferred`` wait for what no
    room in the engine gives them.
    """

    running: int
    waiting: int
    deferred: int
    kv_usage_ratio: float


class RankLoads:
    """The last load of each rank that has made a step."""

    def __init__(self) -> None:
        self._loads: dict[int, RankLoad] = {}

    def add(self, rank: int, load: RankLoad) -> RankLoad:
        """Note the load of a rank; returns the sequences of all ranks, and the KV use of the fullest."""
        self._loads[rank] = load
        if len(self._loads) == 1:
            return load
        running, waiting, deferred, kv_usage = zip(*self._loads.values(), strict=True)
        return RankLoad(sum(running), sum(waiting), sum(deferred), max(kv_usage))

    def forget(self) -> None:
        """Forget the loads of the old ranks, which have been replaced."""
        self._loads.clear()
